"""A profile: the set of trials that characterises a device.

First a scout per frame size and matching position finds how much the device forwards when
it gets more than it can carry; then loads from low to beyond that point are measured,
several times each, in shuffled order, so that a drift of the machine (temperature,
neighbours on the host) does not pass for an effect of load or rules.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from weirlab.base.errors import InputError
from weirlab.lab.base import TestBed
from weirlab.measure import attempts, sequence
from weirlab.measure.attempts import ValidShare
from weirlab.measure.plan.grid import Extras, Profile, quick
from weirlab.measure.plan.loads import SENDER_RESERVE, extra_specs, load_or_max, nearest, rounded
from weirlab.measure.progress import OnProgress, ProgressMeter, trial_s
from weirlab.measure.scouting import ScoutPoint, ScoutResult, fastest, scout, scout_into, scout_specs
from weirlab.measure.sequence import Part, SequenceOutcome
from weirlab.measure.terms import USUAL, TrialTerms
from weirlab.records import SIMULATION, RuleSetup, TrialSpec
from weirlab.store import RunWriter
from weirlab.traffic.load import describe_rate
from weirlab.traffic.sizes import SizeMix, describe
from weirlab.traffic.spec import Rate, Traffic

__all__ = [
    "SENDER_RESERVE", "Extras", "Profile", "ScoutPoint", "ScoutResult", "load_or_max", "measure", "plan",
    "quick", "run", "scout", "scout_specs",
]  # fmt: skip


PLAN: Final = "plan"


PROFILE: Final = "profile"


FAST_RULES_S: Final = 0.05
"""Rules that are set faster than this may change from trial to trial; slower ones are grouped."""


REPEATED: Final = 1 / attempts.USUAL
"""Attempts per trial on a shared machine."""

T = TypeVar("T")


def plan(profile: Profile, scouted: ScoutResult | Iterable[ScoutPoint]) -> list[TrialSpec]:
    """The trials of ``profile``, repetition after repetition; the same arguments give the same list.

    Each repetition is shuffled where rules are set fast (``FAST_RULES_S``). Otherwise it goes
    through the rule setups in an order of its own, with loads and sizes shuffled inside, so that
    setting rules does not dominate.
    """
    scouting = scouted if isinstance(scouted, ScoutResult) else ScoutResult(tuple(scouted))
    rounds = [
        [
            *(spec for point in scouting.points for spec in _point_specs(profile, point, repetition)),
            *extra_specs(profile, scouting, repetition),
        ]
        for repetition in range(profile.repetitions)
    ]
    order = random.Random(profile.seed)
    if scouting.set_rules_s < FAST_RULES_S:
        for round_ in rounds:
            order.shuffle(round_)
        return [spec for round_ in rounds for spec in round_]
    grouped = []
    for round_ in rounds:
        setups = sorted({spec.rules for spec in round_}, key=lambda r: (r.position, r.stateful, r.places))
        order.shuffle(setups)
        for rules in setups:
            block = [spec for spec in round_ if spec.rules == rules]
            order.shuffle(block)
            grouped += block
    return grouped


def loads_at(profile: Profile, position: int, sizes: SizeMix, new_share: float = 0.0) -> tuple[float, ...]:
    """The load shares that are measured at one position and size.

    With extras to compare, the first size also has their loads, so that each extra has a counterpart.
    """
    places = profile.new_shares or profile.positions
    place = places.index(new_share if profile.new_shares else position) + profile.sizes.index(sizes)
    # With fewer neighbours than the stride some loads would be measured nowhere.
    stride = min(profile.load_stride, len(places) + len(profile.sizes) - 1)
    below = sorted(share for share in profile.load_shares if share < 1)
    taken = set(below[place % stride :: stride])
    taken.update(share for share in profile.load_shares if share >= 1)
    if profile.extras.compared and sizes == profile.sizes[0]:
        taken.update(nearest(profile.extras.load_shares, profile.load_shares))
    return tuple(sorted(taken))


def _point_specs(profile: Profile, point: ScoutPoint, repetition: int) -> list[TrialSpec]:
    limit_pps = min(profile.paced_limit_pps, SENDER_RESERVE * point.sender_pps)
    flows = replace(profile.flows, new_share=point.new_share)
    shares = loads_at(profile, point.position, point.sizes, point.new_share)
    rates = load_or_max(shares, point.forwarding_pps, limit_pps, fastest(flows))
    return [
        TrialSpec(
            Traffic(
                rate,
                point.sizes,
                flows,
                profile.arrivals,
                warmup_s=profile.warmup_s,
                duration_s=profile.trial_s,
                seed=profile.seed + repetition,
            ),
            RuleSetup(point.position, profile.stateful),
            label,
            profile.cross_traffic,
        )
        for rate, label in rates.items()
    ]


def expected(profile: Profile) -> list[TrialSpec]:
    """Trials like those of ``profile``, scouting included, before it is known what the device can do."""
    scouts = scout_specs(profile)
    points = (
        ScoutPoint(spec.rules.position, spec.traffic.sizes, 1e5, 1e9, spec.traffic.flows.new_share)
        for spec in scouts
    )
    return [*scouts, *plan(profile, points)]


def estimate_s(profile: Profile) -> float:
    """Expected wall time in s of ``profile``, including repetitions of trials that the host disturbs."""
    return REPEATED * sum(map(trial_s, expected(profile)))


def run(
    bed: TestBed,
    specs: Sequence[TrialSpec] | None,
    writer: RunWriter,
    told: ProgressMeter | OnProgress | None = None,
    *,
    first_index: int = 0,
    terms: TrialTerms = USUAL,
) -> SequenceOutcome:
    """Measure ``specs`` (None: those kept in the run); see :func:`weirlab.measure.sequence.run`."""
    return sequence.run(bed, specs, writer, Part("profile", PLAN, first_index), told, terms=terms)


def measure(
    bed: TestBed,
    profile: Profile | None,
    writer: RunWriter,
    on_progress: OnProgress | None = None,
    *,
    terms: TrialTerms = USUAL,
) -> SequenceOutcome:
    """Scout, plan and run ``profile``, or go on where an interrupted run stopped.

    Profile, scouting and plan are kept in the run. When resuming, ``profile`` may be None;
    one that differs from the kept one is refused with ``InputError``.
    """
    clock = terms.clocks.seconds
    begun_s = clock()
    profile = settled(PROFILE, Profile, profile, writer, "profile")
    scouts = scout_specs(profile)
    meter = ProgressMeter(
        map(trial_s, expected(profile)),
        clock,
        on_progress,
        share=usual_share(bed),
        budget=terms.budget,
        max_attempts=terms.max_attempts,
    )
    before = sum(writer.attempts.values())
    scouting = scout_into(bed, profile, writer, meter=meter, terms=terms)
    planned = list(sequence.kept_plan(writer, PLAN).specs) if writer.has(PLAN) else plan(profile, scouting)
    meter.replace_rest(map(trial_s, planned))
    meter.tell(_summary(scouting))
    outcome = run(bed, planned, writer, meter, first_index=len(scouts), terms=terms)
    made = sum(writer.attempts.values()) - before
    invalid = sequence.without_valid(writer, range(len(scouts))) + outcome.invalid
    return SequenceOutcome(len(scouts) + outcome.trials, made, invalid, clock() - begun_s, outcome.stopped)


def usual_share(bed: TestBed) -> ValidShare:
    """The share assumed before the first trial on ``bed``: nothing disturbs a simulated device."""
    return ValidShare(1.0 if bed.lab == SIMULATION else attempts.USUAL)


def settled(name: str, kind: type[T], wanted: T | None, writer: RunWriter, what: str) -> T:
    """What a run keeps under ``name``, or ``wanted`` if it keeps nothing yet; ``what`` is the word for it.

    Raises ``InputError`` if the two differ, or if there is neither.
    """
    if writer.has(name):
        kept = writer.run.get_json(name, kind)
        if wanted is not None and wanted != kept:
            changed = [each for each, value in vars(kept).items() if value != getattr(wanted, each)]
            raise InputError(
                f"run {writer.run_id} was begun with other settings ({', '.join(changed)}); "
                "resume it without changing them, or start a new run"
            )
        return kept
    if wanted is None:
        raise InputError(f"run {writer.run_id} has no {what} to continue with; start a new run")
    writer.put_json(name, wanted)
    return wanted


def _summary(scouting: ScoutResult) -> str:
    told = (
        f"position {point.position}, {describe(point.sizes)}: "
        f"{'' if point.overloaded else 'more than '}{describe_rate(Rate(rounded(point.forwarding_pps)))}"
        for point in scouting.points
    )
    return "forwarding rates found: " + "; ".join(told)
