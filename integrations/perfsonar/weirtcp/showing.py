"""Specs and results for people."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from weirtcp.checking import INTERVAL, LASTS

Rows = Iterable[tuple[str, str]]

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def rate(bits: float) -> str:
    """``942 Mbit/s``."""
    factor, prefix = next((each for each in _PREFIXES if bits >= each[0]), (1.0, ""))
    return f"{bits / factor:.3g} {prefix}bit/s"


def spec(asked: dict[str, Any]) -> Rows:
    """What is asked for; the token is left out."""
    yield "Source", asked.get("source", "the host that is asked")
    yield "Destination", asked["dest"]
    yield "Sender", "destination" if asked.get("reverse") else "source"
    yield "Duration", asked.get("duration", LASTS)
    yield "Interval", asked.get("interval", INTERVAL)
    yield "Connections", str(asked.get("connections", 1))
    yield "At most", rate(asked["bandwidth"]) if "bandwidth" in asked else "no limit"
    yield "Congestion control", asked.get("congestion", "the hosts' own")
    for name, key in (("Write", "block"), ("Socket buffer", "buffer")):
        if key in asked:
            yield name, f"{asked[key]:,} bytes"
    if "target" in asked:
        yield "Wanted", rate(asked["target"])
    if asked.get("single-ended"):
        yield "Port of weir tcp serve", str(asked.get("single-ended-port", 29100))


def result(found: dict[str, Any]) -> Rows:
    """The result at a glance."""
    if not found["succeeded"]:
        yield "Failed", found.get("error", "no reason given")
        return
    yield "Throughput", rate(found["throughput-bits"])
    yield "Received", f"{found['received-bytes']:,} bytes in {found['seconds']:.3f} s"
    again = found.get("retransmits")
    yield "Retransmitted", "unknown" if again is None else f"{again:,} segments"
    if spread := found.get("rtt-us"):
        times = "{min:.0f}, {mean:.0f}, {max:.0f}".format(**spread)
        yield "RTT least, mean, greatest", f"{times} us"
    for each in found["diagnosis"]:
        number = f" of connection {each['connection']}" if len(found["diagnosis"]) > 1 else ""
        yield f"Why not faster{number}", each["sentence"]


def intervals(found: dict[str, Any]) -> list[list[str]]:
    """A row per interval, below a row of headings."""
    rows = [["From", "Throughput", "Retransmitted", "RTT", "cwnd"]]
    for each in found.get("intervals", []) if found["succeeded"] else []:
        bits, rtt = each["throughput-bits"], each.get("rtt-us")
        again, cwnd = each.get("retransmits"), each.get("cwnd-segments")
        rows.append(
            [
                f"{each['start-s']:.3f} s",
                "-" if bits is None else rate(bits),
                "-" if again is None else str(again),
                "-" if rtt is None else f"{rtt:.0f} us",
                "-" if cwnd is None else str(cwnd),
            ]
        )
    return rows if len(rows) > 1 else []


def formatted(rows: Rows, mime_type: str, table: Iterable[list[str]] = ()) -> str:
    """``rows``, and a ``table`` behind them, as text or as HTML."""
    listed, table = list(rows), list(table)
    if mime_type == "text/html":
        told = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in listed)
        cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table)
        return f"<table>{told}</table>{f'<table>{cells}</table>' if cells else ''}"
    width = max(len(name) for name, _ in listed)
    lines = [f"{name} {'.' * (width - len(name) + 3)} {value}" for name, value in listed]
    if table:
        # "strict" came with Python 3.10.
        widths = [max(map(len, column)) for column in zip(*table)]  # noqa: B905
        cells = [[cell.rjust(width) for cell, width in zip(row, widths)] for row in table]  # noqa: B905
        lines += ["", *("  ".join(row) for row in cells)]
    return "\n".join(lines)
