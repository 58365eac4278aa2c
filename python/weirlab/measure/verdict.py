"""How fit a machine is to measure: words and limits, before a run (listening) and after it (its trials)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import polars as pl

from weirlab.base.quantities import percent
from weirlab.measure.attempts import NEEDED_RATIO, setting_of
from weirlab.measure.profile import PLAN
from weirlab.measure.sequence import kept_plan
from weirlab.measure.thresholds import thresholds, usable
from weirlab.measure.verify import VERIFY_PLAN
from weirlab.model.drift import drifts
from weirlab.records import emulation_in_words
from weirlab.store import Run, states
from weirlab.store.reasons import reason_counts

Word = Literal["good", "usable", "not usable"]

GOOD_RATIO: Final = 0.7
USABLE_RATIO: Final = 0.3
"""Shares of undisturbed trials: below the second, more than seven of ten attempts are spoiled."""

GAPS_RATIO: Final = 0.05
"""Share of the settings that may lack trials on a good machine."""

FALSE_LOSS: Final = 1e-4
"""Loss ratio over a plain cable above which small losses of a device are not its own."""

RISE_RATIO: Final = 1.1
"""No device forwards more by this factor behind more rules: the machine must have changed during the run."""

DRIFT_RATIO: Final = 0.2
"""Proven change at unchanged settings during a profile that a good machine does not have."""

_REASONS: Final = 3

QUIETER: Final = "measure at a quieter hour or on a dedicated machine (weir doctor listens to the CPUs)"

_REAL: Final = "measure those on a machine where KVM works (/dev/kvm)"


def word(undisturbed_ratio: float) -> Word:
    """The word for a machine where this share of trials is undisturbed."""
    if undisturbed_ratio >= GOOD_RATIO:
        return "good"
    return "usable" if undisturbed_ratio >= USABLE_RATIO else "not usable"


@dataclass(frozen=True)
class Coverage:
    """How many of the planned settings have valid trials."""

    settings: int = 0
    without: int = 0
    """Without any."""
    single: int = 0
    """With one."""
    short: int = 0
    """With one, where more were planned."""
    missing: int = 0
    """Planned trials without a valid attempt, which a resumed run measures."""

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.settings + other.settings,
            self.without + other.without,
            self.single + other.single,
            self.short + other.short,
            self.missing + other.missing,
        )


@dataclass(frozen=True)
class MachineVerdict:
    """The verdict on the machine that a run was made on."""

    word: Word
    purpose: str
    """What it was not usable for; empty if it was usable for everything."""
    attempts: int
    valid: int
    coverage: Coverage
    moves: int
    """How often the host moved its CPUs from one attempt to the next."""
    why: tuple[str, ...]
    """What stood in the way, the worst first."""
    remedy: str
    noisy: str = ""
    """What the run tolerates, if it was made for a noisy machine."""
    held_out: tuple[int, int] = (0, 0)
    """How many of the attempts were at held-out trials, and how many of these were valid."""

    @property
    def sentence(self) -> str:
        """For the first line of terminal and page."""
        count = f"{self.valid:,} of {self.attempts:,} attempts valid"
        made, valid = self.held_out
        if 0 < made < self.attempts:
            count += f", of these {valid:,} of {made:,} at held-out trials"
        every = "every setting has at least one valid trial"
        told = "; ".join([count, *(self.why or [every])])
        mode = f" Made for a noisy machine: {self.noisy}." if self.noisy else ""
        to_do = f" {self.remedy[:1].upper()}{self.remedy[1:]}." if self.remedy else ""
        return f"Machine {self.label}: {told}.{mode}{to_do}"

    @property
    def refusal(self) -> str:
        """Why the run does not count; empty if it does."""
        return f"the machine was {self.label}" if self.word == "not usable" else ""

    @property
    def label(self) -> str:
        """``not usable to judge a model``."""
        return f"{self.word} {self.purpose}" if self.purpose else self.word

    def document(self) -> dict[str, Any]:
        return {
            "verdict": self.word,
            "not_usable": self.purpose or None,
            "attempts": self.attempts,
            "valid_attempts": self.valid,
            "settings": self.coverage.settings,
            "settings_without_valid_trial": self.coverage.without,
            "settings_with_one_valid_trial": self.coverage.single,
            "host_moves": self.moves,
            "why": self.why,
            "remedy": self.remedy,
            "noisy": self.noisy or None,
            "sentence": self.sentence,
        }


def of_run(run: Run, resume: str = "", noisy: str = "", *, held_out: bool = True) -> MachineVerdict | None:
    """The verdict from the trials of ``run`` and its calibration; None without a real trial.

    ``resume`` is the command that continues the run. Without ``held_out``, the verdict is on the profile
    alone, whatever became of held-out trials.
    """
    trials = run.trials()
    if not held_out:
        trials = trials.filter(pl.col("role") != "verify")
    if run.simulated or not trials.height:
        return None
    profiled, verified = coverage(run, PLAN, trials), Coverage()
    if held_out:
        verified = coverage(run, VERIFY_PLAN, trials)
    both = profiled + verified
    attempts, valid = trials.height, int(trials["valid"].sum())
    verifying = trials.filter(role="verify")
    moves = host_moves(trials)
    rise = rising(trials)
    cable = _calibrated(run)
    drifted = _drifted(run)
    gaps = [
        f"{n} of {both.settings} settings {'has' if n == 1 else 'have'} {what} valid trial"
        for n, what in ((both.without, "no"), (both.short, "only one"))
        if n
    ]
    spoiled = _spoiled(trials) if valid < GOOD_RATIO * attempts or both.without else ()
    purpose = ""
    if rise:
        found, purpose = "not usable", "to compare rule counts"
    elif both.without > NEEDED_RATIO * both.settings or not valid:
        found = "not usable"
    elif verified.settings and verified.without + verified.short > NEEDED_RATIO * verified.settings:
        found, purpose = "not usable", "to judge a model"
    elif (
        valid < GOOD_RATIO * attempts
        or max(both.without, both.short) > GAPS_RATIO * both.settings
        or cable
        or drifted
    ):
        found = "usable"
    else:
        found = "good"
    remedy = f"{QUIETER}, then go on with {resume} {run.run_id}" if resume and both.missing else QUIETER
    emulated = emulation_in_words(run.manifest.facts)
    if emulated:
        found, purpose, remedy = "not usable", "to judge rates or delays", _REAL
    moved = [f"the host moved the CPUs {moves} times"] if moves and found != "good" else []
    why = (*filter(None, (emulated, rise)), *gaps, *spoiled, *cable, *drifted, *moved)
    return MachineVerdict(
        found,  # type: ignore[arg-type]
        purpose,
        attempts,
        valid,
        both,
        moves,
        why,
        "" if found == "good" else remedy,
        noisy,
        (verifying.height, int(verifying["valid"].sum())),
    )


def undecided(run: Run) -> str:
    """Why the held-out trials of ``run`` are too few, or too odd, to judge a model; empty if they are not.

    Trials of a simulated device hardly scatter: one of each setting is enough.
    """
    if run.simulated:
        return ""
    trials = run.trials()
    held_out = coverage(run, VERIFY_PLAN, trials)
    few = held_out.without + held_out.single
    if rise := rising(trials):
        return rise
    if held_out.without > NEEDED_RATIO * held_out.settings:
        return f"{held_out.without} of {held_out.settings} held-out settings have no valid trial"
    if few > NEEDED_RATIO * held_out.settings:
        return (
            f"{few} of {held_out.settings} held-out settings have fewer than two valid trials, so an error "
            "of the model cannot be told from the scatter of trials"
        )
    return ""


def coverage(run: Run, plan_name: str, trials: pl.DataFrame) -> Coverage:
    """How the plan called ``plan_name`` is covered; none without it."""
    if not run.has(plan_name):
        return Coverage()
    plan = kept_plan(run, plan_name)
    valid = set(trials.filter("valid")["index"].to_list())
    wanted = Counter(map(setting_of, plan.specs))
    found = Counter(
        setting_of(spec) for index, spec in enumerate(plan.specs, plan.first_index) if index in valid
    )
    return Coverage(
        settings=len(wanted),
        without=sum(found[setting] == 0 for setting in wanted),
        single=sum(found[setting] == 1 for setting in wanted),
        short=sum(found[setting] == 1 < n for setting, n in wanted.items()),
        missing=len(plan.specs) - found.total(),
    )


def host_moves(trials: pl.DataFrame) -> int:
    """How often the host was in another state than at the previous attempt."""
    if "handover_ns" not in trials.columns:
        return 0
    known = trials.filter(pl.col("handover_ns").is_not_null()).sort("started_at")["handover_ns"].to_list()
    return sum(not states.same(after, before) for before, after in itertools.pairwise(known))


def rising(trials: pl.DataFrame) -> str:
    """Where the device seems to forward more behind more rules, which no device does; empty if nowhere."""
    for rows in _series(thresholds(usable(trials)).to_dicts()):
        for fewer, more in itertools.combinations(rows, 2):
            apart = more["low_pps"] > fewer["high_pps"]
            if apart and more["threshold_pps"] > RISE_RATIO * fewer["threshold_pps"]:
                return (
                    f"forwarding rates rise with rules, from {fewer['threshold_pps']:,.0f} pps at position "
                    f"{fewer['position']} to {more['threshold_pps']:,.0f} pps at {more['position']} "
                    f"(frames {more['sizes_text']})"
                )
    return ""


def _series(rows: Sequence[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Thresholds by position, for each kind of frames."""
    kinds = dict.fromkeys((row["stateful"], row["sizes_text"]) for row in rows)
    return [[row for row in rows if (row["stateful"], row["sizes_text"]) == kind] for kind in kinds]


def _spoiled(trials: pl.DataFrame) -> tuple[str, ...]:
    """``sender late in 41 attempts``, the most frequent reasons."""
    counts = reason_counts(trials.filter(~pl.col("valid"))["invalid"])
    return tuple(
        f"{kind} in {n:,} attempt{'s' if n > 1 else ''}" for kind, n in list(counts.items())[:_REASONS]
    )


def _drifted(run: Run) -> list[str]:
    """How the device changed while its profile was measured, by more than :data:`DRIFT_RATIO`."""
    found = drifts(run.observations("profile", plain=True)) if run.has(PLAN) else ()
    return [
        f"the {one.quantity} at unchanged settings moved by {percent(math.expm1(one.span))}"
        for one in found
        if one.proven and math.expm1(one.span) > DRIFT_RATIO
    ]


def _calibrated(run: Run) -> list[str]:
    """What speaks against the machine in the calibration in force."""

    def lost_of(calibration: Mapping[str, Any]) -> float:
        return float((calibration.get("summary") or {}).get("false_loss_ratio") or 0.0)

    lost = run.get_json("calibration", lost_of) if run.has("calibration") else 0.0
    return [f"a plain cable lost {percent(lost)} when it was calibrated"] if lost > FALSE_LOSS else []
