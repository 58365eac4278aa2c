"""Runs that are told in chapters: what their pages are made from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import polars as pl

from weirlab.errors import InputError
from weirlab.jobs.searches import RESULT, RFC2544, SEARCH
from weirlab.quality.jitterbuffer import USUAL, BufferChoice, Buffers
from weirlab.report.story import Story
from weirlab.store import Run
from weirlab.store.codec import spec_from_json


def _capacity(run: Run) -> Story:
    from weirlab.report.capacity import Findings, tell

    if not run.has_table("capacity"):
        raise InputError(f"run {run.run_id} was interrupted before its first trial with calls: {_go_on(run)}")
    inside = run.table("inside") if run.has_table("inside") else pl.DataFrame()
    found = run.get_json("capacity", dict) if run.has("capacity") else {}
    return tell(Findings(vars(run.manifest), run.table("capacity"), inside, found))


def _failover(run: Run) -> Story:
    from weirlab.measure.failover import CALLS, SERIES, SWITCHES, compare, conclusions, rows_of
    from weirlab.report.failover import Campaign, tell

    if not run.has_table(SWITCHES):
        raise InputError(f"run {run.run_id} was interrupted before its first switch: {_go_on(run)}")
    switches = run.table(SWITCHES)
    groups = compare(rows_of(switches))
    return tell(
        Campaign(
            manifest=vars(run.manifest),
            switches=switches,
            calls=run.table(CALLS) if run.has_table(CALLS) else pl.DataFrame(),
            series=run.table(SERIES) if run.has_table(SERIES) else pl.DataFrame(),
            groups=[group.to_json() for group in groups],
            said=tuple(conclusions(groups)),
            load=run.get_json("load", dict) if run.has("load") else {},
        )
    )


def _monitor(run: Run) -> Story:
    from weirlab.jobs.monitor import evidence_of
    from weirlab.measure.monitor import TRIALS
    from weirlab.report.monitor import tell

    if not run.has_table(TRIALS):
        raise InputError(f"run {run.run_id} was interrupted before its first trial: {_go_on(run)}")
    return tell(evidence_of(run))


def _go_on(run: Run) -> str:
    return f"go on with weir run --resume {run.run_id}"


def _calls(run: Run) -> Story:
    from weirlab.report.calls import Heard, tell
    from weirlab.traffic.calls.spec import describe

    trials = run.trials()
    if not trials.height:
        raise InputError(f"run {run.run_id} was interrupted before its first trial: make the calls again")
    # The last attempt counts, as for every trial.
    trial = trials.row(-1, named=True)
    mine = pl.col("trial_id") == trial["trial_id"]
    calls = spec_from_json(json.loads(trial["spec"])).traffic.calls
    what = "calls" if calls is None else describe(calls)
    buffer = {**run.manifest.section("calls").get("jitter_buffer", {})}
    choice: BufferChoice = buffer.pop("heard", "best")
    return tell(
        Heard(
            vars(run.manifest),
            trial,
            _behind(choice, run.calls().filter(mine)),
            run.series().filter(mine),
            what,
            (Buffers(**buffer) if buffer else USUAL).describe(choice),
        )
    )


def _behind(choice: BufferChoice, calls: pl.DataFrame) -> pl.DataFrame:
    """The table with ``mos`` and ``late`` behind the buffer that was asked for."""
    if choice != "best":
        return calls.with_columns(mos=pl.col(f"mos_{choice}"), late=pl.col(f"late_{choice}"))
    fixed = pl.col("mos_fixed") >= pl.col("mos_adaptive")
    return calls.with_columns(late=pl.when(fixed).then("late_fixed").otherwise("late_adaptive"))


def _search(run: Run) -> Story:
    from weirlab.report.search import Searched, tell

    return tell(Searched(vars(run.manifest), run.trials(), _found(run)))


def _rfc2544(run: Run) -> Story:
    from weirlab.report.search import Searched, tell_rfc2544

    return tell_rfc2544(Searched(vars(run.manifest), run.trials(), _found(run)))


def _found(run: Run) -> list[dict[str, Any]]:
    """What was found in each setting so far."""
    found = run.get_json(RESULT, _points) if run.has(RESULT) else []
    if not found and run.manifest.status == "interrupted":
        raise InputError(f"run {run.run_id} was interrupted before anything was found: search again")
    return found


def _points(content: list[Any]) -> list[dict[str, Any]]:
    return [dict(point) for point in content]


STORIES: Final[Mapping[str, Callable[[Run], Story]]] = {
    "capacity": _capacity,
    "failover": _failover,
    "monitor": _monitor,
    "calls": _calls,
    SEARCH: _search,
    RFC2544: _rfc2544,
}
"""By kind of run."""
