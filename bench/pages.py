"""The results of ``bench/model.py`` as tables: the same on the terminal and in Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import targets
from scoring import COVERAGE_OF, RunScores, coverage, medians
from simulated import Recovery
from targets import ERRORS, Verdict
from weirlab.cli.quantities import significant
from weirlab.model import LohmillerModel, PiecewiseModel, QueueingModel
from weirlab.model.base import LEVELS
from weirlab.model.score import REPEATABILITY

MODELS = (QueueingModel.name, PiecewiseModel.name, LohmillerModel.name, REPEATABILITY)

VERDICTS = ("target", "found", "wanted", "verdict")
"""Columns of a table of verdicts."""

LEGEND = (
    "Errors: mean absolute error of single held-out trials in percent of the measured value (loss: in "
    "percentage points), the median of the runs. Repeatability: each trial predicted by the other "
    "repetitions of its setting. Below: up to 90 % of the threshold. Coverage: held-out values within "
    f"the interval, over {', '.join(COVERAGE_OF)}. No held-out setting was profiled, and every run draws "
    "new ones."
)


@dataclass(frozen=True)
class Table:
    """A table with its title."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def of_device(device: str, runs: Sequence[RunScores]) -> list[Table]:
    """Errors, coverage and times of one device, and the verdicts on its targets."""
    scores = medians(runs)

    def error(model: str, quantity: str) -> str:
        found = scores.get((model, quantity))
        return "–" if found is None or math.isnan(found.error) else f"{found.error:.2f}"

    shown = [(f"{what}, %", quantity) for what, quantity, _, _ in ERRORS]
    shown += [("mean delay near, %", "delay_mean_near"), ("jitter, %", "jitter"), ("loss, points", "loss")]
    errors = [
        (what, *(error(model, quantity) for model in MODELS), _ratio(scores, quantity))
        for what, quantity in shown
    ]
    wanted: list[tuple[str, str, tuple[str, ...]]] = [
        (model, "those with a target", COVERAGE_OF) for model in MODELS[:2]
    ]
    wanted += [(MODELS[0], quantity, (quantity,)) for quantity in (*COVERAGE_OF, "jitter", "loss")]
    covered = [
        (model, what, *(_percent([coverage([run], level, model, of) for run in runs]) for level in LEVELS))
        for model, what, of in wanted
    ]
    speeds = [run.speed for run in runs]
    times = [
        ("fit of the queueing model", _ms([each.fit_s for each in speeds])),
        ("fit of all models with intervals", _ms([each.fit_all_s for each in speeds])),
        ("one prediction", _ms([each.predict_s for each in speeds])),
        ("10,000 predictions at once", _ms([each.predict_many_s for each in speeds])),
    ]
    trials = ", ".join(f"{run.profile_trials} + {run.held_out_trials}" for run in runs)
    return [
        Table(
            f"{device}: {len(runs)} runs of {trials} trials (profile + held out)",
            ("error", *MODELS, "queueing is"),
            errors,
        ),
        Table(f"{device}: coverage", ("model", "quantity", *(f"{level} %" for level in LEVELS)), covered),
        Table(f"{device}: time", ("what", "median"), times),
        of_verdicts(f"{device}: targets", targets.of_device(runs)),
    ]


def of_recovery(found: Recovery) -> list[Table]:
    """How well the parameters of simulated devices were recovered."""
    title = f"{len(found.devices)} simulated devices"
    parameters = [
        (name, f"{each.median_percent:.2f}", f"{each.largest_percent:.2f}", str(each.missing))
        for name, each in found.parameters.items()
    ]
    covered = [tuple(f"{found.coverage_percent[level]:.1f}" for level in LEVELS)]
    return [
        Table(
            f"{title}: error of the parameters, %", ("parameter", "median", "largest", "missing"), parameters
        ),
        Table(f"{title}: coverage", tuple(f"{level} %" for level in LEVELS), covered),
        of_verdicts(f"{title}: targets", targets.of_recovery(found)),
    ]


def of_verdicts(title: str, verdicts: Sequence[Verdict]) -> Table:
    """The targets, and whether they were met."""
    rows = [(each.what, each.found, each.limit, str(each)) for each in verdicts]
    return Table(title, VERDICTS, rows)


def markdown(
    title: str,
    facts: Mapping[str, object],
    tables: Sequence[Table],
    notes: Sequence[str],
    legend: str = LEGEND,
) -> str:
    """The summary as a page."""
    lines = [f"# {title}", "", *(f"- {name}: {value}" for name, value in facts.items())]
    for table in tables:
        lines += ["", f"## {table.title}", "", "| " + " | ".join(table.columns) + " |"]
        lines += ["|" + "---|" * len(table.columns)]
        lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    if notes:
        lines += ["", "## Left out", "", *(f"- {note}" for note in notes)]
    return "\n".join([*lines, "", legend, ""])


def _ratio(scores: Mapping[tuple[str, str], object], quantity: str) -> str:
    ours, theirs = (getattr(scores.get((model, quantity)), "error", math.nan) for model in MODELS[:2])
    if not (math.isfinite(ours) and math.isfinite(theirs) and ours > 0 and theirs > 0):
        return "–"
    return f"{theirs / ours:.1f} x better" if ours < theirs else f"{ours / theirs:.1f} x worse"


def _percent(values: Sequence[float]) -> str:
    known = [value for value in values if math.isfinite(value)]
    return f"{statistics.median(known):.1f}" if known else "–"


def _ms(seconds: Sequence[float]) -> str:
    return f"{significant(1000 * statistics.median(seconds))} ms"
