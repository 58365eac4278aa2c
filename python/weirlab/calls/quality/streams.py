"""The voice streams of a capture, as the engine found them, and what SIP said about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from ipaddress import ip_address, ip_network
from typing import Any, Final

from weirlab.base.quoting import quoted
from weirlab.trace.quantities import NOTHING, duration, plural

_MOST_BPS: Final = 520_000
"""Opus takes at most 510 kbit/s (RFC 6716); uncompressed stereo of studios takes more."""
_SHOWS_RATE_NS: Final = 500_000_000
"""Speech that was held up comes faster for a moment."""
_LARGE_BYTES: Final = 500
"""Mean payload of packets of an unknown codec that shows their rate in a stream of any length."""

_NO_VOICE: Final = frozenset(
    {"t38", "t140", "red-t140", "clearmode", "parityfec", "ulpfec", "flexfec", "flexfec-03", "rtx"}
)
"""Encodings of a fax (RFC 4612), of text (RFC 4103), of data in a channel for speech (RFC 4040), and of
repairs of other streams (RFC 2733, 5109, 8627, 4588)."""


@dataclass(frozen=True)
class CaptureStream:
    """One stream as the capture has it."""

    number: int
    """In the order of first packets, from 1."""
    protocol: str
    src: str
    src_port: int
    dst: str
    dst_port: int
    ssrc: int
    """Source call number, in IAX2."""
    vlan: str
    interface: str
    part: int
    """How often the source had restarted before."""
    media: str
    codec: str
    """Encoding name; empty if unknown."""
    known_by: str
    clock_hz: int
    """Rate at which its time stamps run."""
    nominal_hz: int
    """Rate at which they should run; 0 if unknown."""
    payload_type: int
    payload_types: tuple[tuple[int, int, str], ...]
    encrypted: bool
    """SRTP."""
    tag_bytes: int
    """By how much this makes payloads longer."""
    strays: int
    begins: str
    """``first``; ``restart`` of the source; ``codec``: it changed its codec."""
    lead: int
    """Packets lost between those of the codec before and its own; part of the losses."""
    repeats: int
    """Packets of telephone events that their sender repeated with the same number."""
    still: int
    """Silences in which its time stamps stood still."""
    pauses: int
    pauses_ns: int
    not_sent: int
    """Numbers that it skipped in these pauses, while another source was heard, or on hold."""
    far_end: Mapping[str, Any] | None
    """What its receiver reported by RTCP: ``loss_ratio``, ``round_trip_mean_ns``, ``claim`` and more."""
    packets: int
    payload_bytes: int
    first_ns: int
    last_ns: int
    loss_estimated: bool
    """Whether loss is estimated from gaps in the time stamps, for lack of sequence numbers."""
    loss_known: bool
    """False if there are neither sequence numbers nor time stamps of the speech, or if the capture misses
    packets."""
    missed: str
    """How it is known that the capture itself misses packets: ``sparse``, it has hardly any of the numbers;
    ``gaps``, hardly anything else was captured in these; ``reports``, its receiver missed far fewer. Empty if
    nothing shows that."""
    expected: int
    """Numbers from the first to the last."""

    @property
    def title(self) -> str:
        """``192.0.2.1:4000 > 192.0.2.2:4002``."""
        return f"{end(self.src, self.src_port)} > {end(self.dst, self.dst_port)}"

    @property
    def full_title(self) -> str:
        """The title with what distinguishes it from other streams between these ends."""
        vlan = f" VLAN {self.vlan}" if self.vlan else ""
        interface = f" if {self.interface}" if self.interface != "0" else ""
        part = f", part {self.part + 1}" if self.part else ""
        return f"{self.title}{vlan}{interface}{part}"

    @property
    def source(self) -> str:
        """``0x1234abcd``, ``call 7``."""
        return f"call {self.ssrc}" if self.protocol == "iax2" else f"0x{self.ssrc:08x}"

    @property
    def is_voice(self) -> bool:
        """False for pictures, faxes, text, telephone events without speech, and more than a codec needs."""
        is_other = self.media == "video" or self.codec.lower() in _NO_VOICE or self.has_only_events
        return not (is_other or self._bit_rate_bps > _MOST_BPS)

    @property
    def has_only_events(self) -> bool:
        """Whether there are telephone events and no speech."""
        return self.codec.lower() == "telephone-event"

    @property
    def _bit_rate_bps(self) -> float:
        """Of the payload; 0 for a stream that is too short to show it."""
        lasts_ns = self.last_ns - self.first_ns
        is_large = not self.codec and self.payload_bytes >= _LARGE_BYTES * self.packets
        least_ns = 1 if is_large else _SHOWS_RATE_NS
        return self.payload_bytes * 8e9 / lasts_ns if lasts_ns >= least_ns else 0.0

    @property
    def codec_title(self) -> str:
        """The codec, or else the payload type."""
        return self.codec or (f"type {self.payload_type}" if self.protocol == "rtp" else NOTHING)

    def is_meant(self, text: str) -> bool:
        """Whether ``text`` (number, SSRC, address, address with port) names this stream."""
        plain = text.strip().lower()
        if plain.startswith("0x"):
            return len(plain) > 2 and plain[2:].lstrip("0") == f"{self.ssrc:x}".lstrip("0")
        ends = ((self.src, self.src_port), (self.dst, self.dst_port))
        same = _address(plain)
        return plain == str(self.number) or any(
            same == address or plain == end(address, port) for address, port in ends
        )


def voice_stream(number: int, found: Mapping[str, Any]) -> CaptureStream:
    known = {field.name: found[field.name] for field in fields(CaptureStream) if field.name in found}
    types = tuple(tuple(one) for one in found["payload_types"])
    return CaptureStream(
        **known | {"number": number, "payload_types": types, "loss_known": found["lost"] is not None}
    )


def end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text.strip("[]")))
    except ValueError:
        return None


_LEAST_NS: Final = 2_000_000_000
"""A call that is answered for a shorter time may be over before both speak."""
_MOST: Final = 8
"""Calls with a sentence of their own."""

_STOPPED_NS: Final = 5_000_000_000
_CONTINUOUS_NS: Final = 1_000_000_000
"""The longest gap of a stream that does not cease in silences."""

Ports = frozenset[tuple[str, int]]
Directions = tuple[list[CaptureStream], list[CaptureStream]]


def one_way(
    calls: Sequence[Mapping[str, Any]],
    streams: Sequence[CaptureStream],
    gaps_ns: Mapping[int, float],
    start_ns: int,
    last_ns: int,
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Calls that were to go both ways and went one way: numbers of the streams there are, and a sentence.

    ``gaps_ns`` are the longest gaps of the streams, by their number.
    """
    listed = []
    for call in calls:
        answered_ns, ended_ns = call["answered_ns"], call["ended_ns"] or last_ns
        if answered_ns is None or ended_ns - answered_ns < _LEAST_NS or not call["both_ways"]:
            continue
        to = directions(call, streams, last_ns)
        if all(_ports(party) for party in call["parties"]):
            told = _stopped(call, to, gaps_ns, start_ns) if all(to) else _never(call, to, start_ns)
            listed += [told] if told else []
    yield from listed[:_MOST]
    if rest := listed[_MOST:]:
        numbers = tuple(number for found, _ in rest for number in found)
        yield numbers, f"{plural(len(rest), 'other call')} went one way, too."


def _never(call: Mapping[str, Any], to: Directions, start_ns: int) -> tuple[tuple[int, ...], str] | None:
    """That one party sent nothing."""
    if not any(to):
        return None
    deaf = 0 if not to[0] else 1
    silent, hearing = call["parties"][1 - deaf], call["parties"][deaf]
    text = (
        f"{title(call, start_ns)} has one-way audio, unless the capture sees only one direction: "
        f"nothing goes from {_listed(silent)} ({_ROLES[1 - deaf]}) to {_listed(hearing)} "
        f"({_ROLES[deaf]}), although both were to send.{_hidden(silent, _ROLES[1 - deaf])}"
    )
    return tuple(each.number for each in to[1 - deaf]), text


def _stopped(
    call: Mapping[str, Any], to: Directions, gaps_ns: Mapping[int, float], start_ns: int
) -> tuple[tuple[int, ...], str] | None:
    """That one party stopped long before the other. One that sends nothing in silence may just be silent."""
    ends_ns = [max(each.last_ns for each in way) for way in to]
    deaf = int(ends_ns[1] < ends_ns[0])
    missing_ns = ends_ns[1 - deaf] - ends_ns[deaf]
    if missing_ns < _STOPPED_NS or max(gaps_ns[each.number] for each in to[deaf]) > _CONTINUOUS_NS:
        return None
    text = (
        f"{title(call, start_ns)} has one-way audio for its last {duration(missing_ns)}: "
        f"{_listed(call['parties'][1 - deaf])} ({_ROLES[1 - deaf]}) stopped sending, although the call was "
        "not put on hold."
    )
    return tuple(each.number for each in to[1 - deaf] if each.last_ns > ends_ns[deaf]), text


def directions(call: Mapping[str, Any], streams: Sequence[CaptureStream], last_ns: int) -> Directions:
    """Streams of a call that was answered: those to the caller, and those to the callee."""
    begun_ns, ended_ns = call["answered_ns"], call["ended_ns"] or last_ns
    during = [stream for stream in streams if stream.first_ns <= ended_ns and stream.last_ns >= begun_ns]
    caller, callee = (_ports(party) for party in call["parties"])
    return _between(during, callee, caller), _between(during, caller, callee)


def addresses(
    calls: Sequence[Mapping[str, Any]], streams: Sequence[CaptureStream]
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Streams that come from elsewhere than SIP said: their numbers, and a sentence."""
    told: set[int] = set()
    listed = []
    for call in calls:
        for i in range(2):
            sender, receiver = call["parties"][i], call["parties"][1 - i]
            announced, goal = _ports(sender), _ports(receiver)
            for stream in streams if announced else ():
                source = (stream.src, stream.src_port)
                # Calls one after another use the same ports.
                during = stream.last_ns >= call["first_ns"] and (
                    call["ended_ns"] is None or stream.first_ns <= call["ended_ns"]
                )
                heads_there = (stream.dst, stream.dst_port) in goal
                if not during or not heads_there or source in announced | goal or stream.number in told:
                    continue
                told.add(stream.number)
                text = (
                    f"Stream {stream.number} comes from {end(*source)}, but its sender's description (SDP) "
                    f"says {_listed(sender)}: its address is translated, or another host sends."
                )
                listed.append(((stream.number,), text))
    yield from listed[:_MOST]
    if rest := listed[_MOST:]:
        numbers = tuple(number for found, _ in rest for number in found)
        yield numbers, f"{plural(len(rest), 'other stream')} come from elsewhere than SDP says, too."


def _ports(party: Mapping[str, Any]) -> Ports:
    return frozenset((address, port) for address, port in party["media"])


def _between(streams: Sequence[CaptureStream], source: Ports, target: Ports) -> list[CaptureStream]:
    """Streams from or to the announced ports of a direction; the other end may be translated."""
    return [
        stream
        for stream in streams
        if (stream.dst, stream.dst_port) in target or (stream.src, stream.src_port) in source
    ]


def title(call: Mapping[str, Any], start_ns: int) -> str:
    ends = f"from {quoted(call['from'])} to {quoted(call['to'])}"
    return f"The call {ends} (answered after {duration(call['answered_ns'] - start_ns)})"


def _listed(party: Mapping[str, Any]) -> str:
    return " or ".join(end(address, port) for address, port in party["media"])


_ROLES: Final = ("the caller", "the callee")


def _hidden(party: Mapping[str, Any], role: str) -> str:
    """That a party names a private address although its messages come from elsewhere; empty if not."""
    private = [address for address, _ in party["media"] if _is_private(address)]
    if not private or _is_private(party["address"]):
        return ""
    return (
        f" In SDP, {role} named the private address {private[0]}, but its messages come from "
        f"{party['address']}, so addresses are translated: what is sent to it does not arrive, either, "
        "unless both are in one network. Have its device or a server name the public address (STUN, session "
        "border controller; no SIP ALG)."
    )


_PRIVATE: Final = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "fc00::/7"),
    )
)


def _is_private(address: str) -> bool:
    """RFC 1918, RFC 4193, and addresses of links and of carriers' translators (RFC 3927, RFC 6598)."""
    found = ip_address(address)
    return any(found in network for network in _PRIVATE if network.version == found.version)
