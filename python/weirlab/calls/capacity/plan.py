"""What a scenario about capacity requests, as sweep, search and profile; and how a sweep is carried out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.calls.capacity.section import CapacityScenario
from weirlab.calls.capacity.trials.keeper import CallRecorder
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal, CallTraffic, Search
from weirlab.lab.base import TestBed
from weirlab.measure import sequence
from weirlab.measure.calls import ROLE
from weirlab.measure.progress import OnProgress
from weirlab.measure.sequence import Part, SequenceOutcome
from weirlab.measure.terms import USUAL, TrialTerms
from weirlab.measure.trial import Hooks
from weirlab.records import TrialRecord, TrialSpec
from weirlab.scenario import QUICK, ProfileSection, Scenario
from weirlab.scenario.model import TrafficShape
from weirlab.store import RunWriter
from weirlab.traffic.sizes import mean_bytes

WITHOUT_LOSS: Final = "without loss"

_TYPICAL_CALLS: Final = 3000
"""With the flows of this many calls, a device that looks flows up is as slow as with any more."""


def goals_of(scenario: CapacityScenario) -> tuple[CallGoal, ...]:
    """The goals of the search, which are also predicted if nothing is searched."""
    what = scenario.capacity.search
    lossless = CallGoal(WITHOUT_LOSS, what.loss_ratio if what else 0.0)
    if what is None or what.mos is None:
        return (lossless,)
    name = f"with MOS {what.mos:.3g} for {what.good_share * 100:g} % of them"
    return lossless, CallGoal(name, round(1 - what.good_share, 9), what.mos)


def to_sweep(scenario: CapacityScenario, counts: Mapping[int, tuple[int, ...]]) -> CallSweep:
    """The sweep of ``scenario`` over ``counts`` calls by position, in the terms of ``weirlab.measure``."""
    what = scenario.capacity.sweep
    assert what is not None
    return CallSweep(counts, what.repetitions, what.trial_s, what.warmup_s, scenario.capacity.seed)


def fixed_counts(scenario: CapacityScenario) -> dict[int, tuple[int, ...]]:
    """By position the numbers of calls that the file asks for; empty where they come from the search."""
    what, wanted = scenario.capacity.sweep, scenario.capacity
    return {} if what is None or not what.fixed else dict.fromkeys(wanted.positions, tuple(what.fixed))


def found_counts(scenario: CapacityScenario, carried: Sequence[CallCapacity]) -> dict[int, tuple[int, ...]]:
    """By position the numbers of calls around what was found there."""
    what = scenario.capacity.sweep
    assert what is not None
    positions = scenario.capacity.positions
    return {n: around([one for one in carried if one.position == n], what.around) for n in positions}


def to_search(scenario: CapacityScenario) -> Search:
    """The search of ``scenario`` in the terms of ``weirlab.measure``."""
    what = scenario.capacity.search
    assert what is not None
    return Search(
        goals_of(scenario),
        what.trial_s,
        what.warmup_s,
        what.trials,
        what.bad_share,
        what.width,
        what.min_calls,
        what.max_calls,
    )


def profile_of(scenario: CapacityScenario) -> Scenario:
    """The profile that the prediction is made from, as a scenario of its own."""
    wanted = scenario.capacity
    assert wanted.predict is not None
    return Scenario(
        name=scenario.name,
        lab=scenario.lab,
        dut=scenario.dut,
        traffic=TrafficShape(ip=scenario.calls.ip, flows=_flows(scenario)),
        profile=wanted.predict.profile or _quick(scenario),
        report=None,
    )


def _flows(scenario: CapacityScenario) -> int:
    """As many flows as calls have voice streams: a device is slower at looking up many than one."""
    wanted = scenario.capacity
    assert wanted.predict is not None
    if wanted.predict.flows is not None:
        return wanted.predict.flows
    most = wanted.sweep.last if wanted.sweep and wanted.sweep.last else _TYPICAL_CALLS
    return most * CallTraffic(scenario.calls.calls(1)).streams


def _quick(scenario: CapacityScenario) -> ProfileSection:
    """The calls' frame size at the positions asked for and some around them."""
    positions = {0, *scenario.capacity.positions}
    if top := max(positions):
        positions |= {top // 2, top + top // 2}
    setting = CallTraffic(scenario.calls.calls(1000))
    frame = round(mean_bytes(setting.spec(0, 1000, trial_s=1.0, warmup_s=0.0).traffic.sizes))
    return ProfileSection(**{**QUICK, "positions": tuple(sorted(positions)), "sizes": (str(frame),)})


SWEEP: Final = "sweep"
"""Name of the plan in its run."""


@dataclass(frozen=True)
class CallSweep:
    """Every number of calls of each position, ``repetitions`` times."""

    counts: Mapping[int, tuple[int, ...]]
    """By position."""
    repetitions: int = 7
    trial_s: float = 1.0
    warmup_s: float = 0.2
    seed: int = 1

    @property
    def order(self) -> list[tuple[int, int, int]]:
        """Run (from 1), position and number of calls of each trial.

        Each run goes through everything in an order of its own, so that a slow change of the host meets
        all numbers of calls alike.
        """
        rng = random.Random(self.seed)
        order = []
        for run in range(1, self.repetitions + 1):
            once = [(run, position, n) for position, counts in self.counts.items() for n in counts]
            rng.shuffle(once)
            order += once
        return order


def around(found: Sequence[CallCapacity], shares: Sequence[float]) -> tuple[int, ...]:
    """Numbers of calls below, at and above what the goals of a search found at one position; ascending.

    Where even the fewest were too many these count; where more cannot be made none are above. Empty where
    nothing was found.
    """
    answers = {one.calls or one.too_many: one.at_least for one in found if one.calls or one.too_many}
    known = {count: last for count, last in answers.items() if count is not None}
    if not known:
        return ()
    least, most = min(known), max(known)
    below = {max(round(share * least), 1) for share in shares if share < 1}
    above = set() if known[most] else {round(share * most) for share in shares if share > 1}
    return tuple(sorted(below | {least, most} | above))


def specs(sweep: CallSweep, setting: CallTraffic) -> list[TrialSpec]:
    """The trials of ``sweep`` in order."""
    return [
        setting.spec(
            position, count, trial_s=sweep.trial_s, warmup_s=sweep.warmup_s, label=f"{count} calls, run {run}"
        )
        for run, position, count in sweep.order
    ]


def sweep(
    bed: TestBed,
    what: CallSweep,
    setting: CallTraffic,
    writer: RunWriter,
    keeper: CallRecorder,
    on_progress: OnProgress | None = None,
    *,
    terms: TrialTerms = USUAL,
) -> SequenceOutcome:
    """Do ``what``, or what is left of it in the run; see :func:`weirlab.measure.sequence.run`."""
    order = what.order
    first = (
        sequence.kept_plan(writer, SWEEP).first_index if writer.has(SWEEP) else sequence.next_index(writer)
    )
    planned: Sequence[TrialSpec] = specs(what, setting)

    def completed(record: TrialRecord) -> TrialRecord:
        return keeper.complete(record, "sweep", order[record.index - first][0])

    return sequence.run(
        bed,
        planned,
        writer,
        Part(ROLE, SWEEP, first),
        on_progress,
        terms=terms,
        hooks=Hooks(completed=completed),
    )
