"""Recorders in processes of their own that do not answer: an error that names the file, in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weirlab.errors import LabError
from weirlab.lab.linux.namespace import Namespace
from weirlab.studies.monitor.bed import recording, tcpdump
from weirlab.studies.monitor.bed.recording import InChild, first_line
from weirlab.studies.monitor.bed.tcpdump import Tcpdump


def child(monkeypatch: pytest.MonkeyPatch, code: str) -> list[subprocess.Popen[bytes]]:
    """Lets recorders run ``code`` instead; the processes, as they are started."""
    real, started = subprocess.Popen, []

    def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        started.append(real([sys.executable, "-c", code], **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(recording.programs, "start", start)
    return started


def test_the_first_line_is_awaited_only_so_long() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print('rec', end='', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        said = first_line(process, 0.3)
        process.kill()
    # However much of it came by then, it is no whole line.
    assert said in (b"", b"rec")


def test_a_recorder_that_says_nothing_is_ended_and_its_file_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = child(monkeypatch, "import sys; sys.stdin.read()")
    monkeypatch.setattr(recording, "_PATIENCE_S", 0.1)
    with pytest.raises(LabError, match=r"the recorder of .*a\.pcapng does not begin: it says nothing"):
        InChild(tmp_path / "a.pcapng", {})
    assert [process.poll() for process in started] == [-9]


def test_what_a_recorder_says_when_it_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, "raise SystemExit('no such ring')")
    with pytest.raises(LabError, match=r"does not begin: no such ring"):
        InChild(tmp_path / "a.pcapng", {})


def test_a_recorder_that_does_not_end_is_an_error_that_names_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = "import threading; print('recording', flush=True); threading.Event().wait()"
    started = child(monkeypatch, code)
    recorder = InChild(tmp_path / "a.pcapng", {})
    monkeypatch.setattr(recording, "_PATIENCE_S", 0.1)
    with pytest.raises(LabError, match=r"does not end within 0.1 s: its file .*a\.pcapng cannot be trusted"):
        recorder.end()
    recorder.close()
    assert started[0].poll() == -9


def test_a_tcpdump_that_does_not_end_is_an_error_that_names_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Here(Namespace):
        """This very namespace, where nothing is sent."""

        def __init__(self) -> None: ...

        def call(self, function):  # type: ignore[no-untyped-def]
            return function()

    code = (
        "import signal, sys, threading; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "print('listening on in0', file=sys.stderr, flush=True); threading.Event().wait()"
    )
    child(monkeypatch, code)
    monkeypatch.setattr(tcpdump, "_push", lambda: None)
    sizes = iter(range(100))
    monkeypatch.setattr(Tcpdump, "_size", lambda self: next(sizes))
    monkeypatch.setattr(Tcpdump, "_await_idle", lambda self: None)
    recorder = Tcpdump(Here(), "in0", tmp_path / "a.pcap", Here())
    monkeypatch.setattr(tcpdump, "_PATIENCE_S", 0.1)
    try:
        with pytest.raises(LabError, match=r"tcpdump does not end within 0.1 s: its file .*a\.pcap"):
            recorder.end()
    finally:
        recorder.close()
