"""What the page shows of a capture: the same words and tables as ``weir trace`` and its report."""

from __future__ import annotations

from typing import Any, Final, cast

from weirlab.trace import others, sheet, wording
from weirlab.trace.facts import (
    Analysis,
    Connection,
    busier,
    endpoint,
    link_bytes,
    side,
    sides,
    start_ns,
)
from weirlab.trace.quantities import bit_rate, count, duration, percent, size
from weirlab.transfers.trace import tables
from weirlab.transfers.trace.page.story import MOST_ROWS, TERMS, tiles
from weirlab.web.captures.child import VOICE
from weirlab.web.tables import for_page

COLUMNS: Final = [
    "#",
    "a",
    "b",
    "duration",
    "a > b",
    "b > a",
    "throughput",
    "retransmitted",
    "RTT mean",
    "end",
]


def capture(facts: Analysis) -> dict[str, Any]:
    """All that is known before a connection is chosen."""
    listed = sorted(facts["connections"], key=lambda each: (-link_bytes(each), each["id"]))
    voice = cast("dict[str, Any]", facts).get(VOICE) or {"sentence": "", "tables": []}
    return {
        "conclusion": f"{wording.capture(facts)} {voice['sentence']}".rstrip(),
        "cautions": wording.cautions(facts),
        "columns": COLUMNS,
        "connections": [_row(each) for each in listed],
        "left_out": facts["connections_left_out"],
        # Captures that an earlier version read have none.
        "voice": voice.get("axis"),
        "others": [*voice["tables"], *(for_page(table) for table in others.tables(facts, MOST_ROWS))],
    }


def connection(facts: Analysis, one: Connection) -> dict[str, Any]:
    """All about one connection except why it was not faster, which takes longer."""
    begin_ns = start_ns(facts)
    return {
        "id": one["id"],
        "ends": [endpoint(each) for each in sides(one)],
        "conclusion": wording.conclusion(one),
        "conclusions": {name: wording.conclusion(one, name) for name in ("a", "b")},
        "busier": busier(one),
        "tiles": [{"label": t.label, "value": t.value, "note": t.note} for t in tiles(one)],
        "facts": sheet.whole(one, begin_ns, absolute=True),
        "sheet": for_page(tables.both(one)),
        # Text: a double is not exact to the nanosecond since 1970.
        "start_ns": str(begin_ns),
        "from": (one["first_ns"] - begin_ns) / 1e9,
        "to": (one["last_ns"] - begin_ns) / 1e9,
        "terms": [*TERMS[:5]],
    }


def _row(one: Connection) -> dict[str, Any]:
    a, b = sides(one)
    sent = side(one, busier(one))
    return {
        "id": one["id"],
        "cells": [
            *(str(one["id"]), endpoint(a), endpoint(b)),
            duration(one["last_ns"] - one["first_ns"]),
            *(size(a["unique_bytes"]), size(b["unique_bytes"])),
            bit_rate(wording.throughput_bps(sent)),
            f"{count(sent['retransmissions']['total'])} ({percent(wording.again_ratio(sent))})",
            duration(sent["rtt"]["mean_ns"]),
            wording.ENDS[one["end"]],
        ],
        "sort": [
            *(one["id"], endpoint(a), endpoint(b), one["last_ns"] - one["first_ns"]),
            *(a["unique_bytes"], b["unique_bytes"], _number(wording.throughput_bps(sent))),
            *(sent["retransmissions"]["total"], _number(sent["rtt"]["mean_ns"]), one["end"]),
        ],
        "conclusion": wording.conclusion(one),
    }


def _number(value: float | None) -> float:
    return value if value is not None and value == value else -1.0
