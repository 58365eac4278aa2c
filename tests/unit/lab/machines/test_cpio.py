"""Archives for the kernel, byte by byte."""

from __future__ import annotations

import io
import stat

from weirlab.lab.machines.root import Archive


def read(content: bytes) -> list[tuple[str, int, bytes, tuple[int, int]]]:
    """Name, mode, content and device of every entry (buffer-format.rst in the kernel's documentation)."""
    found, at = [], 0
    while True:
        assert content[at : at + 6] == b"070701"
        fields = [int(content[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, device, length = fields[1], fields[6], (fields[9], fields[10]), fields[11]
        name = content[at + 110 : at + 110 + length - 1].decode()
        assert content[at + 110 + length - 1] == 0
        at += (110 + length + 3) // 4 * 4
        found.append((name, mode, content[at : at + size], device))
        at += (size + 3) // 4 * 4
        if name == "TRAILER!!!":
            assert at == len(content)
            return found[:-1]


def written(archive: Archive) -> bytes:
    file = io.BytesIO()
    archive.write(file)
    return file.getvalue()


def test_the_first_entry_is_laid_out_as_newc() -> None:
    archive = Archive()
    archive.add_file("init", b"#!/bin/sh\n", 0o755)
    header = b"070701" + b"00000001" + b"000081ED" + b"00000000" * 2 + b"00000001" + b"00000000" + b"0000000A"
    header += b"00000000" * 4 + b"00000005" + b"00000000"
    assert written(archive).startswith(header + b"init\0\0" + b"#!/bin/sh\n\0\0" + b"070701")


def test_folders_come_before_what_is_in_them() -> None:
    archive = Archive()
    archive.add_file("usr/bin/ip", b"elf", 0o755)
    archive.add_link("bin", "usr/bin")
    archive.add_character_device("dev/console", 5, 1)
    archive.add_file("usr/bin/nft", b"", 0o755)
    entries = read(written(archive))
    assert [name for name, *_ in entries] == [
        "usr", "usr/bin", "usr/bin/ip", "bin", "dev", "dev/console", "usr/bin/nft"
    ]  # fmt: skip
    kinds = {name: stat.filemode(mode) for name, mode, _, _ in entries}
    assert kinds == {
        "usr": "drwxr-xr-x",
        "usr/bin": "drwxr-xr-x",
        "usr/bin/ip": "-rwxr-xr-x",
        "bin": "lrwxrwxrwx",
        "dev": "drwxr-xr-x",
        "dev/console": "crw-------",
        "usr/bin/nft": "-rwxr-xr-x",
    }
    assert entries[3][2] == b"usr/bin"
    assert entries[5][3] == (5, 1)


def test_the_same_entries_make_the_same_bytes() -> None:
    first, second = Archive(), Archive()
    for archive in (first, second):
        archive.add_folder("run")
        archive.add_file("a/b", b"c")
    assert written(first) == written(second)
