"""The page of ``weir quality``."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from weirlab.calls.quality import page, tables
from weirlab.calls.quality.study import QualityOutcome
from weirlab.trace.quantities import count, duration, size
from weirlab.trace.times import utc_date


def quality_page(outcome: QualityOutcome, out: Path, *, command: str) -> Path:
    """Write a page about ``outcome`` to ``out``; raises ``StoreError`` if that is impossible."""
    return page.build(assessed(outcome), out, command=command)


def assessed(outcome: QualityOutcome) -> page.StreamAssessment:
    """What the page shows."""
    assumption, *notes = outcome.notes_on_streams()
    capture = outcome.capture
    lasted_ns = capture["last_ns"] - capture["first_ns"]
    return page.StreamAssessment(
        name=outcome.path.name,
        date=utc_date(capture["first_ns"]),
        streams=pl.DataFrame(tables.rows(outcome), schema=_SCHEMA),
        capture=[
            ("File", str(outcome.path)),
            ("Format", str(capture["format"])),
            ("Packets", f"{count(capture['packets'])} ({size(capture['bytes'])})"),
            ("Lasts", duration(lasted_ns)),
            ("Voice streams", _found(outcome)),
            ("MOS behind the jitter buffer", outcome.buffers.describe(outcome.heard)),
        ],
        assumption=assumption,
        notes=(*notes, *outcome.notes_on_capture()),
    )


_SCHEMA = {
    "stream": pl.Int64,
    "ends": pl.String,
    "source": pl.String,
    "codec": pl.String,
    "packets": pl.Int64,
    "begin_s": pl.Float64,
    "end_s": pl.Float64,
    "mos": pl.Float64,
    "r": pl.Float64,
    "lost": pl.Int64,
    "loss_ratio": pl.Float64,
    "loss_estimated": pl.Boolean,
    "longest_run": pl.Int64,
    "late": pl.Int64,
    "copies": pl.Int64,
    "reordered": pl.Int64,
    "jitter_ns": pl.Float64,
    "jitter_max_ns": pl.Float64,
    "delay_p95_ns": pl.Float64,
    "gap_ns": pl.Float64,
}


def _found(outcome: QualityOutcome) -> str:
    shown = len(outcome.streams)
    return count(shown) if shown == outcome.found else f"{count(shown)} of {count(outcome.found)}"
