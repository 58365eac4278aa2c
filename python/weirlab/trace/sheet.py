"""Everything about one connection as text, a column per side; tables of what a capture has besides TCP."""

from __future__ import annotations

from typing import Final

from weirlab.base.tables import Table
from weirlab.trace import quantities, wording
from weirlab.trace.facts import (
    Analysis,
    Connection,
    EspFlow,
    Side,
    Stream,
    TimeSummary,
    place,
    sides,
    streams_left_out,
)
from weirlab.trace.quantities import NOTHING, bit_rate, count, duration, octets, percent, plural, size


def whole(connection: Connection, start_ns: int, *, absolute: bool) -> list[tuple[str, str]]:
    """What both sides share: names and values."""

    def moment(ns: int) -> str:
        return quantities.absolute(ns) if absolute else quantities.since(ns, start_ns)

    there, back = (duration(ns) for ns in connection["handshake_ns"])
    facts = [
        ("first packet", moment(connection["first_ns"])),
        ("last packet", moment(connection["last_ns"])),
        ("duration", duration(connection["last_ns"] - connection["first_ns"])),
        ("begins", wording.BEGINS[connection["begin"]]),
        ("ends", wording.ENDS[connection["end"]]),
        ("SYN to SYN/ACK, to ACK", f"{there}, {back}"),
        ("longest silence", duration(connection["idle_max_ns"])),
        ("captured", wording.PLACES[connection["place"]]),
    ]
    if connection["vlan"]:
        facts.append(("VLAN", connection["vlan"]))
    if connection["interface"]:
        facts.append(("interface", connection["interface"]))
    return facts


def both(connection: Connection) -> list[tuple[str, str, str]]:
    """What each side sent: name, value of ``a``, value of ``b``. Windows are those that a side advertised."""
    a, b = sides(connection)
    return list(zip(_NAMES, _values(connection, a), _values(connection, b), strict=True))


def window(connection: Connection, end: Side) -> str:
    """The window that ``end`` advertised, least to greatest; ``unscaled`` if the scale is not known."""
    if end["window"] is None:
        return NOTHING
    low, high = end["window"]
    text = size(low) if low == high else f"{size(low)} – {size(high)}"
    return text if scaled(connection) else f"{text} unscaled"


def scaled(connection: Connection) -> bool:
    """Whether the windows' scale is known: in packets, only the handshake has it (RFC 7323 section 2.2)."""
    return connection.get("scaled", False) or all(end["options"] is not None for end in sides(connection))


_NAMES = (
    "packets, bytes on the link",
    "pure ACKs",
    "packets with payload",
    "payload, each byte once",
    "payload with repeated bytes",
    "greatest payload of a packet",
    "throughput",
    "first to last data",
    "SYN, FIN, RST",
    "MSS, window scale",
    "SACK, time stamps offered",
    "retransmitted",
    "  payload",
    "  after a time-out",
    "  after duplicate ACKs or SACK",
    "  to probe the tail",
    "  of the handshake",
    "  for no visible reason",
    "  spurious (DSACK)",
    "out of order",
    "copies made on the way",
    "acknowledged, but not captured",
    "keep-alives, window probes",
    "duplicate ACKs",
    "SACK blocks, of these DSACK",
    "window",
    "window closed, for",
    "window filled by the peer",
    "RTT samples",
    "  least, mean, greatest",
    "  standard deviation",
    "RTT by time stamps, samples",
    "  least, mean, greatest",
    "flight greatest",
    "flight mean",
    "longest silence",
    "marked CE (ECN)",
    "renumbered on the way",
    "last data, never answered",
    "answers, time taken",
)


def _values(connection: Connection, end: Side) -> list[str]:
    again, options, data = end["retransmissions"], end["options"], end["data_ns"]
    share = f" ({percent(wording.again_ratio(end))} of data)" if end["data_packets"] else ""
    return [
        f"{count(end['packets'])}, {size(end['link_bytes'])}",
        count(end["pure_acks"]),
        count(end["data_packets"]),
        octets(end["unique_bytes"]),
        octets(end["data_bytes"]),
        octets(end["payload_max"]),
        bit_rate(wording.throughput_bps(end)),
        NOTHING if data is None else duration(data[1] - data[0]),
        f"{end['syns']}, {end['fins']}, {end['resets']}",
        NOTHING
        if options is None
        else f"{_or_nothing(options['mss'])}, {_or_nothing(options['window_scale'])}",
        NOTHING if options is None else f"{_yes(options['sack'])}, {_yes(options['timestamps'])}",
        f"{plural(again['total'], 'packet')}{share}",
        octets(again["bytes"]),
        count(again["timeout"]),
        count(again["fast"]),
        count(again["tail_probe"]),
        count(again["handshake"]),
        count(again["unexplained"]),
        count(again["spurious"]),
        count(end["out_of_order"]),
        count(end["copies"]),
        octets(end["unseen_bytes"]),
        f"{end['keep_alives']}, {end['window_probes']}",
        count(end["duplicate_acks"]),
        f"{count(end['sack_blocks'])}, {count(end['dsacks'])}",
        window(connection, end),
        f"{plural(end['zero_windows'], 'time')}, {duration(end['zero_window_ns'])}",
        plural(end["window_full"], "time"),
        count(end["rtt"]["count"]),
        *_spread(end["rtt"]),
        count(end["rtt_timestamp"]["count"]),
        _spread(end["rtt_timestamp"])[0],
        octets(end["flight_max"]),
        octets(end["flight_mean"]),
        duration(end["idle_max_ns"]),
        count(end["congestion_marks"]),
        count(end["renumbered"]),
        plural(end["unanswered"], "packet"),
        f"{count(end.get('answers', 0))}, {duration(end.get('answers_ns', 0))}",
    ]


def _spread(rtt: TimeSummary) -> tuple[str, str]:
    if not rtt["count"]:
        return NOTHING, NOTHING
    extremes = (rtt["min_ns"], rtt["mean_ns"], rtt["max_ns"])
    return ", ".join(map(duration, extremes)), duration(rtt["sd_ns"])


def _or_nothing(number: int | None) -> str:
    return NOTHING if number is None else str(number)


def _yes(offered: bool) -> str:
    return "yes" if offered else "no"


_STREAMS: Final = "Voice streams (weir quality rates them)"
_STREAM_COLUMNS: Final = (
    "From > to", "SSRC", "Codec", "Packets", "Duration", "Lost", "Longest run", "Reordered", "Copies",
    "Mean jitter", "Max. jitter", "Longest gap",
)  # fmt: skip
_STREAM_SPARE: Final = ("Copies", "Reordered", "Longest gap", "Longest run", "Max. jitter", "Duration")
_ESP_COLUMNS: Final = ("From > to", "SPI", "Packets", "Bytes", "Duration", "Lost", "Reordered", "Copies")


def others(analysis: Analysis, most: int) -> list[Table]:
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


def titled(title: str, kept: int, limit: int, left_out: int, more: str = "") -> str:
    """``title``, and how many of all a table of ``limit`` rows shows; ``kept`` are in the answer."""
    if kept <= limit and not left_out:
        return title
    has = f"--json has {kept:,} of them" if left_out else "--json has all"
    return f"{title}: {min(kept, limit):,} of {kept + left_out:,}, {more}{has}"
