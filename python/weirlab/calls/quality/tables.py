"""The streams of a capture as tables, and the course of each: what was lost and how late packets came."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from weirlab import _engine
from weirlab.base.tables import Table
from weirlab.calls.quality.finding import TITLES
from weirlab.calls.quality.streams import CaptureStream, directions
from weirlab.calls.quality.study import QualityOutcome, voice_packets
from weirlab.quality.captures import place
from weirlab.quality.packets import StreamPackets
from weirlab.report.numbers import NOTHING, count, decimals, duration, percent

if TYPE_CHECKING:
    from weirlab.quality.assess import PlayoutQuality

Row = Mapping[str, Any]

_COLUMNS: Final = (
    "Stream", "From > to", "Codec", "MOS", "Cause", "R", "Lost", "Lost behind", "Longest run", "Late",
    "Jitter", "Max. jitter", "Delay p95", "Longest gap", "Copies", "Reordered", "Packets", "Duration",
    "Source",
)  # fmt: skip
_SPARE: Final = (
    "Source", "Duration", "Packets", "Reordered", "Copies", "Longest gap", "Max. jitter", "Delay p95", "R",
    "Longest run", "Lost behind",
)  # fmt: skip


def rows(outcome: QualityOutcome) -> list[dict[str, Any]]:
    """Streams in numbers, the worst first; None for what is unknown."""
    return [_row(outcome, i) for i in outcome.worst_first()]


def streams(listed: Iterable[Row], caption: str) -> Table:
    """A row per stream, from what :func:`rows` gives."""
    cells = [
        (
            str(row["stream"]),
            row["ends"],
            row["codec"],
            decimals(row["mos"]),
            row["causes"] or NOTHING,
            decimals(row["r"], 1),
            _lost(row),
            percent(row["lost_beyond"]),
            count(row["longest_run"]),
            count(row["late"]),
            *map(duration, (row["jitter_ns"], row["jitter_max_ns"], row["delay_p95_ns"], row["gap_ns"])),
            *map(count, (row["copies"], row["reordered"], row["packets"])),
            duration((row["end_s"] - row["begin_s"]) * 1e9),
            row["source"],
        )
        for row in listed
    ]
    return Table(caption, _COLUMNS, cells, spare=_SPARE)


def of(outcome: QualityOutcome, most: int) -> list[Table]:
    """The ``most`` worst streams; as details, what arrived of them and what jitter buffers made of it."""
    listed = outcome.worst_first()[:most]
    left = len(outcome.streams) - len(listed)
    caption = f"The {len(listed)} worst streams; --json has all {count(len(outcome.streams))}"
    shown = streams([_row(outcome, i) for i in listed], caption if left else "Streams, the worst first")
    details = (_arrived(outcome, listed), _heard(outcome, listed), *_reported(outcome, listed))
    return [*calls(outcome, most), shown, *details]


def calls(outcome: QualityOutcome, most: int) -> list[Table]:
    """The ``most`` worst calls by SIP that were answered and have streams; no table without any."""
    row_of = {stream.number: row for row, stream in enumerate(outcome.streams)}
    start_ns, last_ns = outcome.capture["first_ns"], outcome.capture["last_ns"]
    complaints: dict[int, dict[str, None]] = {}
    for finding in outcome.findings:
        if finding.kind in TITLES:
            for number in finding.streams:
                complaints.setdefault(number, {})[finding.kind] = None
    found = []
    for call in outcome.calls:
        ways = () if call["answered_ns"] is None else directions(call, outcome.streams, last_ns)
        own = [row_of[stream.number] for way in ways for stream in way]
        if not own:
            continue
        worst = float(np.nanmin([*outcome.mos[own], np.inf]))
        told = dict.fromkeys(kind for row in own for kind in complaints.get(outcome.streams[row].number, ()))
        why = dict.fromkeys(cause for row in own for cause in outcome.causes[row])
        cells = (
            f"{call['from']} > {call['to']}",
            duration(call["answered_ns"] - start_ns),
            NOTHING if call["ended_ns"] is None else duration(call["ended_ns"] - call["answered_ns"]),
            *(_numbers(way) for way in reversed(ways)),
            decimals(worst),
            ", ".join((*told, *why)) or NOTHING,
        )
        found.append(("one-way audio" not in told, worst, cells))
    if not found:
        return []
    left = len(found) - most
    caption = "Calls by SIP, the worst first" + (f"; --json has all {count(len(found))}" if left > 0 else "")
    columns = ("Call", "Answered", "Lasted", "To callee", "To caller", "Worst MOS", "Cause")
    found.sort(key=lambda each: each[:2])
    return [Table(caption, columns, [cells for *_, cells in found[:most]], spare=("Lasted", "Answered"))]


def _numbers(way: Sequence[CaptureStream]) -> str:
    """Streams in one direction: ``stream 3, 5``."""
    return ", ".join(str(stream.number) for stream in way) or NOTHING


def _arrived(outcome: QualityOutcome, shown: Sequence[int]) -> Table:
    columns = ("Stream", "Clock", "Clock skew", "Packet time", "Loss runs", "Burst ratio")
    losses = outcome.table.streams.losses
    cells = [
        (
            str(stream.number),
            f"{stream.clock_hz:,} Hz" if stream.clock_hz else NOTHING,
            _skew(float(outcome.table.skew[i])),
            duration(float(outcome.table.packet_ns[i])) if stream.clock_hz else NOTHING,
            count(int(losses.runs[i])) if stream.loss_known else NOTHING,
            decimals(float(losses.burst_ratio[i])) if stream.loss_known else NOTHING,
        )
        for i, stream in ((i, outcome.streams[i]) for i in shown)
    ]
    return Table("Packets and loss", columns, cells, details=True)


def _reported(outcome: QualityOutcome, shown: Sequence[int]) -> list[Table]:
    """What receivers say by RTCP; no table if none says anything."""
    columns = (
        "Stream", "Reports", "Lost", "Lost behind the capture", "Jitter", "Round trip", "Network",
        "Claimed R", "Claimed MOS-CQ",
    )  # fmt: skip
    cells = []
    for i in shown:
        far, network_ns = outcome.streams[i].far_end, float(outcome.table.network_ns[i])
        if far is None:
            continue
        claim = far["claim"] or {}
        cells.append(
            (
                str(outcome.streams[i].number),
                count(far["reports"]),
                percent(far["loss_ratio"]),
                percent(float(outcome.table.beyond[i])),
                duration(far["jitter_mean_ns"]),
                duration(far["round_trip_mean_ns"]),
                duration(_known(network_ns)),
                count(claim.get("r")),
                decimals(claim.get("mos_cq"), 1),
            )
        )
    caption = "What receivers report (RTCP); the round trip is that from the capture on"
    return [Table(caption, columns, cells, details=True)] if cells else []


def _heard(outcome: QualityOutcome, shown: Sequence[int]) -> Table:
    columns = (
        "Stream", "Delay p50", "p95", "p99", "Max.", "Late, fixed", "Slips, fixed", "MOS, fixed",
        "Late, adaptive", "MOS, adaptive",
    )  # fmt: skip
    table, measured = outcome.table, outcome.table.streams
    delays = (measured.delay_p50_ns, measured.delay_p95_ns, measured.delay_p99_ns, measured.delay_max_ns)
    cells = [
        (
            str(outcome.streams[i].number),
            *(duration(float(values[i])) for values in delays),
            *_behind(outcome, table.fixed, i, slips=True),
            *_behind(outcome, table.adaptive, i),
        )
        for i in shown
    ]
    caption = "Delay beyond that of the stream's fastest packet, and jitter buffers"
    return Table(caption, columns, cells, details=True)


def _behind(outcome: QualityOutcome, buffer: PlayoutQuality, i: int, *, slips: bool = False) -> list[str]:
    """Packets that were not played and slips, if the time stamps show them, and the MOS."""
    known = math.isfinite(outcome.table.streams.delay_max_ns[i])
    numbers = [buffer.late[i], *([buffer.slips[i]] if slips else [])]
    return [
        *(count(int(number)) if known else NOTHING for number in numbers),
        decimals(float(buffer.mos[i])),
    ]


def _skew(rate: float) -> str:
    """``+100 ppm`` if the sender's clock is fast; a dash if none shows."""
    return f"{-rate * 1e6:+.0f} ppm" if math.isfinite(rate) else NOTHING


def _row(outcome: QualityOutcome, i: int) -> dict[str, Any]:
    stream, measured = outcome.streams[i], outcome.table.streams
    start_ns = outcome.capture["first_ns"]
    late = outcome.late[i]
    return {
        "stream": stream.number,
        "ends": stream.full_title,
        "source": stream.source,
        "codec": stream.codec_title,
        "packets": int(measured.received[i] + measured.duplicated[i]) + stream.repeats,
        "begin_s": (stream.first_ns - start_ns) / 1e9,
        "end_s": (stream.last_ns - start_ns) / 1e9,
        "mos": _known(outcome.mos[i]),
        "r": _known(outcome.r_factor[i]),
        "lost": int(measured.losses.count[i]) if stream.loss_known else None,
        "loss_ratio": _known(outcome.loss_ratio[i]),
        "loss_estimated": stream.loss_estimated,
        "causes": ", ".join(outcome.causes[i]),
        "lost_beyond": float(outcome.table.beyond[i]) if outcome.table.reported[i] else None,
        "longest_run": int(measured.losses.longest[i]) if stream.loss_known else None,
        "late": None if late is None else int(late),
        "copies": int(measured.duplicated[i]),
        "reordered": int(measured.reordered[i]),
        "jitter_ns": _known(measured.jitter_ns[i]),
        "jitter_max_ns": _known(measured.jitter_max_ns[i]),
        "delay_p95_ns": _known(measured.delay_p95_ns[i]),
        "gap_ns": _known(measured.longest_gap_ns[i]),
    }


def _lost(row: Row) -> str:
    """``~20 (4.0 %)``."""
    if row["lost"] is None:
        return NOTHING
    share = "" if not row["lost"] or row["loss_ratio"] is None else f" ({percent(row['loss_ratio'])})"
    return f"{'~' if row['loss_estimated'] else ''}{count(row['lost'])}{share}"


def _known(value: float) -> float | None:
    return float(value) if value == value else None


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
