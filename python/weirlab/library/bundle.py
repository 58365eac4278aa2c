"""A profile as one file: a ZIP archive with a manifest that has the digest of everything else.

The identity of a bundle is the SHA-256 of its manifest, so it names the whole content. Bundles come from
strangers: every member is known by name and has an upper limit, nothing is unpacked to a disk, and a table is
measured before it is decoded.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl

from weirlab.base.documents import plain, typed
from weirlab.base.errors import InputError, ModelError
from weirlab.base.quoting import quoted
from weirlab.model import DeviceModels
from weirlab.model.io import from_document, pick
from weirlab.records import SIMULATION, Observation
from weirlab.store.parquet import Allowance, InvalidTable

FORMAT: Final = "weir-profile"
VERSION: Final = 1
SUFFIX: Final = ".weir-profile"
NAME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")

MANIFEST: Final = "manifest.json"
MODEL: Final = "model.json"
TRIALS: Final = "trials.parquet"
CALIBRATION: Final = "calibration.json"
SIGNATURE: Final = "manifest.json.sig"
_MOST: Final[Mapping[str, int]] = {
    MANIFEST: 100_000,
    MODEL: 8_000_000,
    TRIALS: 8_000_000,
    CALIBRATION: 1_000_000,
    SIGNATURE: 10_000,
}
"""Members and how many bytes each may have, unpacked."""
_NEEDED: Final = (MANIFEST, MODEL, TRIALS)
MOST_BUNDLE_BYTES: Final = 4_000_000
"""Of the file; those that come with Weir have some 50,000."""
_MOST_TRIALS_BYTES: Final = 100_000_000
"""Of the decoded table."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError, ValueError,
    OSError,
)  # fmt: skip
"""What ``zipfile`` raises for archives that are damaged, encrypted or packed in other ways."""

COLUMNS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(
        (
            "rate_pps", "frame_bytes", "position", "forwarding_pps", "loss_ratio", "delay_mean_ns",
            "delay_p50_ns", "delay_p90_ns", "delay_p99_ns", "delay_p999_ns", "jitter_ns", "gap_scv",
        ),
        pl.Float64,
    ),
    "stateful": pl.Boolean,
    "cross_traffic": pl.Boolean,
    "packets": pl.Int64,
}  # fmt: skip
"""The fields of an observation, a row for each valid trial."""


@dataclass(frozen=True)
class MemberDigest:
    """What the manifest says of another member."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class BundleManifest:
    """What a profile is of, where it was measured, and on what terms it may be used."""

    name: str
    licence: str
    """SPDX expression."""
    measured: str
    """When, ISO 8601, UTC."""
    host: str
    """The machine in words: processors, memory, whether it is virtual; not its name."""
    remark: str = ""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Lab, device, kernel, versions and other facts of the run."""
    files: Mapping[str, MemberDigest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for a name that is none."""
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"{quoted(self.name)} is no name of a profile: lower-case letters, digits, '.', '+' and '-', "
                "at most 64"
            )

    @property
    def simulated(self) -> bool:
        """Whether the device was simulated."""
        return self.conditions.get("lab") == SIMULATION


@dataclass(frozen=True)
class ProfileBundle:
    """A bundle whose digests are right. Its signature, if any, has not been checked."""

    manifest: BundleManifest
    members: Mapping[str, bytes]

    @property
    def id(self) -> str:
        """64 hexadecimal digits that name the content."""
        return hashlib.sha256(self.members[MANIFEST]).hexdigest()

    @property
    def file_name(self) -> str:
        """The name under which a library keeps it."""
        return f"{self.manifest.name}-{self.id[:12]}{SUFFIX}"

    @cached_property
    def device(self) -> DeviceModels:
        """The models; raises ``InputError`` or ``ModelError`` if they cannot be used."""
        where = f"the model in bundle {self.manifest.name}"
        try:
            document = json.loads(self.members[MODEL])
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON ({error}); ask for the bundle again") from error
        return replace(pick(from_document(document, where), None, where), name=self.manifest.name)

    @cached_property
    def trials(self) -> pl.DataFrame:
        """A row per valid trial with :data:`COLUMNS`; raises ``InputError`` if the table is another."""
        where = Path(f"{self.manifest.name}{SUFFIX}/{TRIALS}")
        content = self.members[TRIALS]
        try:
            Allowance(_MOST_TRIALS_BYTES).admit(where, content, COLUMNS)
            file = io.BytesIO(content)
            frame = pl.read_parquet(file, columns=list(COLUMNS))
        except (InvalidTable, pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"{where} is no table of trials ({error}); ask for the bundle again") from error
        if wrong := [name for name, kind in COLUMNS.items() if frame.schema[name] != kind]:
            raise InputError(f"{where} is no table of trials: {wrong[0]} is {frame.schema[wrong[0]]}")
        return frame

    def observations(self) -> list[Observation]:
        """The trials, to fit models to."""
        return [Observation(**row) for row in self.trials.iter_rows(named=True)]

    def content(self) -> bytes:
        """The file; the same members give the same bytes."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name in _MOST:
                if name in self.members:
                    entry = zipfile.ZipInfo(name, _EPOCH)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = 0o644 << 16
                    archive.writestr(entry, self.members[name], compresslevel=9)
        return stream.getvalue()


def packed(
    manifest: BundleManifest,
    device: Mapping[str, Any],
    trials: Sequence[Observation],
    calibration: Any = None,
) -> ProfileBundle:
    """A bundle without a signature; ``device`` is a model file's document.

    Raises ``ModelError`` without trials.
    """
    if not trials:
        raise ModelError(f"profile {manifest.name} has no valid trial")
    stream = io.BytesIO()
    rows = [{name: getattr(each, name) for name in COLUMNS} for each in trials]
    pl.DataFrame(rows, schema=COLUMNS).write_parquet(stream, compression="zstd", compression_level=19)
    members = {MODEL: _json(device), TRIALS: stream.getvalue()}
    if calibration is not None:
        members[CALIBRATION] = _json(calibration)
    digests = {name: MemberDigest(_sha256(content), len(content)) for name, content in members.items()}
    whole = replace(manifest, files=digests)
    document = {"format": FORMAT, "version": VERSION, **plain(vars(whole))}
    return ProfileBundle(whole, {MANIFEST: _json(document), **members})


def read_bundle(content: bytes, where: str) -> ProfileBundle:
    """The bundle in ``content``, which is called ``where`` in messages.

    Raises
    ------
    InputError
        It is no bundle, was tampered with, or holds what no bundle may hold.
    """
    try:
        members = _members(content)
        manifest = _manifest(members[MANIFEST])
        for name in members.keys() - {MANIFEST, SIGNATURE}:
            digest = manifest.files.get(name)
            if digest is None or digest.sha256 != _sha256(members[name]):
                raise ValueError(f"{name} is not the one that the manifest names: it was changed")
        if missing := manifest.files.keys() - members.keys():
            raise ValueError(f"{quoted(sorted(missing)[0])} is missing")
    except _BROKEN as error:
        raise InputError(f"{where} is refused: {error}; ask for the bundle again") from error
    return ProfileBundle(manifest, members)


def _members(content: bytes) -> dict[str, bytes]:
    if len(content) > MOST_BUNDLE_BYTES:
        raise ValueError(f"it has more than {MOST_BUNDLE_BYTES:,} bytes")
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is no ZIP archive, or only a part of one")
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if name not in _MOST:
                raise ValueError(f"a bundle has no member {quoted(name)}")
            if name in found:
                raise ValueError(f"{name} is in it twice")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # LZMA takes as much memory as an archive asks for.
                raise ValueError(f"{name} is packed by another method than Deflate")
            with archive.open(entry) as member:
                data = member.read(_MOST[name] + 1)
            if len(data) > _MOST[name]:
                raise ValueError(f"{name} has more than {_MOST[name]:,} bytes")
            found[name] = data
    if missing := [name for name in _NEEDED if name not in found]:
        raise ValueError(f"it has no {missing[0]}")
    return found


def _manifest(content: bytes) -> BundleManifest:
    try:
        document = json.loads(content)
    except RecursionError as error:
        raise ValueError(f"{MANIFEST} is nested too deeply") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{MANIFEST} is not that of a profile")
    if document.get("version") != VERSION:
        raise ValueError(
            f"it has version {quoted(document.get('version'))} of the format, this Weir reads {VERSION}"
        )
    fields = {name: value for name, value in document.items() if name not in ("format", "version")}
    return typed(BundleManifest, fields)


def _json(document: Any) -> bytes:
    return (json.dumps(plain(document), separators=(",", ":"), allow_nan=False) + "\n").encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
