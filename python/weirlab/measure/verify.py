"""Verification: measure settings that a model has not seen, to compare its predictions with.

The loads are drawn between the given bounds (one from each of as many equal parts, so that
they cover the range), below the threshold and beyond it; trials beyond it also measure the
threshold of a held-out position: the forwarding rate in overload.

Beside them, some profiled settings are measured again (:func:`again`). How they differ from the profile is
due to the host, not to the model.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from weirlab.base.documents import SPARSE
from weirlab.base.errors import InputError
from weirlab.lab.base import TestBed
from weirlab.measure import sequence
from weirlab.measure.plan.grid import ONE_FLOW, variants
from weirlab.measure.plan.loads import SENDER_RESERVE, load_or_max, load_share
from weirlab.measure.profile import PLAN
from weirlab.measure.progress import OnProgress
from weirlab.measure.scouting import fastest
from weirlab.measure.sequence import Part, SequenceOutcome
from weirlab.measure.terms import USUAL, TrialTerms
from weirlab.records import Observation, RuleSetup, TrialSpec
from weirlab.store import RunWriter
from weirlab.traffic.sizes import Constant, SizeMix, mean_bytes, validate
from weirlab.traffic.spec import Arrivals, Flows, Traffic

VERIFY_PLAN: Final = "verify-plan"

AGAIN: Final = "profiled "
"""How the labels of profiled settings begin that are measured again."""

HELD_OUT: Final = (pl.col("role") == "verify") & ~pl.col("label").str.starts_with(AGAIN)
"""Held-out trials in a table of trials."""

Threshold = Callable[[float, float], float]
"""From matching position and (mean) frame size in bytes to the threshold in pps."""

MOST_POSITIONS: Final = 4
"""Number of positions drawn between the profiled ones, at most."""
MOST_SHARES: Final = 3
"""Number of shares of new packets drawn, at most."""
_MIDDLE: Final = (0.25, 0.75)
"""Part of a gap from which a position is drawn: near its ends there is little to predict."""
_BEYOND: Final = (1.15, 1.4)
"""Relative to the last profiled position."""
_AGAIN_PLACES: Final = 3
_AGAIN_SHARE: Final = 0.5
"""Load below the threshold that is measured again, about."""


@dataclass(frozen=True)
class VerificationPlan:
    """What to measure."""

    positions: tuple[int, ...] = (200,)
    """Matching positions; those that were not profiled say most."""
    sizes: tuple[SizeMix, ...] = (Constant(64),)
    load_shares: tuple[float, ...] = ()
    """Loads below the threshold, relative to it; drawn at random when empty."""
    draws: int = 6
    draw_low: float = 0.05
    draw_high: float = 0.92
    overload_shares: tuple[float, ...] = (1.15, 1.5)
    """Loads beyond the threshold; they also measure it."""
    repetitions: int = 3
    trial_s: float = 0.1
    warmup_s: float = 0.03
    stateful: bool = False
    flows: Flows = ONE_FLOW
    new_shares: tuple[float, ...] = field(default=(), metadata=SPARSE)
    """Of answered flows: shares of new packets; empty: that of ``flows``."""
    arrivals: Arrivals = "constant"
    paced_limit_pps: float = 1.8e6
    """Loads beyond what the sender can pace are sent as fast as possible instead."""
    seed: int = 7

    def __post_init__(self) -> None:
        if not self.positions or not self.sizes:
            raise InputError("a verification needs at least one matching position and one frame size")
        if min(self.positions) < 0:
            raise InputError(f"matching position {min(self.positions)}: it must be 0 (no rules) or higher")
        if self.repetitions < 1 or self.draws < 0:
            raise InputError("a verification needs at least one repetition and no negative number of draws")
        if min(*self.load_shares, *self.overload_shares, self.draw_low, math.inf) <= 0:
            raise InputError("load shares of a verification must be above 0")
        if not self.draw_low < self.draw_high:
            raise InputError(f"loads cannot be drawn between {self.draw_low:g} and {self.draw_high:g}")
        for mix in self.sizes:
            validate(mix)


def plan(
    verification: VerificationPlan, threshold_pps: Threshold, *, sender_pps: float = math.inf
) -> list[TrialSpec]:
    """The trials of ``verification``, repetition after repetition, each shuffled; the same arguments give
    the same list.

    ``threshold_pps`` may be a model's prediction or what scouting measured
    (``Scouting.forwarding_pps``); it only places the loads. ``sender_pps`` is the highest
    rate of the sender.
    """
    draw = random.Random(verification.seed)
    rounds: list[list[TrialSpec]] = [[] for _ in range(verification.repetitions)]
    settings = itertools.product(
        verification.positions, variants(verification.flows, verification.new_shares)
    )
    for position, flows in settings:
        met = position * flows.new_share if flows.answered else float(position)
        for mix in verification.sizes:
            threshold = float(threshold_pps(met, mean_bytes(mix)))
            if not (math.isfinite(threshold) and threshold > 0):
                raise InputError(f"threshold at position {position}: {threshold:g} pps cannot place any load")
            shares = [
                *(verification.load_shares or _drawn(verification, draw)),
                *verification.overload_shares,
            ]
            limit_pps = min(verification.paced_limit_pps, SENDER_RESERVE * sender_pps)
            rates = load_or_max(shares, threshold, limit_pps, fastest(flows))
            for repetition, round_ in enumerate(rounds):
                round_ += [
                    TrialSpec(
                        Traffic(
                            rate,
                            mix,
                            flows,
                            verification.arrivals,
                            warmup_s=verification.warmup_s,
                            duration_s=verification.trial_s,
                            seed=verification.seed + repetition,
                        ),
                        RuleSetup(position, verification.stateful),
                        label,
                    )
                    for rate, label in rates.items()
                ]
    for round_ in rounds:
        draw.shuffle(round_)
    return [spec for round_ in rounds for spec in round_]


def again(profiled: Sequence[TrialSpec], repetitions: int, *, stateful: bool = False) -> list[TrialSpec]:
    """Trials of a profile to measure again, ``repetitions`` of each, with its smallest frames.

    At the first, middle and last position, these are a load below the threshold and one beyond it.
    ``profiled`` are the trials of the profile; those of several positions, with cross traffic, with steps, or
    not ``stateful`` as the device usually is, are left out.
    """
    plain = [
        spec
        for spec in profiled
        if spec.rules.stateful == stateful
        and not (spec.rules.places or spec.cross_traffic or spec.traffic.steps)
    ]
    if not plain:
        return []
    first = min(plain, key=lambda spec: (mean_bytes(spec.traffic.sizes), spec.traffic.arrivals)).traffic
    alike = [
        spec
        for spec in plain
        if spec.traffic.sizes == first.sizes and spec.traffic.arrivals == first.arrivals
    ]
    places = sorted({spec.mean_position for spec in alike})
    chosen = {places[round(i * (len(places) - 1) / (_AGAIN_PLACES - 1))] for i in range(_AGAIN_PLACES)}
    found: list[TrialSpec] = []
    for place in sorted(chosen):
        # Repetitions have the same share; shares beyond what can be paced have none.
        shares = {load_share(spec.label): spec for spec in alike if spec.mean_position == place}
        below = [share for share in shares if share < 1]
        beyond = [share for share in shares if share > 1]
        if below:
            found.append(shares[min(below, key=lambda share: abs(share - _AGAIN_SHARE))])
        if beyond:
            found.append(shares[max(beyond)])
    return [replace(spec, label=f"{AGAIN}{spec.label}") for _ in range(repetitions) for spec in found]


def among(specs: Sequence[TrialSpec], others: Sequence[TrialSpec]) -> list[TrialSpec]:
    """``others`` at even distances among ``specs``."""
    keyed = [((i + 0.5) / max(len(each), 1), spec) for each in (specs, others) for i, spec in enumerate(each)]
    return [spec for _, spec in sorted(keyed, key=lambda pair: pair[0])]


def parted(observations: Iterable[Observation]) -> tuple[list[Observation], list[Observation]]:
    """Held-out trials, and those of profiled settings measured again."""
    parts: tuple[list[Observation], list[Observation]] = ([], [])
    for seen in observations:
        parts[str(seen.extra.get("label", "")).startswith(AGAIN)].append(seen)
    return parts


def run(
    bed: TestBed,
    specs: Sequence[TrialSpec] | None,
    writer: RunWriter,
    on_progress: OnProgress | None = None,
    *,
    terms: TrialTerms = USUAL,
) -> SequenceOutcome:
    """Measure ``specs`` (None: those kept in the run); see :func:`weirlab.measure.sequence.run`.

    The run may be a new one or that of the profile; indices continue after its trials.
    """
    part = Part("verify", VERIFY_PLAN, sequence.next_index(writer, PLAN))
    return sequence.run(bed, specs, writer, part, on_progress, terms=terms)


def drawn_shares(profiled: Sequence[float], seed: int) -> tuple[float, ...]:
    """Shares of new packets to verify a profile at: one in each of its widest gaps, drawn with ``seed``."""
    draw = random.Random(seed)
    gaps = sorted(itertools.pairwise(sorted(set(profiled))), key=lambda gap: gap[0] - gap[1])
    chosen = sorted(gaps[:MOST_SHARES])
    return tuple(round(low + (high - low) * draw.uniform(*_MIDDLE), 4) for low, high in chosen)


def drawn_positions(profiled: Sequence[int], seed: int) -> tuple[int, ...]:
    """Matching positions to verify a profile at, drawn with ``seed``.

    One between two neighbours of ``profiled`` (between at most ``MOST_POSITIONS`` pairs), where
    models interpolate, and one beyond the last, where they extrapolate. A single profiled position
    leaves nothing to draw and is returned as it is.
    """
    places = sorted(set(profiled))
    if len(places) < 2:
        return tuple(places)
    draw = random.Random(seed)
    gaps = [(low, high) for low, high in itertools.pairwise(places) if high - low > 1]
    chosen = sorted(draw.sample(gaps, min(len(gaps), MOST_POSITIONS)))
    inside = (
        min(max(round(low + (high - low) * draw.uniform(*_MIDDLE)), low + 1), high - 1)
        for low, high in chosen
    )
    beyond = max(round(places[-1] * draw.uniform(*_BEYOND)), places[-1] + 1)
    return (*inside, beyond)


def _drawn(verification: VerificationPlan, draw: random.Random) -> list[float]:
    """One share from each of ``draws`` equal parts of the range."""
    width = (verification.draw_high - verification.draw_low) / max(verification.draws, 1)
    return [
        round(verification.draw_low + width * (part + draw.random()), 4) for part in range(verification.draws)
    ]
