from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest

from weirlab.base.errors import LabError
from weirlab.lab.linux import namespace


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of namespaces, locked by another program."""
    monkeypatch.setattr(namespace, "DIRECTORY", tmp_path)
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return tmp_path


def test_a_lock_that_another_program_keeps_is_named(held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "_LOCK_S", 0.0)
    with pytest.raises(LabError, match=f"held the lock of {held}"):
        namespace.Namespace("any").create()
    assert list(held.iterdir()) == []


@pytest.mark.usefixtures("held", "caught_signals")
def test_waiting_for_that_lock_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace.time, "sleep", lambda _: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        namespace.Namespace("any").create()
