"""Errors for runs in which the host spoiled too many trials to say anything about the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import polars as pl

from weirlab.base.errors import TrialError
from weirlab.jobs.progress import RESUME
from weirlab.store import Run
from weirlab.store.reasons import reason_counts

MOST_RATIO: Final = 0.5
"""Share of the trials that may lack a valid attempt before that is an error."""

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
