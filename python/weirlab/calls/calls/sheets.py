"""What calls take on the wire: tables and a sentence."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weirlab.base import quantities
from weirlab.base.tables import Table
from weirlab.base.units import FCS_BYTES, NS_PER_S, WIRE_OVERHEAD_BYTES
from weirlab.cli.quantities import count, duration, percent, plural, significant

if TYPE_CHECKING:
    from weirlab.calls.calls.study import CaptureOutcome
    from weirlab.calls.calls.wire import CallSheet, ClassSheet, WireLoad

_bit_rate = partial(quantities.bit_rate, digits=4)

_PUBLISHED = "published definition (2^30 bit/s)"


def tables(sheet: CallSheet) -> list[Table]:
    """Packets, load and line, a row per kind of call."""
    return [_packets(sheet), _load(sheet), _line(sheet)]


def sentence(sheet: CallSheet) -> str:
    """Rate, and what the line carries."""
    media = sheet.media
    verb = "sends" if sheet.calls.count == 1 else "send"
    told = (
        f"{plural(sheet.calls.count, 'call')} {verb} {count(media.rate_pps)} packets/s in a direction, one "
        f"every {duration(NS_PER_S / media.rate_pps)}: {_bit_rate(media.wire_bps)} on the wire. A line of "
        f"{_bit_rate(sheet.line_bps)} carries {plural(sheet.line_calls, 'such call')}"
    )
    with_control = ", control packets included" if sheet.control.rate_pps else ""
    published = f"by the published definition a gigabit line carries {count(sheet.published[1])}"
    return f"{told}{with_control}; {published}."


def written(outcome: CaptureOutcome) -> str:
    """Where the capture is."""
    done = outcome.captured
    before = f", the first {outcome.warmup_s:g} s for setting up calls" if outcome.warmup_s else ""
    held = f"{plural(done.frames, 'packet')} of {plural(outcome.flows, 'flow')}"
    planted = ""
    if outcome.planted:
        told = ", ".join(f"{count(number)} {name}" for name, number in outcome.planted.items())
        planted = f"; of the speech {told}"
    return (
        f"{done.path}: {held} in {significant(done.lasts_ns / NS_PER_S)} s{before}, {count(done.file_bytes)} "
        f"bytes{planted}; open it in Wireshark, or: weir quality {done.path}"
    )


def _packets(sheet: CallSheet) -> Table:
    columns = (
        "Calls of", "Over", "Calls", "Per packet", "Payload B", "Headers B", "Frame B with FCS",
        "Without FCS", "On the wire",
    )  # fmt: skip
    rows = [
        (
            _title(each),
            each.kind.transport,
            significant(each.calls) if each.calls % 1 else count(each.calls),
            str(each.calls_per_packet),
            str(each.kind.stream.payload_bytes),
            _headers(each),
            str(each.frame_bytes),
            str(each.frame_bytes - FCS_BYTES),
            str(each.frame_bytes + WIRE_OVERHEAD_BYTES),
        )
        for each in sheet.classes
    ]
    return Table("Packets", columns, rows, spare=("Per packet", "Without FCS", "On the wire"))


def _title(each: ClassSheet) -> str:
    stream = each.kind.stream
    return f"{stream.codec.title}, {stream.packet_ms:g} ms"


def _headers(each: ClassSheet) -> str:
    sizes = each.header_bytes.values()
    return f"{' + '.join(map(str, sizes))} = {sum(sizes)}"


def _load(sheet: CallSheet) -> Table:
    columns = (
        "Traffic",
        "Packets/s",
        "Gap",
        "Frames with FCS",
        "On the wire",
        f"Packets in {sheet.duration_s:g} s",
    )

    def row(name: str, load: WireLoad) -> tuple[str, ...]:
        return (
            name,
            count(load.rate_pps) if load.rate_pps >= 100 else significant(load.rate_pps),
            duration(NS_PER_S / load.rate_pps),
            _bit_rate(load.frame_bps),
            _bit_rate(load.wire_bps),
            count(load.rate_pps * sheet.duration_s),
        )

    rows = []
    if len(sheet.classes) > 1:
        rows += [row(f"{_title(each)}, {each.kind.transport}", each.media) for each in sheet.classes]
    rows.append(row("speech, per direction", sheet.media))
    if sheet.directions == 2:
        rows.append(row("speech, both directions", sheet.media.times(2)))
    if sheet.activity < 1:
        everybody = sheet.media.times(sheet.directions * sheet.activity)
        rows.append(row(f"mean of all, who talk {percent(sheet.activity)} of the time", everybody))
    if sheet.control.rate_pps:
        rows.append(row("control packets (RTCP), per direction", sheet.control))
    return Table("Load while everybody talks", columns, rows)


def _line(sheet: CallSheet) -> Table:
    columns = ("Line", "Calls of", "Frame B", "Max. packets/s", "Calls", "With RTCP")
    rows = []
    for each in sheet.classes:
        title = f"{_title(each)}, {each.kind.transport}"
        line, published = each.line, each.published
        rows.append(
            (
                f"{_bit_rate(line.line_bps)} Ethernet, per direction",
                title,
                f"{line.frame_bytes} with FCS",
                count(int(line.max_pps)),
                count(line.calls),
                count(line.calls_with_control),
            )
        )
        rows.append(
            (
                _PUBLISHED,
                title,
                f"{published.frame_bytes} without FCS",
                count(published.max_pps),
                count(published.calls),
                "",
            )
        )
    if len(sheet.classes) > 1:
        max_pps, calls = sheet.published
        rows.append(
            (f"{_bit_rate(sheet.line_bps)} Ethernet", "this mix", "", "", "", count(sheet.line_calls))
        )
        rows.append((_PUBLISHED, "this mix", "", count(max_pps), count(calls), ""))
    caption = f"Line limits; these calls take {percent(sheet.line_share)} of {_bit_rate(sheet.line_bps)}"
    return Table(caption, columns, rows)
