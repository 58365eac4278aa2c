"""What the device shows from inside, never more than was seen, and the programs of a management session."""

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
from weirlab.lab.monitoring.session import ManagementSession, Sampler
from weirlab.lab.monitoring.view import Sample, between, cpu_share, view

from ..conftest import unused_port

MS = 1_000_000
PERIOD = 100 * MS
CPU = min(os.sched_getaffinity(0))


def sample(
    due_ms: float, late_ms: float = 0.0, *, busy: int = 0, idle: int = 0, states: int | None = 3
) -> Sample:
    """A look whose CPU has been ``busy`` ticks in system and ``idle`` ticks idle so far."""
    ticks = (0, 0, busy, idle, 0, 0, 0, 0)
    due = round(due_ms * MS)
    return Sample(due, due + round(late_ms * MS), ticks, states)


def test_a_sampler_in_time_takes_every_sample() -> None:
    samples = [sample(100 * n, busy=4 * n, idle=6 * n) for n in range(12)]
    seen = view(samples, 100 * MS, 1100 * MS, PERIOD)
    assert (seen.due, seen.taken) == (10, 10)
    assert not seen.starved
    assert seen.covered_s == pytest.approx(0.9)
    assert seen.cpu_share["system"] == pytest.approx(0.4)
    assert seen.cpu_share["idle"] == pytest.approx(0.6)
    assert seen.connections_max == 3


def test_a_starved_sampler_shows_as_missing_samples_and_lateness() -> None:
    samples = [sample(0), sample(100, 250, busy=35)]
    seen = view(samples, 0, 1000 * MS, PERIOD)
    assert (seen.due, seen.taken) == (10, 2)
    assert seen.starved
    # The one due last waited from 900 ms to the end; that of 200 ms longest.
    assert seen.late_max_s == pytest.approx(0.8)
    assert seen.covered_s == pytest.approx(0.35)


def test_idleness_after_the_load_is_not_shown_as_if_it_were_during_it() -> None:
    """Kept from running until the load is over, it sees an idle device at last: that is no evidence."""
    samples = [sample(0), sample(100, 1400, busy=90, idle=60)]
    seen = view(samples, 50 * MS, 1050 * MS, PERIOD)
    assert (seen.due, seen.taken) == (10, 0)
    assert seen.cpu_share == {}
    assert seen.covered_s == 0
    assert seen.late_max_s == pytest.approx(0.95)


def test_one_look_tells_no_share_but_the_connections() -> None:
    seen = view([sample(0), sample(500, states=17)], 450 * MS, 950 * MS, PERIOD, begun_ns=0)
    assert seen.cpu_share == {}
    assert seen.connections_max == 17
    assert seen.taken == 1


def test_without_connection_tracking_nothing_is_said_about_it() -> None:
    seen = view([sample(0, states=None), sample(100, states=None)], 0, 200 * MS, PERIOD)
    assert seen.connections_max is None


def test_the_thread_that_keeps_the_cpu_awake_counts_as_idle() -> None:
    before = Sample(0, 0, (0, 0, 0, 0, 0, 0, 0, 0))
    after = Sample(1, 1, (1, 50, 2, 30, 10, 0, 5, 2))
    share = cpu_share(before, after)
    assert share["idle"] == pytest.approx(0.9)
    assert share["nice"] == 0
    assert sum(share.values()) == pytest.approx(1)
    assert cpu_share(before, before) == {}


def test_what_enters_and_does_not_leave_was_blocked() -> None:
    before = Sample(0, 0, (0,) * 8, None, {"in0": (10, 0, 5, 0), "out0": (5, 0, 10, 0)})
    after = Sample(1, 1, (0,) * 8, None, {"in0": (110, 7, 55, 0), "out0": (65, 0, 90, 0)})
    assert between(before, after, "in0", "out0") == {"entered": 167, "forwarded": 130, "blocked": 37}


class Here(Namespace):
    """In place of a namespace: the caller's own."""

    def call(self, action):  # type: ignore[no-untyped-def]
        return action()


@pytest.fixture
def inside() -> Iterator[Sampler]:
    held = Sampler(Here("dut"), CPU, ("lo",))
    yield held
    held.close()


def agent(inside: Sampler) -> subprocess.Popen[str]:
    return inside._programs[0]


def test_the_agent_works_on_the_devices_cpu_and_tells_what_it_saw(inside: Sampler) -> None:
    assert os.sched_getaffinity(agent(inside).pid) == {CPU}
    assert os.getpriority(os.PRIO_PROCESS, agent(inside).pid) == 0
    inside.watch()
    samples = inside.report()
    assert len(samples) >= 1
    first = samples[0]
    assert first.taken_ns == first.due_ns
    assert sum(first.ticks) > 0
    assert set(first.counters) == {"lo"}
    assert inside.cpu_s() > 0


def test_each_watch_begins_anew(inside: Sampler) -> None:
    inside.watch()
    earlier = inside.report()
    inside.watch()
    assert inside.report()[0].due_ns > earlier[-1].taken_ns
    assert agent(inside).poll() is None


def test_it_ends_when_nobody_holds_it_any_more(inside: Sampler) -> None:
    program = agent(inside)
    assert program.stdin is not None
    program.stdin.close()  # what the kernel does when the owner is killed
    assert program.wait(20) == 0


def test_one_that_died_is_noticed(inside: Sampler) -> None:
    agent(inside).kill()
    agent(inside).wait()
    with pytest.raises(LabError, match="program inside the device ended"):
        inside.watch()
    with pytest.raises(LabError, match="is closed"):
        inside.report()


def test_one_that_cannot_work_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PERIOD_NS", "often")
    with pytest.raises(LabError, match="invalid literal"):
        Sampler(Here("dut"), CPU, ())


LISTING = [sys.executable, "-c", "print('rule ' * 1000)"]


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
