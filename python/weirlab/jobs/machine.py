"""How a run copes with its machine: what it tolerates, how long it may take, and the verdict afterwards."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from weirlab.base.amounts import parse_budget
from weirlab.base.errors import InputError, TrialError
from weirlab.base.quantities import percent, rounded_clock
from weirlab.jobs.progress import EarlyStop
from weirlab.jobs.spoiled import reasons
from weirlab.lab.base import TestBed
from weirlab.measure import SequenceOutcome, verdict
from weirlab.measure.attempts import RATIO, USUAL, Budget, setting_of
from weirlab.measure.profile import PLAN
from weirlab.measure.progress import OVERHEAD_S, estimate_s
from weirlab.measure.terms import TrialClocks, TrialTerms
from weirlab.measure.validity import CAREFUL_LIMITS, ValidityLimits
from weirlab.measure.verdict import MachineVerdict
from weirlab.records import SIMULATION, TrialSpec, emulation_in_words
from weirlab.scenario import HeldOutSection, Scenario
from weirlab.store import Run

PROFILE_LIMITS: Final = replace(CAREFUL_LIMITS, pacing_ratio=0.1)
"""Models and graphs use the load that was sent. A sender that is too slow for the nominal load measures at
its own, so that trial counts; one that stood still is late, which spoils the bins."""

NOISY_LIMITS: Final = replace(
    PROFILE_LIMITS,
    steal_ratio=0.03,
    late_ratio=0.03,
    wait_ratio=0.01,
    wait_s=0.001,
    overload_wait_ratio=0.03,
    left_out_ratio=0.75,
)
"""For a machine that never gets quiet: less of a trial has to count."""

clock: Callable[[], float] = time.monotonic
"""Seconds, for budgets and trials alike."""

_ADVICE: Final = (
    ". For a machine that never gets quiet: weir profile --machine noisy, or 'machine: noisy' in a scenario"
)

MORE_REPETITIONS: Final = 2
"""Factor for repetitions on such a machine: intervals come from their scatter."""


def noisy(scenario: Scenario) -> bool:
    return scenario.machine == "noisy"


def limits(scenario: Scenario) -> ValidityLimits:
    """From where on the host has spoiled a trial of ``scenario``."""
    return NOISY_LIMITS if noisy(scenario) else PROFILE_LIMITS


def terms(scenario: Scenario, budget: Budget | None) -> TrialTerms:
    """The terms for the trials of ``scenario``."""
    return TrialTerms(limits(scenario), scenario.profile.max_attempts, budget, clocks=TrialClocks(clock))


def repetitions(scenario: Scenario, planned: int) -> int:
    """Trials per setting; ``planned`` is the number on a usual machine."""
    return planned * MORE_REPETITIONS if noisy(scenario) else planned


def noise_in_words() -> str:
    """What a run for a noisy machine bears."""
    bears, usual = NOISY_LIMITS, PROFILE_LIMITS
    return (
        f"the host may disturb {percent(bears.left_out_ratio)} of a trial "
        f"({percent(usual.left_out_ratio)} elsewhere); "
        f"{MORE_REPETITIONS} times the repetitions, whose scatter makes the intervals wider"
    )


def held_out_s(scenario: Scenario, held_outs: Iterable[HeldOutSection]) -> float:
    """Expected wall time in s of held-out trials, including repetitions of spoiled ones."""
    each = ((one.trials, one.warmup_s + one.trial_s + OVERHEAD_S) for one in held_outs)
    return repetitions(scenario, 1) * sum(trials * trial_s for trials, trial_s in each) / USUAL


def budget(scenario: Scenario, bed: TestBed, expected_s: float) -> Budget | None:
    """The time that trials expected to take ``expected_s`` may take; None for no limit.

    Nothing disturbs a simulated device: it has a limit only if ``scenario`` sets one.
    """
    if scenario.time_budget is not None:
        return Budget(parse_budget(scenario.time_budget), clock, gives_up=bed.lab != SIMULATION)
    return time_for(bed, expected_s)


def time_for(bed: TestBed, expected_s: float) -> Budget | None:
    """The time that trials expected to take ``expected_s`` may take where nobody sets one."""
    return None if bed.lab == SIMULATION else Budget(RATIO * expected_s, clock)


def foretold(trials: str, bed: TestBed, expected_s: float, budget: Budget | None) -> str:
    """``75 held-out trials, some 25 s on a usual machine, at most 38 s on a busy one (time budget)``."""
    # With a simulated device the time is not worth mentioning.
    took = "" if bed.lab == SIMULATION else f", some {rounded_clock(expected_s)} on a usual machine"
    limit = "" if budget is None else f", at most {rounded_clock(budget.total_s)} on a busy one (time budget)"
    return f"{trials}{took}{limit}"


def refuse_short_budget(scenario: Scenario, specs: Iterable[TrialSpec]) -> None:
    """Raise ``InputError`` if the budget does not suffice for one trial of each setting in ``specs``."""
    once = {setting_of(spec): spec for spec in specs}
    least_s = estimate_s(once.values())
    if scenario.time_budget is not None and parse_budget(scenario.time_budget) < least_s:
        raise InputError(
            f"time budget {scenario.time_budget}: one trial of each of the {len(once):,} settings takes "
            f"{least_s:.0f} s when nothing is disturbed; give "
            f"at least {math.ceil(least_s / USUAL)}s, or fewer settings"
        )


def judged(run: Run, resume: str = "") -> MachineVerdict | None:
    """The verdict on the machine of ``run``; ``resume`` is the command that continues the run."""
    noise = noise_in_words() if run.manifest.scenario.get("machine") == "noisy" else ""
    return verdict.of_run(run, resume, noise)


def refusal(run: Run) -> str:
    """Why ``run`` does not count; empty if it does.

    A complete profile is judged by its trials, since older ones do not keep a verdict; others keep it.
    """
    manifest = run.manifest
    if manifest.refusal or manifest.status != "complete" or not run.has(PLAN):
        return manifest.refusal
    found = verdict.of_run(run, held_out=False)
    return "" if found is None else found.refusal


def refuse_emulated(facts: Mapping[str, object], name: str) -> None:
    """Raise ``TrialError`` if the device with these ``facts`` was emulated: nothing follows from its numbers.

    ``name`` is what the message calls it.
    """
    if why := emulation_in_words(facts):
        raise TrialError(f"{name}: {why}; profile it on a machine where KVM works (/dev/kvm)")


def give_up(run: Run, outcome: SequenceOutcome, role: str) -> None:
    """Raise ``EarlyStop`` if the sequence ended because of noise."""
    if outcome.stopped != "noise":
        return
    attempts = run.trials().filter(role=role)
    valid = int(attempts["valid"].sum())
    raise EarlyStop(
        f"only {valid:,} of {attempts.height:,} attempts were valid ({reasons(attempts)}), and the time left "
        "would not give half of the settings a valid trial",
        run.run_id,
        "" if run.manifest.scenario.get("machine") == "noisy" else _ADVICE,
    )
