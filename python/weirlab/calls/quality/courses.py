"""The course of voice streams: how much was lost and how late packets came, second by second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weirlab import _engine
from weirlab.calls.quality.streams import CaptureStream
from weirlab.calls.quality.study import QualityOutcome, voice_packets
from weirlab.quality.captures import place
from weirlab.quality.packets import StreamPackets

MOST_STREAMS: Final = 4
"""More lines cannot be told apart."""
_PERIOD_NS: Final = 1_000_000_000
_MOST_PERIODS: Final = 600

F64 = npt.NDArray[np.float64]
Periods = npt.NDArray[np.integer]
"""The period in which each packet was sent."""
Course = Callable[[StreamPackets, int, Periods, int], F64]
"""A value for each period, of a row of streams; NaN without one."""


def courses(heard: QualityOutcome) -> dict[str, Any] | None:
    """How the worst streams of a capture went, at most :data:`MOST_STREAMS`.

    ``time_s`` since their first packet; and ``charts``: ``title``, ``unit`` and ``lines`` with ``source`` and
    ``values``, None where there is none.

    Only time stamps of speech by a known clock tell when packets were sent; None if no stream has such.
    """
    timed = np.isfinite(heard.table.streams.delay_max_ns)
    chosen = [heard.streams[row] for row in heard.worst_first() if timed[row]][:MOST_STREAMS]
    if not chosen:
        return None
    read = _engine.rtp_packets(str(heard.path), [], [], (0, 1))
    counted = [(stream.number, read["streams"][stream.number - 1]) for stream in chosen]
    clock_hz = np.array([stream.clock_hz for stream in chosen], dtype=np.int64)
    _, packets, _ = place(voice_packets(read["packets"], counted), clock_hz)
    begin_ns = int(packets.sent_ns.min())
    lasted_ns = int(packets.sent_ns.max()) - begin_ns
    period_ns = max(_PERIOD_NS, -(-lasted_ns // _MOST_PERIODS))
    period = (packets.sent_ns - begin_ns) // period_ns
    periods = lasted_ns // period_ns + 1

    def chart(
        title: str, unit: str, values: Course, known: Callable[[CaptureStream], bool] = lambda _: True
    ) -> dict[str, Any]:
        lines = [
            {
                "source": f"stream {stream.number}, {stream.title}",
                "values": _values(values(packets, row, period, periods)),
            }
            for row, stream in enumerate(chosen)
            if known(stream)
        ]
        return {"title": title, "unit": unit, "lines": lines}

    found = (
        chart("Lost", "%", _lost_percent, lambda stream: stream.loss_known),
        chart("Latest packet, after the fastest", "ms", _latest_ms),
    )
    return {
        "time_s": (np.arange(periods) * (period_ns / 1e9)).tolist(),
        "charts": [each for each in found if each["lines"] and periods > 1],
    }


def _lost_percent(packets: StreamPackets, row: int, period: Periods, periods: int) -> F64:
    own = slice(packets.start[row], packets.start[row + 1])
    sent = np.bincount(period[own], minlength=periods)
    lost = np.bincount(period[own], weights=packets.lost[own], minlength=periods)
    return np.where(sent > 0, 100 * lost / np.maximum(sent, 1), np.nan)


def _latest_ms(packets: StreamPackets, row: int, period: Periods, periods: int) -> F64:
    own = packets.timed[packets.timed_start[row] : packets.timed_start[row + 1]]
    found = np.full(periods, -np.inf)
    np.maximum.at(found, period[own], (packets.arrival_ns[own] - packets.sent_ns[own]) / 1e6)
    return np.where(np.isfinite(found), found, np.nan)


def _values(column: F64) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 3) for value in column]
