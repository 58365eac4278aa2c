"""The two programs of a management session, over the loopback interface."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from weirlab.base.errors import LabError
from weirlab.lab import wiring
from weirlab.lab.cores import Cores
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.monitoring import session
from weirlab.lab.monitoring.session import ManagementSession

from ..conftest import unused_port

LISTING = [sys.executable, "-c", "print('rule ' * 1000)"]
CPU = min(os.sched_getaffinity(0))


class Here(Namespace):
    """In place of a namespace: the caller's own."""

    def call(self, action):  # type: ignore[no-untyped-def]
        return action()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[str]]]:
    """The programs that sessions start, on a free port of the loopback interface."""
    monkeypatch.setattr(session, "PORT", unused_port())
    monkeypatch.setattr(wiring, "MANAGED", Port("lo", "", "127.0.0.1/8", "::1/128"))
    started: list[subprocess.Popen[str]] = []
    start = session.programs.start

    def noted(*arguments, **options):  # type: ignore[no-untyped-def]
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(session.programs, "start", noted)
    yield started
    for program in started:
        with suppress(ProcessLookupError):
            program.kill()


def opened(listing: list[str]) -> ManagementSession:
    return ManagementSession(Here("dut"), Here("mgmt"), Cores(sender=-1, dut=CPU), listing)


def test_a_session_works_on_the_devices_cpu_and_tells_what_that_costs(
    programs: list[subprocess.Popen[str]],
) -> None:
    held = opened(LISTING)
    try:
        agent = programs[0]
        assert os.sched_getaffinity(agent.pid) == {CPU}
        before = held.cpu_s()
        assert before > 0, "the first report is in when the session is open"
        while held.cpu_s() == before:
            pass  # the answer waits for a report that is being made
        assert held.cpu_s() > before
    finally:
        held.close()


def test_closing_ends_both_programs_and_may_be_done_twice(programs: list[subprocess.Popen[str]]) -> None:
    held = opened([])
    held.close()
    held.close()
    assert [program.poll() for program in programs] == [0, 0]
    with pytest.raises(LabError, match="closed"):
        held.cpu_s()


def test_both_programs_end_when_nobody_holds_them_any_more(programs: list[subprocess.Popen[str]]) -> None:
    opened([])
    for program in programs:
        assert program.stdin is not None
        program.stdin.close()  # what the kernel does when the owner is killed
    for program in programs:
        assert program.wait(20) == 0


def test_a_listing_that_fails_is_told_in_its_own_words(programs: list[subprocess.Popen[str]]) -> None:
    with pytest.raises(LabError, match="no such table"):
        opened([sys.executable, "-c", "raise SystemExit('no such table')"])
    assert all(program.poll() is not None for program in programs)


def test_a_session_that_died_is_noticed(programs: list[subprocess.Popen[str]]) -> None:
    held = opened([])
    programs[0].kill()
    programs[0].wait()
    with pytest.raises(LabError, match="management session"):
        held.cpu_s()
    assert all(program.poll() is not None for program in programs)


def test_one_that_cannot_listen_says_why(programs: list[subprocess.Popen[str]]) -> None:
    with (
        socket.create_server(("127.0.0.1", session.PORT)),
        pytest.raises(LabError, match="Address already in use"),
    ):
        opened([])
