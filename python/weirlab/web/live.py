"""A run while it is running: its attempts as points of a chart, and how long it takes."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from typing import Any, Final

from weirlab.base.errors import WeirError
from weirlab.jobs.inventory import scenario_of
from weirlab.store import Run
from weirlab.studies.registry import study_of

MOST_POINTS: Final = 2000
"""Most attempts that a chart shows: the last ones."""
_SERIES: Final = {
    "sizes_text": "{} B",
    "position": "{} rules",
    "places": "rules at {}",
    "stateful": "connection tracking {}",
    "cross_traffic": "cross traffic {}",
}
"""Columns by which the trials of a run may differ, and how a series is called."""


def attempts(run: Run) -> dict[str, Any]:
    """The attempts of ``run`` so far, in the order in which they were made.

    ``points`` have ``series``, ``rate_pps`` as achieved, mean delay in ns (None if nothing arrived), ``loss``
    from 0 to 1, and ``invalid``: why the attempt does not count, empty if it does. ``left_out`` counts those
    before the last :data:`MOST_POINTS`.
    """
    trials = run.trials().sort("started_at", "index", "attempt")
    shown = trials.tail(MOST_POINTS)
    varying = [name for name in _SERIES if shown[name].n_unique() > 1]
    return {
        "points": [_point(row, varying) for row in shown.iter_rows(named=True)],
        "left_out": trials.height - shown.height,
        "valid": int(trials["valid"].sum()),
    }


def _point(row: dict[str, Any], varying: list[str]) -> dict[str, Any]:
    named = (_SERIES[name].format(_value(row[name])) for name in varying if row[name] not in (None, ""))
    return {
        "series": ", ".join(named),
        "rate_pps": _number(row["achieved_pps"]),
        "delay_ns": _number(row["delay_mean_ns"]),
        "loss": _number(row["loss_ratio"]),
        "invalid": "" if row["valid"] else row["invalid"] or "it does not count",
    }


def _value(value: Any) -> Any:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _number(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def expected_s(run: Run) -> float | None:
    """How long the whole run should take, s; None if its study cannot tell."""
    with suppress(WeirError):
        study = study_of(run)
        if (root := study.scenario()) is not None:
            return study.expected_s(scenario_of(run, root))
    return None
