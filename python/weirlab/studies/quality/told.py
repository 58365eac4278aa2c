"""The streams of a capture: tables and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.cli.output import Table
from weirlab.cli.quantities import NOTHING, clock, count, duration, percent, plural

if TYPE_CHECKING:
    from weirlab.quality.assess import Heard
    from weirlab.studies.quality.study import QualityOutcome

_SHOWN: Final = 30
"""Streams in a table; JSON has all."""


def sentence(outcome: QualityOutcome) -> str:
    """How many streams lost nothing, and which was worst."""
    streams, mos = outcome.streams, outcome.mos
    known = np.array([stream.loss_known for stream in streams])
    lossless = int((known & (outcome.table.streams.losses.count == 0)).sum())
    lasted_s = (outcome.capture["last_ns"] - outcome.capture["first_ns"]) / 1e9
    lasted = clock(lasted_s) if lasted_s >= 2 else duration(lasted_s * 1e9)
    said = f"{plural(len(streams), 'voice stream')} in {lasted}"
    if known.any():
        said += ", none with loss" if lossless == len(streams) else f", {count(lossless)} without loss"
    if not known.all():
        said += f", {count(int((~known).sum()))} with unknown loss"
    delay = (
        "network delay not measured"
        if outcome.table.network_ms is None
        else f"network delay {outcome.table.network_ms:g} ms as given"
    )
    if np.isnan(mos).all():
        return f"{said}; no MOS is known."
    worst = int(np.nanargmin(mos))
    median = f"median MOS {np.nanmedian(mos):.2f}, worst" if np.isfinite(mos).sum() > 2 else "worst MOS"
    many = f"{median if len(streams) > 1 else 'MOS'} {mos[worst]:.2f}"
    which = f" (stream {streams[worst].number}, {percent(outcome.loss_ratio[worst])} lost)"
    return f"{said}; {many}{which}; {delay}."


def tables(outcome: QualityOutcome) -> list[Table]:
    """What streams there are, and what was heard of each."""
    shown = sorted(outcome.worst_first()[:_SHOWN])
    left = len(outcome.streams) - len(shown)
    title = f"the worst {len(shown)}; {count(left)} others are in --json" if left else ""
    return [_streams(outcome, shown, title), _measured(outcome, shown), _heard(outcome, shown)]


def _streams(outcome: QualityOutcome, shown: list[int], title: str) -> Table:
    columns = ("stream", "from > to", "source", "codec", "clock", "packet", "packets", "lasts")
    rows = [
        (
            str(stream.number),
            stream.full_title,
            stream.source,
            stream.codec_title,
            f"{stream.clock_hz:,} Hz" if stream.clock_hz else NOTHING,
            duration(float(outcome.table.packet_ns[i])) if stream.clock_hz else NOTHING,
            count(int(outcome.table.streams.received[i] + outcome.table.streams.duplicated[i])),
            duration(float(stream.last_ns - stream.first_ns)),
        )
        for i, stream in ((i, outcome.streams[i]) for i in shown)
    ]
    return Table(columns, rows, title=title, right=("stream", *columns[4:]))


def _measured(outcome: QualityOutcome, shown: list[int]) -> Table:
    columns = (
        "stream", "lost", "share", "runs", "longest", "burst ratio", "copies", "reordered", "jitter mean",
        "max", "longest gap",
    )  # fmt: skip
    measured = outcome.table.streams
    rows = [
        (
            str(outcome.streams[i].number),
            *_lost(outcome, i),
            _decimals(float(measured.losses.burst_ratio[i]), 2),
            count(int(measured.duplicated[i])),
            count(int(measured.reordered[i])),
            duration(float(measured.jitter_ns[i])),
            duration(float(measured.jitter_max_ns[i])),
            duration(float(measured.longest_gap_ns[i])),
        )
        for i in shown
    ]
    return Table(columns, rows, title="what arrived", right=columns)


def _lost(outcome: QualityOutcome, i: int) -> tuple[str, ...]:
    stream, losses = outcome.streams[i], outcome.table.streams.losses
    if not stream.loss_known:
        return (NOTHING,) * 4
    return (
        ("~" if stream.loss_estimated else "") + count(int(losses.count[i])),
        percent(float(outcome.loss_ratio[i])),
        count(int(losses.runs[i])),
        count(int(losses.longest[i])),
    )


def _heard(outcome: QualityOutcome, shown: list[int]) -> Table:
    columns = (
        "stream", "delay p50", "p95", "p99", "max", "late, fixed", "MOS, fixed",
        "late, adaptive", "MOS, adaptive", "R", "MOS",
    )  # fmt: skip
    table, measured = outcome.table, outcome.table.streams
    rows = [
        (
            str(outcome.streams[i].number),
            *(
                duration(float(values[i]))
                for values in (
                    measured.delay_p50_ns,
                    measured.delay_p95_ns,
                    measured.delay_p99_ns,
                    measured.delay_max_ns,
                )
            ),
            _late(outcome, table.fixed, i),
            _decimals(float(table.fixed.mos[i]), 2),
            _late(outcome, table.adaptive, i),
            _decimals(float(table.adaptive.mos[i]), 2),
            _decimals(float(outcome.r_factor[i]), 1),
            _decimals(float(outcome.mos[i]), 2),
        )
        for i in shown
    ]
    title = "what was heard; delays beyond that of the stream's fastest packet"
    return Table(columns, rows, title=title, right=columns)


def _late(outcome: QualityOutcome, buffer: Heard, i: int) -> str:
    """Packets that came too late, where the time stamps tell."""
    return count(int(buffer.late[i])) if np.isfinite(outcome.table.streams.delay_max_ns[i]) else NOTHING


def _decimals(value: float, decimals: int) -> str:
    return NOTHING if np.isnan(value) else f"{value:.{decimals}f}"
