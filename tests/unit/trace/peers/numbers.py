"""What Weir, tshark and tcptrace say about a capture, under the same names.

A connection's numbers are called ``a.retransmitted``, ``b.zero_windows``: what ``a``, the initiator, and
``b`` sent. Each reader gives the numbers that its tool has. Times are in ms.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weirlab import _engine

Numbers = dict[str, float]

_FIELDS = (
    "tcp.stream", "ip.src", "ipv6.src", "tcp.srcport", "frame.number", "tcp.len", "tcp.flags.syn",
    "tcp.flags.fin", "tcp.flags.reset", "tcp.flags.ack", "tcp.window_size", "tcp.options.mss_val",
    "tcp.options.sack_le", "tcp.analysis.retransmission", "tcp.analysis.fast_retransmission",
    "tcp.analysis.spurious_retransmission", "tcp.analysis.out_of_order", "tcp.analysis.duplicate_ack",
    "tcp.analysis.zero_window", "tcp.analysis.zero_window_probe", "tcp.analysis.keep_alive",
    "tcp.analysis.window_full", "tcp.analysis.lost_segment", "tcp.analysis.ack_lost_segment",
    "tcp.analysis.bytes_in_flight", "tcp.analysis.ack_rtt", "tcp.analysis.acks_frame",
)  # fmt: skip


def weir(path: Path) -> list[dict[str, Any]]:
    """Connections in the order of their first packets, sides under ``a`` and ``b``."""
    found = _engine.analyse([str(path)])["connections"]
    return sorted(found, key=lambda connection: connection["first_ns"])


def of_weir(connection: Mapping[str, Any]) -> Numbers:
    numbers: Numbers = {}
    for name in ("a", "b"):
        side = connection[name]
        rtt, window, options = side["rtt"], side["window"], side["options"]
        again = side["retransmissions"]
        numbers |= {
            f"{name}.{what}": side[what]
            for what in (
                "packets", "data_packets", "data_bytes", "unique_bytes", "pure_acks", "out_of_order",
                "duplicate_acks", "sack_blocks", "dsacks", "keep_alives", "window_probes", "zero_windows",
                "window_full", "flight_max", "syns", "fins", "resets", "payload_max",
            )
        }  # fmt: skip
        numbers |= {
            f"{name}.retransmitted": again["total"],
            f"{name}.fast": again["fast"],
            f"{name}.spurious": again["spurious"],
            f"{name}.missed_bytes": side["unseen_bytes"],
            f"{name}.rtt_samples": rtt["count"],
        }
        if window is not None:
            numbers[f"{name}.window_max"] = window[1]
        if options is not None and options["mss"] is not None:
            numbers[f"{name}.mss"] = options["mss"]
        if rtt["count"]:
            numbers |= {f"{name}.rtt_{what}_ms": rtt[f"{what}_ns"] / 1e6 for what in ("min", "mean", "max")}
    return numbers


def of_tshark(path: Path) -> list[Numbers]:
    command = ["tshark", "-r", str(path), "-T", "fields", "-E", "separator=;", "-E", "occurrence=a"]
    command += [word for field in _FIELDS for word in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [dict(zip(_FIELDS, line.split(";"), strict=True)) for line in done.stdout.splitlines()]
    rows = [row for row in rows if row["tcp.stream"]]
    streams = sorted({int(row["tcp.stream"]) for row in rows})
    return [_of_stream([row for row in rows if int(row["tcp.stream"]) == stream]) for stream in streams]


def _of_stream(rows: list[dict[str, str]]) -> Numbers:
    def sender(row: Mapping[str, str]) -> tuple[str, ...]:
        return row["ip.src"], row["ipv6.src"], row["tcp.srcport"]

    numbers: Numbers = {}
    carries_data = {row["frame.number"] for row in rows if int(row["tcp.len"])}
    for name, mine in {
        "a": [row for row in rows if sender(row) == sender(rows[0])],
        "b": [row for row in rows if sender(row) != sender(rows[0])],
    }.items():
        theirs = [row for row in rows if row not in mine]

        def count(*marks: str, rows: list[dict[str, str]] = mine) -> int:
            return sum(any(row[f"tcp.{mark}"] not in ("", "0") for mark in marks) for row in rows)

        lengths = [int(row["tcp.len"]) for row in mine]
        windows = [int(row["tcp.window_size"]) for row in mine if row["tcp.flags.syn"] == "0"]
        flights = [int(row["tcp.analysis.bytes_in_flight"] or 0) for row in mine]
        # Its round trips are those of SYN and FIN as well; here of data only.
        rtt = [
            float(row["tcp.analysis.ack_rtt"]) * 1e3
            for row in theirs
            if row["tcp.analysis.ack_rtt"] and row["tcp.analysis.acks_frame"] in carries_data
        ]
        again = ("retransmission", "fast_retransmission", "spurious_retransmission")
        plain = [
            row for row in mine
            if row["tcp.len"] == "0" and row["tcp.flags.ack"] == "1"
            and "1" not in (row["tcp.flags.syn"], row["tcp.flags.fin"], row["tcp.flags.reset"])
        ]  # fmt: skip
        numbers |= {
            f"{name}.packets": len(mine),
            f"{name}.data_packets": sum(length > 0 for length in lengths),
            f"{name}.data_bytes": sum(lengths),
            f"{name}.pure_acks": len(plain),
            f"{name}.retransmitted": count(*(f"analysis.{mark}" for mark in again)),
            f"{name}.fast": count("analysis.fast_retransmission"),
            f"{name}.spurious": count("analysis.spurious_retransmission"),
            f"{name}.out_of_order": count("analysis.out_of_order"),
            f"{name}.duplicate_acks": count("analysis.duplicate_ack"),
            f"{name}.sack_blocks": sum(len(row["tcp.options.sack_le"].split(",")) for row in mine
                                       if row["tcp.options.sack_le"]),
            f"{name}.keep_alives": count("analysis.keep_alive"),
            f"{name}.window_probes": count("analysis.zero_window_probe"),
            f"{name}.zero_windows": count("analysis.zero_window"),
            # It marks who fills the window; here it is told of whose window is full.
            f"{name}.window_full": count("analysis.window_full", rows=theirs),
            f"{name}.flight_max": max(flights, default=0),
            f"{name}.syns": count("flags.syn"),
            f"{name}.fins": count("flags.fin"),
            f"{name}.resets": count("flags.reset"),
            f"{name}.payload_max": max(lengths, default=0),
            f"{name}.rtt_samples": len(rtt),
        }  # fmt: skip
        if windows:
            numbers[f"{name}.window_max"] = max(windows)
        if rtt:
            numbers |= {f"{name}.rtt_min_ms": min(rtt), f"{name}.rtt_max_ms": max(rtt)}
            numbers[f"{name}.rtt_mean_ms"] = sum(rtt) / len(rtt)
        offers = [int(row["tcp.options.mss_val"]) for row in mine if row["tcp.options.mss_val"]]
        if offers:
            numbers[f"{name}.mss"] = offers[0]
    return numbers


_OF_SENDER = {
    "total packets": "packets",
    "actual data pkts": "data_packets",
    "actual data bytes": "data_bytes",
    "unique bytes sent": "unique_bytes",
    "pure acks sent": "pure_acks",
    "rexmt data pkts": "retransmitted",
    "outoforder pkts": "out_of_order",
    "dsack pkts sent": "dsacks",
    "zwnd probe pkts": "window_probes",
    "zero win adv": "zero_windows",
    "max win adv": "window_max",
    "max owin": "flight_max",
    "max segm size": "payload_max",
    "mss requested": "mss",
    "missed data": "missed_bytes",
    "RTT samples": "rtt_samples",
    "RTT min": "rtt_min_ms",
    "RTT avg": "rtt_mean_ms",
    "RTT max": "rtt_max_ms",
}
_PAIR = re.compile(r"^\s*(?P<name>[\w /#-]+?):\s+(?P<a>\S+)(?: \w+)?\s+(?P=name):\s+(?P<b>\S+)", re.MULTILINE)


def of_tcptrace(path: Path) -> list[Numbers]:
    done = subprocess.run(["tcptrace", "-lrW", str(path)], capture_output=True, text=True, check=True)
    return [_of_block(block) for block in done.stdout.split("TCP connection ")[1:] if "host " in block]


def _of_block(block: str) -> Numbers:
    numbers: Numbers = {}
    for match in _PAIR.finditer(block):
        pair = {"a": match["a"], "b": match["b"]}
        if match["name"] == "SYN/FIN pkts sent":
            for name, both in pair.items():
                syns, fins = both.split("/")
                numbers |= {f"{name}.syns": int(syns), f"{name}.fins": int(fins)}
        elif match["name"] == "duplicate acks":
            # Told of the data's sender, who received them.
            numbers |= {"a.duplicate_acks": float(pair["b"]), "b.duplicate_acks": float(pair["a"])}
        elif (called := _OF_SENDER.get(match["name"])) is not None:
            numbers |= {f"{name}.{called}": float(text) for name, text in pair.items() if text != "NA"}
    return numbers
