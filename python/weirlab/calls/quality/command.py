"""``weir quality``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from weirlab.base import files as outputs
from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.extras import REPORT as CHARTS
from weirlab.base.files import standard_input
from weirlab.base.quoting import quoted
from weirlab.cli.options import JudgementOptions, grouped, without
from weirlab.cli.options.cluster import ClusterOptions
from weirlab.cli.options.reading import jitter_buffer as read_jitter_buffer
from weirlab.trace.analysis import refuse_inputs

if TYPE_CHECKING:
    from weirlab.calls.quality.study import CaptureReading, Encoding

QUALITY = """Assess the quality of the voice streams in a capture.

For every RTP or IAX2 stream, this reports loss and loss bursts, duplicates,
reordering, jitter (RFC 3550), the longest gap, and R and MOS behind a jitter
buffer by the E-model. FILE is pcap or pcapng, plain or compressed with gzip,
zstd, xz, lz4 or bzip2, or - for standard input. Common link layers and
tunnels are read (docs/trace.md). Codecs are known from fixed payload types
and from SIP in the capture; --codec names the others.

With --each, every file is a capture by itself, in one row; a file that cannot
be read is named in its row. With --cluster, workers (see weir worker) read
them, at the same paths; without --each, every worker reads the capture and
assesses a share of the streams.

A capture does not show the delay of the network. Without --delay, MOS counts
only codec, packet time and jitter buffer, and is an upper bound.

Examples:
  weir quality calls.pcapng
  weir quality calls.pcap.zst --delay 40 --json
  weir quality trunk.pcap --codec 111=opus --codec 96=AMR/8000
  weir quality calls.pcap --stream 3,192.0.2.5:4000 --jitter-buffer fixed:40ms
  weir quality short.pcap --decode-as 10000-20000
  weir quality calls.pcapng --out calls.html
  weir quality calls.pcapng --require 'mos>=4' --require 'loss<0.1%'
  weir quality archive/*.pcap --each --json
  weir quality archive/*.pcap --each --cluster tcp://127.0.0.1:8786
  weir quality huge.pcap --cluster tcp://127.0.0.1:8786
"""

_PORTS: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_CODEC: Final = re.compile(r"(?:(?P<type>\d{1,3})=)?(?P<name>[\w.\-]+)(?:/(?P<clock>\d{1,9})(?:/\d+)?)?")
_MOST_CLOCK_HZ: Final = 1_000_000


_SHOWN: Final = 30
"""Streams in a table; JSON has all."""


@dataclass(frozen=True)
class ReadingOptions:
    """How a capture is understood, and which of its streams."""

    codec: Annotated[
        list[str] | None,
        typer.Option(
            help="Codec of a payload type: 111=opus, 96=AMR/8000; without PT: of all unknown types.",
            metavar="[PT=]CODEC",
        ),
    ] = None
    delay: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=limits.LONGEST_S * 1e3,
            help="One-way delay of the network, if known.",
            metavar="MS",
        ),
    ] = None
    jitter_buffer: Annotated[
        str,
        typer.Option(
            help="Jitter buffer for the MOS: fixed:60ms, adaptive, or best: the better of both.",
            metavar="KIND",
        ),
    ] = "best"
    stream: Annotated[
        str | None,
        typer.Option(
            help="Only these streams: numbers, SSRCs (0x..), addresses, address:port.",
            metavar="STREAM,...",
        ),
    ] = None
    decode_as: Annotated[
        list[str] | None,
        typer.Option(
            help="Take these UDP ports for RTP without proof; repeatable.",
            metavar="PORT[-PORT]",
        ),
    ] = None

    def reading(self) -> CaptureReading:
        """What these options say."""
        from weirlab.calls.quality.study import CaptureReading

        heard, buffers = read_jitter_buffer(self.jitter_buffer)
        return CaptureReading(
            codecs=dict(_codec(text) for text in self.codec or ()),
            network_ms=self.delay,
            buffers=buffers,
            heard=heard,
            only=self.streams(),
            decode_as=[_ports(text) for text in self.decode_as or ()],
        )

    def streams(self) -> list[str]:
        """The chosen streams; all if none is named."""
        only = [part.strip() for part in (self.stream or "").split(",") if part.strip()]
        if self.stream is not None and not only:
            raise InputError(
                f"--stream {quoted(self.stream)} names no stream; accepted are numbers, SSRCs (0x1234abcd), "
                "addresses and address:port, divided by commas"
            )
        return only


def add_to(app: typer.Typer) -> None:
    app.command("quality", help=QUALITY, rich_help_panel="Measure")(grouped(quality))


def quality(
    ctx: typer.Context,
    *,
    files: Annotated[list[Path], typer.Argument(help="Capture file.", metavar="FILE")],
    options: ReadingOptions,
    each: Annotated[bool, typer.Option("--each", help="Every file by itself, a row for each.")] = False,
    cluster: ClusterOptions,
    report: Annotated[
        Path | None,
        typer.Option("--out", help="Write an HTML page with graphs of all streams.", metavar="FILE.html"),
    ] = None,
    result: Annotated[JudgementOptions, without("store")],
) -> None:
    from weirlab.calls.quality import study, tables, wording
    from weirlab.calls.quality.page import quality_page
    from weirlab.cli.results import gates
    from weirlab.jobs import batches

    reading = options.reading()
    if each:
        _each(ctx, files, reading, options.stream or report or result.require, cluster, result)
        return
    if (address := cluster.chosen()) is not None and Path("-") in files:
        raise InputError("--cluster needs a file, and - is standard input")
    if len(files) > 1:
        raise InputError(f"{len(files)} captures: with --each, each is assessed by itself")
    with result.session(ctx) as session, standard_input.readable(files) as (file,):
        demands = gates.demands(result.require, wording.CAPTURE)
        if report is not None:
            refuse_inputs([report], [file], "--out")
            outputs.check_output(report, "--out")
            CHARTS.require()
        if address is None:
            outcome = study.capture_quality(file, reading)
        else:
            read = partial(study.quality_share, file.absolute(), reading)
            outcome = study.merge(file, reading, batches.shares(read, address, session.progress))
        if report is not None:
            quality_page(outcome, report, command=session.command)
        for note in () if result.json else outcome.notes():
            session.say(note)
        if report is not None:
            session.say(f"Report: {report}")
        judged = wording.of_capture(demands, outcome)
        shown = tables.of(outcome, _SHOWN)
        gates.finish(session, outcome.document(), wording.sentence(outcome), shown, judged)


def _each(
    ctx: typer.Context,
    files: Sequence[Path],
    reading: CaptureReading,
    unfit: object,
    cluster: ClusterOptions,
    result: JudgementOptions,
) -> None:
    from weirlab.calls.quality.study import capture_quality
    from weirlab.calls.quality.wording import hearings

    if unfit:
        raise InputError("--each sums up every file: --stream, --out and --require do not go with it")
    if Path("-") in files:
        raise InputError("--each needs files, and - is standard input")
    with result.session(ctx) as session:
        found = hearings(files, partial(capture_quality, reading=reading), cluster.chosen(), session.progress)
        session.finish(found.document(), found.sentence, [found.table(_SHOWN)], found.problem)
        session.complain(found.problem)


def _codec(text: str) -> tuple[int | None, Encoding]:
    """``111=opus``, ``g729`` or ``96=AMR-WB/16000``."""
    from weirlab.calls.quality.study import Encoding
    from weirlab.traffic.calls.codecs import parse_codec

    match = _CODEC.fullmatch(text.strip())
    if match is None or (match["type"] and int(match["type"]) > 127):
        raise InputError(
            f"--codec {quoted(text)} not understood; accepted are g729, 111=opus (payload type 111), "
            "and the name and clock rate of SDP: 96=AMR/8000"
        )
    payload_type = int(match["type"]) if match["type"] else None
    if match["clock"]:
        clock_hz = int(match["clock"])
        if not 0 < clock_hz <= _MOST_CLOCK_HZ:
            raise InputError(f"--codec {quoted(text)}: a clock rate is from 1 to {_MOST_CLOCK_HZ:,} Hz")
        return payload_type, Encoding(match["name"], clock_hz)
    known = parse_codec(match["name"]).codec
    return payload_type, Encoding(known.encoding.split("/")[0], known.rtp_clock_hz)


def _ports(text: str) -> tuple[int, int]:
    match = _PORTS.fullmatch(text.strip())
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < low <= high <= 65535:
        raise InputError(
            f"--decode-as {quoted(text)} not understood; accepted are 4000 and 10000-20000, up to 65535"
        )
    return low, high
