"""``weir ipsec bytes`` as tables and a sentence."""

from __future__ import annotations

from functools import partial

from weirlab.base import quantities
from weirlab.base.tables import Table
from weirlab.calls.ipsec import published
from weirlab.calls.ipsec.sheet import Sheet, StreamSheet, reference
from weirlab.cli.quantities import count, percent, plural, significant

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
