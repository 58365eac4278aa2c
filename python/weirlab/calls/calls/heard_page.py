"""The page about calls through a device, from what a run stores."""

from __future__ import annotations

import json

import polars as pl

from weirlab.base.errors import InputError
from weirlab.calls.calls.page.story import CallsRun, tell
from weirlab.quality.jitterbuffer import USUAL, BufferChoice, Buffers
from weirlab.report.story import Story
from weirlab.store import Run
from weirlab.store.codec import spec_from_json
from weirlab.traffic.calls.spec import describe


def page(run: Run) -> Story:
    """The page about the calls of ``run``."""
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
        CallsRun(
            vars(run.manifest),
            trial,
            _behind(choice, run.calls().filter(mine)),
            run.series().filter(mine),
            what,
            (Buffers(**buffer) if buffer else USUAL).describe(choice),
        )
    )


def _behind(choice: BufferChoice, calls: pl.DataFrame) -> pl.DataFrame:
    """The table with ``mos`` and ``late`` behind the requested buffer."""
    if choice != "best":
        return calls.with_columns(mos=pl.col(f"mos_{choice}"), late=pl.col(f"late_{choice}"))
    fixed = pl.col("mos_fixed") >= pl.col("mos_adaptive")
    return calls.with_columns(late=pl.when(fixed).then("late_fixed").otherwise("late_adaptive"))
