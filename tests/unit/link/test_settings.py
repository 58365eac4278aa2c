"""What a tap is asked to do, and what is refused with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.link import settings
from weirlab.link.settings import RecorderSettings, TapSettings

FILE = RecorderSettings(Path("link.pcapng"))
MAC = b"\x02\0\0\0\0\x09"


def test_a_tap_needs_somewhere_for_the_copies() -> None:
    with pytest.raises(InputError, match=r"--write FILE .* --mirror IF --logger-mac MAC"):
        TapSettings("a", "b")
    assert TapSettings("a", "b", recording=FILE).interfaces == ("a", "b")
    assert TapSettings("a", "b", mirror="c", logger_mac=MAC).interfaces == ("a", "b", "c")


def test_a_link_has_two_ends_and_its_mirror_is_a_third() -> None:
    with pytest.raises(InputError, match="two interfaces"):
        TapSettings("a", "a", recording=FILE)
    with pytest.raises(InputError, match="third interface"):
        TapSettings("a", "b", mirror="a", logger_mac=MAC)


def test_mirror_and_address_go_together() -> None:
    with pytest.raises(InputError, match="--logger-mac: a switch on the way would drop"):
        TapSettings("a", "b", mirror="c")
    with pytest.raises(InputError, match="--logger-mac needs --mirror"):
        TapSettings("a", "b", logger_mac=MAC, recording=FILE)


@pytest.mark.parametrize("text", ["02:00:00:00:00:09", "02-00-00-00-00-09", " 02:00:00:00:00:09 "])
def test_addresses_are_read_with_colons_and_dashes(text: str) -> None:
    assert settings.parse_mac(text) == MAC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:0g",
        "02:00-00:00:00:09",
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--logger-mac"):
        settings.parse_mac(text)


def test_further_recorders_write_beside_the_first() -> None:
    path = Path("d/link.pcapng.zst")
    assert [str(settings.part_path(path, part)) for part in range(3)] == [
        "d/link.pcapng.zst", "d/link.part2.pcapng.zst", "d/link.part3.pcapng.zst",
    ]  # fmt: skip
    assert settings.part_path(Path("10.0.0.1.pcapng"), 1).name == "10.0.0.1.part2.pcapng"
    assert settings.part_path(Path("link"), 1).name == "link.part2"


def test_a_compressed_file_is_called_so() -> None:
    plain, zst = Path("a.pcapng"), Path("a.pcapng.zst")
    assert settings.with_compression(plain, False) == (plain, False)
    assert settings.with_compression(plain, True) == (zst, True)
    assert settings.with_compression(zst, False) == (zst, True)
    assert settings.manifest_path(zst).name == "a.pcapng.zst.json"


def test_files_that_exist_are_replaced_only_if_that_was_asked_for(tmp_path: Path) -> None:
    recording = RecorderSettings(tmp_path / "a.pcapng")
    manifest = settings.manifest_path(recording.path)
    settings.check_files(recording, manifest, force=False)
    manifest.write_text("{}")
    with pytest.raises(InputError, match=r"--manifest .* exists; .* --force"):
        settings.check_files(recording, manifest, force=False)
    settings.check_files(recording, manifest, force=True)


def test_places_where_nothing_can_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        settings.check_file("--write", tmp_path / "no" / "a.pcapng", force=True)
    with pytest.raises(InputError, match="that is a folder"):
        settings.check_file("--write", tmp_path, force=True)


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_regular_file_is_never_replaced(force: bool, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (Path("/dev/null"), tmp_path / "link"):
        with pytest.raises(InputError, match=r"--write .*: that is a (device|symbolic link)"):
            settings.check_file("--write", path, force=force)


def test_a_name_that_leaves_no_room_for_that_of_a_rotated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / f"{'n' * 230}.pcapng"
    settings.check_files(RecorderSettings(path), tmp_path / "a.json", force=False)
    with pytest.raises(InputError, match=r"--write .*: the name is too long"):
        settings.check_files(RecorderSettings(path, rotate_bytes=1000), tmp_path / "a.json", force=False)


def test_record_and_manifest_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(tmp_path)
    with pytest.raises(InputError, match="the same file"):
        settings.check_files(RecorderSettings(tmp_path / "a"), tmp_path / "here" / "a", force=True)


def test_a_ring_larger_than_the_engine_makes_is_refused() -> None:
    assert settings.parse_ring("64MiB", settings.MOST_LOG_RING_BYTES) == 64 << 20
    with pytest.raises(InputError, match=r"--ring '100000GiB': the maximum here is 4,096 MiB"):
        settings.parse_ring("100000GiB", settings.MOST_LOG_RING_BYTES)


def test_a_path_in_a_message_is_printable(tmp_path: Path) -> None:
    path = tmp_path / "link\x1b[2J.pcapng"
    path.touch()
    with pytest.raises(InputError, match=r"--write .*/link\\x1b\[2J\.pcapng: the file exists"):
        settings.check_file("--write", path, force=False)
    recording = settings.RecorderSettings(path)
    with pytest.raises(
        InputError, match=r"--write .*/link\\x1b\[2J\.pcapng and --manifest .* are the same file"
    ):
        settings.check_files(recording, path, force=True)
