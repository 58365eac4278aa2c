"""The commands ``weir tap`` and ``weir log``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from weirlab.cli.link.options import LINK, RECORD, DurationOption, NetnsOption, RecordOptions, seconds
from weirlab.cli.options import JsonOption, grouped
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.link.session import LinkOutcome

TAP = """Record a link without touching it.

A bridge in the kernel (XDP) joins two interfaces like a cable and copies
every frame: into a file here (--write), out of a third interface to a
logger (--mirror), or both. The recorder is a separate process. If it is too
slow, stopped or killed, or the disk is full, the record lacks frames and says
which; the link is not affected. Ctrl-C ends the tap and the link with it, and
restores every interface.

Examples:
  weir tap --between eth1 eth2 --write link.pcapng
  weir tap --between eth1 eth2 --mirror eth3 --logger-mac 02:00:00:00:00:09
  weir tap --between eth1 eth2 --write udp.pcapng.zst --filter udp --snap 96
  weir tap --between eth1 eth2 --write day.pcapng --rotate-time 1h --keep 24
"""

LOG = """Record an interface, such as that of a logger behind a tap's mirror.

The record is pcapng with time stamps in ns, interfaces, directions, and the
number of frames that were lost. Time stamps are those of this host; weir tap
--write records those of the tap itself. The interface is left as it is, so
the kernel may have merged frames; --wire records them as they came.

Examples:
  weir log --interface eth0 --wire --write mirror.pcapng
  weir log --interface eth0 --write day.pcapng.zst --rotate-size 1G --keep 20
  weir log --interface eth0 --write sip.pcapng --filter "port 5060"
"""


@dataclass(frozen=True)
class TapOptions:
    """The link that is tapped, and where copies go besides the file."""

    PANEL: ClassVar = LINK

    between: Annotated[tuple[str, str], typer.Option(help="The two interfaces to join.", metavar="IF_A IF_B")]
    mirror: Annotated[str | None, typer.Option(help="Send copies out of this interface.", metavar="IF_C")] = (
        None
    )
    logger_mac: Annotated[str | None, typer.Option(help="Destination MAC of the copies.", metavar="MAC")] = (
        None
    )
    netns: NetnsOption = None
    duration: DurationOption = None
    fallback: Annotated[
        Literal["auto", "never", "only"],
        typer.Option(help="Whether to use a Linux bridge instead of XDP."),
    ] = "auto"
    whole: Annotated[
        bool, typer.Option("--whole", help="Copy whole frames, even if the link loses frames then.")
    ] = False


@dataclass(frozen=True)
class LogOptions:
    """The interface that is recorded."""

    PANEL: ClassVar = LINK

    interface: Annotated[str, typer.Option(help="Interface to record.", metavar="IF")]
    netns: NetnsOption = None
    duration: DurationOption = None
    wire: Annotated[
        bool, typer.Option("--wire", help="Switch off GRO, LRO and VLAN offload while recording.")
    ] = False


def add_to(app: typer.Typer) -> None:
    app.command("tap", help=TAP, rich_help_panel="Link")(grouped(tap))
    app.command("log", help=LOG, rich_help_panel="Link")(grouped(log))


def tap(
    ctx: typer.Context,
    *,
    link: TapOptions,
    write: Annotated[
        Path | None,
        typer.Option(help="Record into this file.", metavar="FILE", rich_help_panel=RECORD),
    ] = None,
    record: RecordOptions,
    json: JsonOption = False,
) -> None:
    from weirlab.cli.link.screen import screen
    from weirlab.link import settings
    from weirlab.link.stopping import Stop
    from weirlab.link.tap import run_tap

    with Session(ctx, as_json=json) as session:
        mac = None if link.logger_mac is None else settings.parse_mac(link.logger_mac)
        duration_s = seconds(link.duration)
        most_ring_bytes = settings.MOST_TAP_RING_BYTES * (os.cpu_count() or 1)
        files = record.files(write, most_ring_bytes, mirrored=link.mirror is not None)
        wanted = settings.TapSettings(
            a=link.between[0],
            b=link.between[1],
            netns=link.netns,
            mirror=link.mirror,
            logger_mac=mac,
            recording=files.recording,
            fallback=link.fallback,
            duration_s=duration_s,
            whole=link.whole,
            ring_bytes=files.ring_bytes,
        )
        with Stop() as stop, screen(sys.stderr) as watcher:
            outcome = run_tap(wanted, watcher, stop, manifest=files.manifest, command=session.command)
        _finish(session, outcome)


def log(
    ctx: typer.Context,
    *,
    link: LogOptions,
    write: Annotated[
        Path, typer.Option(help="Record into this file.", metavar="FILE", rich_help_panel=RECORD)
    ],
    record: RecordOptions,
    json: JsonOption = False,
) -> None:
    from weirlab.cli.link.screen import screen
    from weirlab.link import settings
    from weirlab.link.stopping import Stop
    from weirlab.link.tap import run_log

    with Session(ctx, as_json=json) as session:
        duration_s = seconds(link.duration)
        files = record.files(write, settings.MOST_LOG_RING_BYTES)
        assert files.recording is not None
        wanted = settings.LogSettings(link.interface, files.recording, link.netns, duration_s, link.wire)
        with Stop() as stop, screen(sys.stderr) as watcher:
            outcome = run_log(wanted, watcher, stop, manifest=files.manifest, command=session.command)
        _finish(session, outcome)


def _finish(session: Session, outcome: LinkOutcome) -> None:
    from weirlab.cli.link import tables

    document = {key: value for key, value in outcome.document.items() if key != "conclusion"}
    session.finish(document, outcome.last.sentence, tables.of(outcome))
    session.complain(outcome.problem())
