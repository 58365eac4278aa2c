"""Options that ``weir tap`` and ``weir log`` share, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weirlab.errors import InputError

if TYPE_CHECKING:
    from weirlab.link.settings import Recording

_RECORD = "Record"
_WHERE = "Link"

NetnsOption = Annotated[
    str | None,
    typer.Option(
        "--netns", help="Network namespace of the interfaces.", metavar="NS", rich_help_panel=_WHERE
    ),
]
DurationOption = Annotated[
    str | None,
    typer.Option(
        "--duration", help="Stop after this time: 90s, 5min, 1h.", metavar="TIME", rich_help_panel=_WHERE
    ),
]
FilterOption = Annotated[
    str,
    typer.Option(
        "--filter",
        help="Record only frames that match (pcap filter, as in tcpdump).",
        metavar="EXPR",
        rich_help_panel=_RECORD,
    ),
]
SnapOption = Annotated[
    int | None,
    typer.Option(
        "--snap", min=1, help="Bytes to record of each frame.", metavar="BYTES", rich_help_panel=_RECORD
    ),
]
RotateSizeOption = Annotated[
    str | None,
    typer.Option(
        "--rotate-size",
        help="Start a new file after this size, e.g. 500MB.",
        metavar="SIZE",
        rich_help_panel=_RECORD,
    ),
]
RotateTimeOption = Annotated[
    str | None,
    typer.Option(
        "--rotate-time",
        help="Start a new file after this time, e.g. 60s.",
        metavar="TIME",
        rich_help_panel=_RECORD,
    ),
]
KeepOption = Annotated[
    int | None,
    typer.Option(
        "--keep", min=1, help="With rotation: keep the latest N files.", metavar="N", rich_help_panel=_RECORD
    ),
]
ZstdOption = Annotated[bool, typer.Option("--zstd", help="Compress with zstd.", rich_help_panel=_RECORD)]
RingOption = Annotated[
    str | None,
    typer.Option(
        "--ring",
        help="Buffer in front of recorder or mirror (64MiB).",
        metavar="SIZE",
        rich_help_panel=_RECORD,
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace files that exist.", rich_help_panel=_RECORD)
]
ManifestOption = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        help="Where to write the account of all frames (default: FILE.json).",
        metavar="FILE",
        rich_help_panel=_RECORD,
    ),
]


@dataclass(frozen=True)
class Files:
    """Where the record and its manifest go."""

    recording: Recording | None
    manifest: Path | None
    ring_bytes: int | None = None


def files(
    write: Path | None,
    manifest: Path | None,
    *,
    filter: str,
    snap: int | None,
    rotate_size: str | None,
    rotate_time: str | None,
    keep: int | None,
    zstd: bool,
    ring: str | None,
    most_ring_bytes: int,
    force: bool,
    mirrored: bool = False,
) -> Files:
    """What the options say of files, which can be written.

    Nothing is changed yet: the recorder replaces the record when it begins, and the first manifest the old
    one. No ring is larger than ``most_ring_bytes``. ``mirrored``: copies leave by an interface, too, and
    need memory for that.
    """
    from weirlab.link import settings

    given = {
        "--filter": bool(filter), "--snap": snap, "--rotate-size": rotate_size, "--rotate-time": rotate_time,
        "--keep": keep, "--zstd": zstd, "--ring": None if mirrored else ring,
    }  # fmt: skip
    ring_bytes = None if ring is None else settings.parse_ring(ring, most_ring_bytes)
    if write is None:
        if unused := [option for option, value in given.items() if value]:
            raise InputError(f"{', '.join(unused)}: nothing is recorded here without --write FILE")
        if manifest is not None:
            settings.check_file("--manifest", manifest, force=force)
        return Files(None, manifest, ring_bytes)
    if keep is not None and rotate_size is None and rotate_time is None:
        raise InputError("--keep: there is one file only without --rotate-size or --rotate-time")
    path, compressed = settings.with_compression(write, zstd)
    recording = settings.Recording(
        path=path,
        filter=filter,
        snap_bytes=min(snap or settings.SNAP_BYTES, settings.SNAP_BYTES),
        rotate_bytes=settings.parse_size(rotate_size, "--rotate-size") if rotate_size else None,
        rotate_seconds=settings.parse_time(rotate_time, "--rotate-time") if rotate_time else None,
        keep_files=keep,
        zstd=compressed,
        ring_bytes=ring_bytes or settings.RING_BYTES,
    )
    account = manifest or settings.manifest_path(path)
    settings.check_files(recording, account, force=force)
    return Files(recording, account, ring_bytes)


def seconds(duration: str | None) -> float | None:
    """``--duration`` in seconds."""
    from weirlab.link.settings import parse_time

    return None if duration is None else parse_time(duration, "--duration")
