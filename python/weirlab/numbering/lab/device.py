"""The device that calls pass: made, and checked whether it can carry them; and what passed it, as rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.files import Inputs
from weirlab.base.quantities import count, plural
from weirlab.base.quantities import rules as in_words
from weirlab.base.quoting import quoted
from weirlab.base.tables import Table
from weirlab.lab import wiring
from weirlab.lab.base import Driver
from weirlab.lab.dut import make
from weirlab.lab.dut.chain import DeviceChain
from weirlab.lab.dut.pair import RedundantPair
from weirlab.lab.dut.rules import FAMILIES, Family, Forward, fillers
from weirlab.lab.dut.ruleset import RulesetDriver
from weirlab.lab.redundant import wiring as redundant
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import PassageSection
from weirlab.numbering.zones import servers
from weirlab.records import RuleSetup
from weirlab.scenario import NO_DEVICE

DEVICE: Final = "voice_device"
"""The table of rows; only runs with a device have it."""

THERE: Final = "from the caller"
BACK: Final = "to the caller"


@dataclass(frozen=True)
class PassageRow:
    """Packets of one direction that passed the device during a call, or during a trial."""

    index: int
    """Number of the call, or of the trial."""
    direction: str
    """`from the caller` or `to the caller`."""
    caller_packets: int
    """Packets that the caller sent or received, at its own port."""
    entered: int
    """Packets that entered the device at its port on one side."""
    left: int
    """Packets that left the device at its port on the other side."""
    bypassed: int
    """Packets at the caller's port that did not pass the device."""
    events: int = 0
    """How often the device failed meanwhile, as its name requests: a pair's failover, a gateway's outage."""
    silence_ms: float = math.nan
    """Longest time in which speech was sent but none got through; null if none was sent."""
    ends_silent: bool = False
    """Whether that time lasted until no more speech was sent, and may have been cut short."""


@dataclass(frozen=True)
class Total:
    """Counters since the device was plugged in; the difference of two is what passed in between."""

    sent: int = 0
    got: int = 0
    """Both by the caller, at its port."""
    there_in: int = 0
    there_out: int = 0
    back_in: int = 0
    back_out: int = 0
    """All by the device, at its ports."""
    turned_away: int = 0
    """Packets from the caller for which the device's port had no room."""

    @property
    def missed_there(self) -> int:
        """Packets that the caller sent and that did not reach the device."""
        return max(0, self.sent - self.turned_away - self.there_in)

    @property
    def missed_back(self) -> int:
        """Packets that the caller got and the device did not send."""
        return max(0, self.got - self.back_out)


def total(caller: Mapping[str, int], device: Mapping[str, int], before: Total) -> Total:
    """From counters of the switch's ports (``caller_``, ``near_``) and the device's (``in_``, ``out_``)."""
    return Total(
        caller["caller_rx_packets"] - before.sent,
        caller["caller_tx_packets"] - before.got,
        device["in_rx_packets"] - before.there_in,
        device["out_tx_packets"] - before.there_out,
        device["out_rx_packets"] - before.back_in,
        device["in_tx_packets"] - before.back_out,
        caller["near_tx_dropped"] - before.turned_away,
    )


def passed(index: int, before: Total, now: Total, events: int = 0) -> list[PassageRow]:
    """What passed between two counts, in both directions; the device failed ``events`` times meanwhile."""
    there = max(0, now.missed_there - before.missed_there)
    back = max(0, now.missed_back - before.missed_back)
    return [
        PassageRow(
            index, THERE, now.sent - before.sent, now.there_in - before.there_in,
            now.there_out - before.there_out, there, events,
        ),
        PassageRow(
            index, BACK, now.got - before.got, now.back_in - before.back_in, now.back_out - before.back_out,
            back, events,
        ),
    ]  # fmt: skip


def silent(rows: Sequence[PassageRow], what: str) -> str:
    """How long speech was silent when the device failed during a ``what``; empty if it never failed.

    If it dropped nothing, it failed while there was no speech.
    """
    failed = [row for row in rows if row.events]
    if not failed:
        return ""
    times = plural(len({row.index for row in failed}), what)
    hit = [row for row in failed if row.left < row.entered and not math.isnan(row.silence_ms)]
    longest = max(hit, key=lambda row: row.silence_ms, default=None)
    if longest is None:
        return f" (failed in {times}, and dropped no speech)"
    least = "at least" if longest.ends_silent else "up to"
    return f" (failed in {times}, speech silent for {least} {longest.silence_ms:,.0f} ms)"


def bypassing(rows: Sequence[PassageRow], title: str) -> list[str]:
    """A phrase for each direction in which packets bypassed the device called ``title``."""
    return [
        f"{row.bypassed} of {row.caller_packets} packets {row.direction} bypassed {title}"
        for row in rows
        if row.bypassed
    ]


_BEGIN: Final = ("Direction", "Longest silence")
_EVENTS: Final = "Failures"
_END: Final = ("At the caller", "Into the device", "Out of the device", "Bypassed")


def device_table(
    rows: Sequence[PassageRow], what: str, titles: Mapping[int, str], device: str
) -> Table | None:
    """Two rows per call or trial, ``what`` and its title by index; None if nothing passed a device."""
    failing = any(row.events for row in rows)
    columns = (what, *_BEGIN, *([_EVENTS] if failing else []), *_END)
    cells = [
        (
            titles[row.index],
            row.direction,
            ""
            if math.isnan(row.silence_ms)
            else f"{'at least ' if row.ends_silent else ''}{row.silence_ms:,.0f} ms",
            *([count(row.events)] if failing else []),
            f"{count(row.caller_packets)} {'sent' if row.direction == THERE else 'received'}",
            count(row.entered),
            count(row.left),
            count(row.bypassed),
        )
        for row in rows
        if row.index in titles
    ]
    return Table(f"Packets through {device}", columns, cells, details=True) if cells else None


_PORTS: Final = (wiring.IN0, wiring.OUT0, wiring.NEAR, wiring.FAR)


@dataclass(frozen=True)
class PassageDevice:
    """A device, and the rules in it."""

    driver: Driver
    rules: RuleSetup

    @property
    def title(self) -> str:
        """``nftables with 50 rules``."""
        return titled(self.driver.name, self.rules.position, stateful=self.rules.stateful)


def titled(name: str, position: int, *, stateful: bool) -> str:
    """The name of a device in results."""
    if stateful:
        return f"{name}, stateful, with {in_words(position)}"
    return f"{name} with {in_words(position)}" if position else name


def device(asked: PassageSection | None, network: PlanNetwork, inputs: Inputs) -> PassageDevice | None:
    """The device that ``asked`` names; None without one. ``inputs`` opens the files that it needs.

    Raises
    ------
    InputError
        There is no such device, or it cannot carry the calls of ``network``.
    """
    if asked is None:
        return None
    if asked.name == NO_DEVICE:
        raise InputError(f"{NO_DEVICE!r} is not a device: for calls without one, leave out --dut (through:)")
    if asked.match is not None:
        raise InputError("calls cannot be aimed at a rule, the plan decides what is sent: leave out 'match'")
    if asked.ruleset is not None and asked.name != "ruleset":
        raise InputError(f"a ruleset goes with the device 'ruleset', not with {quoted(asked.name)}")
    driver = make(asked.name, asked.file, inputs, asked.files_beside)
    if isinstance(driver, DeviceChain):
        raise InputError(f"{quoted(driver.name)}: calls pass one device; name one of them")
    if driver.forwards:
        raise InputError(
            f"the device {quoted(driver.name)} cannot carry calls: it forwards by itself, and only between "
            "the networks of test traffic; choose a filter of this kernel or a tunnel, e.g. nftables or esp"
        )
    hosts = addresses(network)
    if other := next((host for host in hosts if _family(host) not in driver.carries), None):
        raise InputError(
            f"{network.book.name}: {other} is IPv{_family(other)}, which the device {quoted(driver.name)} "
            "does not carry; choose another device, e.g. nftables"
        )
    if own := [host for host in hosts if host in _own_addresses(driver)]:
        raise InputError(
            f"{network.book.name}: {own[0]} is an address of the device itself; give the engine another"
        )
    if isinstance(driver, RulesetDriver):
        _check_ruleset(driver, asked, hosts)
        return PassageDevice(driver, RuleSetup())
    if isinstance(driver, Forward | RedundantPair) and (asked.rules or asked.stateful):
        why = "has no rules" if isinstance(driver, Forward) else "has rules of its own"
        raise InputError(f"the device {quoted(driver.name)} {why}: give none, or choose e.g. nftables")
    rules = RuleSetup(asked.rules, asked.stateful, both_ways=True)
    if asked.rules:
        _check_fillers(network, hosts, asked.rules)
        rules = replace(rules, networks=tuple(covering(hosts)))
    return PassageDevice(driver, rules)


def addresses(network: PlanNetwork) -> list[str]:
    """The addresses of all engines and name servers of a plan, each once."""
    plan = network.plan
    found = [
        *(server.address for server in servers(network)),
        *(engine.address for engine in plan.engines.values()),
    ]
    return [*dict.fromkeys(str(ip_address(each)) for each in found if each is not None)]


def covering(hosts: Iterable[str]) -> list[str]:
    """The smallest network of each IP version that has all ``hosts`` of that version."""
    listed = [*hosts]
    found = []
    for version in FAMILIES:
        own = sorted(int(ip_address(each)) for each in listed if _family(each) == version)
        if own:
            bits = 32 if version == 4 else 128
            length = bits - (own[0] ^ own[-1]).bit_length()
            first = next(each for each in listed if _family(each) == version)
            found.append(str(ip_network(f"{first}/{length}", strict=False)))
    return found


def _family(address: str) -> Family:
    return 6 if ":" in address else 4


def _own_addresses(driver: Driver) -> set[str]:
    found = {each.partition("/")[0] for port in _PORTS for each in (port.ipv4, port.ipv6)}
    return found | redundant.ADDRESSES if isinstance(driver, RedundantPair) else found


def _check_ruleset(driver: RulesetDriver, asked: PassageSection, hosts: Iterable[str]) -> None:
    if asked.rules or asked.stateful:
        raise InputError("your ruleset has its own rules: leave out the number of rules and 'stateful'")
    if driver.format != "iptables-save":
        return
    versions = driver.source.by_family
    if other := next((host for host in hosts if _family(host) not in versions), None):
        named = " and ".join(f"IPv{version}" for version in versions)
        raise InputError(
            f"{driver.path}: these rules are for {named}, but packets of {other} would pass unfiltered; "
            "give rules for both IP versions"
        )


def _check_fillers(network: PlanNetwork, hosts: Sequence[str], position: int) -> None:
    """Rules before the accepting one must not match calls, because they would accept them earlier."""
    known = {*hosts}
    for version in FAMILIES:
        own = [ip_address(host) for host in hosts if _family(host) == version]
        for match in fillers(version, position - 1):
            if match.destination not in known:
                continue
            source = ip_network(match.source)
            if caller := next((each for each in own if each in source), None):
                raise InputError(
                    f"{network.book.name}: a rule before the accepting one is about packets from {caller} "
                    f"to {match.destination}, both hosts of the plan; use fewer rules, or other addresses"
                )
