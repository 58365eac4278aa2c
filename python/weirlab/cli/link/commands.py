"""``weir tap`` and ``weir log``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weirlab.cli.link import options
from weirlab.cli.options import JsonOption
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.link.session import Outcome

TAP = """Record a link without touching it.

A bridge in the kernel (XDP) joins two interfaces like a cable and copies
every frame: into a file here (--write), out of a third interface to a
logger (--mirror), or both. The recorder is a process of its own: when it is
too slow, stopped or killed, or the disk is full, the record lacks frames and
says which; the link does not notice. Ctrl-C ends the tap, and the link with
it, and puts every interface back as it was.

Examples:
  weir tap --between eth1 eth2 --write link.pcapng
  weir tap --between eth1 eth2 --mirror eth3 --logger-mac 02:00:00:00:00:09
  weir tap --between eth1 eth2 --write udp.pcapng.zst --filter udp --snap 96
  weir tap --between eth1 eth2 --write day.pcapng --rotate-time 1h --keep 24
"""

LOG = """Record an interface: the logger behind a tap's mirror, or any other one.

pcapng with time stamps in ns, interfaces, directions, and the number of
frames that were lost. Time stamps are this host's; those of the tap itself
are in what weir tap --write records. The interface stays as it is, so that
the kernel may have merged frames; --wire records them as they came.

Examples:
  weir log --interface eth0 --wire --write mirror.pcapng
  weir log --interface eth0 --write day.pcapng.zst --rotate-size 1G --keep 20
  weir log --interface eth0 --write sip.pcapng --filter "port 5060"
"""


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("tap", help=TAP, rich_help_panel="Link")(tap)
    app.command("log", help=LOG, rich_help_panel="Link")(log)


def tap(
    ctx: typer.Context,
    between: Annotated[
        tuple[str, str],
        typer.Option("--between", help="The two ends.", metavar="IF_A IF_B", rich_help_panel="Link"),
    ],
    mirror: Annotated[
        str | None,
        typer.Option(
            "--mirror", help="Send copies out of this interface.", metavar="IF_C", rich_help_panel="Link"
        ),
    ] = None,
    logger_mac: Annotated[
        str | None,
        typer.Option(
            "--logger-mac", help="Destination MAC of the copies.", metavar="MAC", rich_help_panel="Link"
        ),
    ] = None,
    netns: options.NetnsOption = None,
    duration: options.DurationOption = None,
    fallback: Annotated[
        Literal["auto", "never", "only"],
        typer.Option("--fallback", help="A Linux bridge instead of XDP.", rich_help_panel="Link"),
    ] = "auto",
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Copy frames whole even where that costs the link frames.",
            rich_help_panel="Link",
        ),
    ] = False,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Record into this file.", metavar="FILE", rich_help_panel="Record"),
    ] = None,
    filter: options.FilterOption = "",
    snap: options.SnapOption = None,
    rotate_size: options.RotateSizeOption = None,
    rotate_time: options.RotateTimeOption = None,
    keep: options.KeepOption = None,
    zstd: options.ZstdOption = False,
    ring: options.RingOption = None,
    manifest: options.ManifestOption = None,
    force: options.ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Tap a link."""
    from weirlab.cli.link.screen import screen
    from weirlab.link import settings
    from weirlab.link.stopping import Stop
    from weirlab.link.tap import run_tap

    with Session(ctx, as_json=json) as session:
        mac = None if logger_mac is None else settings.parse_mac(logger_mac)
        duration_s = options.seconds(duration)
        files = options.files(
            write,
            manifest,
            filter=filter,
            snap=snap,
            rotate_size=rotate_size,
            rotate_time=rotate_time,
            keep=keep,
            zstd=zstd,
            ring=ring,
            most_ring_bytes=settings.MOST_TAP_RING_BYTES * (os.cpu_count() or 1),
            force=force,
            mirrored=mirror is not None,
        )
        wanted = settings.TapSettings(
            a=between[0],
            b=between[1],
            netns=netns,
            mirror=mirror,
            logger_mac=mac,
            recording=files.recording,
            fallback=fallback,
            duration_s=duration_s,
            whole=whole,
            ring_bytes=files.ring_bytes,
        )
        with Stop() as stop, screen(sys.stderr) as watcher:
            outcome = run_tap(wanted, watcher, stop, manifest=files.manifest, command=session.command)
        _finish(session, outcome)


def log(
    ctx: typer.Context,
    interface: Annotated[
        str, typer.Option("--interface", help="What to record.", metavar="IF", rich_help_panel="Link")
    ],
    write: Annotated[
        Path,
        typer.Option("--write", help="Record into this file.", metavar="FILE", rich_help_panel="Record"),
    ],
    netns: options.NetnsOption = None,
    duration: options.DurationOption = None,
    wire: Annotated[
        bool,
        typer.Option(
            "--wire", help="Switch off GRO, LRO and VLAN offload while recording.", rich_help_panel="Link"
        ),
    ] = False,
    filter: options.FilterOption = "",
    snap: options.SnapOption = None,
    rotate_size: options.RotateSizeOption = None,
    rotate_time: options.RotateTimeOption = None,
    keep: options.KeepOption = None,
    zstd: options.ZstdOption = False,
    ring: options.RingOption = None,
    manifest: options.ManifestOption = None,
    force: options.ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Record an interface."""
    from weirlab.cli.link.screen import screen
    from weirlab.link import settings
    from weirlab.link.stopping import Stop
    from weirlab.link.tap import run_log

    with Session(ctx, as_json=json) as session:
        duration_s = options.seconds(duration)
        files = options.files(
            write,
            manifest,
            filter=filter,
            snap=snap,
            rotate_size=rotate_size,
            rotate_time=rotate_time,
            keep=keep,
            zstd=zstd,
            ring=ring,
            most_ring_bytes=settings.MOST_LOG_RING_BYTES,
            force=force,
        )
        assert files.recording is not None
        wanted = settings.LogSettings(interface, files.recording, netns, duration_s, wire)
        with Stop() as stop, screen(sys.stderr) as watcher:
            outcome = run_log(wanted, watcher, stop, manifest=files.manifest, command=session.command)
        _finish(session, outcome)


def _finish(session: Session, outcome: Outcome) -> None:
    from weirlab.cli.link import tables

    document = {key: value for key, value in outcome.document.items() if key != "conclusion"}
    session.finish(document, outcome.last.sentence, tables.of(outcome))
    session.complain(outcome.problem())
