"""What calls take behind every encapsulation: bytes, bit rates, calls per line, what does not fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from weirlab.base import quantities
from weirlab.base.errors import InputError
from weirlab.base.tables import Table
from weirlab.base.units import bps_from_pps
from weirlab.calls.ipsec import published
from weirlab.cli.quantities import count, percent, plural, significant
from weirlab.traffic.calls.codecs import VoiceStream, describe_codec
from weirlab.traffic.encapsulation import encapsulations
from weirlab.traffic.encapsulation.encapsulations import ENCAPSULATIONS, Encapsulation, Kind, chosen
from weirlab.traffic.encapsulation.packets import IpVersion, Parts, VoicePacket, total
from weirlab.traffic.encapsulation.suites import SUITES, CipherSuite

KIND: Final = "ipsec-bytes"

_CLEAR: Final = ENCAPSULATIONS[0]


@dataclass(frozen=True)
class IpsecQuestion:
    """Which calls, through what, over which line.

    ``outer_ip``: between the gateways of a tunnel. ``esn``: extended sequence numbers, which change no
    packet's length, as their upper half is not sent (RFC 4303, 2.2.1).
    """

    streams: tuple[VoiceStream, ...]
    kinds: tuple[Kind, ...]
    suites: tuple[CipherSuite, ...] = SUITES
    outer_ip: IpVersion = 4
    natt: bool = False
    esn: bool = False
    mtu: int = encapsulations.ETHERNET_MTU
    line_bps: float = 2e6
    with_published: bool = False


@dataclass(frozen=True)
class Row:
    """One stream in one encapsulation; rates are those of one direction."""

    encapsulation: Encapsulation
    parts: Parts
    ip_bytes: int
    """Of the outermost packet before fragmentation."""
    overhead_bytes: int
    """More than in the clear."""
    fragments: tuple[int, ...]
    """Lengths of the IP packets that are sent; one, unless it does not fit into the MTU."""
    frame_bytes: int
    """Of all fragments as Ethernet frames with FCS."""
    ip_bps: float
    wire_bps: float
    """On Ethernet, with preamble and gap."""
    calls: int
    """How many such calls a full-duplex Ethernet line carries."""
    calls_by_ip: int
    """The same if only IP packets counted."""
    inner_mtu: int
    """The longest packet in the clear that still fits."""

    @property
    def is_fragmented(self) -> bool:
        return len(self.fragments) > 1

    def document(self) -> dict[str, Any]:
        one = self.encapsulation
        return {
            "name": one.name,
            "kind": one.kind,
            "suite": one.suite or None,
            "title": one.title,
            "source": one.source,
            "historic": one.historic or None,
            "parts": dict(self.parts),
            "ip_bytes": self.ip_bytes,
            "overhead_bytes": self.overhead_bytes,
            "fragments": list(self.fragments),
            "frame_bytes": self.frame_bytes,
            "ip_bps": self.ip_bps,
            "wire_bps": self.wire_bps,
            "calls": self.calls,
            "calls_by_ip": self.calls_by_ip,
            "inner_mtu": self.inner_mtu,
        }


@dataclass(frozen=True)
class StreamSheet:
    """One kind of call, a row per encapsulation."""

    stream: VoiceStream
    clear: Row
    rows: tuple[Row, ...]

    def document(self) -> dict[str, Any]:
        return {
            "codec": describe_codec(self.stream),
            "title": self.stream.title,
            "packet_ms": self.stream.packet_ms,
            "payload_bytes": self.stream.payload_bytes,
            "rate_pps": self.stream.rate_pps,
            "clear_bytes": self.clear.ip_bytes,
            "encapsulations": [row.document() for row in self.rows],
        }


@dataclass(frozen=True)
class Sheet:
    """The answer."""

    question: IpsecQuestion
    streams: tuple[StreamSheet, ...]
    published: tuple[published.Cell, ...]
    """Bandwidths as the publication counts them; empty unless requested."""

    def warnings(self) -> list[str]:
        """What does not fit, a sentence each."""
        told = []
        for stream in self.streams:
            split = [row for row in stream.rows if row.is_fragmented]
            if split:
                first = f"the longest {max(row.ip_bytes for row in split):,} B"
                told.append(
                    f"{stream.stream.title}: {len(split)} of {len(stream.rows)} encapsulations exceed the "
                    f"MTU of {self.question.mtu:,} B, {first}; their packets are fragmented, and a lost "
                    "fragment loses them whole: use a shorter packet time"
                )
        if any(stream.stream.ip == 6 for stream in self.streams):
            small = [
                row
                for row in self.streams[0].rows
                if row.encapsulation.is_tunnel and row.inner_mtu < encapsulations.LEAST_MTU[6]
            ]
            if small:
                told.append(
                    f"{len(small)} of {len(self.streams[0].rows)} encapsulations leave less than the "
                    f"{encapsulations.LEAST_MTU[6]:,} B that IPv6 needs in one piece (RFC 8200, 5), down to "
                    f"{min(row.inner_mtu for row in small):,} B: the gateways will fragment"
                )
        return told

    def document(self) -> dict[str, Any]:
        asked = self.question
        return {
            "kind": KIND,
            "ip": asked.streams[0].ip,
            "outer_ip": asked.outer_ip,
            "natt": asked.natt,
            "esn": asked.esn,
            "mtu": asked.mtu,
            "line_bps": asked.line_bps,
            "streams": [stream.document() for stream in self.streams],
            "published_definition": [asdict(cell) for cell in self.published] or None,
            "warnings": self.warnings(),
        }


def sheet(question: IpsecQuestion) -> Sheet:
    """Compute the sheet of ``question``.

    Raises
    ------
    InputError
        The MTU is less than the IP version takes in one piece, AH behind NAT, or nothing is left to show.
    """
    _check(question)
    which = chosen(question.kinds, question.suites)
    if not which:
        raise InputError(f"none of {', '.join(question.kinds)} has one of the chosen suites")
    made = []
    for stream in question.streams:
        rows = tuple(_row(each, stream, question) for each in which)
        made.append(StreamSheet(stream, _row(_CLEAR, stream, question), rows))
    return Sheet(question, tuple(made), published.cells() if question.with_published else ())


def _check(question: IpsecQuestion) -> None:
    used = {stream.ip for stream in question.streams} | {question.outer_ip}
    for ip in sorted(used):
        if question.mtu < (least := encapsulations.LEAST_MTU[ip]):
            raise InputError(f"an MTU of {question.mtu} B is too small: IPv{ip} needs at least {least:,} B")
    if question.natt and any(kind.startswith("ah-") for kind in question.kinds):
        raise InputError(
            "AH does not pass NAT, since it protects the addresses (RFC 3715): leave out AH or --natt"
        )


def _row(encapsulation: Encapsulation, stream: VoiceStream, question: IpsecQuestion) -> Row:
    voice = VoicePacket(stream.payload_bytes, stream.ip, question.outer_ip, question.natt)
    parts = encapsulations.outer_parts(encapsulation, voice, question.mtu)
    ip_bytes = total(parts)
    pieces = encapsulations.fragments(ip_bytes, encapsulation.ip(voice), question.mtu)
    as_frames = [encapsulations.frame_bytes(piece) for piece in pieces]
    ip_bps = sum(pieces) * 8 * stream.rate_pps
    wire_bps = sum(bps_from_pps(stream.rate_pps, frame) for frame in as_frames)
    return Row(
        encapsulation=encapsulation,
        parts=parts,
        ip_bytes=ip_bytes,
        overhead_bytes=ip_bytes - voice.packet_bytes,
        fragments=pieces,
        frame_bytes=sum(as_frames),
        ip_bps=ip_bps,
        wire_bps=wire_bps,
        calls=_whole(question.line_bps / wire_bps),
        calls_by_ip=_whole(question.line_bps / ip_bps),
        inner_mtu=encapsulations.inner_mtu(encapsulation, voice, question.mtu),
    )


def reference(rows: Sequence[Row]) -> Row | None:
    """The row to speak of in a sentence: today's usual tunnel if it is in ``rows``, else the last one."""
    usual = [row for row in rows if row.encapsulation.name == "esp-tunnel/aes-gcm-16"]
    others = [row for row in rows if row.encapsulation is not _CLEAR]
    return next(iter(usual or others[-1:]), None)


def _whole(calls: float) -> int:
    # A line that is exactly full carries its last call although division rounds.
    return math.floor(calls * (1 + 1e-12))


_bit_rate = partial(quantities.bit_rate, digits=4)

_ESN = "Extended sequence numbers add no byte: their upper half is not sent (RFC 4303, 2.2.1)."


def tables(sheet: Sheet) -> list[Table]:
    """A table per kind of call, and bandwidths as the publication counts them if requested."""
    shown = [_stream(stream, sheet) for stream in sheet.streams]
    if sheet.published:
        shown += [_by_definition(sheet), _on_ethernet(sheet)]
    return shown


def sentence(sheet: Sheet) -> str:
    """What the usual tunnel costs the first kind of call."""
    first = sheet.streams[0]
    row = reference(first.rows)
    clear = first.clear
    line = _bit_rate(sheet.question.line_bps)
    told = (
        f"{first.stream.title}: {count(clear.ip_bytes)} B of IP in the clear, {_bit_rate(clear.ip_bps)}, on "
        f"Ethernet {_bit_rate(clear.wire_bps)}, and {plural(clear.calls, 'call')} on a line of {line}"
    )
    if row is not None:
        more = percent(row.wire_bps / clear.wire_bps - 1)
        told += (
            f"; {row.encapsulation.title}: {count(row.ip_bytes)} B, {_bit_rate(row.ip_bps)}, on Ethernet "
            f"{_bit_rate(row.wire_bps)} ({more} more), and {plural(row.calls, 'call')}"
        )
    return f"{told}.{f' {_ESN}' if sheet.question.esn else ''}"


def _stream(each: StreamSheet, sheet: Sheet) -> Table:
    split = any(row.is_fragmented for row in each.rows)
    columns = (
        "Encapsulation",
        "IP B",
        "More",
        "kbit/s",
        "Frame B",
        "kbit/s on Ethernet",
        f"Calls on {_bit_rate(sheet.question.line_bps)}",
        "By IP alone",
        "Inner MTU",
        *(("Fragments",) if split else ()),
    )
    rows = [
        (
            f"{row.encapsulation.title}{' (historic)' if row.encapsulation.historic else ''}",
            count(row.ip_bytes),
            count(row.overhead_bytes),
            _kilobits(row.ip_bps),
            count(row.frame_bytes),
            _kilobits(row.wire_bps),
            count(row.calls),
            count(row.calls_by_ip),
            count(row.inner_mtu),
            *((str(len(row.fragments)),) if split else ()),
        )
        for row in each.rows
    ]
    what = f"{each.stream.title}, IPv{each.stream.ip}"
    if sheet.question.outer_ip != each.stream.ip:
        what += f" in IPv{sheet.question.outer_ip}"
    what += ", ESP in UDP" if sheet.question.natt else ""
    title = f"{what}, one direction, {significant(each.stream.rate_pps)} packets/s"
    return Table(title, columns, rows, spare=("By IP alone", "Inner MTU", "kbit/s"))


def _by_definition(sheet: Sheet) -> Table:
    return _matrix(sheet, "Computed by the publication's definition: kbit/s of IP packets, G.711", "ip_bps")


def _on_ethernet(sheet: Sheet) -> Table:
    return _matrix(sheet, "The same on Ethernet, with FCS, preamble and gap", "wire_bps")


def _matrix(sheet: Sheet, title: str, what: str) -> Table:
    first = [cell for cell in sheet.published if cell.packet_ms == published.packet_times_ms()[0]]
    columns = ("Packet time", *(f"{cell.mode} {cell.suite}".strip() for cell in first))
    rows = [
        (
            f"{packet_ms} ms",
            *(_kilobits(getattr(cell, what)) for cell in sheet.published if cell.packet_ms == packet_ms),
        )
        for packet_ms in published.packet_times_ms()
    ]
    return Table(title, columns, rows)


def _kilobits(bps: float) -> str:
    return f"{bps / 1e3:,.1f}"
