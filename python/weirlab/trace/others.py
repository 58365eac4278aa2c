"""Tables of what a capture has besides TCP."""

from __future__ import annotations

from typing import Final

from weirlab.base.tables import Table
from weirlab.trace.facts import Analysis, EspFlow, Stream, place
from weirlab.trace.quantities import NOTHING, count, duration, percent, size

_STREAMS: Final = "Voice streams (weir quality rates them)"
_STREAM_COLUMNS: Final = (
    "From > to", "SSRC", "Codec", "Packets", "Duration", "Lost", "Longest run", "Reordered", "Copies",
    "Mean jitter", "Max. jitter", "Longest gap",
)  # fmt: skip
_STREAM_SPARE: Final = ("Copies", "Reordered", "Longest gap", "Longest run", "Max. jitter", "Duration")
_ESP_COLUMNS: Final = ("From > to", "SPI", "Packets", "Bytes", "Duration", "Lost", "Reordered", "Copies")


def tables(analysis: Analysis, most: int) -> list[Table]:
    """A row per voice stream and per ESP flow, at most ``most`` of each; no table if there are none."""
    found = []
    if streams := analysis["streams"]:
        caption = titled(_STREAMS, len(streams), most, streams_left_out(analysis))
        rows = [_stream_row(stream) for stream in streams[:most]]
        found.append(Table(caption, _STREAM_COLUMNS, rows, spare=_STREAM_SPARE))
    if esp := analysis["esp"]:
        caption = titled("ESP flows", len(esp), most, analysis["esp_left_out"])
        rows = [_esp_row(each) for each in esp[:most]]
        found.append(Table(caption, _ESP_COLUMNS, rows, spare=("Copies", "Reordered", "Bytes")))
    return found


def _stream_row(each: Stream) -> tuple[str, ...]:
    return (
        f"{place(each['src'], each['src_port'])} > {place(each['dst'], each['dst_port'])}",
        f"0x{each['ssrc']:08x}" if each["protocol"] == "rtp" else f"{each['protocol']} {each['ssrc']}",
        each["codec"] or f"type {each['payload_type']}",
        count(each["packets"]),
        duration(each["last_ns"] - each["first_ns"]),
        _lost(each),
        NOTHING if each["lost"] is None else count(each["longest_run"]),
        *(count(each["reordered"]), count(each["copies"])),
        *map(duration, (each["jitter_mean_ns"], each["jitter_max_ns"], each["gap_max_ns"])),
    )


def _lost(each: Stream) -> str:
    """``5 (0.99 %)``; with a ``~`` if it is estimated."""
    if each["lost"] is None:
        return NOTHING
    share = f" ({percent(each['lost'] / each['expected'])})" if each["lost"] and each["expected"] else ""
    return f"{'~' if each['loss_estimated'] else ''}{count(each['lost'])}{share}"


def _esp_row(each: EspFlow) -> tuple[str, ...]:
    src_port, dst_port = each["ports"] or (0, 0)
    return (
        f"{place(each['src'], src_port)} > {place(each['dst'], dst_port)}",
        f"0x{each['spi']:08x}",
        *(count(each["packets"]), size(each["bytes"]), duration(each["last_ns"] - each["first_ns"])),
        *(count(each["lost"]), count(each["reordered"]), count(each["copies"])),
    )


def streams_left_out(analysis: Analysis) -> int:
    """The number of voice streams that are not in the answer."""
    return analysis.get("streams_left_out", 0)


def titled(title: str, kept: int, limit: int, left_out: int, more: str = "") -> str:
    """``title``, and how many of all a table of ``limit`` rows shows; ``kept`` are in the answer."""
    if kept <= limit and not left_out:
        return title
    has = f"--json has {kept:,} of them" if left_out else "--json has all"
    return f"{title}: {min(kept, limit):,} of {kept + left_out:,}, {more}{has}"
