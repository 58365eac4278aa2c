"""Fits, predictions and verifications as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final

from weirlab.cli.output import Table
from weirlab.cli.quantities import duration, percent, rate, significant
from weirlab.cli.tables import effects
from weirlab.model.base import TOLD_LEVEL

if TYPE_CHECKING:
    from weirlab.model import ErrorRow
    from weirlab.studies.prediction.modelling import DevicesOutcome, FitOutcome, PredictionOutcome
    from weirlab.studies.prediction.verification import VerificationOutcome


def fit(outcome: FitOutcome) -> list[Table]:
    """The queueing model's parameters, and what was compared without any model."""
    return [*_parameters(outcome), *effects(outcome.effects)]


def _parameters(outcome: FitOutcome) -> list[Table]:
    model = outcome.queueing
    if model is None:
        return []
    columns = ("parameter", "value", "± standard error", "unit", "meaning")
    rows = [
        (p.name, significant(p.value, 4), significant(p.stderr, 2), p.unit, p.meaning)
        for p in model.parameters()
    ]
    return [Table(columns, rows, title="queueing model", right=columns[1:3])]


def devices(outcome: DevicesOutcome) -> list[Table]:
    """The devices' parameters beside each other."""
    found = {
        name: {p.name: p for p in fit.queueing.parameters()} if fit.queueing else {}
        for name, fit in zip(outcome.names, outcome.fits, strict=True)
    }
    first = {p.name: p for parameters in found.values() for p in parameters.values()}
    rows = [
        (
            name,
            *(significant(own[name].value, 4) if name in own else "–" for own in found.values()),
            parameter.unit,
            parameter.meaning,
        )
        for name, parameter in first.items()
    ]
    return [Table(("parameter", *found, "unit", "meaning"), rows, title="queueing model", right=tuple(found))]


def prediction(outcome: PredictionOutcome) -> list[Table]:
    """One column per model, and one with the interval for a single trial where it gives one."""
    models = outcome.predictions
    lines = (
        ("threshold", "threshold_pps", rate),
        ("frame loss ratio", "loss_ratio", percent),
        ("delay mean", "delay_mean_ns", duration),
        ("delay p50", "delay_p50_ns", duration),
        ("delay p90", "delay_p90_ns", duration),
        ("delay p99", "delay_p99_ns", duration),
        ("delay p99.9", "delay_p999_ns", duration),
        ("jitter", "jitter_ns", duration),
    )

    def cells(model: str, name: str, shown: Callable[[float], str]) -> tuple[str, ...]:
        if not outcome.intervals.get(model):
            return (shown(models[model][name]),)
        ends = outcome.intervals[model].get(name, {}).get(TOLD_LEVEL)
        return shown(models[model][name]), f"{shown(ends[0])} to {shown(ends[1])}" if ends else "–"

    columns = [
        title
        for model in models
        for title in (model, *((f"{TOLD_LEVEL} % of trials",) if outcome.intervals.get(model) else ()))
    ]
    rows = [
        (label, *(cell for model in models for cell in cells(model, name, shown)))
        for label, name, shown in lines
    ]
    return [Table(("prediction", *columns), rows, right=tuple(columns))]


_RELATIVE: Final = "predicted minus measured in % (loss: percentage points)"


def verification(outcome: VerificationOutcome) -> list[Table]:
    """Errors per quantity and model: on single trials, on medians of repetitions, where extrapolated.

    None where the models cannot be judged.
    """
    if outcome.problem() is not None:
        return []
    kinds = (
        ("trial", False, f"single held-out trials, {_RELATIVE}"),
        ("setting", False, f"medians of the repetitions, {_RELATIVE}"),
        ("trial", True, f"single trials outside the profiled range, {_RELATIVE}"),
    )
    chosen = (
        (title, [row for row in outcome.errors if (row.per, row.extrapolated) == (per, extrapolated)])
        for per, extrapolated, title in kinds
    )
    return [_errors(rows, title) for title, rows in chosen if rows]


def _errors(rows: Sequence[ErrorRow], title: str) -> Table:
    """Relative errors (of loss, differences); the mean in the quantity's own unit as well."""
    covered = any(row.coverage_percent for row in rows)
    intervals = ("in 50/90/99 %",) if covered else ()
    columns = (
        "quantity",
        "model",
        "n",
        "mean abs.",
        "mean",
        "95 % CI of it",
        "std",
        "largest",
        "mean in unit",
        *intervals,
    )

    def cells(row: ErrorRow) -> tuple[str, ...]:
        found = row.relative or row.absolute
        off = row.absolute.mean
        own = duration(off) if row.unit == "ns" else f"{significant(off)} {row.unit}"
        # The others' median is off to both sides alike: the mean says nothing about repeatability.
        mean = (
            ("", "", "")
            if row.of_measurement
            else (
                f"{found.mean:+.2f}",
                f"{found.mean_low:+.2f} to {found.mean_high:+.2f}" if isfinite(found.mean_low) else "",
                own,
            )
        )
        share = "/".join(f"{level:.0f}" for level in row.coverage_percent.values())
        return (
            row.quantity,
            row.model,
            str(row.n),
            f"{found.mean_absolute:.2f}",
            *mean[:2],
            f"{found.std:.2f}" if isfinite(found.std) else "",
            f"{found.max:+.2f}",
            mean[2],
            *((share,) if covered else ()),
        )

    return Table(columns, [cells(row) for row in rows], title=title, right=columns[2:])
