"""The journal of borrowed ports. Borrowing itself needs namespaces: tests/netns."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weirlab.lab.wired import borrowing

PORT = {"name": "enp3s0", "netns": "weir-01234567-tx"}


def noted(journal: Path) -> None:
    fd = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        borrowing._note(fd, PORT)
    finally:
        os.close(fd)


def test_what_a_port_was_like_is_noted_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "01234567.ports"
    noted(journal)
    assert borrowing.states_in(journal) == [PORT]
    write = os.write
    # So does a file system that fills up meanwhile.
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
    with pytest.raises(OSError, match="No space left on device"):
        noted(journal)
    assert borrowing.states_in(journal) == [PORT]


def test_ports_that_cannot_be_put_back_stay_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "01234567.ports"
    noted(journal)
    monkeypatch.setattr(borrowing, "_put_back", lambda state: False)
    before = journal.stat()
    assert borrowing.give_back(journal) == [PORT]
    assert journal.stat().st_mtime_ns == before.st_mtime_ns
    monkeypatch.setattr(borrowing, "_put_back", lambda state: True)
    assert borrowing.give_back(journal) == []
    assert not journal.exists()
