"""The commands ``weir tap`` and ``weir log``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

import typer

from weirlab.base.errors import InputError
from weirlab.cli.options import JsonOption, grouped
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.link.session import LinkOutcome
    from weirlab.link.settings import RecorderSettings


LINK: Final = "Link"
"""Help panel for what is recorded."""
RECORD: Final = "Record"
"""Help panel for how it is recorded."""

NetnsOption = Annotated[
    str | None, typer.Option("--netns", help="Network namespace of the interfaces.", metavar="NS")
]
DurationOption = Annotated[
    str | None, typer.Option("--duration", help="Stop after this time: 90s, 5min, 1h.", metavar="TIME")
]


@dataclass(frozen=True)
class Files:
    """Where the record and its manifest go."""

    recording: RecorderSettings | None
    manifest: Path | None
    ring_bytes: int | None = None


@dataclass(frozen=True)
class RecordOptions:
    """How frames are recorded."""

    PANEL: ClassVar = RECORD

    filter: Annotated[
        str,
        typer.Option(help="Record only frames that match (pcap filter, as in tcpdump).", metavar="EXPR"),
    ] = ""
    snap: Annotated[
        int | None, typer.Option(min=1, help="Bytes to record of each frame.", metavar="BYTES")
    ] = None
    rotate_size: Annotated[
        str | None,
        typer.Option(help="Start a new file after this size, e.g. 500MB.", metavar="SIZE"),
    ] = None
    rotate_time: Annotated[
        str | None,
        typer.Option(help="Start a new file after this time, e.g. 60s.", metavar="TIME"),
    ] = None
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="With rotation: keep only the latest N files.", metavar="N"),
    ] = None
    zstd: Annotated[bool, typer.Option("--zstd", help="Compress with zstd.")] = False
    ring: Annotated[
        str | None, typer.Option(help="Buffer for recorder or mirror (64MiB).", metavar="SIZE")
    ] = None
    manifest: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the account of all frames (default: FILE.json).",
            metavar="FILE",
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False

    def files(self, write: Path | None, most_ring_bytes: int, *, mirrored: bool = False) -> Files:
        """The files that the options name, after checking that they can be written.

        Nothing is changed yet: the recorder replaces the record when it starts, and the first manifest
        replaces the old one. The ring may have at most ``most_ring_bytes``. ``mirrored``: copies also leave
        by an interface, which needs a ring, too.
        """
        from weirlab.link import settings

        ring_bytes = None if self.ring is None else settings.parse_ring(self.ring, most_ring_bytes)
        if write is None:
            if unused := self._unused(mirrored):
                raise InputError(f"{', '.join(unused)}: nothing is recorded here without --write FILE")
            if self.manifest is not None:
                settings.check_file("--manifest", self.manifest, force=self.force)
            return Files(None, self.manifest, ring_bytes)
        recording = self._recording(write, ring_bytes)
        account = self.manifest or settings.manifest_path(recording.path)
        settings.check_files(recording, account, force=self.force)
        return Files(recording, account, ring_bytes)

    def _unused(self, mirrored: bool) -> list[str]:
        """The given options that have no effect if nothing is recorded."""
        given = {
            "--filter": bool(self.filter),
            "--snap": self.snap,
            "--rotate-size": self.rotate_size,
            "--rotate-time": self.rotate_time,
            "--keep": self.keep,
            "--zstd": self.zstd,
            "--ring": None if mirrored else self.ring,
        }
        return [option for option, value in given.items() if value]

    def _recording(self, write: Path, ring_bytes: int | None) -> RecorderSettings:
        from weirlab.base.amounts import parse_size, parse_time
        from weirlab.link import settings

        size, time = self.rotate_size, self.rotate_time
        if self.keep is not None and size is None and time is None:
            raise InputError("--keep: there is one file only without --rotate-size or --rotate-time")
        path, compressed = settings.with_compression(write, self.zstd)
        return settings.RecorderSettings(
            path=path,
            filter=self.filter,
            snap_bytes=min(self.snap or settings.SNAP_BYTES, settings.SNAP_BYTES),
            rotate_bytes=parse_size(size, "--rotate-size") if size else None,
            rotate_seconds=parse_time(time, "--rotate-time") if time else None,
            keep_files=self.keep,
            zstd=compressed,
            ring_bytes=ring_bytes or settings.RING_BYTES,
        )


def seconds(duration: str | None) -> float | None:
    """``--duration`` in seconds."""
    from weirlab.base.amounts import parse_time

    return None if duration is None else parse_time(duration, "--duration")


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
    from weirlab.cli.link import screen

    document = {key: value for key, value in outcome.document.items() if key != "conclusion"}
    session.finish(document, outcome.last.sentence, screen.of(outcome))
    session.complain(outcome.problem())
