"""The page of ``weir quality``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from weirlab.studies.quality import page
from weirlab.studies.quality.study import QualityOutcome
from weirlab.trace.quantities import count, duration, size
from weirlab.trace.times import utc_date


def quality_page(outcome: QualityOutcome, out: Path, *, command: str) -> Path:
    """Write a page about ``outcome`` to ``out``; raises ``StoreError`` where that is impossible."""
    return page.build(assessed(outcome), out, command=command)


def assessed(outcome: QualityOutcome) -> page.Assessed:
    """What the page tells."""
    assumption, *notes = outcome.notes_on_streams()
    capture = outcome.capture
    lasted_ns = capture["last_ns"] - capture["first_ns"]
    return page.Assessed(
        name=outcome.path.name,
        date=utc_date(capture["first_ns"]),
        streams=pl.DataFrame([_row(outcome, i) for i in outcome.worst_first()], schema=_SCHEMA),
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


def _row(outcome: QualityOutcome, i: int) -> dict[str, Any]:
    stream, measured = outcome.streams[i], outcome.table.streams
    start_ns = outcome.capture["first_ns"]
    late = outcome.late[i]
    return {
        "stream": stream.number,
        "ends": stream.full_title,
        "source": stream.source,
        "codec": stream.codec_title,
        "packets": int(measured.received[i] + measured.duplicated[i]),
        "begin_s": (stream.first_ns - start_ns) / 1e9,
        "end_s": (stream.last_ns - start_ns) / 1e9,
        "mos": _known(outcome.mos[i]),
        "r": _known(outcome.r_factor[i]),
        "lost": int(measured.losses.count[i]) if stream.loss_known else None,
        "loss_ratio": _known(outcome.loss_ratio[i]),
        "loss_estimated": stream.loss_estimated,
        "longest_run": int(measured.losses.longest[i]) if stream.loss_known else None,
        "late": None if late is None else int(late),
        "copies": int(measured.duplicated[i]),
        "reordered": int(measured.reordered[i]),
        "jitter_ns": _known(measured.jitter_ns[i]),
        "jitter_max_ns": _known(measured.jitter_max_ns[i]),
        "delay_p95_ns": _known(measured.delay_p95_ns[i]),
        "gap_ns": _known(measured.longest_gap_ns[i]),
    }


def _known(value: float) -> float | None:
    return float(value) if value == value else None


def _found(outcome: QualityOutcome) -> str:
    shown = len(outcome.streams)
    return count(shown) if shown == outcome.found else f"{count(shown)} of {count(outcome.found)}"
