"""A redundant pair as it is measured: its settings, and what its test bed must be able to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Protocol

from weirlab.base.closing import Closable
from weirlab.calls.failover.external import ExternalPair
from weirlab.lab.redundant.base import Firewall, PairEvent, Transition
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.records import EngineResult, HostSample
from weirlab.traffic.spec import Traffic

Kind = Literal["soft", "hard", "return"]
KINDS: Final[Mapping[str, str]] = {"soft": "steps down", "hard": "dies", "return": "comes back"}
"""What the master does, by kind of event."""

_SHARING: Final[Mapping[str, str]] = {
    "direct": "",
    "cached": ", external cache",
    "off": ", no conntrackd",
    "unknown": "",
}
"""What is not usual about conntrackd, by the word that scenarios use for it."""


AT_ONCE: Final = Conntrackd()
"""States go into the other firewall's kernel at once."""


@dataclass(frozen=True)
class PairSpec:
    """What shares the addresses, what shares the connection states, and whether addresses are translated."""

    protocol: Keepalived | Ucarp | ExternalPair
    states: Conntrackd = AT_ONCE
    nat: bool = False
    name: str = ""
    """What the user calls it; left out: :attr:`text` tells."""

    @property
    def advert_s(self) -> float:
        """Time between two advertisements; 0 if it is not known."""
        if isinstance(self.protocol, ExternalPair):
            return 0.0
        return self.protocol.advert_s if isinstance(self.protocol, Keepalived) else self.protocol.advbase_s

    @property
    def preempt(self) -> bool:
        """Does the preferred firewall take over again when it comes back?"""
        return self.protocol.preempt

    @property
    def sharing(self) -> Literal["direct", "cached", "off", "unknown"]:
        """How states get to the other firewall's kernel."""
        if isinstance(self.protocol, ExternalPair):
            return "unknown"
        if self.states.mode == "off":
            return "off"
        return "cached" if self.states.external_cache else "direct"

    @property
    def text(self) -> str:
        """For people: ``keepalived 0.1 s``, ``ucarp 1 s, no conntrackd``."""
        nat = ", NAT" if self.nat else ""
        if isinstance(self.protocol, ExternalPair):
            return self.name or "your own pair"
        return self.name or f"{self.protocol.name} {self.advert_s:g} s{_SHARING[self.sharing]}{nat}"

    def to_json(self) -> dict[str, Any]:
        """All settings in plain values."""
        return {
            "text": self.text,
            "protocol": self.protocol.name,
            "advert_s": self.advert_s,
            "sharing": self.sharing,
            "nat": self.nat,
            "settings": asdict(self.protocol),
            "states": asdict(self.states),
        }


def named_event(pair: str, kind: str) -> str:
    """``keepalived 0.1 s, master dies``."""
    return f"{pair}, master {KINDS[kind]}"


class PairControls(Protocol):
    """What a switch does to a pair; see :class:`~weirlab.lab.redundant.pair.FirewallPair`."""

    @property
    def transitions(self) -> Sequence[Transition]: ...

    def settle(self) -> object: ...

    def close_admission(self) -> int: ...

    def step_down(self) -> PairEvent: ...

    def cut(self) -> PairEvent: ...

    def restore(self) -> PairEvent: ...

    def master(self) -> Firewall | Literal["both"] | None: ...

    def states(self, firewall: Firewall) -> int: ...

    def surviving(self) -> int: ...

    def clear_states(self) -> None: ...


class PairLab(Protocol):
    """What a switch needs of ``weirlab.calls.failover.bed.RedundantLab``; see there."""

    @property
    def lab(self) -> str: ...

    @property
    def dut(self) -> str: ...

    @property
    def backend(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, object]: ...

    @property
    def looks_inside(self) -> bool:
        """Whether master and connection states are known."""

    @property
    def expected_failover_s(self) -> tuple[float, float]: ...

    @property
    def pair(self) -> PairControls: ...

    def run(self, traffic: Traffic, during: Callable[[], object] | None = None) -> EngineResult: ...

    def at(self, event: Callable[[], object], at_ns: int) -> None: ...

    def calls_begun(self) -> int:
        """How many calls have reached the pair since its traffic began; at least so many."""

    def counters(self) -> dict[str, int]: ...

    def host(self) -> HostSample: ...

    def __enter__(self) -> PairLab: ...

    def __exit__(self, *exc: object) -> None: ...


OpenPair = Callable[[PairSpec], AbstractContextManager[PairLab]]


class PairBed(Closable):
    """A pair as a :class:`~weirlab.lab.base.TestBed`, so that a switch is a trial like any other."""

    def __init__(self, lab: PairLab) -> None:
        self.pair_lab = lab
        self.during: Callable[[], object] | None = None
        """What happens beside the next traffic."""

    @property
    def lab(self) -> str:
        return self.pair_lab.lab

    @property
    def dut(self) -> str:
        return self.pair_lab.dut

    @property
    def backend(self) -> str:
        return self.pair_lab.backend

    @property
    def facts(self) -> Mapping[str, object]:
        return self.pair_lab.facts

    def set_rules(self, rules: object) -> None:
        """The pair has its own rules."""

    def set_cross_traffic(self, on: bool) -> None:
        """Nobody manages the pair meanwhile."""

    def run(self, traffic: Traffic) -> EngineResult:
        return self.pair_lab.run(traffic, self.during)

    def counters(self) -> dict[str, int]:
        return self.pair_lab.counters()

    def host(self) -> HostSample:
        return self.pair_lab.host()

    def close(self) -> None:
        """The pair is closed by whoever opened it."""
