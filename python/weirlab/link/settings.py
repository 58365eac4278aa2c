"""Settings of a tap or a logger."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from weirlab.base import files
from weirlab.base.amounts import parse_size
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

Fallback = Literal["auto", "never", "only"]

SNAP_BYTES: Final = 262_144
"""Bytes kept of each frame by default: more than any frame has."""

RING_BYTES: Final = 64 << 20

MOST_LOG_RING_BYTES: Final = 4 << 30
"""The engine's largest ring of a packet socket."""

MOST_TAP_RING_BYTES: Final = 1 << 30
"""The engine's largest ring of one CPU; a tap's ring is divided among all of them."""

_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(?:(?P<by>[:-])[0-9a-fA-F]{2})(?:(?P=by)[0-9a-fA-F]{2}){4}")


@dataclass(frozen=True)
class RecorderSettings:
    """How frames are written. ``path`` is the file, or with rotation the beginning of the file names."""

    path: Path
    filter: str = ""
    tcp_port: int | None = None
    """Write only the headers of TCP connections with this port that are named while they are recorded."""
    snap_bytes: int = SNAP_BYTES
    rotate_bytes: int | None = None
    rotate_seconds: float | None = None
    most_bytes: int | None = None
    """Limit over all files; frames beyond it are not written."""
    keep_files: int | None = None
    zstd: bool = False
    ring_bytes: int = RING_BYTES
    cpu: int | None = None

    @property
    def rotates(self) -> bool:
        """Whether there will be more than one file."""
        return self.rotate_bytes is not None or self.rotate_seconds is not None


@dataclass(frozen=True)
class TapSettings:
    """A tap between the interfaces ``a`` and ``b`` of the namespace ``netns`` (None: this one)."""

    a: str
    b: str
    netns: str | None = None
    mirror: str | None = None
    logger_mac: bytes | None = None
    recording: RecorderSettings | None = None
    fallback: Fallback = "auto"
    duration_s: float | None = None
    whole: bool = False
    """Copy frames whole even where that costs frames of the link; a filter needs them whole in any case."""
    ring_bytes: int | None = None
    """Memory in front of the recorder, and as much again in front of the mirror."""

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise InputError(f"--between {self.a} {self.b}: a link has two ends; name two interfaces")
        if self.mirror in (self.a, self.b):
            raise InputError(
                f"--mirror {self.mirror}: copies cannot leave through an end of the link itself; name a "
                "third interface"
            )
        if self.mirror is not None and self.logger_mac is None:
            raise InputError(
                f"--mirror {self.mirror} needs --logger-mac: a switch on the way would drop frames "
                "addressed to others; to find the logger's address: ip link show IF"
            )
        if self.logger_mac is not None and self.mirror is None:
            raise InputError("--logger-mac needs --mirror: the interface that leads to the logger")
        if self.mirror is None and self.recording is None:
            raise InputError(
                "the copies would go nowhere: give --write FILE (record here), "
                "--mirror IF --logger-mac MAC (record elsewhere), or both"
            )

    @property
    def interfaces(self) -> tuple[str, ...]:
        """All interfaces in use."""
        return (self.a, self.b, *((self.mirror,) if self.mirror else ()))


@dataclass(frozen=True)
class LogSettings:
    """A logger on one interface."""

    interface: str
    recording: RecorderSettings
    netns: str | None = None
    duration_s: float | None = None
    wire: bool = False
    """While recording, switch off what merges frames or strips their tags."""


def parse_mac(text: str, option: str = "--logger-mac") -> bytes:
    """Six bytes of ``02:00:00:00:00:01`` or ``02-00-00-00-00-01``; refused if it can be no station's."""
    if not _MAC.fullmatch(text.strip()):
        raise InputError(f"{option} {quoted(text)} is not a MAC address such as 02:00:00:00:00:01")
    mac = bytes.fromhex(re.sub("[:-]", "", text.strip()))
    if not any(mac) or mac[0] & 1:
        raise InputError(f"{option} {text}: no station has this address; give the logger's own")
    return mac


def parse_ring(text: str, most_bytes: int) -> int:
    """Bytes of ``--ring``, which cannot be more than ``most_bytes``."""
    found = parse_size(text, "--ring")
    if found > most_bytes:
        raise InputError(f"--ring {quoted(text)}: the maximum here is {most_bytes >> 20:,} MiB")
    return found


def check_files(recording: RecorderSettings, manifest: Path, *, force: bool) -> None:
    """Raise ``InputError`` for files that cannot or must not be written, before anything is changed."""
    for option, path in (("--write", recording.path), ("--manifest", manifest)):
        check_file(option, path, force=force)
    files.check_output(_later(recording), "--write")
    if recording.path.resolve() == manifest.resolve():
        raise InputError(
            f"--write {files.shown(recording.path)} and --manifest {files.shown(manifest)} are the same "
            "file; give each its own"
        )


def check_file(option: str, path: Path, *, force: bool) -> None:
    """Raise ``InputError`` if this file cannot or must not be written."""
    files.check_output(path, option)
    if path.exists() and not force:
        raise InputError(
            f"{option} {files.shown(path)}: the file exists; choose another name, or replace it with --force"
        )


def bare_name(path: Path) -> tuple[str, str]:
    """Name without endings, and the endings: ``link.pcapng.zst`` gives ``link`` and ``.pcapng.zst``."""
    endings = "".join(path.suffixes[-2:] if path.suffix == ".zst" else path.suffixes[-1:])
    return path.name.removesuffix(endings), endings


def part_path(path: Path, part: int) -> Path:
    """Path for the ``part``-th recorder, counted from 0; the first keeps the name."""
    if part == 0:
        return path
    stem, endings = bare_name(path)
    return path.with_name(f"{stem}.part{part + 1}{endings}")


def _later(recording: RecorderSettings) -> Path:
    """The longest name that the session may give to a file."""
    if not recording.rotates:
        return part_path(recording.path, 1)
    stem, endings = bare_name(part_path(recording.path, 1))
    return recording.path.with_name(f"{stem}-00001-20260102T030405{endings}")


def with_compression(path: Path, zstd: bool) -> tuple[Path, bool]:
    """Make name and compression agree: either both say zstd (``.zst``), or neither does."""
    named = path.suffix == ".zst"
    return (path.with_name(f"{path.name}.zst") if zstd and not named else path), zstd or named


def manifest_path(path: Path) -> Path:
    """Path of the manifest, next to the record."""
    return path.with_name(f"{path.name}.json")
