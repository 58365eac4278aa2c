"""``weir transients``, and what ``weir predict --step`` prints."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from weirlab.base.tables import Table
from weirlab.cli.options import DeviceOption, ResultOptions, completing, grouped
from weirlab.cli.quantities import duration, percent, plural, rate, rules, words

if TYPE_CHECKING:
    from weirlab.devices.prediction.transients import OverTimeOutcome, TransientsOutcome

TRANSIENTS = """Compare what followed load steps with what the models predict.

For every trial with steps in RUN, this shows the mean delay bin by bin,
measured and predicted, its peak, and how long it takes to settle. The run's
own models learn from these trials which spike follows a step up in rate. With
--model, the models of another run or file are used instead, and learn
nothing.

Examples:
  weir transients last
  weir transients 20260131-1200 --model last
  weir transients 20260131-1200 --model devices.json --device old --json
"""


def add_to(app: typer.Typer) -> None:
    app.command("transients", help=TRANSIENTS, rich_help_panel="Model")(grouped(transients))


def transients(
    ctx: typer.Context,
    *,
    run: Annotated[
        str,
        typer.Argument(
            help="Run ID, its beginning, or 'last'.", metavar="RUN", autocompletion=completing.runs
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="Model file or run with other models.", metavar="MODEL")
    ] = None,
    device: DeviceOption = None,
    result: ResultOptions,
) -> None:
    from weirlab.devices.prediction.transients import compare_steps

    with result.session(ctx) as session:
        outcome = compare_steps(session.store, run, source=model, device=device)
        session.finish(outcome.document(), compared(outcome), comparison_tables(outcome))


def comparison_tables(outcome: TransientsOutcome) -> list[Table]:
    """One table per trial with steps, a row per step and model."""
    columns = (
        "Step at", "Model", "Delay error", "Until settled", "Loss error", "Peak", "Peak predicted",
        "Settles in", "Predicted to settle in",
    )  # fmt: skip
    spare = ("Predicted to settle in", "Settles in")
    tables = []
    for comparison in outcome.comparisons:
        rows = [
            (
                duration(error.at_ns), name, percent(error.mape), percent(error.unsettled_mape),
                percent(error.loss_error), duration(error.peak_ns), duration(error.predicted_peak_ns),
                duration(error.settle_ns), duration(error.predicted_settle_ns),
            )
            for name, errors in comparison.errors.items()
            for error in errors
        ]  # fmt: skip
        trials = plural(len(comparison.series.trial_ids), "trial")
        title = (
            f"{comparison.what} ({comparison.setup}; {trials}, bins of {duration(comparison.series.bin_ns)})"
        )
        tables.append(Table(title, columns, rows, spare=spare))
    return tables


def compared(outcome: TransientsOutcome) -> str:
    """How far the models are off after steps, in a sentence."""
    parts = []
    for name, spike in outcome.spikes.items():
        found = [error.unsettled_mape for c in outcome.comparisons for error in c.errors[name]]
        if not found:
            continue
        error = percent(sum(found) / len(found))
        told = f"{name} is off by {error} in the mean delay until it has settled"
        if spike:
            size, fading = duration(spike.ns_per_pps * 1e5), duration(spike.decay_ns)
            told += f", with a spike of {size} per 100 kpps that fades in {fading}"
        parts.append(told)
    steps = sum(len(next(iter(c.errors.values()), ())) for c in outcome.comparisons)
    return f"After {plural(steps, 'step')}, {'; '.join(parts) or 'there is nothing to compare'}."


_NARROW: Final = 2
"""Models that a narrow terminal has room for."""


def over_time_tables(outcome: OverTimeOutcome) -> list[Table]:
    """A row per instant: mean and 99th percentile of the delay and the loss by each model."""
    models = tuple(outcome.predictions)
    shown: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("mean", "delay_mean_ns", duration),
        ("p99", "delay_p99_ns", duration),
        ("loss", "loss_ratio", percent),
    )
    columns = ("Time", *(f"{name} {label}" for name in models for label, *_ in shown))
    rows = []
    for instant, values in outcome.telling():
        numbers = [form(values[name][quantity]) for name in models for _, quantity, form in shown]
        rows.append((_instant(instant, outcome.steps_ns), *numbers))
    # Once nothing changes any more, the first and the last row of it are enough.
    rows = [
        row
        for i, row in enumerate(rows)
        if i in (0, len(rows) - 1) or row[1:] != rows[i - 1][1:] or row[0].startswith("before")
    ]
    return [Table(outcome.rate_text, columns, rows, spare=columns[1 + _NARROW * len(shown) :])]


def over_time(outcome: OverTimeOutcome) -> str:
    """What the last step does, in a sentence."""
    name, course = next(iter(outcome.predictions.items()))
    before, after = outcome.phases[-2:]
    start = outcome.steps_ns[-1]
    inside = course.at_ns >= start
    final, peak = float(course.delay_mean_ns[-1]), float(course.delay_mean_ns[inside].max())
    near = abs(course.delay_mean_ns - final) <= 0.1 * final
    away = course.at_ns[inside & ~near]
    settled = float(away[-1] - start) if len(away) else 0.0
    changes = []
    if after.rate_pps != before.rate_pps:
        changes.append(f"from {rate(before.rate_pps)} to {rate(after.rate_pps)}")
    if after.position != before.position:
        changes.append(f"from {rules(before.position)} to {rules(after.position)}")
    lead = "Extrapolated: after" if outcome.outside else "After"
    at_once = settled <= 0 or not math.isfinite(settled)
    how = "at once" if at_once else f"within {duration(settled)}"
    lost = float(course.loss_ratio[-1])
    fate = f", {percent(lost)} lost" if lost > 0 else ""
    from weirlab.cli.results.tables import of_device

    return of_device(
        outcome.simulated,
        f"{lead} the step {words(changes) or 'that changes nothing'} the mean delay settles {how} at "
        f"{duration(final)}{fate}; it peaks at {duration(peak)} ({name} model).",
    )


def _instant(instant_ns: float, steps_ns: tuple[float, ...]) -> str:
    """A time as text; after a step, how long after it."""
    for start in reversed(steps_ns):
        if instant_ns >= start:
            return f"{start / 1e9:g} s" + (f" + {duration(instant_ns - start)}" if instant_ns > start else "")
        if instant_ns > start * (1 - 1e-9):
            return f"before {start / 1e9:g} s"
    return f"{instant_ns / 1e9:g} s"
