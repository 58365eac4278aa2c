"""Answers of the engine made up, for everything that stands on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weirlab import _engine
from weirlab.trace.facts import (
    MEANINGS,
    RETRANSMISSIONS,
    Analysis,
    Connection,
    EspFlow,
    Side,
    Stream,
    TimeSummary,
)
from weirlab.trace.schema import FILES

START_NS = 1_769_860_800_000_000_000
"""2026-01-31 12:00:00 UTC."""

MSS = 1448


def summary(count: int = 0, mean_ns: float = 0.0, max_ns: int = 0) -> TimeSummary:
    if count == 0:
        return {"count": 0, "min_ns": None, "max_ns": None, "mean_ns": None, "sd_ns": None}
    return {"count": count, "min_ns": int(mean_ns / 2), "max_ns": max_ns, "mean_ns": mean_ns, "sd_ns": 1e6}


def side(addr: str, port: int, **changes: Any) -> Side:
    again = dict.fromkeys(("total", "bytes", *RETRANSMISSIONS, "spurious"), 0)
    whole: dict[str, Any] = {
        **dict.fromkeys(Side.__annotations__, 0),
        "addr": addr,
        "port": port,
        "data_ns": None,
        "options": {"mss": 1460, "window_scale": 7, "sack": True, "timestamps": True},
        "retransmissions": again | changes.pop("retransmissions", {}),
        "window": (64_256, 3_144_704),
        "rtt": summary(),
        "rtt_timestamp": summary(),
        "flight_mean": 0.0,
    }
    whole |= changes
    return whole  # type: ignore[return-value]


def sender(addr: str = "10.0.0.1", port: int = 40_000, *, data_packets: int = 2000, **changes: Any) -> Side:
    """A side that sent for two seconds, and five segments again, one of them needlessly."""
    return side(
        addr,
        port,
        **{
            "packets": data_packets + 2,
            "link_bytes": data_packets * 1514,
            "data_packets": data_packets,
            "data_bytes": data_packets * MSS,
            "unique_bytes": (data_packets - 5) * MSS,
            "data_ns": (START_NS + 20_000_000, START_NS + 2_020_000_000),
            "syns": 1,
            "fins": 1,
            "retransmissions": {"total": 5, "bytes": 5 * MSS, "fast": 4, "timeout": 1, "spurious": 1},
            "rtt": summary(900, 6_440_000.0, 12_790_000),
            "flight_max": 673_320,
            "flight_mean": 300_000.0,
        }
        | changes,
    )


def connection(number: int = 0, a: Side | None = None, b: Side | None = None, **changes: Any) -> Connection:
    whole: dict[str, Any] = {
        "id": number,
        "vlan": "",
        "interface": "",
        "a": a or sender(port=40_000 + number),
        "b": b or side("192.0.2.1", 5201, packets=1000, pure_acks=999, duplicate_acks=12, sack_blocks=9),
        "first_ns": START_NS,
        "last_ns": START_NS + 2_100_000_000,
        "begin": "handshake",
        "end": "closed",
        "handshake_ns": (20_000_000, 90_000),
        "idle_max_ns": 210_000_000,
        "place": "at_a",
    }
    return whole | changes  # type: ignore[return-value]


def analysis(connections: Sequence[Connection] = (), **changes: Any) -> Analysis:
    whole: dict[str, Any] = {
        "capture": {
            "files": [],
            "packets": 3002,
            "origin_ns": START_NS,
            "selected": 3002,
            "bytes": 3_000_000,
            "first_ns": START_NS,
            "last_ns": START_NS + 2_100_000_000,
            **dict.fromkeys(("truncated", "fragments", "reassembled", "not_ip", "other_ip"), 0),
            **dict.fromkeys(
                ("malformed", "unknown_link", "timeless", "misdated", "backwards", "redated", "udp", "esp"), 0
            ),
            "opaque": {},
            "unknown_links": [],
            "cut_short": False,
            "tcp": 3002,
        },
        "connections": list(connections),
        "connections_left_out": 0,
        "streams": [],
        "streams_left_out": 0,
        "esp": [],
        "esp_left_out": 0,
        "elapsed_ns": 1_000_000,
    }
    whole["capture"] |= changes.pop("capture", {})
    return whole | changes  # type: ignore[return-value]


def stream(**changes: Any) -> Stream:
    whole: dict[str, Any] = {
        **dict.fromkeys(Stream.__annotations__, 0),
        "src": "192.0.2.1",
        "src_port": 4000,
        "dst": "192.0.2.2",
        "dst_port": 4002,
        "protocol": "rtp",
        "ssrc": 0x1234ABCD,
        "vlan": "",
        "interface": "",
        "codec": "PCMU",
        "payload_types": [(0, 500, "PCMU")],
        "media": "audio",
        "known_by": "static",
        "clock_hz": 8000,
        "packets": 500,
        "expected": 505,
        "lost": 5,
        "first_ns": START_NS,
        "last_ns": START_NS + 10_000_000_000,
        "loss_estimated": False,
        "gap_max_ns": 60_000_000,
        "jitter_mean_ns": 2e6,
        "jitter_max_ns": 9_000_000,
    }
    return whole | changes  # type: ignore[return-value]


def esp(**changes: Any) -> EspFlow:
    whole: dict[str, Any] = {
        **dict.fromkeys(EspFlow.__annotations__, 0),
        "src": "192.0.2.1",
        "dst": "192.0.2.9",
        "vlan": "",
        "interface": "",
        "spi": 0xC0FFEE,
        "ports": None,
        "packets": 3000,
        "bytes": 600_000,
        "first_ns": START_NS,
        "last_ns": START_NS + 1_000_000_000,
        "lost": 7,
    }
    return whole | changes  # type: ignore[return-value]


def files(number: int) -> list[Any]:
    """What the engine tells of so many files."""
    plain = {
        "format": "pcap",
        "packets": 3002,
        "cut_short": False,
        "timeless": 0,
        "misdated": 0,
        "backwards": 0,
        "redated": 0,
        "first_redated": None,
        "compression": "",
    }
    return [{**plain, "interfaces": []} for _ in range(number)]


def answering(monkeypatch: pytest.MonkeyPatch, answer: Analysis) -> list[dict[str, Any]]:
    """Let the engine give this answer, and series of one transfer; returns what it will have been asked."""
    asked: list[dict[str, Any]] = []

    def analyse(paths: list[str], **settings: Any) -> Analysis:
        asked.append({"paths": paths, **settings})
        answer["capture"]["files"] = files(len(paths))
        if settings["series"] is not None:
            write_series(Path(settings["series"]))
        return answer

    monkeypatch.setattr(_engine, "analyse", analyse, raising=False)
    return asked


def write_series(folder: Path, segments: int = 2000, lasts_s: float = 2.0, number: int = 0) -> None:
    """A transfer from a, an ACK for every second segment, and what the tables of series hold of it.

    Every 500th segment is followed 6 ms later by a repetition; its cause goes round.
    """
    folder.mkdir(parents=True, exist_ok=True)
    codes = [MEANINGS.index(cause) for cause in RETRANSMISSIONS]
    step_ns = int(lasts_s * 1e9) // segments
    i = pl.int_range(segments, eager=True)
    rows = {
        "connection": pl.lit(number),
        "sack_blocks": pl.lit(0),
        "flags": pl.lit(0x10),
        "tsval": pl.lit(None, pl.Int64),
    }
    sent = pl.DataFrame({"i": i}).select(
        from_side=0,
        time_ns=START_NS + 20_000_000 + pl.col("i") * step_ns,
        seq=1 + pl.col("i") * MSS,
        payload_bytes=MSS,
        new_bytes=MSS,
        ack=1,
        window_bytes=64_256,
        meaning=MEANINGS.index("new"),
        flight_bytes=MSS * (1 + pl.col("i") % 400),
        **rows,
    )
    again = sent[::500].with_row_index("n")
    again = again.with_columns(
        time_ns=pl.col("time_ns") + 6_000_000,
        new_bytes=0,
        meaning=pl.col("n").map_elements(lambda n: codes[n % len(codes)], return_dtype=pl.Int32),
    ).drop("n")
    acks = sent[1::2].with_columns(
        from_side=1,
        time_ns=pl.col("time_ns") + 6_440_000,
        seq=1,
        payload_bytes=0,
        new_bytes=0,
        ack=pl.col("seq") + MSS,
        window_bytes=3_144_704 - 1000 * (pl.col("seq") % 7),
        meaning=MEANINGS.index("ack"),
        flight_bytes=0,
    )
    _write(folder, "segments", pl.concat([sent, again, acks], how="vertical_relaxed").sort("time_ns"))
    _write(
        folder,
        "rtt",
        acks.select(
            "connection", "time_ns", from_side=0, rtt_ns=6_440_000 + pl.col("ack") % 1000, seq="ack", method=0
        ),
    )
    _write(
        folder,
        "sack",
        again.select(
            "connection",
            "time_ns",
            from_side=1,
            left=pl.col("seq") + MSS,
            right=pl.col("seq") + 5 * MSS,
            duplicate=0,
        ),
    )
    starts = [START_NS + k * 100_000_000 for k in range(int(lasts_s * 10) + 1)]
    each = segments * MSS // len(starts)
    _write(
        folder,
        "periods",
        pl.DataFrame({"start_ns": starts}).select(
            "start_ns",
            connection=number,
            from_side=0,
            packets=segments // len(starts),
            payload_bytes=each,
            unique_bytes=each,
            retransmissions=0,
            rtt_count=10,
            rtt_sum_ns=64_400_000,
            rtt_max_ns=7_000_000,
            flight_max_bytes=400 * MSS,
            window_min_bytes=64_256,
        ),
    )


def _write(folder: Path, name: str, rows: pl.DataFrame) -> None:
    columns = FILES[name]
    rows.select(pl.col(column).cast(kind) for column, kind in columns.items()).write_parquet(
        folder / f"{name}.parquet"
    )
