"""The page in words: why the transfer was not faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from weirlab.cli.results import diagnosis as terminal
from weirlab.diagnosis.causes import PLACES
from weirlab.diagnosis.finding import Diagnosis
from weirlab.report.axes import Chart
from weirlab.report.figure import Figure
from weirlab.report.story import Chapter, PageOrigin, Story
from weirlab.report.tables import Tile
from weirlab.store import Run
from weirlab.trace.quantities import bit_rate, duration, percent, plural, size, words
from weirlab.transfers.tcp.page import charts, lines
from weirlab.transfers.tcp.show import facts
from weirlab.transfers.tcp.show import tables as shown
from weirlab.transfers.tcp.show.facts import agreement, crossings
from weirlab.transfers.tcp.study import kept as keeping
from weirlab.transfers.tcp.study.findings import PATH, between, captures_remarks, clocks_sentence, where
from weirlab.transfers.tcp.study.kept import TransferRecord

MOST_BARS: Final = 12
"""Connections with their own bar: those that moved the most data."""
_AXIS: Final = "time"
_OF_COUNTERS: Final = "The kernel's counters"
"""Begins what a table says, too."""
_RATES: Final = "bit/s"
_BYTES: Final = "bytes"

TERMS: Final = (
    (
        "Share of the time",
        "At each moment between the first data and the last, one cause holds the sender back. The shares add "
        "up to all of the time.",
    ),
    (
        "Congestion window",
        "How much data the sender's TCP allows in flight, so as not to overload the network. The receiver's "
        "window is what the receiver has room for. The smaller one is the limit.",
    ),
    ("In flight", "Data sent and not yet acknowledged."),
    (
        "Congestion window, estimated",
        "From a capture: the most data in flight of a round trip. There is no estimate while the receiver's "
        "window is the limit.",
    ),
    (
        "Round trip",
        "From a segment to its acknowledgement. The kernel's is smoothed (RFC 6298). The capture's is taken "
        "from each segment that was sent only once (Karn).",
    ),
    (
        "One-way delay",
        "From the capture at one end to the capture at the other. It is as accurate as the comparison of the "
        "two hosts' clocks. How much it grows does not depend on the clocks.",
    ),
    (
        "The kernel's counters",
        "busy_time, rwnd_limited and sndbuf_limited of TCP_INFO. They count in steps of 1 to 10 ms, and an "
        "application that writes more than once per round trip looks like the network to them.",
    ),
    (
        "Points of the charts",
        "Each point shows the greatest value in a piece of time; for windows, the least. All samples are in "
        "the tables of the run (weir export).",
    ),
)


def tell(run: Run) -> Story:
    """The page about ``run``; raises ``InputError`` if there is nothing to show."""
    kept, manifest = keeping.read(run), vars(run.manifest)
    path = run.get_json(PATH) if run.has(PATH) else {}
    axis = lines.axis(kept)
    return Story(
        subject=f"TCP transfer to {kept.transfer.host}" if kept.transfer.host else "TCP transfer",
        manifest=manifest,
        answer=_answer(kept),
        lede=tuple(
            shown.direction_sentence(summary, row.connections)
            for summary, row in zip(kept.summaries(), kept.directions, strict=True)
        ),
        caution=_caution(kept, path),
        where_note=_where(kept, manifest),
        tiles=tuple(_tiles(kept)),
        chapters=tuple(_chapters(kept, axis, path, manifest)),
        terms=TERMS,
        made_from=_origin(manifest),
    )


def _answer(kept: TransferRecord) -> str:
    best = kept.best
    if not best:
        return "There is too little data to say why the transfer was not faster."
    sentence = best[kept.busiest if kept.busiest in best else next(iter(best))].sentence
    if len(kept.connections) == 1:
        return sentence
    return f"Connection {kept.busiest}, which moved the most data: {sentence}"


def _caution(kept: TransferRecord, path: Mapping[str, Any]) -> str:
    said = [
        f"Connections broke off: {direction.failure}." for direction in kept.directions if direction.failure
    ]
    if kept.transfer.interrupted:
        said.append("The transfer was stopped early: the numbers cover the time until then.")
    said += [f"The emulated path did not keep up: {each}." for each in path.get("complaints", ())]
    return " ".join(said)


def _where(kept: TransferRecord, manifest: Mapping[str, Any]) -> str:
    transfer = kept.transfer
    host = str(manifest.get("host") or "an unnamed host")
    far = transfer.host or "a server in a namespace of this host, over an emulated path"
    capture = " ".join([_captured(kept), *captures_remarks(kept)]).strip()
    between = f"Measured on host {host} against {far}."
    if transfer.client:
        between = f"Measured between {transfer.client} and {far}, for host {host}."
    return f"{between} {clocks_sentence(transfer)} {capture}"


def _captured(kept: TransferRecord) -> str:
    made = [
        f"{where(end)} ({row.interface or 'an unnamed interface'})"
        for end, row in kept.captures.items()
        if not row.why_not
    ]
    return f"Packets were captured {words(made)}." if made else ""


def _origin(manifest: Mapping[str, Any]) -> PageOrigin:
    """The origin of a run. What earlier versions stored as its scenario is not a complete one."""
    made = PageOrigin.of_run(manifest)
    scenario = manifest.get("scenario") or {}
    if "name" in scenario:
        return made
    return PageOrigin(
        name="TCP transfer", source=made.source, date=made.date, run_id=made.run_id, again=made.again
    )


def _tiles(kept: TransferRecord) -> Iterator[Tile]:
    for direction in kept.directions:
        way = "to the server" if direction.direction == "up" else "from the server"
        yield Tile(
            f"Throughput {way}",
            bit_rate(direction.throughput_bps),
            f"{size(direction.received_bytes)} in {duration(direction.lasted_s * 1e9)}, "
            f"{plural(direction.connections, 'connection')}",
        )
    best = kept.best.get(kept.busiest)
    if best is None:
        return
    main, one = best.findings[0], best.summary
    yield Tile(
        "Main cause", percent(main.share), f"of the time {main.cause.held}; confidence {main.confidence}"
    )
    if one.rtt_mean_s is not None:
        least = "" if one.rtt_min_s is None else f"minimum {duration(one.rtt_min_s * 1e9)}"
        yield Tile("Round trip, mean", duration(one.rtt_mean_s * 1e9), least)
    if one.window_max_bytes is not None:
        allows = (
            ""
            if one.window_allows_bps is None
            else f"allows {bit_rate(one.window_allows_bps)} at that round trip"
        )
        yield Tile("Receiver's window, at most", size(one.window_max_bytes), allows)
    again = [
        direction.retransmissions for direction in kept.directions if direction.retransmissions is not None
    ]
    if again:
        lost = f"{percent(one.loss_ratio)} lost" if one.loss_ratio else "none lost"
        yield Tile("Retransmitted", plural(sum(again), "segment"), lost)


def _chapters(
    kept: TransferRecord, axis: lines.Axis, path: Mapping[str, Any], manifest: Mapping[str, Any]
) -> Iterator[Chapter]:
    yield _causes(kept)
    yield Chapter(
        "time",
        "Everything on one time axis",
        "Over time",
        intro="All times are by the client's clock. The charts zoom together.",
        figures=tuple(_over_time(kept, axis)),
        said=tuple(_unseen(kept)),
        missing="There is too little data to draw.",
    )
    yield _compared(kept)
    yield Chapter(
        "connection",
        "The connection" if len(kept.connections) == 1 else "The connections",
        facts=facts.connection(kept, kept.busiest) or None,
        tables=(facts.connections(kept),) if len(kept.connections) > 1 else (),
        details=tuple(_numbers(kept)),
        missing="Nothing else is known about it.",
        folded=len(kept.connections) == 1,
    )
    if rows := facts.path(path, manifest):
        yield Chapter("path", "The emulated path", "Path", facts=rows, tables=tuple(facts.frames(path)))


def _causes(kept: TransferRecord) -> Chapter:
    best = dict(sorted(kept.best.items(), key=lambda each: -_moved(kept, each[0]))[:MOST_BARS])
    if not best:
        return Chapter("causes", "Where the time went", missing="There is too little data to say.")
    single = len(best) == 1
    named = {
        "the transfer" if single else f"connection {number}": each for number, each in sorted(best.items())
    }
    frame = charts.cause_rows(named)
    one = best[kept.busiest] if kept.busiest in best else next(iter(best.values()))
    figure = Figure(
        key="causes",
        section="causes",
        panel="" if single else "by connection",
        title=_summed(one, single),
        caption="Percentages are of the time from the first data to the last.",
        alt="One bar: shares of the time by cause." if single else "A bar per connection: shares by cause.",
        chart=charts.causes(frame),
        data=frame,
    )
    told, *evidence = terminal.tables(one)
    remarks = [said for said in terminal.remarks(one) if not said.startswith(_OF_COUNTERS)]
    return Chapter(
        "causes",
        "Where the time went",
        figures=(figure,),
        said=tuple(remarks) if single else (),
        tables=(told,),
        details=tuple(each for each in evidence if each.caption == "What shows it"),
    )


def _moved(kept: TransferRecord, number: int) -> int:
    return next(
        (connection.received_bytes for connection in kept.connections if connection.connection == number), 0
    )


def _summed(found: Diagnosis, single: bool) -> str:
    parts = [
        f"{who} {percent(share)}"
        for who in ("sender", "receiver", "network", "unknown")
        if (share := found.of(who))
    ]
    who = "Held up" if single else "The busiest connection was held up"
    return f"{who} by: {', '.join(parts)}."


def _over_time(kept: TransferRecord, axis: lines.Axis) -> Iterator[Figure]:
    """A figure for each quantity that was recorded."""
    number = kept.busiest
    which = "" if len(kept.connections) == 1 else f"connection {number}, which moved the most data"
    every = "" if len(kept.connections) == 1 else "all connections together"
    coarse = lines.coarse(kept, axis)
    step = duration(axis.step_ns)

    def line(
        key: str, panel: str, title: str, y: str, unit: str, frame: pl.DataFrame, labels: str = charts.SCALED
    ) -> Iterator[Figure]:
        if frame.height:
            chart = charts.over_time(frame, axis, y, unit, labels=labels)
            yield _figure(key, panel, title, chart, frame)

    def events(key: str, title: str, y: str, unit: str, frame: pl.DataFrame) -> Iterator[Figure]:
        if frame.height:
            yield _figure(key, every, title, charts.events(frame, axis, f"{y} in {step}", unit), frame)

    frame = lines.throughput(kept, coarse)
    mean, most = sum(direction.throughput_bps for direction in kept.directions), _of(frame, "read")
    peak = f", at most {bit_rate(most)} in {duration(coarse.step_ns)}" if most > mean else ""
    title = f"{bit_rate(mean)} on average{peak}."
    yield from line("throughput", every, title, "Throughput, bit/s", _RATES, frame)
    frame = lines.sequence(kept, number, axis)
    title = f"{size(_most(frame))} had been written or sent in the end."
    yield from line("sequence", which, title, "Bytes so far", _BYTES, frame)
    frame = lines.window(kept, number, axis)
    cwnd, flight = (size(_of(frame, name)) for name in ("congestion window", "in flight"))
    title = f"The congestion window reached {cwnd}, the data in flight {flight}."
    yield from line("window", which, title, "Congestion window and flight, bytes", _BYTES, frame)
    frame = lines.round_trip(kept, number, axis)
    title = f"The round trip took {duration(_least(frame) * 1e6)} to {duration(_most(frame) * 1e6)}."
    yield from line("rtt", which, title, "Round trip, ms", "ms", frame, charts.PLAIN)
    frame = lines.one_way(kept, number, axis)
    title = " ".join(between(kept)[1:2]) or "One-way delays."
    yield from line("delay", which, title, "One-way delay, ms", "ms", frame, charts.PLAIN)
    frame = lines.buffers(kept, number, axis)
    yield from line("buffers", which, _buffers(frame), "Receiver's window and buffer, bytes", _BYTES, frame)
    frame = lines.unsent(kept, number, axis)
    title = f"At most {size(_most(frame))} was written but not yet sent."
    yield from line("unsent", which, title, "Written but not sent, bytes", _BYTES, frame)
    segments = sum(direction.retransmissions or 0 for direction in kept.directions)
    title = f"{plural(segments, 'segment')} retransmitted."
    frame = lines.retransmissions(kept, axis)
    yield from events("again", title, "Retransmitted segments", "segments", frame)
    again = sum(direction.retransmitted_bytes or 0 for direction in kept.directions)
    frame = lines.repeated(kept, axis)
    yield from events("again-bytes", f"{size(again)} retransmitted.", "Retransmitted bytes", _BYTES, frame)
    frame = lines.duplicates(kept, axis)
    title = f"{plural(round(float(frame['value'].sum())), 'duplicate ACK')} reached the sender."
    yield from events("duplicates", title, "Duplicate ACKs", "ACKs", frame)


def _figure(key: str, panel: str, title: str, chart: Chart, frame: pl.DataFrame) -> Figure:
    return Figure(
        key=f"time-{key}",
        section="time",
        panel=panel,
        title=title,
        caption="",
        alt="Over the time since the start; one line or point shape per source.",
        chart=chart,
        data=frame,
        linked=_AXIS,
    )


def _most(frame: pl.DataFrame) -> float:
    return float(frame["value"].max() or 0.0)  # type: ignore[arg-type]


def _least(frame: pl.DataFrame) -> float:
    return float(frame["value"].min() or 0.0)  # type: ignore[arg-type]


def _of(frame: pl.DataFrame, name: str) -> float:
    """The greatest value of all series whose names begin with ``name``."""
    return _most(frame.filter(pl.col("series").str.starts_with(name)))


def _buffers(frame: pl.DataFrame) -> str:
    windows = frame.filter(pl.col("series").str.starts_with("receiver's window"))
    unread = _of(frame, "received, not read")
    if windows.is_empty():
        said = "What the receiver's buffer held"
    else:
        said = f"The receiver's window was {size(_least(windows))} to {size(_most(windows))}"
    return f"{said}; at most {size(unread)} was unread." if unread else f"{said}."


def _unseen(kept: TransferRecord) -> Iterator[str]:
    again = [
        direction.retransmissions for direction in kept.directions if direction.retransmissions is not None
    ]
    if again and not any(again):
        yield "Nothing was retransmitted."


def _compared(kept: TransferRecord) -> Chapter:
    """What each place saw, and the kernel's own counters for comparison."""
    found = kept.diagnoses.get(kept.busiest, {})
    counters = next((each for each in found.values() if each.counters is not None), None)
    return Chapter(
        "places",
        "Seen from different places",
        "Places",
        intro="The diagnosis is made from the kernels' state, from each capture alone, and from the captures "
        "at both ends together, which show what happened to the data between them. The kernel's own counters "
        "are shown for comparison.",
        tables=tuple(
            table
            for table in (
                facts.places(found),
                facts.untold(found),
                *(terminal.between(found["both"]) if "both" in found else ()),
                *crossings(kept.crossings),
                *agreement(kept.agreement, many=len(kept.connections) > 1),
                None if counters is None else facts.counters(counters),
            )
            if table
        ),
        said=(*_said(found), *between(kept)),
        missing="No place saw enough data.",
        folded=True,
    )


def _said(found: Mapping[str, Diagnosis]) -> Iterator[str]:
    for source, each in found.items() if len(found) > 1 else ():
        yield f"{PLACES[source][:1].upper()}{PLACES[source][1:]}: {each.sentence}"


def _numbers(kept: TransferRecord) -> Iterator[Any]:
    best = kept.best.get(kept.busiest)
    if best is not None:
        yield from (table for table in terminal.tables(best) if table.caption == "Transfer")
