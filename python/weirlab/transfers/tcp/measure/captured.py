"""What the captures at both ends show of a transfer, and whether the kernels say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from weirlab import trace
from weirlab.diagnosis import tracing
from weirlab.diagnosis.both import crossing, reading
from weirlab.diagnosis.both.crossing import CaptureLeg, ConnectionCrossing, Delays
from weirlab.diagnosis.both.reading import EndTrace
from weirlab.diagnosis.connection import is_scaled
from weirlab.trace.facts import Connection, SideName, side
from weirlab.trace.quantities import count
from weirlab.transfers.tcp.measure import samples
from weirlab.transfers.tcp.measure.measuring import siblings

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.trace.frames import Trace
    from weirlab.transfers.tcp.measure.capturing import End, TransferCapture
    from weirlab.transfers.tcp.measure.measuring import TransferMeasurement

Unit = Literal["segments", "bytes", "us"]
Place = Literal["sender", "receiver"]

LEAST_RTT: Final = 0.1
"""Minimum RTTs may differ by this share, or by ``SCATTER_US``: the host's delay between the two places."""
MEAN_RTT: Final = 0.2
"""The same for mean RTTs, which are weighted differently."""
SCATTER_US: Final = 200.0
EACH_ONCE: Final = "Bytes, each counted once"


@dataclass(frozen=True)
class QuantityAgreement:
    """A quantity by the sender's kernel, and by the capture at ``place``."""

    quantity: str
    unit: Unit
    place: Place
    kernel: float
    capture: float
    agrees: bool
    why: str
    """Why they differ, or may differ; empty if there is nothing to say."""


@dataclass(frozen=True)
class ConnectionCapture:
    """A connection in a capture, its sender, and the number of packets that the capture reports missing."""

    connection: Connection
    sender: SideName
    missing: int
    whole: bool
    """The capture covers the connection from beginning to end."""


def agreements(rows: pl.DataFrame, places: Mapping[Place, ConnectionCapture]) -> Iterator[QuantityAgreement]:
    """Everything that both sources report about a connection; ``rows``: reports of the sender's kernel."""
    told = _told(rows)
    for place, seen in places.items():
        yield from _counted(told, place, seen)
    if (at_sender := places.get("sender")) is not None:
        yield from _timed(rows, told, at_sender)


def _told(rows: pl.DataFrame) -> dict[str, int]:
    """Counters at the end; a connection that is gone has none."""
    found = {}
    for name in ("total_retrans", "bytes_retrans", "bytes_sent", "min_rtt_us", "snd_mss_bytes"):
        known = rows[name].drop_nulls() if name in rows.columns else pl.Series([], dtype=pl.UInt64)
        if known.len():
            # What only grows is greatest in the last report; for the others, the last report counts, too.
            found[name] = int(known[-1])
    return found


def _counted(told: Mapping[str, int], place: Place, seen: ConnectionCapture) -> Iterator[QuantityAgreement]:
    sent = side(seen.connection, seen.sender)
    again = sent["retransmissions"]
    missing = _missing(seen)
    if "bytes_sent" in told and "bytes_retrans" in told:
        once = told["bytes_sent"] - told["bytes_retrans"]
        yield _exact(EACH_ONCE, "bytes", place, once, sent["unique_bytes"], missing)
    arrived = "some retransmissions were lost on their way here" if place == "receiver" else ""
    if "bytes_retrans" in told:
        why = missing or arrived
        yield _exact("Bytes retransmitted", "bytes", place, told["bytes_retrans"], again["bytes"], why)
    if "total_retrans" in told:
        why = missing or arrived or _joined(told, sent["payload_max"])
        yield _exact("Segments retransmitted", "segments", place, told["total_retrans"], again["total"], why)


def _timed(
    rows: pl.DataFrame, told: Mapping[str, int], seen: ConnectionCapture
) -> Iterator[QuantityAgreement]:
    rtt = side(seen.connection, seen.sender)["rtt"]
    least, mean = rtt["min_ns"], rtt["mean_ns"]
    if least is not None and told.get("min_rtt_us"):
        yield _near(
            "Minimum round trip", told["min_rtt_us"], least / 1e3, LEAST_RTT,
            "the kernel's begins before, and ends after, the one that the capture sees",
        )  # fmt: skip
    known = rows["rtt_us"].drop_nulls() if "rtt_us" in rows.columns else pl.Series([], dtype=pl.UInt64)
    known = known.filter(known > 0)
    if mean is not None and known.len():
        yield _near(
            "Mean round trip", float(known.mean()), mean / 1e3, MEAN_RTT,  # type: ignore[arg-type]
            "the kernel's is smoothed (RFC 6298) and averaged over time; the capture's is averaged over ACKs "
            "of data that was sent once, so busy times weigh more",
        )  # fmt: skip


def _exact(quantity: str, unit: Unit, place: Place, kernel: int, capture: int, why: str) -> QuantityAgreement:
    agrees = kernel == capture
    said = "" if agrees else why or _AFTERWARDS
    return QuantityAgreement(quantity, unit, place, float(kernel), float(capture), agrees, said)


_AFTERWARDS: Final = "the kernel's last report is older than the last packet"


def _near(quantity: str, kernel: float, capture: float, part: float, why: str) -> QuantityAgreement:
    agrees = abs(kernel - capture) <= max(part * max(kernel, capture), SCATTER_US)
    return QuantityAgreement(
        quantity, "us", "sender", kernel, capture, agrees, why if kernel != capture else ""
    )


def _missing(seen: ConnectionCapture) -> str:
    if not seen.whole:
        return "the capture does not cover the whole transfer"
    if seen.missing:
        return f"{count(seen.missing)} packets came too fast to be captured"
    return ""


def _joined(told: Mapping[str, int], payload_max: int) -> str:
    """The network card splits what the kernel sends at once."""
    mss = told.get("snd_mss_bytes", 0)
    if mss and payload_max > mss:
        return "one captured packet holds several segments: the network card splits it later"
    return ""


At = Literal["sender", "between", "receiver"]
Section = Literal["all", "before", "behind"]

ORDER: Final = ("both", "sender", "between", "receiver")
"""The order of diagnoses: the one that shows most comes first."""
ENDS: Final[tuple[End, ...]] = ("client", "server", "between")
"""The order in which captures are read."""
SECTIONS: Final[Mapping[Section, tuple[At, At]]] = {
    "all": ("sender", "receiver"),
    "before": ("sender", "between"),
    "behind": ("between", "receiver"),
}
"""Sections of the path, each between two captures."""

SHOWN: Final[dict[str, Any]] = {
    "time_ns": pl.Int64,
    "acked_bytes": pl.Int64,
    "flight_bytes": pl.Int64,
    "window_bytes": pl.Int64,
    "cwnd_bytes": pl.Int64,
    "retransmissions": pl.Int64,
    "duplicate_acks": pl.Int64,
    "rtt_us": pl.Float64,
    "delay_us": pl.Float64,
    "connection": pl.Int64,
    "end": pl.String,
}
"""Characteristics packet by packet; ``delay_us``: the one-way delay from the other end to here. See
:func:`congestion_window`."""


@dataclass(frozen=True)
class CaptureResults:
    """What captures show, by connection; ``diagnoses`` are also by place, in the order of :data:`ORDER`."""

    packets: pl.DataFrame
    """See :data:`SHOWN`."""
    diagnoses: Mapping[int, Mapping[str, Diagnosis]]
    crossings: Mapping[int, Mapping[Section, ConnectionCrossing]]
    """For connections that were captured at two places from their beginning."""
    pairs: Mapping[int, tuple[QuantityAgreement, ...]]


@dataclass
class _CaptureAnalysis:
    """What has been found so far, by connection."""

    parts: list[pl.DataFrame] = field(default_factory=list)
    diagnoses: dict[int, dict[str, Diagnosis]] = field(default_factory=dict)
    looks: dict[int, dict[At, EndTrace]] = field(default_factory=dict)
    seen: dict[int, dict[Place, ConnectionCapture]] = field(default_factory=dict)


def captured(
    captures: Mapping[End, TransferCapture], measured: TransferMeasurement, target_bps: float | None = None
) -> CaptureResults:
    """Read all captures. A capture that lacks a connection contributes nothing to it."""
    found = _CaptureAnalysis()
    crossings: dict[int, dict[Section, ConnectionCrossing]] = {}
    with ExitStack() as stack:
        # The capture in between is read last, and its times are converted to the clock of the ends.
        for end, capture in sorted(captures.items(), key=lambda each: ENDS.index(each[0])):
            if capture.path is not None:
                read = stack.enter_context(trace.read(capture.path, series=True))
                _take(read, capture, end, measured, target_bps, found)
        for number, looks in found.looks.items():
            legs = {place: look.leg() for place, look in looks.items()}
            crossings[number] = _sections(legs)
            if "sender" in looks and "receiver" in looks:
                _both(looks, legs, number, measured, target_bps, found)
    packets = pl.concat(found.parts) if found.parts else pl.DataFrame(schema=SHOWN)
    pairs = {
        number: tuple(agreements(samples.of(measured.samples, number, "sender"), places))
        for number, places in found.seen.items()
    }
    diagnoses = {
        number: {place: each for place in ORDER if (each := by_place.get(place)) is not None}
        for number, by_place in found.diagnoses.items()
    }
    return CaptureResults(
        packets.sort("connection", "end", "time_ns", maintain_order=True), diagnoses, crossings, pairs
    )


def _take(
    read: Trace,
    capture: TransferCapture,
    end: End,
    measured: TransferMeasurement,
    target_bps: float | None,
    found: _CaptureAnalysis,
) -> None:
    """Add what one capture shows of each connection."""
    # Without its handshake, a connection may have its client as b.
    sides: tuple[SideName, SideName] = ("a", "b")
    ends = {
        (each[client]["addr"], each[client]["port"]): (each, client, server)
        for each in read.facts["connections"]
        for client, server in (sides[::-1], sides)
    }
    for number, one in enumerate(measured.outcome.started["connections"]):
        if (named := ends.get(tuple(one["local"]))) is None:
            continue
        connection, client, server = named
        shifts = samples.window_shifts(measured.samples, number)
        if shifts is not None and not is_scaled(connection):
            connection = read.scale_windows(connection, dict(zip((client, server), shifts, strict=True)))
        up = measured.ups[number]
        name = client if up else server
        if not side(connection, name)["data_packets"]:
            continue
        place = _place(end, up)
        beside = siblings(measured, number)
        diagnosis = tracing.read(read, connection, name, place=place, target_bps=target_bps, siblings=beside)
        if diagnosis is not None:
            found.diagnoses.setdefault(number, {})[place] = diagnosis
        if place != "between":
            found.seen.setdefault(number, {})[place] = ConnectionCapture(
                connection, name, capture.lost_packets, not (capture.left_out_packets or capture.ended_early)
            )
        if connection["begin"] == "handshake":
            looks = found.looks.setdefault(number, {})
            look = EndTrace(read, connection, name, capture.shift_ns, capture.whole)
            if capture.unclocked and (shift_ns := _shift_ns(look, looks)) is not None:
                capture.shift_ns, capture.unclocked = shift_ns, False
                look = replace(look, shift_ns=shift_ns)
            looks[place] = look
        shown = _shown(read, connection, name, capture.shift_ns)
        found.parts.append(_labelled(shown, number, end))


def _place(end: End, up: bool) -> At:
    if end == "between":
        return "between"
    return "sender" if up == (end == "client") else "receiver"


def _shift_ns(look: EndTrace, others: Mapping[At, EndTrace]) -> int | None:
    """What to add to times of a capture in between to get those of a capture at an end.

    The least delays in the two directions are assumed to be equal.
    """
    leg = look.leg()
    for place, other in others.items():
        ways = (other.leg(), leg) if place == "sender" else (leg, other.leg())
        found, *_ = crossing.cross(*ways)
        if found.there is not None and found.back is not None:
            ahead_ns = (found.there.least - found.back.least) / 2
            return round(-ahead_ns if place == "sender" else ahead_ns)
    return None


def _sections(legs: Mapping[At, CaptureLeg]) -> dict[Section, ConnectionCrossing]:
    """What happened to a connection's data from each capture to the next one, and all the way."""
    return {
        section: crossing.cross(legs[one], legs[other])[0]
        for section, (one, other) in SECTIONS.items()
        if one in legs and other in legs
    }


def _both(
    looks: Mapping[At, EndTrace],
    legs: Mapping[At, CaptureLeg],
    number: int,
    measured: TransferMeasurement,
    target_bps: float | None,
    found: _CaptureAnalysis,
) -> None:
    """Add what the captures at both ends show of a connection."""
    ends, up = (legs["sender"], legs["receiver"]), measured.ups[number]
    _, there, back = crossing.cross(*ends)
    found.parts.append(_delays(there, number, "server" if up else "client"))
    found.parts.append(_delays(back, number, "client" if up else "server"))
    beside = siblings(measured, number)
    diagnosis = reading.read(looks["sender"], looks["receiver"], ends, target_bps=target_bps, siblings=beside)
    if diagnosis is not None:
        found.diagnoses.setdefault(number, {})["both"] = diagnosis


def _labelled(rows: pl.DataFrame, number: int, end: End) -> pl.DataFrame:
    named = rows.with_columns(pl.lit(number).alias("connection"), pl.lit(end).alias("end"))
    return named.select(pl.col(name).cast(kind) for name, kind in SHOWN.items())


def _delays(found: Delays, number: int, end: End) -> pl.DataFrame:
    rows = pl.DataFrame({"time_ns": found.time_ns, "delay_us": found.delay_ns / 1e3})
    others = [name for name in SHOWN if name not in (*rows.columns, "connection", "end")]
    return _labelled(rows.with_columns(pl.lit(None).alias(name) for name in others), number, end)


def congestion_window(rows: pl.DataFrame, round_trip_ns: int, segment_bytes: int) -> pl.DataFrame:
    """``rows`` with ``cwnd_bytes``: the most data in flight of the last round trip.

    That is the congestion window of a sender that always has data. It is null while the receiver's window has
    no room for another segment: then that is the limit, and the congestion window is at least as large.
    """
    most = pl.col("flight_bytes").rolling_max_by("time_ns", f"{max(round_trip_ns, 1)}i")
    has_room = most + segment_bytes <= pl.col("window_bytes").forward_fill()
    return rows.with_columns(pl.when(has_room.fill_null(True)).then(most).alias("cwnd_bytes"))


def _shown(read: Trace, facts: Connection, name: SideName, shift_ns: int) -> pl.DataFrame:
    """Characteristics of one connection in the capture, packet by packet."""
    connection, sent = facts["id"], side(facts, name)
    # Polars 2.1 hangs now and then if it stacks and sorts both while it reads them.
    rows = read.scan_segments().filter(pl.col("connection") == connection).collect()
    ours = pl.col("from_side") == name
    window = pl.col("window_bytes") if is_scaled(facts) else pl.lit(None, pl.Int64)
    again = pl.col("meaning").is_in(["timeout", "fast", "tail_probe", "unexplained"]) & ours
    rtt = (
        read.scan_rtt()
        .filter(pl.col("connection") == connection, pl.col("from_side") == name, pl.col("method") == "ack")
        .collect()
    )
    both = rows.select(
        "time_ns",
        pl.when(~ours).then(pl.col("ack")).cum_max().forward_fill().alias("acked_bytes"),
        pl.when(ours).then(pl.col("flight_bytes")).alias("flight_bytes"),
        pl.when(~ours).then(window).alias("window_bytes"),
        again.cum_sum().alias("retransmissions"),
        (~ours & (pl.col("meaning") == "duplicate_ack")).cum_sum().alias("duplicate_acks"),
        pl.lit(None, pl.Float64).alias("rtt_us"),
        pl.lit(None, pl.Float64).alias("delay_us"),
    )
    trips = rtt.select(
        "time_ns",
        *(pl.lit(None, pl.Int64).alias(each) for each in ("acked_bytes", "flight_bytes", "window_bytes")),
        *(pl.lit(None, pl.UInt32).alias(each) for each in ("retransmissions", "duplicate_acks")),
        (pl.col("rtt_ns") / 1e3).alias("rtt_us"),
        pl.lit(None, pl.Float64).alias("delay_us"),
    )
    stacked = pl.concat([both, trips], how="vertical_relaxed").sort("time_ns", maintain_order=True)
    found = stacked.with_columns(pl.col("acked_bytes").forward_fill(), pl.col("time_ns") + shift_ns)
    return congestion_window(found, sent["rtt"]["min_ns"] or 0, sent["payload_max"] or 0)
