"""A run that another process writes can be interrupted by its lock, and nothing else can."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weirlab.base.errors import StoreError
from weirlab.store import Store, lock

WRITER = """
import sys, time
from pathlib import Path
import signal
from weirlab.base import interrupts
from weirlab.store import Store
# As a shell does for what a script starts in the background.
signal.signal(signal.SIGINT, signal.SIG_IGN)
interrupts.catch()
with Store(Path(sys.argv[1])).create("trial", {}, {}) as writer:
    print(writer.run_id, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    yield process
    process.kill()
    process.communicate()


def test_the_writer_of_a_run_is_interrupted_as_by_ctrl_c(
    tmp_path: Path, writer: subprocess.Popen[str]
) -> None:
    assert writer.stdout is not None
    run = Store(tmp_path).open(writer.stdout.readline().strip())
    lock.interrupt(run.path)
    writer.wait(60)
    assert run.manifest.status == "interrupted"
    with pytest.raises(StoreError, match="no process of this machine is writing"):
        lock.interrupt(run.path)


def test_a_process_that_has_not_the_lock_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a killed writer's number is another process's by now, or another machine has the store."""
    sent = list[int]()
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda process, number: sent.append(number))
    with Store(tmp_path).create("trial", {}, {}) as writer:
        innocent = os.getppid()
        with open(writer.path / lock.LOCK_FILE, "r+b") as file:
            file.write(f"{innocent:<31}\n".encode())
        with pytest.raises(StoreError, match="no process of this machine is writing"):
            lock.interrupt(writer.path)
    assert sent == []
