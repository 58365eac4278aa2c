"""Scouting: what a device forwards when it gets more than it can carry."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from weirlab.base.documents import SPARSE
from weirlab.base.errors import InputError
from weirlab.lab.base import TestBed
from weirlab.measure.progress import ProgressMeter, trial_s
from weirlab.measure.sequence import describe_spec
from weirlab.measure.terms import USUAL, TrialTerms
from weirlab.measure.trial import LIGHTEST_PPS, FailedTrial, Hooks, TrialEntry, run_trial
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.store import RunWriter
from weirlab.traffic.sizes import SizeMix, mean_bytes
from weirlab.traffic.spec import Flows, Rate, Traffic

if TYPE_CHECKING:
    from weirlab.measure.plan.grid import Profile

MAX_RATE: Final = Rate(0.0, "max")
FASTEST_PACED: Final = Rate(1.8e6)


def fastest(flows: Flows) -> Rate:
    """The highest load: as fast as possible, unless known flows have to be opened before it."""
    return FASTEST_PACED if flows.answered and flows.new_share < 1 else MAX_RATE


HALVINGS: Final = 3
"""How often the distance between a load that it carries and one that it does not is halved."""

OVERLOAD_LOSS: Final = 0.05
"""Loss above which a trial counts as overload: the forwarding rate is then the device's own."""


@dataclass(frozen=True)
class ScoutPoint:
    """What a device forwards in overload, and the highest rate of the sender."""

    position: int
    sizes: SizeMix
    forwarding_pps: float
    sender_pps: float
    new_share: float = field(default=0.0, metadata=SPARSE)

    @property
    def overloaded(self) -> bool:
        """False if even the sender's highest rate was not too much: ``forwarding_pps`` is a lower bound."""
        return self.forwarding_pps < (1 - OVERLOAD_LOSS) * self.sender_pps


@dataclass(frozen=True)
class ScoutResult:
    """All points scouted, and how long setting the rules took (median, s)."""

    set_rules_s: float = field(default=0.0, kw_only=True)
    points: tuple[ScoutPoint, ...]

    def forwarding_pps(self, position: float, frame_bytes: float) -> float:
        """As scouted at exactly this point; raises ``InputError`` for another one."""
        for point in self.points:
            if point.position == position and mean_bytes(point.sizes) == frame_bytes:
                return point.forwarding_pps
        raise InputError(f"position {position:g} with frames of {frame_bytes:g} B was not scouted")


NOTHING_YET: Final = ScoutResult(())

SCOUTING: Final = "scouting"
"""Name under which a run keeps what was scouted."""


def scout_specs(profile: Profile) -> list[TrialSpec]:
    """One short trial at full speed per position and size, positions together."""
    return [
        TrialSpec(
            Traffic(
                fastest(flows),
                mix,
                flows,
                warmup_s=profile.scout_warmup_s,
                duration_s=profile.scout_s,
                seed=profile.seed,
            ),
            RuleSetup(position, profile.stateful),
            "scout",
            profile.cross_traffic,
        )
        for position in profile.positions
        for flows in profile.variants
        for mix in profile.sizes
    ]


@dataclass(frozen=True)
class ScoutLog:
    """Where the results of scouting are kept, and what an earlier session found."""

    run_id: str = ""
    known: ScoutResult = NOTHING_YET
    """In the order of :func:`scout_specs`. These points are not scouted again."""
    first_attempt: Callable[[int], int] = lambda index: 1
    on_record: Callable[[TrialRecord], object] | None = None
    on_point: Callable[[ScoutResult], object] | None = None
    """Called after each point with all points so far."""


NOWHERE: Final = ScoutLog()


def scout(
    bed: TestBed,
    profile: Profile,
    log: ScoutLog = NOWHERE,
    *,
    meter: ProgressMeter | None = None,
    terms: TrialTerms = USUAL,
) -> ScoutResult:
    """Find the forwarding rate in overload for every size and position of ``profile``.

    Every trial has the index of its point and the role ``profile``: it shows the device
    in deep overload. If all attempts at a point were disturbed, the best of them counts,
    since a disturbance only lowers the forwarding rate. If a device forwards nothing in overload, its
    highest forwarding rate at rising loads counts.

    Raises ``FailedTrial`` if the device forwards nothing.
    """
    known, clock = log.known, terms.clocks.seconds
    points = list(known.points)
    scouting = known
    took_s: list[float] = []
    rules: RuleSetup | None = None
    for index, spec in enumerate(scout_specs(profile)):
        if index < len(points):
            if meter is not None:
                meter.skip()
            continue
        if meter is not None:
            meter.tell(f"scouting: {describe_spec(spec)}")
        if spec.rules != rules:
            begun_s = clock()
            bed.set_rules(spec.rules)
            took_s.append(clock() - begun_s)
            rules = spec.rules

        def attempts(spec: TrialSpec, index: int = index) -> list[TrialRecord]:
            return run_trial(
                bed,
                spec,
                TrialEntry(log.run_id, index, "profile", log.first_attempt(index)),
                terms=terms,
                hooks=Hooks(on_record=log.on_record),
                set_rules=False,
            )

        records = attempts(spec)
        best = max((record.result for record in records), key=lambda result: result.forwarding_pps)
        forwarding_pps = best.forwarding_pps or _highest(attempts, spec, best.achieved_pps)
        points.append(_point(spec, forwarding_pps, best.achieved_pps))
        scouting = ScoutResult(
            tuple(points), set_rules_s=statistics.median(took_s) if took_s else known.set_rules_s
        )
        if log.on_point is not None:
            log.on_point(scouting)
        if meter is not None:
            meter.learn(trial_s(spec), [record.valid for record in records])
            meter.count(f"scouted: {describe_spec(spec)}", records[-1])
    return scouting


def _point(spec: TrialSpec, forwarding_pps: float, sender_pps: float) -> ScoutPoint:
    traffic = spec.traffic
    return ScoutPoint(spec.rules.position, traffic.sizes, forwarding_pps, sender_pps, traffic.flows.new_share)


def _highest(attempts: Callable[[TrialSpec], list[TrialRecord]], spec: TrialSpec, sender_pps: float) -> float:
    """The highest forwarding rate in pps of a device that forwards nothing at ``sender_pps``.

    Loads double until one overloads the device. Then half-way loads come closer to the highest that does
    not, and the best of all counts.
    """

    def forwarded(pps: float) -> float:
        records = attempts(replace(spec, traffic=replace(spec.traffic, rate=Rate(float(round(pps))))))
        return max(record.result.forwarding_pps for record in records)

    found: dict[float, float] = {}
    low, high = 0.0, LIGHTEST_PPS
    while high < sender_pps:
        found[high] = forwarded(high)
        if found[high] < (1 - OVERLOAD_LOSS) * high:
            break
        low, high = high, 2 * high
    high = min(high, sender_pps)
    for _ in range(HALVINGS if low else 0):
        middle = (low + high) / 2
        found[middle] = forwarded(middle)
        low, high = (low, middle) if found[middle] < (1 - OVERLOAD_LOSS) * middle else (middle, high)
    if not any(found.values()):
        raise FailedTrial(
            f"{describe_spec(spec)}: nothing is forwarded as fast as possible, nor at {high:,.0f} pps", []
        )
    return max(found.values())


def scout_into(
    bed: TestBed, profile: Profile, writer: RunWriter, *, meter: ProgressMeter, terms: TrialTerms
) -> ScoutResult:
    """As :func:`scout`, but every attempt and point is kept in the run, and what is there is not repeated."""
    log = ScoutLog(
        writer.run_id,
        _kept(writer, scout_specs(profile)),
        first_attempt=lambda index: writer.attempts.get(index, 0) + 1,
        on_record=writer.add,
        on_point=lambda points: writer.put_json(SCOUTING, points),
    )
    return scout(bed, profile, log, meter=meter, terms=terms)


def _kept(writer: RunWriter, specs: Sequence[TrialSpec]) -> ScoutResult:
    """The points in the run, and those of which an interrupted session left only a valid attempt."""
    known = writer.run.get_json(SCOUTING, ScoutResult) if writer.has(SCOUTING) else NOTHING_YET
    points = list(known.points)
    trials = writer.run.trials()
    while len(points) < len(specs) and len(points) in writer.done:
        spec = specs[len(points)]
        attempts = trials.filter(index=len(points)).sort("forwarding_pps")
        best = attempts.select("forwarding_pps", "achieved_pps").row(-1, named=True)
        if not best["forwarding_pps"]:
            break
        points.append(_point(spec, best["forwarding_pps"], best["achieved_pps"]))
    return ScoutResult(tuple(points), set_rules_s=known.set_rules_s)
