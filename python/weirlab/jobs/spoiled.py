"""Runs in which the host spoiled too many trials: errors, and the command that repeats a profile."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import polars as pl

from weirlab.base.errors import TrialError, WeirError
from weirlab.jobs.progress import RESUME
from weirlab.records import JOINT
from weirlab.store import Run, Store
from weirlab.store.reasons import reason_counts

MOST_RATIO: Final = 0.5
"""Share of the trials that may lack a valid attempt before that is an error."""

DISTURBED_RATIO: Final = 0.1
"""Share of the trials without a valid attempt from which on the host disturbed a profile."""

_SHOWN: Final = 3
_LISTED: Final = 5


def problem(run: Run, role: str, most_ratio: float = MOST_RATIO) -> TrialError | None:
    """The error if more than ``most_ratio`` of the trials of ``role`` have no valid attempt, else None."""
    attempts = run.trials().filter(pl.col("role") == role)
    total = attempts["index"].n_unique()
    valid = attempts.filter("valid")["index"].n_unique()
    if total == 0 or total - valid <= most_ratio * total:
        return None
    return TrialError(
        f"{total - valid} of {total} trials have no valid attempt: {reasons(attempts)}. They are kept in "
        f"run {run.run_id}; repeat them on a quieter machine or at lower loads"
    )


def disturbance(run: Run, role: str) -> str:
    """``90 of 152 attempts valid, 16 of 106 trials without one``; empty below :data:`DISTURBED_RATIO`."""
    attempts = run.trials().filter(pl.col("role") == role)
    valid = attempts.filter("valid")
    total = attempts["index"].n_unique()
    missing = total - valid["index"].n_unique()
    if missing <= DISTURBED_RATIO * total:
        return ""
    return (
        f"{valid.height:,} of {attempts.height:,} attempts valid, {missing:,} of {total:,} trials without one"
    )


class Attempt(Protocol):
    """The part of an attempt's row that is used here."""

    @property
    def valid(self) -> bool: ...
    @property
    def invalid(self) -> str: ...


def without_valid(
    run: Run, what: str, missing: Sequence[str], planned: int, rows: Sequence[Attempt], table: str
) -> TrialError | None:
    """The error if ``missing`` of the ``planned`` trials have no valid attempt in ``rows``, else None.

    ``what`` names the trials in the message; ``table`` is the one that holds all reasons.
    """
    if not missing:
        return None
    shown = ", ".join(missing[:_LISTED]) + (", ..." if len(missing) > _LISTED else "")
    why = next((row.invalid for row in reversed(rows) if not row.valid), "the bed failed")
    return TrialError(
        f"{len(missing)} of {planned} {what} have no valid attempt ({shown}), the last one because "
        f"of: {why}; all reasons are in the table {table!r} of run {run.run_id}; try them again (on a "
        f"quieter machine, if the host was the reason) with: {RESUME} {run.run_id}"
    )


def reasons(attempts: pl.DataFrame) -> str:
    """The reasons of invalid attempts with counts: ``sender late in 41 attempts, ...``."""
    counts = reason_counts(attempts.filter(~pl.col("valid"))["invalid"])
    told = [f"{kind} in {n} attempt{'s' if n > 1 else ''}" for kind, n in list(counts.items())[:_SHOWN]]
    left = len(counts) - len(told)
    return ", ".join([*told, *([f"and {left} more reasons"] if left else [])])


REPETITIONS: Final = 10
"""Repetitions that a profile which scatters too much should have at least."""

PROFILE_AGAIN: Final = f"profile again in the same way, with --repetitions {REPETITIONS}"

_WITH_VALUE: Final = frozenset({"--repetitions", "--resume", "--budget", "--time-budget"})
"""Options that make a profile shorter, or that belong to one run."""


def more_trials(run: Run | None, dut: str = "") -> str:
    """How to profile the device of ``run`` again with more repetitions: the same command otherwise.

    ``dut`` is the device, as ``--dut`` takes it, of a run that is not in the store.
    """
    if run is None:
        devices = " ".join(f"--dut {device}" for device in dut.split(JOINT))
        here = f"profile on this machine: weir profile {devices} --repetitions {REPETITIONS}"
        return here if dut else PROFILE_AGAIN
    manifest = run.manifest
    profile: Mapping[str, Any] = manifest.scenario.get("profile") or {}
    planned = profile.get("repetitions") or 0
    repetitions = max(REPETITIONS, 2 * planned)
    typed = shlex.split(str(manifest.facts.get("command", "")))
    words = profile_words(typed)
    if words is not None:
        return f"profile again: {shlex.join([*words, '--repetitions', str(repetitions)])}"
    if typed[1:2] == ["run"]:
        return f"set 'repetitions: {repetitions}' in the profile of its scenario and: {shlex.join(typed)}"
    return f"profile again as run {run.run_id} did, with --repetitions {repetitions}"


def profile_words(typed: list[str]) -> list[str] | None:
    """A command that profiles without what belongs to one run alone; None if it is another command.

    Options that choose the device, its rules and the frames stay.
    """
    if "profile" not in typed[:4] or "--resume" in typed or any(w.startswith("--resume=") for w in typed):
        return None
    words: list[str] = []
    rest = iter(typed)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif word.split("=")[0] not in _WITH_VALUE and word != "--json":
            words.append(word)
    return words


def profiled_run(store: Store, run_id: str) -> Run | None:
    """The run that a model came from; None if the store does not have it."""
    try:
        return store.open(run_id)
    except WeirError:
        return None
