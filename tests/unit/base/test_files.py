"""Outputs that are there in full or not at all, whatever lies in their place; inputs that have an end."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from weirlab.base import files
from weirlab.base.errors import InputError, StoreError


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    for content in (b"one", b"two"):
        files.write_bytes(path, content)
        assert path.read_bytes() == content
    assert names(tmp_path) == ["report.html"]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


def link_to_a_file(path: Path) -> None:
    path.with_name("victim").write_bytes(b"old")
    path.symlink_to("victim")


def broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [pipe, socket, link_to_a_file, broken_link, Path.mkdir])
def test_what_is_no_regular_file_is_neither_replaced_nor_followed(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "n"
    make(path)
    before, kind = names(tmp_path), path.lstat().st_mode
    with pytest.raises(InputError, match=r"--out .*/n: that is a"):
        files.check_output(path, "--out")
    with pytest.raises(InputError, match="/n: that is a"):
        files.write_bytes(path, b"new")
    assert (names(tmp_path), path.lstat().st_mode) == (before, kind)
    if path.is_file():
        assert path.read_bytes() == b"old"


def test_a_device_is_not_replaced_by_a_file() -> None:
    # Only asked about: this machine needs it.
    with pytest.raises(InputError, match="--write /dev/null: that is a device, which is not replaced"):
        files.check_output(Path("/dev/null"), "--write")


def test_a_pipe_that_was_put_there_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "n"
    with pytest.raises(InputError, match="that is a pipe"):
        files.write(path, lambda file: os.mkfifo(path))
    assert path.is_fifo()
    assert names(tmp_path) == ["n"]


def test_links_planted_under_foreseeable_names_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"old")
    planted = [".trials.csv.tmp", f".trials.csv.{os.getpid()}.part", f".trials.csv.{os.getpid()}.partial"]
    for name in planted:
        (tmp_path / name).symlink_to(victim)
    files.write_bytes(tmp_path / "trials.csv", b"new")
    assert victim.read_bytes() == b"old"
    assert names(tmp_path) == sorted([*planted, "trials.csv", "victim"])


def test_whatever_ends_the_writing_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files.write_bytes(path, b"old")
    for error in (OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ValueError("bug")):

        def fail(file: BinaryIO, error: BaseException = error) -> None:
            file.write(b"half")
            raise error

        with pytest.raises(StoreError if isinstance(error, OSError) else type(error)):
            files.write(path, fail)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_capture_is_for_its_owner_only_and_other_files_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_bytes(tmp_path / "calls.pcap", b"", private=True)
        files.write_bytes(tmp_path / "report.html", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "calls.pcap").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o640


def test_the_longest_name_there_can_be_is_written_and_a_longer_one_is_bad_input(tmp_path: Path) -> None:
    longest = tmp_path / ("n" * 255)
    files.check_output(longest)
    files.write_bytes(longest, b"x")
    assert longest.read_bytes() == b"x"
    for name in ("n" * 256, "n" * 100_000):
        with pytest.raises(InputError, match=r"--out .*: the name is too long; give a shorter one") as caught:
            files.check_output(tmp_path / name, "--out")
        assert len(str(caught.value)) < 500


def test_a_place_that_cannot_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("gone", "file"):
        with pytest.raises(InputError, match=f"there is no folder .*{folder}; create it first"):
            files.check_output(tmp_path / folder / "x.pcap")
    files.check_output(tmp_path / "made" / "later" / "x.html", makes_folder=True)
    files.check_output(tmp_path / "x.pcap")
    with pytest.raises(StoreError, match=r"cannot write to /proc/self"):
        files.check_output(Path("/proc/self/x.pcap"))
    with pytest.raises(InputError, match=r"--plots .*/file: that is not a folder"):
        files.check_folder(tmp_path / "file" / "plots", "--plots")
    files.check_folder(tmp_path / "made" / "later")
    assert names(tmp_path) == ["file"]


def test_inputs_are_read_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    assert files.read_text(path, "a ruleset", 100) == "one\ntwo\nthree\n"
    assert files.read_bytes(path, "a ruleset", path.stat().st_size) == path.read_bytes()


def test_an_input_beyond_its_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_bytes(bytes(1001))
    with pytest.raises(InputError, match="rules: more than 1,000 bytes, and a ruleset is never so large"):
        files.read_bytes(path, "a ruleset", 1000)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_a_device_is_no_input(device: str) -> None:
    with pytest.raises(InputError, match=f"{device}: (that is a device|cannot be read)"):
        files.read_bytes(Path(device), "a scenario file", 1000)


def test_a_pipe_into_which_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"fifo: that is a pipe without a writer, .*give the path of a rul"):
        files.read_text(path, "a ruleset", 1000)


def test_a_pipe_into_which_somebody_writes_is_read_to_its_end_or_its_limit() -> None:
    def through(content: bytes, limit: int) -> bytes:
        read, write = os.pipe()
        writer = threading.Thread(target=lambda: os.write(write, content) and os.close(write))
        try:
            # As of bash's <(command).
            given = Path(f"/proc/self/fd/{read}")
            os.write(write, b"*")
            writer.start()
            return files.read_bytes(given, "a ruleset", limit)
        finally:
            writer.join()
            os.close(read)

    assert through(b"filter\n", 1000) == b"*filter\n"
    with pytest.raises(InputError, match="more than 1,000 bytes"):
        through(bytes(2000), 1000)


def test_bytes_that_are_no_text_are_named_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "latin1"
    path.write_bytes(b"a: 1\nb: \xe4\n")
    with pytest.raises(InputError, match=r"latin1:2:4: not UTF-8 text, and a ruleset is"):
        files.read_text(path, "a ruleset", 1000)


def test_what_is_being_written_has_no_name_that_could_stay_after_a_kill(tmp_path: Path) -> None:
    seen = []
    files.write(tmp_path / "out", lambda file: seen.append([file.write(b"x"), os.listdir(tmp_path)]))
    assert seen == [[1, []]]
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_system_without_nameless_files_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: str, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    files.write_bytes(tmp_path / "out", b"x")
    assert (tmp_path / "out").read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_whose_name_is_too_long_is_refused_before_it_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--plots .*: the name is too long; give a shorter one"):
        files.check_folder(tmp_path / ("n" * 256) / "plots", "--plots")


def test_a_folder_that_is_missing_is_looked_for_further_up(tmp_path: Path) -> None:
    files.check_folder(tmp_path / "new" / "plots")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"--plots .*/file: that is not a folder"):
        files.check_folder(tmp_path / "file" / "new" / "plots", "--plots")


def test_a_path_in_a_message_about_its_text_is_printable(tmp_path: Path) -> None:
    path = tmp_path / "rules\x1b[2J"
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"/rules\\x1b\[2J:1:1: not UTF-8 text"):
        files.read_text(path, "a ruleset", 100)


@pytest.mark.parametrize("check", [files.check_folder, files.check_output])
def test_a_name_that_no_file_can_have_is_refused(check: Callable[[Path, str], None], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file can have this name"):
        check(tmp_path / "a\0b", "--plots")


def test_what_a_killed_writer_left_goes_with_the_next_file_and_a_living_ones_stays(tmp_path: Path) -> None:
    left, living, foreign = (
        tmp_path / name for name in (f".{'0' * 32}.tmp", f".{'1' * 16}.tmp", ".mine.tmp")
    )
    for path in (left, living, foreign):
        path.write_text("half")
    with living.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        files.write_bytes(tmp_path / "new", b"whole")
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([living.name, foreign.name, "new"])
    files.sweep(tmp_path)
    assert not living.exists()


def test_a_folder_is_listed_again_only_after_others_changed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []
    listed = os.listdir

    def counting(path: Path) -> list[str]:
        seen.append(path)
        return listed(path)

    monkeypatch.setattr(os, "listdir", counting)
    for content in (b"one", b"two"):
        files.write_bytes(tmp_path / "out", content)
    assert len(seen) == 1
    left = tmp_path / f".{'3' * 32}.tmp"
    left.write_text("half")
    os.utime(tmp_path, ns=(0, 0))
    with left.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        files.write_bytes(tmp_path / "out", b"three")
    assert left.exists()
    # Nothing else changed, but its writer may have been killed.
    files.write_bytes(tmp_path / "out", b"four")
    assert not left.exists()
    assert len(seen) == 3


def test_no_link_is_swept(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("whole")
    link = tmp_path / f".{'2' * 32}.tmp"
    link.symlink_to(target)
    files.sweep(tmp_path)
    assert link.is_symlink()
    assert target.read_text() == "whole"


def test_a_temporary_folder_outlives_a_killed_process_until_the_next_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    target, link = tmp_path / "target", tmp_path / "weir-test-link"
    target.mkdir()
    link.symlink_to(target)
    holder = (
        "import sys, tempfile\n"
        "from weirlab.base import files\n"
        f"tempfile.tempdir = {str(tmp_path)!r}\n"
        "with files.scratch_folder('weir-test-') as folder:\n"
        "    (folder / 'built').write_text('half')\n"
        "    print(folder.name, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", holder], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        name = other.stdout.readline().strip()
        with files.scratch_folder("weir-test-") as folder:
            assert names(tmp_path) == sorted(["target", link.name, name, folder.name])
        other.kill()
    assert names(tmp_path) == sorted(["target", link.name, name])
    with files.scratch_folder("weir-test-") as folder:
        (folder / "mine").touch()
        assert names(tmp_path) == sorted(["target", link.name, folder.name])
    assert names(tmp_path) == ["target", link.name]
