"""Columns of the frames and Parquet files. Times are i64 ns since 1970 (UTC), sizes bytes.

Parquet files hold codes where frames hold words: ``from_side`` (0: a, 1: b), ``meaning`` and ``method``.

Times are since 1970, UTC. Sequence numbers count from the side's initial one (0 is its SYN), or from its
first packet where that was not captured, and go on beyond 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from weirlab.trace.facts import BEGINS, ENDS, MEANINGS, METHODS, PLACES, RETRANSMISSIONS

SIDES: Final = ("a", "b")

CODES: Final[Mapping[str, tuple[str, ...]]] = {
    "from_side": SIDES,
    "meaning": MEANINGS,
    "method": METHODS,
}
"""Columns that files hold as numbers, and the words for them in order."""

_U32, _I64, _F64, _TEXT = pl.UInt32, pl.Int64, pl.Float64, pl.String

SIDE: Final[dict[str, Any]] = {
    **dict.fromkeys(
        ("packets", "link_bytes", "data_packets", "data_bytes", "unique_bytes", "pure_acks"), _I64
    ),
    **dict.fromkeys(("data_first_ns", "data_last_ns", "payload_max_bytes", "syns", "fins", "resets"), _I64),
    **dict.fromkeys(("mss_bytes", "window_scale"), _I64),
    **dict.fromkeys(("sack_permitted", "timestamps"), pl.Boolean),
    "retransmissions": _I64,
    "retransmissions_bytes": _I64,
    **{f"retransmissions_{cause}": _I64 for cause in (*RETRANSMISSIONS, "fins", "spurious")},
    **dict.fromkeys(("out_of_order", "copies", "unseen_bytes", "keep_alives", "window_probes"), _I64),
    **dict.fromkeys(
        ("duplicate_acks", "sack_blocks", "dsacks", "window_min_bytes", "window_max_bytes"), _I64
    ),
    **dict.fromkeys(("zero_windows", "zero_window_ns", "window_full"), _I64),
    **{
        f"{kind}_{what}": _F64 if what in ("mean_ns", "sd_ns") else _I64
        for kind in ("rtt", "rtt_timestamp")
        for what in ("count", "min_ns", "mean_ns", "max_ns", "sd_ns")
    },
    "flight_max_bytes": _I64,
    "flight_mean_bytes": _F64,
    "idle_max_ns": _I64,
    **dict.fromkeys(("congestion_marks", "renumbered"), _I64),
    **dict.fromkeys(("unanswered", "unanswered_ns", "unanswered_after_ns"), _I64),
    **dict.fromkeys(("shut_ns", "answers", "answers_ns", "answer_max_ns"), _I64),
}
"""What one side sent; in ``connections.parquet`` prefixed ``a_`` and ``b_``. Null: not in the capture."""

CONNECTIONS: Final[dict[str, Any]] = {
    "connection": _U32,
    "a_addr": _TEXT,
    "a_port": pl.UInt16,
    "b_addr": _TEXT,
    "b_port": pl.UInt16,
    "vlan": _TEXT,
    "interface": _TEXT,
    "first_ns": _I64,
    "last_ns": _I64,
    "begin": pl.Enum(BEGINS),
    "end": pl.Enum(ENDS),
    "place": pl.Enum(PLACES),
    "handshake_a_ns": _I64,
    "handshake_b_ns": _I64,
    "idle_max_ns": _I64,
}
"""One row per connection, in ``Trace.connections``."""

DIRECTIONS: Final[dict[str, Any]] = {
    "connection": _U32,
    "from_side": pl.Enum(SIDES),
    "addr": _TEXT,
    "port": pl.UInt16,
} | SIDE
"""One row per connection and side, in ``Trace.directions``."""

STREAMS: Final[dict[str, Any]] = {
    "src": _TEXT,
    "src_port": pl.UInt16,
    "dst": _TEXT,
    "dst_port": pl.UInt16,
    "protocol": pl.Enum(("rtp", "iax2")),
    "ssrc": _U32,
    **dict.fromkeys(("vlan", "interface", "codec", "media", "known_by"), _TEXT),
    "payload_type": pl.UInt8,
    "payload_types": pl.List(pl.Struct({"payload_type": pl.UInt8, "packets": _I64, "encoding": _TEXT})),
    "clock_hz": _U32,
    **dict.fromkeys(("part", "packets", "payload_bytes", "first_ns", "last_ns", "expected", "lost"), _I64),
    "loss_estimated": pl.Boolean,
    **dict.fromkeys(("loss_runs", "longest_run", "copies", "reordered", "strays", "markers"), _I64),
    "gap_max_ns": _I64,
    "jitter_mean_ns": _F64,
    "jitter_max_ns": _F64,
}
"""One row per voice stream, in ``Trace.streams``."""

ESP: Final[dict[str, Any]] = {
    "src": _TEXT,
    "src_port": pl.UInt16,
    "dst": _TEXT,
    "dst_port": pl.UInt16,
    "vlan": _TEXT,
    "interface": _TEXT,
    "spi": _U32,
    **dict.fromkeys(
        ("packets", "bytes", "first_ns", "last_ns", "lost", "reordered", "copies", "restarts"), _I64
    ),
}
"""One row per ESP flow, in ``Trace.esp``; ports are null outside of UDP."""

_ROW: Final[dict[str, Any]] = {"connection": _U32, "from_side": pl.UInt8}

FILES: Final[dict[str, dict[str, Any]]] = {
    "segments": _ROW
    | {
        "time_ns": _I64,
        "seq": _I64,
        "payload_bytes": _U32,
        "new_bytes": _U32,
        "ack": _I64,
        "window_bytes": _U32,
        "flags": pl.UInt8,
        "meaning": pl.UInt8,
        "flight_bytes": _U32,
        "sack_blocks": pl.UInt8,
        "tsval": _I64,
    },
    "rtt": _ROW | {"time_ns": _I64, "rtt_ns": _I64, "seq": _I64, "method": pl.UInt8},
    "sack": _ROW | {"time_ns": _I64, "left": _I64, "right": _I64, "duplicate": pl.UInt8},
    "periods": _ROW
    | {
        "start_ns": _I64,
        "packets": _I64,
        "payload_bytes": _I64,
        "unique_bytes": _I64,
        "retransmissions": _I64,
        "rtt_count": _I64,
        "rtt_sum_ns": _I64,
        "rtt_max_ns": _I64,
        "flight_max_bytes": _U32,
        "window_min_bytes": _I64,
    },
}
"""Columns of the Parquet files of series, as frames and tests take them."""


@dataclass(frozen=True)
class SegmentRow:
    """One TCP packet."""

    connection: int
    """Number of the connection, from 0."""
    from_side: int
    """Who sent it; 0: a, 1: b."""
    time_ns: int
    """Time of capture."""
    seq: int
    """Sequence number of the first byte of payload."""
    payload_bytes: int
    """Payload."""
    new_bytes: int
    """Of these, bytes seen for the first time."""
    ack: int
    """Acknowledgement number; counts as the other side's `seq`."""
    window_bytes: int
    """Window advertised, scaled."""
    flags: int
    """Byte 13 of the TCP header."""
    meaning: int
    """What it is for, by number from 0: `new`, `ack`, `duplicate_ack`, `out_of_order`, `timeout`, `fast`,
    `tail_probe`, `handshake`, `unexplained` (retransmissions by their cause), `copy`, `keep_alive`,
    `window_probe`, `reset`."""
    flight_bytes: int
    """Data sent and not yet acknowledged, after the packet."""
    sack_blocks: int
    """SACK blocks that it carries."""
    tsval: int | None
    """Time stamp by the clock of its sender (TSval, RFC 7323), as sent; empty without the option."""


@dataclass(frozen=True)
class RoundTripRow:
    """One round trip of data that a side sent."""

    connection: int
    """Number of the connection, from 0."""
    from_side: int
    """Who sent the data; 0: a, 1: b."""
    time_ns: int
    """Time of the answer."""
    rtt_ns: int
    """From the data to the answer, at the place of capture."""
    seq: int
    """End of the data answered."""
    method: int
    """How it was found; 0: by ACK, of data sent once (Karn), 1: by time stamps (RFC 7323)."""


@dataclass(frozen=True)
class SackRow:
    """One SACK block."""

    connection: int
    """Number of the connection, from 0."""
    from_side: int
    """Who sent the block; 0: a, 1: b."""
    time_ns: int
    """Time of capture."""
    left: int
    """First byte, in the other side's numbers."""
    right: int
    """Byte behind the last, in the other side's numbers."""
    duplicate: int
    """1 for DSACK (RFC 2883), else 0."""


@dataclass(frozen=True)
class PeriodRow:
    """What one side of a connection sent in one period; periods without packets are left out."""

    connection: int
    """Number of the connection, from 0."""
    from_side: int
    """Who sent; 0: a, 1: b."""
    start_ns: int
    """Begin of the period."""
    packets: int
    """Packets."""
    payload_bytes: int
    """Payload, retransmissions included."""
    unique_bytes: int
    """Payload, each byte once."""
    retransmissions: int
    """Packets retransmitted."""
    rtt_count: int
    """Round trips that ended in the period."""
    rtt_sum_ns: int
    """Sum of these round trips."""
    rtt_max_ns: int
    """Longest of these round trips."""
    flight_max_bytes: int
    """Most data in flight."""
    window_min_bytes: int
    """Least window that this side advertised."""
