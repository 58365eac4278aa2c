"""Options that ``weir tap`` and ``weir log`` share, and the settings built from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from weirlab.base.errors import InputError

if TYPE_CHECKING:
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
