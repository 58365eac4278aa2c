"""What is in a capture beside TCP as text: a row per voice stream and per ESP flow."""

from __future__ import annotations

from typing import Final

from weirlab.trace.facts import Analysis, EspFlow, Stream, place
from weirlab.trace.quantities import NOTHING, count, duration, percent, size

STREAMS: Final = "Voice streams (weir quality tells how they were heard)"
STREAM_COLUMNS: Final = (
    *("from", "to", "SSRC", "codec", "packets", "duration", "lost", "", "longest run"),
    *("reordered", "copies", "jitter mean", "jitter max", "longest gap"),
)
STREAM_TEXTS: Final = 4
"""So many columns are words, the others numbers."""

ESP: Final = "ESP flows"
ESP_COLUMNS: Final = ("from", "to", "SPI", "packets", "bytes", "duration", "lost", "reordered", "copies")
ESP_TEXTS: Final = 3


def stream_row(each: Stream) -> tuple[str, ...]:
    """Cells as :data:`STREAM_COLUMNS`."""
    return (
        *(place(each["src"], each["src_port"]), place(each["dst"], each["dst_port"])),
        f"0x{each['ssrc']:08x}" if each["protocol"] == "rtp" else f"{each['protocol']} {each['ssrc']}",
        each["codec"] or f"type {each['payload_type']}",
        count(each["packets"]),
        duration(each["last_ns"] - each["first_ns"]),
        *_lost(each),
        *(count(each["reordered"]), count(each["copies"])),
        *map(duration, (each["jitter_mean_ns"], each["jitter_max_ns"], each["gap_max_ns"])),
    )


def _lost(each: Stream) -> tuple[str, str, str]:
    """How much, its share, the longest run."""
    if each["lost"] is None:
        return (NOTHING,) * 3
    share = percent(each["lost"] / each["expected"]) if each["expected"] else NOTHING
    return ("~" if each["loss_estimated"] else "") + count(each["lost"]), share, count(each["longest_run"])


def esp_row(each: EspFlow) -> tuple[str, ...]:
    """Cells as :data:`ESP_COLUMNS`."""
    src_port, dst_port = each["ports"] or (0, 0)
    return (
        *(place(each["src"], src_port), place(each["dst"], dst_port), f"0x{each['spi']:08x}"),
        *(count(each["packets"]), size(each["bytes"]), duration(each["last_ns"] - each["first_ns"])),
        *(count(each["lost"]), count(each["reordered"]), count(each["copies"])),
    )


def streams_left_out(analysis: Analysis) -> int:
    """Voice streams that are not in the answer."""
    return analysis.get("streams_left_out", 0)


def titled(title: str, kept: int, limit: int, left_out: int) -> str:
    """``title``, and how many of all a table of ``limit`` rows shows; ``kept`` are in the answer."""
    if kept <= limit and not left_out:
        return title
    return f"{title}: {min(kept, limit):,} of {kept + left_out:,}"


def in_json(kept: int, left_out: int) -> str:
    """Where the rows are that a table leaves out; ``left_out`` are in no answer."""
    return f"--json has {kept:,} of them" if left_out else "--json has all"
