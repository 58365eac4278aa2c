"""A redundant pair of firewalls as a device, between two edge routers; the master may fail during traffic."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from weirlab.base.amounts import parse_time
from weirlab.base.errors import InputError, LabError
from weirlab.base.interrupts import shielded
from weirlab.base.quoting import quoted
from weirlab.base.units import NS_PER_S
from weirlab.lab import wiring as single
from weirlab.lab.base import Driver, Site, TrafficActionRunner
from weirlab.lab.linux import scheduling
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.base import FIREWALLS, AddressProtocol, Firewall, Side
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.pair import FirewallPair, Policy
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.records import RuleSetup

Kind = Literal["soft", "hard"]

_MTU_BYTES: Final = 9000
"""MTU of all cables of the pair: everything that a lab lets in passes unfragmented."""
_PATIENCE_S: Final = 15.0
"""Time limit for the other firewall to take over, in addition to the protocol's own."""
_LOOK_NS: Final = 10_000_000
_WORD: Final = re.compile(r"(advert|states|soft|hard)=(.+)")
_STATES: Final[dict[str, Conntrackd]] = {
    "direct": Conntrackd(),
    "cached": Conntrackd(external_cache=True),
    "off": Conntrackd(mode="off"),
}


@dataclass(frozen=True)
class PairSwitch:
    """How the master leaves, and how long after traffic begins."""

    kind: Kind
    at_s: float


@dataclass(frozen=True)
class PairDutSettings:
    """The settings after the name of a pair and a colon."""

    advert_s: float | None = None
    states: str = "direct"
    switch: PairSwitch | None = None


def understood(name: str, text: str | None) -> PairDutSettings:
    """Parse the settings of the pair called ``name``; raises ``InputError`` for what is not understood."""
    found = PairDutSettings()
    given = set()
    for word in (text or "").split(":") if text is not None else ():
        match = _WORD.fullmatch(word)
        key = "switch" if match and match[1] in ("soft", "hard") else match and match[1]
        if match is None or (match[1] == "states" and match[2] not in _STATES):
            raise InputError(
                f"{quoted(word)} of {name} not understood; use e.g. 'advert=1s', "
                f"'states=off' ({', '.join(_STATES)}), and 'hard=2s' or 'soft=2s': the master dies or "
                "steps down 2 s after traffic begins"
            )
        if key in given:
            raise InputError(f"{quoted(word)} of {name} repeats an earlier setting: leave one out")
        given.add(key)
        if match[1] == "advert":
            found = replace(found, advert_s=parse_time(match[2], "advert"))
        elif match[1] == "states":
            found = replace(found, states=match[2])
        else:
            kind: Kind = "soft" if match[1] == "soft" else "hard"
            found = replace(found, switch=PairSwitch(kind, parse_time(match[2], match[1])))
    return found


class RedundantPair(Driver):
    """Two firewalls that share addresses and connection states, between two edge routers.

    The near gateway is the router on the side of the sender, the far one that of the receiver. Both firewalls
    track connections, which may begin on either side.

    Parameters
    ----------
    asked:
        Settings, and what the master does during traffic, separated by colons (``advert=100ms:hard=2s``);
        None for the default settings and no event.

    Raises
    ------
    InputError
        ``asked`` is not understood, or the protocol cannot do it.
    """

    gateways = 2
    joined = False
    carries = (4,)
    takes_turns = True
    tracks = True

    def __init__(self, asked: str | None) -> None:
        wanted = understood(self.name, asked)
        self._protocol = self._made(wanted.advert_s)
        self._states = _STATES[wanted.states]
        self.switch = wanted.switch
        self.name = f"{self.name}:{asked}" if asked else self.name
        self._beside = TrafficActionRunner()
        self._firewalls: dict[Firewall, Namespace] = {}
        self._pair: FirewallPair | None = None
        self._takeovers_ns: list[int] = []
        """For each switch, the time from its beginning until the other firewall had both addresses."""

    @staticmethod
    @abstractmethod
    def _made(advert_s: float | None) -> AddressProtocol:
        """The protocol, with this advertisement interval; None for the default."""

    def check(self) -> list[str]:
        return [*self._protocol.check(), *self._states.check()]

    @shielded
    def start(self, site: Site) -> Sequence[int]:
        assert site.far is not None
        senders, receivers = (*single.SENDERS, *site.hosts[0]), (*single.RECEIVERS, *site.hosts[1])
        behind: wiring.Behind = {"lan": _of_ipv4(senders), "wan": _of_ipv4(receivers)}
        self._firewalls = {each: Namespace(site.further(f"fw{each}")) for each in FIREWALLS}
        edges: dict[Side, Namespace] = {"lan": Namespace(site.netns), "wan": Namespace(site.far)}
        # The switches are named like the cable that joins the gateways of other devices.
        wiring.build(edges, self._firewalls, behind, single.NEAR.name, _MTU_BYTES)
        policy = Policy(admits=("lan", "wan"))
        self._pair = FirewallPair(self._firewalls, self._protocol, self._states, site.cpu, behind, policy)
        self._pair.settle()
        return self._pair.processes

    @shielded
    def stop(self) -> None:
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.close()
        firewalls, self._firewalls = self._firewalls, {}
        for namespace in firewalls.values():
            namespace.remove()

    def beside_traffic(self) -> AbstractContextManager[None]:
        """Have the master step down or die, unless the traffic ends first."""
        return self._beside.running(None if self.switch is None else partial(self._switch_over, self.switch))

    def check_alive(self) -> None:
        if self._pair is not None:
            self._pair.check()

    def settle(self) -> None:
        """Restore what an earlier switch took away, and wait for one master and one backup."""
        assert self._pair is not None
        if self._pair.is_reduced:
            self._pair.restore()
            scheduling.shorten_all(self._pair.processes)
        if self.switch is not None:
            self._pair.settle()
        # What comes now is new to both firewalls.
        self._pair.clear_states()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False) != RuleSetup():
            raise InputError(
                f"the pair {quoted(self.name)} has its own rules and tracks connections: only matching "
                "position 0 is possible; choose another device, for example nftables"
            )

    def counters(self) -> Mapping[str, int]:
        """How often the master left, and how long in total until the other firewall had its addresses."""
        if self.switch is None:
            return {}
        return {"pair_switches": len(self._takeovers_ns), "pair_takeover_us": sum(self._takeovers_ns) // 1000}

    def events(self) -> int:
        return len(self._takeovers_ns)

    def facts(self) -> Mapping[str, object]:
        switch = {} if self.switch is None else {"switch": f"{self.switch.kind} {self.switch.at_s:g} s"}
        return {
            "layout": "two firewalls between two routers; connections may begin on both sides",
            **{f"protocol_{name}": value for name, value in self._protocol.facts().items()},
            **{f"states_{name}": value for name, value in self._states.facts().items()},
            **switch,
        }

    def _switch_over(self, switch: PairSwitch) -> None:
        """Have the master leave when it is time, and wait until the other firewall has the addresses."""
        pair = self._pair
        assert pair is not None
        if not self._beside.comes(round(switch.at_s * NS_PER_S)):
            return
        event = pair.cut() if switch.kind == "hard" else pair.step_down()
        end_s = time.monotonic() + self._protocol.patience_s + _PATIENCE_S
        while (master := pair.master()) in (None, "both", event.firewall):
            if time.monotonic() > end_s:
                raise LabError(f"{self.name}: the other firewall did not take over; {pair.describe()}")
            self._beside.at(_nothing, time.monotonic_ns() + _LOOK_NS)
        moved = [
            transition.at_ns
            for transition in pair.transitions
            if transition.firewall == master and transition.holds
        ]
        self._takeovers_ns.append(max(0, moved[-1] - event.began_ns))


class KeepalivedPair(RedundantPair):
    """A pair with VRRP by keepalived."""

    name = "keepalived"

    @staticmethod
    def _made(advert_s: float | None) -> AddressProtocol:
        return Keepalived() if advert_s is None else Keepalived(advert_s=advert_s)


class UcarpPair(RedundantPair):
    """A pair with CARP by ucarp."""

    name = "ucarp"

    @staticmethod
    def _made(advert_s: float | None) -> AddressProtocol:
        if advert_s is None:
            return Ucarp()
        if advert_s != int(advert_s):
            raise InputError(f"an advertisement interval of {advert_s:g} s: ucarp only takes whole seconds")
        return Ucarp(advbase_s=int(advert_s))


PAIRS: Final[dict[str, type[RedundantPair]]] = {"keepalived": KeepalivedPair, "ucarp": UcarpPair}


def _nothing() -> None:
    """Do nothing, while waiting."""


def _of_ipv4(networks: Sequence[str]) -> tuple[str, ...]:
    return tuple(network for network in networks if ":" not in network)
