"""What is known about the connections, what each place saw, and the emulated path; as tables and pairs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from weirlab.base.quantities import NOTHING
from weirlab.base.tables import Table
from weirlab.diagnosis.causes import PLACES
from weirlab.trace.quantities import bit_rate, count, duration, octets, percent, size
from weirlab.transfers.tcp.measure import samples

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.report.tables import Pairs
    from weirlab.transfers.tcp.study.columns import AgreementRow, CrossingRow
    from weirlab.transfers.tcp.study.kept import TransferRecord

_OPTIONS: Final = ((1, "time stamps"), (2, "SACK"), (4, "window scaling"), (8, "ECN"))
"""Bits of ``options`` (``TCPI_OPT_*``)."""
_COUNTERS: Final = {
    "application": ("nothing to send", ("application_write",)),
    "receiver": ("receiver", ("application_read", "receiver_host", "receive_window", "window_scaling")),
    "send_buffer": ("send buffer", ("send_buffer",)),
    "network": ("network", ()),
}
"""What the kernel's counters are called, and the causes that belong to each; the network has the others."""


def connection(kept: TransferRecord, number: int) -> Pairs:
    """The facts about a connection."""
    rows = samples.of(kept.samples, number, "sender")
    far = samples.of(kept.samples, number, "receiver")
    found: list[tuple[str, str]] = []
    for each in kept.connections:
        if each.connection == number:
            found += [
                ("Client", each.local),
                ("Server", each.remote),
                ("Congestion control", each.congestion),
            ]
            found += [(name, _value(value)) for name, value in json.loads(each.options).items()]
    found += [
        ("Segment size", _last(rows, "snd_mss_bytes", octets)),
        ("Path MTU", _last(rows, "pmtu_bytes", octets)),
        ("Options in use", _options(rows)),
        ("Window scale, sender / receiver", _scales(rows)),
        ("Send buffer", _last(rows, "skmem_sndbuf_bytes", size)),
        ("Receive buffer of the receiver", _last(far, "skmem_rcvbuf_bytes", size)),
        ("Minimum round trip", _last(rows, "min_rtt_us", lambda us: duration(us * 1e3))),
        ("Slow-start threshold at the end", _threshold(rows)),
        ("Segments with data sent", _last(rows, "data_segs_out", count)),
        ("Spurious retransmissions (DSACK)", _last(rows, "dsack_dups", count)),
        ("Retransmission time-outs", _last(rows, "total_rto", count)),
        ("Segments received out of order", _last(far, "rcv_ooopack", count)),
    ]
    return [(name, value) for name, value in found if value not in ("", NOTHING)]


def connections(kept: TransferRecord) -> Table:
    """A row per connection."""
    rows = [
        (
            str(each.connection),
            each.local or NOTHING,
            "to the server" if each.direction == "up" else "from the server",
            size(each.received_bytes),
            bit_rate(each.throughput_bps),
            count(each.retransmissions),
            duration(each.rtt_mean_us * 1e3),
            best.main.held if (best := kept.best.get(each.connection)) is not None else NOTHING,
        )
        for each in kept.connections
    ]
    columns = (
        "#", "Client", "Direction", "Received", "Throughput", "Retransmitted", "Mean RTT", "Main cause",
    )  # fmt: skip
    return Table("Connections", columns, rows)


def places(found: Mapping[str, Diagnosis]) -> Table | None:
    """What each place shows about one connection; None without any."""
    rows = [
        (
            PLACES[each.source],
            each.main.held,
            percent(each.findings[0].share),
            each.findings[0].confidence,
            bit_rate(each.summary.throughput_bps),
            count(each.summary.retransmitted),
            NOTHING if each.summary.rtt_mean_s is None else duration(each.summary.rtt_mean_s * 1e9),
            size(each.summary.window_max_bytes),
        )
        for each in found.values()
    ]
    columns = (
        "Seen from", "Main cause", "Share", "Confidence", "Throughput", "Retransmitted", "Mean RTT",
        "Greatest window",
    )  # fmt: skip
    return Table("The same transfer from each place", columns, rows) if rows else None


def untold(found: Mapping[str, Diagnosis]) -> Table | None:
    """What cannot be told, and from which places; None if there is nothing to list."""
    places: dict[tuple[str, str], list[str]] = {}
    for each in found.values():
        for blind in each.blind:
            places.setdefault((blind.what, blind.why), []).append(PLACES[each.source])
    rows = [(what, "; ".join(by), why) for (what, why), by in places.items()]
    return Table("What cannot be told", ("What", "From", "Why"), rows) if rows else None


def counters(found: Diagnosis) -> Table:
    """The kernel's counters beside the diagnosis, and whether they are right."""
    wrong = {each.partition(":")[0]: each.partition("; ")[2] for each in found.counters_wrong}
    named = {key for _, keys in _COUNTERS.values() for key in keys}
    rows = []
    for name, (said, keys) in _COUNTERS.items():
        mine = [
            finding.share
            for finding in found.findings
            if finding.cause.key in keys or (not keys and finding.cause.key not in named)
        ]
        why = wrong.get(name.replace("_", " "))
        rows.append(
            (said, percent((found.counters or {})[name]), percent(sum(mine)), f"wrong: {why}" if why else "")
        )
    columns = ("Held up by", "Counters", "Diagnosis", "")
    return Table("The kernel's own counters, and the diagnosis", columns, rows)


def path(told: Mapping[str, Any], manifest: Mapping[str, Any]) -> Pairs:
    """The emulated path as the scenario requests it; empty without one."""
    asked = ((manifest.get("scenario") or {}).get("tcp") or {}).get("path") or {}
    if not told:
        return []
    ways = (("both", "Both directions"), ("up", "Client to server"), ("down", "Server to client"))
    return [
        (name, ", ".join(f"{key} {value}" for key, value in asked[way].items()))
        for way, name in ways
        if asked.get(way)
    ]


def frames(told: Mapping[str, Any]) -> Iterator[Table]:
    """What happened to the frames on the emulated path."""
    rows = [
        (
            name,
            count(each["arrived"]),
            count(each["sent"]),
            count(each["lost"]),
            count(each["dropped_full"] + each["dropped_early"]),
            count(each["held_back"]),
            bit_rate(each["carried_bps"]),
        )
        for way, name in (("up", "Client to server"), ("down", "Server to client"))
        if (each := told.get(way))
    ]
    columns = (
        "", "Frames", "Carried", "Lost", "Dropped by the queue", "Reordered", "Rate while frames waited",
    )  # fmt: skip
    if rows:
        yield Table("Frames on the emulated path", columns, rows)


def _last(rows: pl.DataFrame, name: str, say: Any) -> str:
    if name not in rows.columns:
        return NOTHING
    known = rows[name].drop_nulls()
    return str(say(float(known[-1]))) if known.len() else NOTHING


def _options(rows: pl.DataFrame) -> str:
    if "options" not in rows.columns or not (known := rows["options"].drop_nulls()).len():
        return NOTHING
    bits = int(known[-1])
    return ", ".join(name for bit, name in _OPTIONS if bits & bit) or "none"


def _scales(rows: pl.DataFrame) -> str:
    both = [_last(rows, name, lambda bits: f"{bits:.0f}") for name in ("rcv_wscale", "snd_wscale")]
    return NOTHING if NOTHING in both else " / ".join(both)


_NO_THRESHOLD: Final = 0x7FFFFFFF


def _threshold(rows: pl.DataFrame) -> str:
    said = _last(
        rows,
        "snd_ssthresh",
        lambda segments: "" if segments >= _NO_THRESHOLD else f"{segments:,.0f} segments",
    )
    return said or "none yet"


def _value(value: object) -> str:
    return NOTHING if value is None else f"{value:,}" if isinstance(value, int) else str(value)


SECTIONS: Final[Mapping[str, str]] = {
    "all": "sender to receiver",
    "before": "sender to in between",
    "behind": "in between to receiver",
}
_SAID: Final[Mapping[str, Callable[[float], str]]] = {
    "segments": lambda value: count(round(value)),
    "bytes": lambda value: octets(round(value)),
    "us": lambda value: duration(value * 1e3),
}


def agreement(found: Sequence[AgreementRow], *, many: bool) -> Iterator[Table]:
    """The kernel and the captures side by side; nothing without a capture.

    ``many``: there is more than one connection, so rows carry its number.
    """
    rows = [
        [
            *([str(each.connection)] if many else []),
            each.quantity,
            _SAID[each.unit](each.kernel),
            _SAID[each.unit](each.capture),
            each.place,
            "yes" if each.agrees else "no",
            each.why,
        ]
        for each in found
    ]
    columns = ["Quantity", "Sender's kernel", "Capture", "Captured at", "Agree", "Why they differ"]
    if rows:
        names = ["#", *columns] if many else columns
        yield Table("The same from two sources", names, rows, ("Why they differ",))


def crossings(found: Sequence[CrossingRow]) -> Iterator[Table]:
    """What happened to the data between two captures; nothing without two."""
    rows = [
        [
            str(each.connection),
            SECTIONS[each.section],
            size(each.sent_bytes),
            size(each.again_bytes),
            size(each.lost_bytes),
            size(each.arrived_bytes),
            size(each.twice_bytes),
            _ways(each.there_min_us, each.there_mean_us, each.there_max_us),
            _ways(each.back_min_us, each.back_mean_us, each.back_max_us),
        ]
        for each in found
    ]
    columns = ("#", "Captures", "Sent", "Sent again", "Lost", "Arrived", "Twice", "Data took", "ACKs took")
    if rows:
        yield Table("Between two captures (delays: least / mean / greatest)", columns, rows, ("#",))


def _ways(*delays_us: float) -> str:
    return NOTHING if any(map(math.isnan, delays_us)) else " / ".join(duration(us * 1e3) for us in delays_us)
