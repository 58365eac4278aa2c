"""Bundles: what goes in comes out, and nothing else is let in."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from weirlab.base.errors import InputError, ModelError
from weirlab.devices.library.bundling import refit_error
from weirlab.library import ProfileBundle, packed, read_bundle
from weirlab.library.bundle import MANIFEST, MODEL, MOST_BUNDLE_BYTES, SIGNATURE, TRIALS
from weirlab.library.signature import sign, signature

KEPT = Path(__file__).with_name("edge-version-1.weir-profile")
"""Written on 2026-11-29; later versions of Weir must open it."""


def archive(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP archive with anything in it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return stream.getvalue()


def changed(bundle: ProfileBundle, **fields: object) -> bytes:
    """``bundle`` with other fields in its manifest."""
    manifest = {**json.loads(bundle.members[MANIFEST]), **fields}
    return archive({**bundle.members, MANIFEST: json.dumps(manifest).encode()})


def test_a_bundle_holds_the_trials_and_the_model_fitted_to_them(bundle: ProfileBundle) -> None:
    read = read_bundle(bundle.content(), "edge")
    assert (read.id, read.manifest) == (bundle.id, bundle.manifest)
    assert read.trials.height == len(read.observations()) > 50
    assert read.device.name == "edge"
    assert refit_error(read) < 1e-9


def test_the_same_profile_gives_the_same_file(bundle: ProfileBundle) -> None:
    again = packed(bundle.manifest, json.loads(bundle.members[MODEL]), bundle.observations())
    assert again.content() == bundle.content()
    assert len(bundle.content()) < 40_000


def test_a_bundle_of_an_earlier_version_opens() -> None:
    kept = read_bundle(KEPT.read_bytes(), str(KEPT))
    assert kept.id.startswith("5abb82e88e5e")
    assert kept.trials.height == 60
    threshold_pps = kept.device.models["queueing"].predict(1e5, 64, 100).threshold_pps
    assert threshold_pps == pytest.approx(678508, rel=1e-4)


@pytest.mark.parametrize("member", [MODEL, TRIALS])
def test_a_changed_member_is_refused(bundle: ProfileBundle, member: str) -> None:
    content = archive({**bundle.members, member: bundle.members[member] + b" "})
    with pytest.raises(InputError, match=rf"edge is refused: {member} is not the one that"):
        read_bundle(content, "edge")


def test_a_changed_byte_anywhere_is_refused_or_changes_the_identity(bundle: ProfileBundle) -> None:
    content = bytearray(bundle.content())
    for place in range(0, len(content), 97):
        content[place] ^= 0xFF
        try:
            read = read_bundle(bytes(content), "edge")
        except InputError:
            pass
        else:
            # Dates and rights of members say nothing.
            assert read.members == bundle.members
        content[place] ^= 0xFF


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"../../etc/cron.d/x": b"x"}, "a bundle has no member '../../etc/cron.d/x'"),
        ({"/etc/passwd": b"x"}, "a bundle has no member"),
        ({"calibration.json": b"{}"}, "calibration.json is not the one that the manifest names"),
        ({SIGNATURE: bytes(1_000_000)}, "manifest.json.sig has more than 10,000 bytes"),
        ({TRIALS: bytes(300_000_000)}, "trials.parquet has more than 8,000,000 bytes"),
    ],
)
def test_members_that_no_bundle_has_are_refused(
    bundle: ProfileBundle, extra: Mapping[str, bytes], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_bundle(archive({**bundle.members, **extra}), "edge")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is no ZIP archive, or only a part of one"),
        (b"PK\x03\x04 and no more", "it is no ZIP archive, or only a part of one"),
        (bytes(MOST_BUNDLE_BYTES + 1), "it has more than 4,000,000 bytes"),
        (archive({}), "it has no manifest.json"),
        (archive({MANIFEST: b"{}"}, zipfile.ZIP_LZMA), "is packed by another method than Deflate"),
        (archive({MANIFEST: b"[" * 50_000}), "nested too deeply|it has no model.json"),
        (archive({MANIFEST: b"[]", MODEL: b"{}", TRIALS: b""}), "manifest.json is not that of a profile"),
    ],
)
def test_what_is_no_bundle_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_bundle(content, "edge")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 2}, "it has version 2 of the format, this Weir reads 1"),
        ({"name": "../edge"}, "is no name of a profile"),
        ({"name": 7}, "name: .*string"),
        ({"files": {}}, "model.json is not the one that the manifest names|trials.parquet is not the one"),
        ({"files": []}, "files: "),
        ({"conditions": "none"}, "conditions: "),
        ({"more": 1}, "more: "),
    ],
)
def test_a_manifest_of_wrong_types_is_refused(
    bundle: ProfileBundle, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_bundle(changed(bundle, **fields), "edge")


def test_a_model_or_a_table_that_is_another_thing_is_refused_when_it_is_used(bundle: ProfileBundle) -> None:
    stream = io.BytesIO()
    bundle.trials.with_columns(pl.col("packets").cast(pl.String)).write_parquet(stream)
    for table, message in ((stream.getvalue(), "packets is String"), (b"PAR1", "is no table of trials")):
        broken = ProfileBundle(bundle.manifest, {**bundle.members, TRIALS: table})
        with pytest.raises(InputError, match=message):
            _ = broken.trials
    for model, kind in ((b"{", InputError), (b'{"format":"weir-model","version":9}', ModelError)):
        with pytest.raises(kind):
            _ = ProfileBundle(bundle.manifest, {**bundle.members, MODEL: model}).device


def test_a_signature_tells_whose_it_is_and_no_other_content_passes_for_it(
    bundle: ProfileBundle, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    known = tmp_path / "signers"
    known.write_text(f'lab@example.org namespaces="weir-profile" {key.with_suffix(".pub").read_text()}')
    signed = read_bundle(sign(bundle, key).content(), "edge")
    assert (signed.id, signature(bundle, known).key) == (bundle.id, "")
    assert signature(signed, known).signer == "lab@example.org"
    unknown = signature(signed)
    assert unknown.key.startswith("SHA256:")
    assert unknown.signer == ""

    other = json.loads(signed.members[MANIFEST]) | {"host": "another machine"}
    forged = ProfileBundle(signed.manifest, {**signed.members, MANIFEST: json.dumps(other).encode()})
    with pytest.raises(InputError, match="is not one of its content"):
        signature(forged, known)
    with pytest.raises(InputError, match="ssh-keygen does not sign with it"):
        sign(bundle, tmp_path / "signers")
