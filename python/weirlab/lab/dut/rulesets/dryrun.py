"""A dry run: single packets through a copy of the rules, to see which rules they really meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import InputError
from weirlab.lab import wiring
from weirlab.lab.crossing import DevicePorts, answers_follow, directions, replica
from weirlab.lab.dut import tool
from weirlab.lab.dut.aiming import RuleTraffic, networks
from weirlab.lab.dut.tool import LoadCommand
from weirlab.lab.linux.namespace import in_private
from weirlab.records import RuleEncounters
from weirlab.rules.encounters import Encounters
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.flows import min_frame_bytes, room
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

MOST_FLOWS: Final = 64
MOST_CALLS: Final = 16
LEAST_PACKETS: Final = 16
_CALLS_S: Final = 0.5
MOST_TRIED: Final = 6
"""Most rules that are tried until the kernel agrees."""
MOST_ENDS: Final = 2


@dataclass(frozen=True)
class RulesetCopy:
    """How to load a copy of the rules in the calling thread's namespace, and to read its counters."""

    loads: Sequence[LoadCommand]
    names: Sequence[str]
    """Interfaces that must exist."""
    read: Callable[[], Encounters | None]
    translates: bool
    """Whether the rules may translate addresses."""


@dataclass(frozen=True)
class DryRun:
    """What became of the packets."""

    sent: int
    arrived: int
    encounters: Encounters | None
    """None if the rules could not be counted."""

    def met(self, aimed: RuleTraffic) -> RuleEncounters | None:
        """The packets' encounters, beside what ``aimed`` expects."""
        if self.encounters is None or not self.sent:
            return None
        return RuleEncounters(
            aimed.expected,
            self.encounters.comparisons / self.sent,
            self.encounters.at(aimed.place) / self.sent,
            counted_in="copy",
        )

    def objection(self, aimed: RuleTraffic) -> str:
        """What the packets did that ``aimed`` does not expect, as a clause; empty if nothing."""
        parts = []
        if self.arrived != (0 if aimed.drops else self.sent):
            parts.append(f"{self.arrived} of {self.sent} packets got through")
        if (met := self.met(aimed)) is not None and met.contradiction:
            parts.append(met.contradiction)
        if parts and self.encounters is not None:
            parts += [
                f"{packets:,.0f} ended at {place}" for place, packets in self.encounters.ends[:MOST_ENDS]
            ]
        return ", ".join(parts)


def aim_checked(
    copy: RulesetCopy, found: Iterable[RuleTraffic], flows: Flows, calls: Calls | None
) -> RuleTraffic:
    """The first of ``found`` that a dry run confirms; if it confirms none, the first that gets through.

    An objection counts if a second dry run has one as well.

    A rule that a dry run has not confirmed is only tried again while there is no other.

    Raises
    ------
    InputError
        Nothing gets through: the kernel does not treat the packets as expected.
    """
    objections: list[tuple[RuleTraffic, DryRun]] = []
    for aimed in itertools.islice(_others_first(found, objections), MOST_TRIED):
        done = dry_run(copy, aimed, flows, calls)
        if done is not None and done.objection(aimed):
            # A busy host may delay a packet for so long that it counts as lost; rules do the same each time.
            done = dry_run(copy, aimed, flows, calls) or done
        if done is None:
            return aimed
        if not done.objection(aimed):
            words = f"; in a copy of the rules, {done.sent} such packets did so" if done.encounters else ""
            return replace(aimed, sentence=aimed.sentence + words, doubt="", checked=done.met(aimed))
        objections.append((aimed, done))
    usable = [(aimed, done) for aimed, done in objections if done.arrived or aimed.drops]
    aimed, done = (usable or objections)[0]
    against = f"{aimed.sentence}{aimed.doubt}; but in a copy of the rules, {done.objection(aimed)}"
    if not usable:
        raise InputError(f"{against}: choose another rule with --match")
    return replace(aimed, sentence=against, doubt="", checked=done.met(aimed))


def _others_first(
    found: Iterable[RuleTraffic], objections: Sequence[tuple[RuleTraffic, DryRun]]
) -> Iterator[RuleTraffic]:
    """``found`` with those last whose rule is among ``objections`` by then."""
    put_off: list[RuleTraffic] = []
    for aimed in found:
        if any(aimed.place.is_at(other.place) for other, _ in objections):
            put_off.append(aimed)
        else:
            yield aimed
    yield from put_off


def dry_run(copy: RulesetCopy, aimed: RuleTraffic, flows: Flows, calls: Calls | None) -> DryRun | None:
    """Send a few packets like those of ``aimed`` through a copy of the rules; None if that cannot be done."""
    plan = _plan(aimed, flows, calls)
    ports = replace(wiring.IN0, name=aimed.inward), replace(wiring.OUT0, name=aimed.outward)
    there = networks(aimed.endpoints, translates=copy.translates)
    names = [name for name in copy.names if name not in {port.name for port in ports}]

    def run() -> DryRun | None:
        with replica(ports, there, names) as crossing:
            if any(tool.run(load.command, load.text).returncode != 0 for load in copy.loads):
                return None
            sent, arrived = _packets(crossing, plan)
            return DryRun(sent, arrived, copy.read())

    try:
        return in_private(run)
    except (OSError, NetlinkError):
        return None


def _packets(crossing: DevicePorts, plan: DeparturePlan) -> tuple[int, int]:
    """How many packets were sent, and how many arrived."""
    forward, back = (which[np.isin(which, _sending(plan))] for which in directions(plan))
    rounds = [crossing.arrivals(plan, forward) for _ in range(_rounds(len(forward)))]
    sent, arrived = len(rounds) * len(forward), sum(map(len, rounds))
    if len(back):
        arrived += len(crossing.arrivals(answers_follow(plan, rounds[0]), back, back=True))
    return sent + len(back), arrived


def _sending(plan: DeparturePlan) -> npt.NDArray[np.int64]:
    """The flows that have packets."""
    return np.arange(len(plan.flows)) if plan.media is None else np.unique(plan.flow).astype(np.int64)


def _rounds(flows: int) -> int:
    """How often each of so many flows gets a packet: later ones find the connection of the first."""
    return max(2, -(-LEAST_PACKETS // max(flows, 1)))


def _plan(aimed: RuleTraffic, flows: Flows, calls: Calls | None) -> DeparturePlan:
    if calls is not None:
        few = replace(calls, count=min(calls.count, MOST_CALLS), arrivals="standing")
        return compile_plan(traffic_of(few, _CALLS_S, _CALLS_S), endpoints=aimed.endpoints)
    count = min(flows.count, MOST_FLOWS)
    if aimed.endpoints is not None:
        count = min(count, room(aimed.endpoints))
    shape = replace(flows, count=count, l4=aimed.l4, ip=aimed.ip)
    sizes = Constant(min_frame_bytes(shape))
    return compile_plan(
        Traffic(Rate(1000.0), sizes, shape, warmup_s=0.0, duration_s=0.1), endpoints=aimed.endpoints
    )
