"""Fits, predictions and verifications as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, duration, percent, rate, significant
from weirlab.cli.results.tables import effects
from weirlab.model.base import TOLD_LEVEL
from weirlab.model.wording import determined, with_error
from weirlab.report import numbers

if TYPE_CHECKING:
    from weirlab.devices.prediction.modelling import DevicesOutcome, FitOutcome
    from weirlab.devices.prediction.outcome import PredictionOutcome
    from weirlab.devices.prediction.verification import VerificationOutcome
    from weirlab.model import ErrorRow
    from weirlab.model.base import Parameter


def fit(outcome: FitOutcome, *, details: bool = False) -> list[Table]:
    """Parameters, as ``details`` or not, and what was compared without any model."""
    return [*parameters(outcome.models, details=details), *effects(outcome.effects)]


def parameters(models: Mapping[str, Any], *, details: bool = False) -> list[Table]:
    """The parameters of every model that has any; empty if none has."""
    rows = []
    for name, model in models.items():
        told = getattr(model, "parameters", None)
        for one in told() if callable(told) else ():
            rows.append((one.name, with_error(one.value, one.stderr, one.unit), one.meaning, name))
    columns = ("Parameter", "Value ± standard error", "Meaning", "Model")
    caption = "Parameters of the models"
    return [Table(caption, columns, rows, spare=("Model",), details=details)] if rows else []


def _known(one: Parameter | None) -> str:
    if one is None:
        return NOTHING
    return significant(one.value, 4) if determined(one.value, one.stderr) else "not determined"


def devices(outcome: DevicesOutcome) -> list[Table]:
    """The devices' parameters, side by side."""
    found = {
        name: {p.name: p for p in fit.queueing.parameters()} if fit.queueing else {}
        for name, fit in zip(outcome.names, outcome.fits, strict=True)
    }
    first = {p.name: p for parameters in found.values() for p in parameters.values()}
    rows = [
        (
            name,
            *(_known(own.get(name)) for own in found.values()),
            parameter.unit,
            parameter.meaning,
        )
        for name, parameter in first.items()
    ]
    columns = ("Parameter", *found, "Unit", "Meaning")
    return [Table("Queueing model", columns, rows)]


def prediction(outcome: PredictionOutcome) -> list[Table]:
    """One column per model, and one with the interval for a single trial if the model gives one."""
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
        return shown(models[model][name]), f"{shown(ends[0])} to {shown(ends[1])}" if ends else NOTHING

    columns = [
        title
        for model in models
        for title in (model, *((f"{TOLD_LEVEL} % of trials",) if outcome.intervals.get(model) else ()))
    ]
    rows = [
        (label, *(cell for model in models for cell in cells(model, name, shown)))
        for label, name, shown in lines
    ]
    return [Table("Prediction", ("", *columns), rows)]


_NAMES: Final = {
    "threshold": "Threshold",
    "delay_mean_below": "Mean delay, below",
    "delay_p50_below": "Median delay, below",
    "delay_p90_below": "p90 delay, below",
    "delay_p99_below": "p99 delay, below",
    "delay_p999_below": "p99.9 delay, below",
    "delay_mean_near": "Mean delay, near",
    "delay_p99_near": "p99 delay, near",
    "delay_mean_overload": "Mean delay, overload",
    "delay_p50_overload": "Median delay, overload",
    "delay_mean_all": "Mean delay, all loads",
    "jitter": "Jitter, all loads",
    "loss": "Loss, all loads",
}
"""Loads below the threshold, near it and beyond it."""
_KINDS: Final = (
    ("trial", False, "Errors on single held-out trials"),
    ("setting", False, "Errors on the medians of the repetitions"),
    ("trial", True, "Outside the profiled range: errors on single trials"),
)
_COLUMNS: Final = (
    "Quantity", "Model", "n", "Mean abs. error", "Mean error", "95 % CI", "Std. dev.", "Largest",
)  # fmt: skip
_COVERAGE: Final = "In 50/90/99 %"


def verification(outcome: VerificationOutcome) -> list[Table]:
    """How far each model is off, in short and as details; empty if the models cannot be judged."""
    if outcome.problem() is not None:
        return []
    return [*_summary(outcome.errors), *(replace(table, details=True) for table in errors(outcome.errors))]


def _summary(rows: Iterable[ErrorRow]) -> list[Table]:
    """A row per quantity, a column per model."""
    single = [row for row in rows if (row.per, row.extrapolated) == ("trial", False)]
    models = tuple(dict.fromkeys(row.model for row in single))
    shown = {(row.quantity, row.model): _error_cells(row)[3] for row in single}
    cells = [
        (_NAMES.get(quantity, quantity), *(shown.get((quantity, model), NOTHING) for model in models))
        for quantity in dict.fromkeys(row.quantity for row in single)
    ]
    caption = "Mean absolute errors on single held-out trials"
    return [Table(caption, ("Quantity", *models), cells)] if cells else []


def errors(rows: Iterable[ErrorRow]) -> list[Table]:
    """Predicted minus measured: on single trials, on medians of repetitions, and where extrapolated."""
    known = list(rows)
    tables: list[Table] = []
    for per, extrapolated, caption in _KINDS:
        chosen = [row for row in known if (row.per, row.extrapolated) == (per, extrapolated)]
        if chosen:
            tables.append(_errors(chosen, caption, details=bool(tables)))
    return tables


def _errors(rows: Sequence[ErrorRow], caption: str, *, details: bool) -> Table:
    covered = any(row.coverage_percent for row in rows)
    columns = (*_COLUMNS, _COVERAGE) if covered else _COLUMNS
    lines = [(*_error_cells(row), *((_coverage(row),) if covered else ())) for row in rows]
    spare = ("95 % CI", *((_COVERAGE,) if covered else ()), "Std. dev.", "n")
    return Table(caption, columns, lines, spare=spare, details=details)


def _error_cells(row: ErrorRow) -> tuple[str, ...]:
    """Relative errors; of loss, differences. The mean in the quantity's own unit as well."""
    found, unit = (row.relative, "%") if row.relative else (row.absolute, row.unit)
    own = f" ({_error(row.absolute.mean, row.unit)})" if row.relative else ""
    interval = NOTHING
    if math.isfinite(found.mean_low):
        interval = f"{_error(found.mean_low, '')} to {_error(found.mean_high, unit)}"
    # The median of the others is off to both sides alike: a mean says nothing about repeatability.
    mean = (NOTHING, NOTHING) if row.of_measurement else (_error(found.mean, unit) + own, interval)
    return (
        _NAMES.get(row.quantity, row.quantity),
        row.model,
        numbers.count(row.n),
        _error(found.mean_absolute, unit, signed=False),
        *mean,
        _error(found.std, unit, signed=False),
        _error(found.max, unit),
    )


def _coverage(row: ErrorRow) -> str:
    return "/".join(f"{share:.0f}" for share in row.coverage_percent.values()) or NOTHING


def _error(value: float, unit: str, *, signed: bool = True) -> str:
    if not math.isfinite(value):
        return NOTHING
    sign = ("+" if value > 0 else "−" if value < 0 else "") if signed else ""
    shown = {"ns": numbers.duration, "pps": numbers.rate}.get(unit)
    return sign + (shown(abs(value), 2) if shown else f"{significant(abs(value), 2)} {unit}".strip())


def alarms(rows: Iterable[ErrorRow]) -> str:
    """A sentence on loss that was predicted where none was measured; empty without held-out trials."""
    told = [
        f"{row.model} {row.false_alarms:,} of {row.n:,}"
        for row in rows
        if row.false_alarms is not None and (row.per, row.extrapolated) == ("trial", False)
        and not row.of_measurement
    ]  # fmt: skip
    return f"Trials without loss for which loss was predicted: {', '.join(told)}." if told else ""
