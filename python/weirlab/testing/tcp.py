"""Scripted TCP conversations: what a capture at some point of the path would contain.

A script says who sends what and when, what is lost, and what the capture misses. Sequence numbers,
acknowledgements, SACK blocks and timestamps follow from what arrived::

    talk = Talk()
    talk.handshake(rtt_ms=10)
    first = talk.a.send(1000, "lost")
    for _ in range(3):
        talk.a.send(1000)
        talk.b.ack()
    talk.a.again(first)
    talk.b.ack()
    write_pcap(path, talk.packets())
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from pathlib import Path
from typing import Final, Literal, TypeAlias

Packet: TypeAlias = tuple[int, bytes]
"""Time of capture, ns since 1970, and an Ethernet frame."""

TCP: Final = 6
_MAC_A: Final = bytes.fromhex("020000000001")
_MAC_B: Final = bytes.fromhex("020000000002")
_PCAP_NS: Final = 0xA1B23C4D
_ETHERNET: Final = 1


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    words = struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total: int = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def tcp_checksum(src: str, dst: str, segment: bytes) -> int:
    """The checksum of a TCP segment whose checksum field is 0 (RFC 9293, 3.1; RFC 8200, 8.1)."""
    ends = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    tail = struct.pack(">HBB", 0, 0, TCP) if len(ends) > 8 else struct.pack(">BB", 0, TCP)
    length = struct.pack(">I" if len(ends) > 8 else ">H", len(segment))
    pseudo = ends + length + tail if len(ends) > 8 else ends + tail + length
    return checksum(pseudo + segment)


def ip_packet(src: str, dst: str, payload: bytes, *, ip_id: int = 0, ecn: int = 0) -> bytes:
    """An IPv4 or IPv6 packet with TCP, depending on the addresses."""
    ends = (ipaddress.ip_address(src), ipaddress.ip_address(dst))
    addresses = ends[0].packed + ends[1].packed
    if ends[0].version == 6:
        return struct.pack(">IHBB", 6 << 28 | ecn << 20, len(payload), TCP, 64) + addresses + payload
    return _ipv4(addresses, payload, ip_id, ecn, 0x4000)


def _ipv4(addresses: bytes, payload: bytes, ip_id: int, ecn: int, offset: int) -> bytes:
    fields = (0x45, ecn, 20 + len(payload), ip_id & 0xFFFF, offset, 64, TCP)
    head = struct.pack(">BBHHHBB", *fields)
    total = checksum(head + b"\0\0" + addresses)
    return head + struct.pack(">H", total) + addresses + payload


def fragments(packet: bytes, mtu_bytes: int) -> Iterator[bytes]:
    """An IPv4 packet as fragments of at most ``mtu_bytes`` (RFC 791, 3.2); a short one as it is."""
    if len(packet) <= mtu_bytes:
        yield packet
        return
    ip_id, payload = struct.unpack(">H", packet[4:6])[0], packet[20:]
    step = (mtu_bytes - 20) // 8 * 8
    for at in range(0, len(payload), step):
        more = 0x2000 if at + step < len(payload) else 0
        piece = payload[at : at + step]
        yield _ipv4(packet[12:20], piece, ip_id, packet[1] & 3, more | at // 8)


def frame(ip: bytes, *, from_a: bool = True, vlans: Sequence[int] = ()) -> bytes:
    """An Ethernet frame, without padding; ``vlans`` outermost first (802.1Q, within 802.1ad if two)."""
    ends = _MAC_B + _MAC_A if from_a else _MAC_A + _MAC_B
    tags = b"".join(
        struct.pack(">HH", 0x8100 if i == len(vlans) - 1 else 0x88A8, vlan) for i, vlan in enumerate(vlans)
    )
    return ends + tags + (b"\x86\xdd" if ip[0] >> 4 == 6 else b"\x08\x00") + ip


def pcap(packets: Iterable[Packet], *, snap_bytes: int = 262_144) -> bytes:
    """A capture file (pcap, ns) of Ethernet frames in the order given."""
    parts = [struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, snap_bytes, _ETHERNET)]
    for time_ns, data in packets:
        kept = data[:snap_bytes]
        parts.append(struct.pack("<IIII", *divmod(time_ns, 1_000_000_000), len(kept), len(data)) + kept)
    return b"".join(parts)


def write_pcap(path: Path, packets: Iterable[Packet], *, snap_bytes: int = 262_144) -> Path:
    """Write :func:`pcap` to a file and return its path."""
    path.write_bytes(pcap(packets, snap_bytes=snap_bytes))
    return path


Fate: TypeAlias = Literal["arrives", "lost", "unseen", "late"]
"""Of a packet: ``arrives`` after it was captured; ``lost`` after the capture point; ``unseen`` by the capture
although it arrives; ``late``: neither captured nor arrived until :meth:`Talk.arrive` is called, if ever."""

_MS: Final = 1_000_000
_START_NS: Final = 1_700_000_000_000_000_000
_WRAP: Final = 1 << 32


class Flag(IntFlag):
    """Byte 13 of the header (RFC 9293, 3.1)."""

    FIN = 1
    SYN = 2
    RST = 4
    PSH = 8
    ACK = 16


@dataclass(frozen=True)
class TcpSide:
    """One end: address, port, initial sequence number, and the options of its SYN."""

    address: str
    port: int
    isn: int = 1_000_000
    mss: int | None = 1460
    window_scale: int | None = 7
    sack: bool = True
    timestamps: bool = True
    window_bytes: int = 65_536


@dataclass(frozen=True)
class TcpSegment:
    """A packet; sequence numbers do not wrap at 32 bits."""

    time_ns: int
    sender: Literal["a", "b"]
    flags: Flag
    seq: int
    ack: int
    window: int
    """As in the header: unscaled."""
    options: bytes
    payload_bytes: int
    ip_id: int
    ts_val: int
    ecn: int = 0

    @property
    def end(self) -> int:
        """The sequence number after it; SYN and FIN take one each."""
        return self.seq + self.payload_bytes + bool(self.flags & Flag.SYN) + bool(self.flags & Flag.FIN)

    @property
    def payload(self) -> bytes:
        """Bytes that depend only on their sequence number, as in one stream of data."""
        return bytes((self.seq + i) % 251 for i in range(self.payload_bytes))


class TcpEnd:
    """One end of a :class:`TcpConversation`."""

    def __init__(self, talk: TcpConversation, name: Literal["a", "b"], side: TcpSide) -> None:
        self.side = side
        self.window_bytes = side.window_bytes
        self.next_seq = side.isn
        self._talk, self._name = talk, name
        self._ip_id = 1 if name == "a" else 30_000
        self._ack: int | None = None
        self._islands: list[tuple[int, int]] = []
        """Data that arrived beyond a hole, latest first."""
        self._duplicate: tuple[int, int] | None = None
        self._ts_recent = 0

    @property
    def peer(self) -> TcpEnd:
        return self._talk.b if self is self._talk.a else self._talk.a

    @property
    def shift(self) -> int:
        """The window scale; 0 unless both ends offered it (RFC 7323, 2.2)."""
        mine, theirs = self.side.window_scale, self.peer.side.window_scale
        return 0 if mine is None or theirs is None else mine

    def syn(self, fate: Fate = "arrives") -> TcpSegment:
        """SYN, or SYN/ACK if the peer's SYN has arrived; calling it again retransmits."""
        self.next_seq = self.side.isn
        return self._emit(Flag.SYN, 0, fate)

    def send(self, payload_bytes: int, fate: Fate = "arrives", *, ecn: int = 0) -> TcpSegment:
        """New data, one packet."""
        return self._emit(Flag.PSH, payload_bytes, fate, ecn=ecn)

    def again(
        self, segment: TcpSegment, fate: Fate = "arrives", *, payload_bytes: int | None = None
    ) -> TcpSegment:
        """Retransmit from the start of ``segment``, as a new packet with the current acknowledgement."""
        length = segment.payload_bytes if payload_bytes is None else payload_bytes
        kind = segment.flags & (Flag.PSH | Flag.FIN | Flag.SYN)
        return self._emit(kind, length, fate, seq=segment.seq)

    def ack(self, fate: Fate = "arrives", *, window_bytes: int | None = None) -> TcpSegment:
        """An ACK of what has arrived; ``window_bytes`` is advertised from now on."""
        if window_bytes is not None:
            self.window_bytes = window_bytes
        return self._emit(Flag(0), 0, fate)

    def fin(self, fate: Fate = "arrives") -> TcpSegment:
        return self._emit(Flag.FIN, 0, fate)

    def reset(self, fate: Fate = "arrives") -> TcpSegment:
        return self._emit(Flag.RST, 0, fate)

    def keep_alive(self, payload_bytes: int = 0, fate: Fate = "arrives") -> TcpSegment:
        """A keep-alive: the byte before the next one, or only its sequence number (RFC 9293, 3.8.4).

        Linux probes a closed window in the same way.
        """
        return self._emit(Flag(0), payload_bytes, fate, seq=self.next_seq - 1)

    def probe(self, fate: Fate = "arrives") -> TcpSegment:
        """One byte of new data into a closed window (RFC 9293, 3.8.6.1), which is not accepted."""
        return self._emit(Flag(0), 1, fate, seq=self.next_seq)

    def _emit(
        self, kind: Flag, length: int, fate: Fate, *, seq: int | None = None, ecn: int = 0
    ) -> TcpSegment:
        flags = kind if self._ack is None else kind | Flag.ACK
        window = self.window_bytes >> (0 if kind & Flag.SYN else self.shift)
        segment = TcpSegment(
            time_ns=self._talk.now_ns,
            sender=self._name,
            flags=flags,
            seq=self.next_seq if seq is None else seq,
            ack=0 if self._ack is None else self._ack,
            window=min(window, 0xFFFF),
            options=self._options(kind),
            payload_bytes=length,
            ip_id=self._ip_id,
            ts_val=self._clock_ms(),
            ecn=ecn,
        )
        self._ip_id += 1
        self._duplicate = None
        if not (length == 1 and kind == Flag(0)):
            self.next_seq = max(self.next_seq, segment.end)
        self._talk.record(segment, fate)
        return segment

    def _clock_ms(self) -> int:
        return (self._talk.now_ns - _START_NS) // _MS + (1000 if self._name == "a" else 77_000)

    def _options(self, kind: Flag) -> bytes:
        side, parts = self.side, []
        is_syn = bool(kind & Flag.SYN)
        if is_syn and side.mss is not None:
            parts.append(struct.pack(">BBH", 2, 4, side.mss))
        if is_syn and side.window_scale is not None:
            parts.append(struct.pack(">BBBB", 1, 3, 3, side.window_scale))
        if is_syn and side.sack:
            parts.append(b"\x01\x01\x04\x02")
        if side.timestamps and (is_syn or self.peer.side.timestamps) and not kind & Flag.RST:
            parts.append(struct.pack(">BBBBII", 1, 1, 8, 10, self._clock_ms(), self._ts_recent))
        if not is_syn and side.sack and self.peer.side.sack:
            parts.append(self._sack())
        return b"".join(parts)

    def _sack(self) -> bytes:
        """The SACK option: a duplicate first (RFC 2883), then the most recent blocks (RFC 2018)."""
        blocks = [*([self._duplicate] if self._duplicate else []), *self._islands][:3]
        if not blocks:
            return b""
        edges = [edge % _WRAP for block in blocks for edge in block]
        return struct.pack(f">BBBB{len(edges)}I", 1, 1, 5, 2 + 4 * len(edges), *edges)

    def take(self, segment: TcpSegment) -> None:
        """Process a packet of the peer that arrives."""
        if segment.flags & Flag.RST:
            return
        if segment.flags & Flag.SYN:
            self._ack = max(self._ack or 0, segment.end)
            self._ts_recent = segment.ts_val
            return
        if self._ack is None:
            self._ack = segment.seq
        if segment.seq <= self._ack:
            # RFC 7323, 4.3: the earliest packet that the next ACK answers.
            self._ts_recent = max(self._ts_recent, segment.ts_val)
        is_probe = segment.payload_bytes == 1 and self.window_bytes == 0
        if segment.end == segment.seq or is_probe:
            return
        span = (segment.seq, segment.end)
        covered = any(left <= span[0] and span[1] <= right for left, right in self._islands)
        if span[1] <= self._ack or covered:
            self._duplicate = span
            return
        touching = [i for i in self._islands if i[0] <= span[1] and span[0] <= i[1]]
        merged = (min([span[0], *(i[0] for i in touching)]), max([span[1], *(i[1] for i in touching)]))
        self._islands = [merged, *(i for i in self._islands if i not in touching)]
        if merged[0] <= self._ack:
            self._ack = merged[1]
            self._islands.remove(merged)


class TcpConversation:
    """A TCP conversation as captured.

    ``gap_ns`` passes from one packet to the next; :meth:`wait` adds to it.
    """

    def __init__(
        self,
        a: TcpSide = TcpSide("192.0.2.1", 40_000),
        b: TcpSide = TcpSide("198.51.100.2", 80, isn=9_000_000),
        *,
        start_ns: int = _START_NS,
        gap_ns: int = 10_000,
        vlans: Sequence[int] = (),
    ) -> None:
        self.a, self.b = TcpEnd(self, "a", a), TcpEnd(self, "b", b)
        self.now_ns = start_ns
        self.segments: list[TcpSegment] = []
        """The captured packets, in order."""
        self._gap_ns, self._vlans = gap_ns, tuple(vlans)

    def wait(self, ms: float) -> None:
        """Let time pass."""
        self.now_ns += round(ms * _MS)

    def handshake(self, *, rtt_ms: float = 10.0, place: float = 0.0) -> None:
        """SYN, SYN/ACK and ACK. ``place`` is where the capture is: 0 at ``a``, 1 at ``b``."""
        self.a.syn()
        self.wait(rtt_ms * (1 - place))
        self.b.syn()
        self.wait(rtt_ms * place)
        self.a.ack()

    def record(self, segment: TcpSegment, fate: Fate) -> None:
        """Capture a packet and deliver it, as its ``fate`` says."""
        if fate in ("arrives", "lost"):
            self.segments.append(replace(segment, time_ns=self.now_ns))
            self.now_ns += self._gap_ns
        if fate in ("arrives", "unseen"):
            (self.b if segment.sender == "a" else self.a).take(segment)

    def arrive(self, segment: TcpSegment) -> None:
        """Capture and deliver a delayed packet now, as it was sent; also for a duplicate."""
        self.record(segment, "arrives")

    def packets(self, *, mtu_bytes: int | None = None) -> list[Packet]:
        """The captured packets; those longer than ``mtu_bytes`` in fragments (IPv4)."""
        return [
            (segment.time_ns, frame(ip, from_a=segment.sender == "a", vlans=self._vlans))
            for segment in self.segments
            for ip in self._ip(segment, mtu_bytes)
        ]

    def _ip(self, segment: TcpSegment, mtu_bytes: int | None) -> Iterator[bytes]:
        me, peer = (self.a, self.b) if segment.sender == "a" else (self.b, self.a)
        src, dst = me.side.address, peer.side.address
        data_offset = (20 + len(segment.options)) // 4 << 4
        fields = (me.side.port, peer.side.port, segment.seq % _WRAP, segment.ack % _WRAP)
        head = struct.pack(">HHIIBBH", *fields, data_offset, segment.flags, segment.window)
        rest = struct.pack(">H", 0) + segment.options + segment.payload
        total = tcp_checksum(src, dst, head + b"\0\0" + rest)
        tcp = head + struct.pack(">H", total) + rest
        ip = ip_packet(src, dst, tcp, ip_id=segment.ip_id, ecn=segment.ecn)
        yield from fragments(ip, mtu_bytes) if mtu_bytes else [ip]
