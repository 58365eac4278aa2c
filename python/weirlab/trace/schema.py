"""Columns of the frames and Parquet files. Times are i64 ns since 1970 (UTC), sizes bytes.

Parquet files hold codes where frames hold words: ``from_side`` (0: a, 1: b), ``meaning`` and ``method``.
"""

from __future__ import annotations

from collections.abc import Mapping
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
