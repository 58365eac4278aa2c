"""The results of an analysis in sentences: only what the packets show, without guessing causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any, Final

from weirlab.trace.facts import (
    Analysis,
    Connection,
    File,
    Side,
    SideName,
    busier,
    data_again,
    endpoint,
    side,
    sides,
    streams_left_out,
)
from weirlab.trace.lateness import SECOND_NS, lateness, reset_by
from weirlab.trace.quantities import (
    bit_rate,
    count,
    duration,
    octets,
    percent,
    plural,
    size,
    words,
)

PLACES: Final = {
    "at_a": "at a",
    "at_b": "at b",
    "between": "between",
    "unknown": "unknown",
}
ENDS: Final = {
    "open": "goes on",
    "closed": "closed",
    "half_closed": "half closed",
    "reset": "reset",
    "idle": "silent",
    "replaced": "ports reused",
}
BEGINS: Final = {
    "handshake": "with its handshake",
    "half_handshake": "with half of its handshake",
    "syn": "with a SYN alone",
    "middle": "in the middle",
}
CAUSES: Final = {
    "timeout": "after a time-out",
    "fast": "after duplicate ACKs or SACK",
    "tail_probe": "to probe the tail",
    "handshake": "of the handshake",
    "unexplained": "for no visible reason",
}


def throughput_bps(sent: Side) -> float:
    """Payload, each byte once, from the first packet with payload to the last; NaN for fewer than two, or if
    all left within a round trip: a single burst shows how fast a host writes, not what the path carries.
    """
    if sent["data_ns"] is None:
        return float("nan")
    took_ns = sent["data_ns"][1] - sent["data_ns"][0]
    if took_ns <= (sent["rtt"]["min_ns"] or 0):
        return float("nan")
    return sent["unique_bytes"] * 8e9 / took_ns


def again_ratio(sent: Side) -> float:
    """Data packets that were retransmitted over all data packets; NaN without any."""
    return data_again(sent) / sent["data_packets"] if sent["data_packets"] else float("nan")


def retransmitted(sent: Side) -> str:
    """``5 (0.25 %)``: packets, and their share of those with data; ``0``."""
    total = sent["retransmissions"]["total"]
    ratio = again_ratio(sent)
    return f"{count(total)} ({percent(ratio)})" if ratio > 0 else count(total)


def capture(analysis: Analysis) -> str:
    """One sentence about the whole capture."""
    read = analysis["capture"]
    shown = analysis["connections"]
    number = len(shown) + analysis["connections_left_out"]
    first_ns, last_ns = read["first_ns"], read["last_ns"]
    lasted = "" if first_ns is None or last_ns is None else f" over {duration(last_ns - first_ns)}"
    parts = [plural(number, "TCP connection")]
    streams = len(analysis["streams"]) + streams_left_out(analysis)
    if streams:
        parts.append(plural(streams, "voice stream"))
    esp = len(analysis["esp"]) + analysis["esp_left_out"]
    if esp:
        parts.append(plural(esp, "ESP flow"))
    packets = plural(read["selected"], "packet")
    if read["selected"] != read["packets"]:
        packets = f"{count(read['selected'])} of {plural(read['packets'], 'packet')}"
    text = f"{packets} ({size(read['bytes'])}){lasted}: {words(parts)}"
    if instead := instead_of_tcp(read):
        text += f"; {instead}"
    sent = _Repeats.of(end for connection in shown for end in sides(connection))
    if sent.segments:
        scope = "" if not analysis["connections_left_out"] else f"; of the largest {count(len(shown))}"
        text += f"{scope}, {sent}"
    fates = Counter(_fate(connection) for connection in shown if connection["begin"] == "syn")
    if failed := [f"{fate}: {count(fates[fate])}" for fate in ("refused", "never answered") if fates[fate]]:
        text += f"; connections {', '.join(failed)}"
    return f"{text}."


def _fate(connection: Connection) -> str:
    """What became of a SYN that opened no connection."""
    b = connection["b"]
    if connection["end"] == "reset" and b["resets"]:
        return "refused"
    return "" if b["packets"] else "never answered"


def cautions(analysis: Analysis) -> list[str]:
    """What the reader should know about the capture before trusting the numbers."""
    read = analysis["capture"]
    notes = [each for each in (unread(read),) if each] + opaque(read["opaque"])
    if read["backwards"]:
        notes.append(f"{plural(read['backwards'], 'packet')} had an earlier time than the packet before.")
    notes += [_redated(file) for file in read["files"] if file.get("redated")]
    lost = sum(each.get("lost") or 0 for file in read["files"] for each in file["interfaces"])
    if lost:
        notes.append(f"The capture lost {plural(lost, 'packet')}, according to its files.")
    notes += [_cut_short(file) for file in read["files"] if file["cut_short"]]
    unseen = sum(end["unseen_bytes"] for connection in analysis["connections"] for end in sides(connection))
    if unseen:
        notes.append(
            f"Packets are missing from the capture: {octets(unseen)} was acknowledged but never seen. "
            "Retransmissions and data in flight may be counted wrong there."
        )
    return notes


def _redated(file: File) -> str:
    """Packets whose time is far from those of both neighbours."""
    number, off_ns = file["first_redated"] or (0, 0)
    which = f"Packet {count(number)}"
    if file["redated"] > 1:
        which = f"{count(file['redated'])} packets, the first of them number {count(number)},"
    has = "has a time" if file["redated"] == 1 else "have times"
    way = "later" if off_ns > 0 else "earlier"
    off = f"{duration(abs(off_ns))} {way} than the packet beside it"
    counts = "It counts" if file["redated"] == 1 else "Each counts"
    return f"{which} {has} that cannot be right, {off}. {counts} as captured together with that."


def _cut_short(file: File) -> str:
    where = f"its {file['compression']} data" if file.get("compression") else "a packet"
    number = plural(file["packets"], "packet")
    return f"The capture ends inside {where}. Everything before it was read: {number}."


def conclusion(connection: Connection, sender: SideName | None = None) -> str:
    """One sentence about what ``sender`` (the busier side if None) sent, and what stands out."""
    name = sender or busier(connection)
    sent = side(connection, name)
    peer: SideName = "b" if name == "a" else "a"
    other = side(connection, peer)
    there, back = connection["handshake_ns"]
    far_ns = (back if name == "a" else there) or 0
    far = far_ns if connection["place"] == f"at_{peer}" else None
    if connection["begin"] == "syn":
        return _unopened(connection)
    if not sent["data_packets"]:
        if connection["end"] == "reset" and not other["data_packets"]:
            return f"Reset{reset_by(connection)} before any data."
        return "No data." if not other["data_packets"] else f"No data from {name}."
    took = sent["data_ns"][1] - sent["data_ns"][0] if sent["data_ns"] else 0
    text = f"{name} sent {size(sent['unique_bytes'])}"
    if took > 0:
        rate = throughput_bps(sent)
        text += f" in {duration(took)} ({'within a round trip' if isnan(rate) else bit_rate(rate)})"
    said = [text, str(_Repeats.of([sent])), *_remarks(sent, other, far=far), *lateness(connection)]
    return f"{'; '.join(said)}."


def _unopened(connection: Connection) -> str:
    """What happened to a SYN that opened no connection."""
    a, b = sides(connection)
    tries = f"{plural(a['syns'] - a['copies'], 'SYN')} from {endpoint(a)}"
    match _fate(connection):
        case "refused":
            return f"Refused: {endpoint(b)} answered {tries} with an RST."
        case "never answered":
            return f"No answer: {tries}."
    return f"No matching answer: {tries}; what {endpoint(b)} sent belongs to another connection."


def causes(sent: Side) -> str:
    """``51 after duplicate ACKs or SACK and 2 after a time-out``; empty without retransmissions."""
    again = sent["retransmissions"]
    numbers = {
        "timeout": again["timeout"],
        "fast": again["fast"],
        "tail_probe": again["tail_probe"],
        "handshake": again["handshake"],
        "unexplained": again["unexplained"],
    }
    return words([f"{count(n)} {CAUSES[name]}" for name, n in numbers.items() if n])


@dataclass(frozen=True)
class _Repeats:
    """Segments with data, how many of them were retransmitted, and how many of these needlessly."""

    segments: int
    total: int
    spurious: int

    @classmethod
    def of(cls, senders: Iterable[Side]) -> _Repeats:
        segments = total = spurious = 0
        for end in senders:
            again = data_again(end)
            segments += end["data_packets"]
            total += again
            # A SYN or a bare FIN may be spurious, too.
            spurious += min(end["retransmissions"]["spurious"], again)
        return cls(segments, total, spurious)

    def __str__(self) -> str:
        segments, total = self.segments, self.total
        if not total and segments == 1:
            return "the only segment was not retransmitted"
        if not total:
            return f"none of {plural(segments, 'segment')} was retransmitted"
        text = (
            f"{count(total)} of {plural(segments, 'segment')} {'was' if total == 1 else 'were'} retransmitted"
        )
        text += f" ({percent(total / segments)})" if segments else ""
        return f"{text}, {count(self.spurious)} of them spuriously" if self.spurious else text


def _remarks(sent: Side, receiver: Side, *, far: int | None) -> list[str]:
    """What stands out. ``far``: if it was captured at the receiver, which sees its own answers at once, the
    round trip of the handshake in ns, 0 if that is not known.
    """
    remarks = []
    repeated = sent["retransmissions"]["handshake"]
    if repeated:
        remarks.append(f"its SYN was retransmitted {_times(repeated)}")
    if far is not None:
        known = f"; it was {duration(far)} in the handshake" if far else ""
        remarks.append(f"captured at the receiver, where ACKs show no round trip{known}")
    elif sent["rtt"]["count"]:
        remarks.append(
            f"the RTT was {duration(sent['rtt']['mean_ns'])} on average, "
            f"{duration(sent['rtt']['max_ns'])} at most"
        )
    if receiver["zero_windows"]:
        remarks.append(
            f"the receiver closed its window {_times(receiver['zero_windows'])}, "
            f"for {duration(receiver['zero_window_ns'])} in all"
            + (" and to the end" if receiver.get("shut_ns", 0) else "")
        )
    if receiver["window_full"]:
        remarks.append(f"the receiver's window was full {_times(receiver['window_full'])}")
    if (never := _unanswered(sent)) is not None:
        remarks.append(never)
    elif (never := _unanswered(receiver)) is not None:
        remarks.append(f"of the other end, {never}")
    if sent["renumbered"] or receiver["renumbered"]:
        remarks.append(
            "every packet was captured twice, before and behind a device that changes sequence numbers: the "
            "second ones count as copies"
        )
    if sent["out_of_order"]:
        remarks.append(f"{plural(sent['out_of_order'], 'segment')} came out of order")
    return remarks


LEAST_UNANSWERED: Final = 3
"""Transmissions without any answer that show that the other end, or the path, was gone."""


def _unanswered(sent: Side) -> str | None:
    """What was sent last, again and again, and never answered; None if it was answered, or sent once."""
    number, repeated = sent["unanswered"], sent["retransmissions"]["total"]
    if number < LEAST_UNANSWERED or not repeated or not sent["unanswered_ns"] > SECOND_NS:
        return None
    lasted, after_ns = duration(sent["unanswered_ns"]), sent["unanswered_after_ns"]
    before = f"{duration(after_ns)} before" if after_ns else "right before"
    return (
        f"its last {count(number)} packets with data, over {lasted}, were never answered (the last packet "
        f"from the other end had come {before})"
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{count(number)} times"


OPAQUE: Final = {
    "mpls": "MPLS without IP right behind its labels (a pseudowire, for instance)",
    "macsec": "encrypted frames (MACsec)",
    "wireless": "encrypted, partial or aggregated frames of a wireless LAN",
    "backbone": "frames in frames (provider backbone bridges, 802.1ah)",
    "ppp": "PPP that is compressed, encrypted or spread over several links",
    "tunnel": "a tunnel with neither IP nor Ethernet inside",
    "deep": "tunnels in more than four tunnels",
    "fax": "a fax (T.38: no voice, and so without MOS)",
}
"""Packets that may contain IP but are not analysed."""

UNREAD: Final = (
    ("malformed", "with headers that contradict themselves or are cut off"),
    ("unknown_link", "of a link type that Weir does not know"),
    ("timeless", "without a time"),
    ("misdated", "with a time before 1824 or after 2116, which cannot be"),
)


def opaque(counts: Mapping[str, int]) -> list[str]:
    """A sentence about each kind of packet that is not analysed."""
    return [
        f"{plural(number, 'packet')} {'carries' if number == 1 else 'carry'} {OPAQUE[name]}, which Weir does "
        "not look into."
        for name, number in counts.items()
    ]


def unread(read: Mapping[str, Any]) -> str:
    """A sentence about packets that could not be used; empty if there are none."""
    said = [f"{plural(read[name], 'packet')} {what}" for name, what in UNREAD if read.get(name)]
    if said and read.get("unknown_links"):
        said = [text + _numbers(read) if text.endswith("does not know") else text for text in said]
    return f"The capture has {words(said)}." if said else ""


def instead_of_tcp(read: Mapping[str, Any]) -> str:
    """What a capture without TCP has: ``12 are UDP and 3 not IP``; empty if there is TCP."""
    if read["tcp"] or not read["selected"]:
        return ""
    numbers = {
        "UDP": read["udp"],
        "ESP": read["esp"],
        "other protocols over IP": read["other_ip"],
        "fragments": read["fragments"] - read["reassembled"],
        "not IP": read["not_ip"],
        "not looked into": sum(read["opaque"].values()),
        "not understood": read["malformed"] + read["unknown_link"],
    }
    found = [(number, what) for what, number in numbers.items() if number > 0]
    first, *rest = [f"{number:,} {what}" for number, what in found] or [""]
    verb = "is" if found and found[0][0] == 1 else "are"
    return words([first.replace(" ", f" {verb} ", 1), *rest]) if first else ""


def _numbers(read: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'LINKTYPE {number}' for number in read['unknown_links'])})"
