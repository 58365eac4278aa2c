"""A run while it is running: its attempts as points of a chart, and how long it takes."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from typing import Any, Final

from weirlab.base.errors import WeirError
from weirlab.base.quantities import clock
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.status import WorkerStatus, status_of
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


def work(run: Run, now_s: float) -> dict[str, Any] | None:
    """How far the steps of ``run`` are, and what its workers do; None for a run without steps.

    ``age_s`` is how long ago that was.
    """
    if (status := status_of(run)) is None:
        return None
    return {
        "age_s": max(now_s - status.at_s, 0.0),
        **{name: getattr(status, name) for name in ("done", "failed", "underway", "waiting")},
        "left": "" if status.left_s is None else clock(status.left_s),
        "items": status.items,
        "workers": [_worker(one, run.run_id, status.at_s) for one in status.workers],
    }


def _worker(one: WorkerStatus, run_id: str, now_s: float) -> dict[str, Any]:
    elsewhere = bool(one.run_id) and one.run_id != run_id
    return {
        "name": one.name,
        "tags": [f"{name}={value}" for name, value in sorted(one.tags.items())],
        "activity": one.activity,
        "why": one.quarantine or (one.lacking and f"lacks {one.lacking}"),
        # Of other runs nobody needs to know more.
        "doing": "another run" if elsewhere else one.doing,
        **{name: getattr(one, name) for name in ("done", "total", "steps", "failed", "trials")},
        "for": clock(max(now_s - one.since_s, 0.0)) if one.doing else "",
        "lease_left": clock(max(one.until_s - now_s, 0.0)) if one.doing and one.until_s else "",
        "heard_s": max(now_s - one.seen_s, 0.0),
    }


def expected_s(run: Run) -> float | None:
    """How long the whole run should take, s; None if its study cannot tell."""
    with suppress(WeirError):
        study = study_of(run)
        if (root := study.scenario()) is not None:
            return study.expected_s(scenario_of(run, root))
    return None
