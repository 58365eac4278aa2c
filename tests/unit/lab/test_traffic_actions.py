"""What runs beside a trial ends with it, at whatever moment a signal arrives."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.lab.base import TrafficActionRunner

pytestmark = pytest.mark.usefixtures("caught_signals")


def wait() -> None:
    while True:
        signal.pause()


@pytest.mark.parametrize("name", ["start", "join"])
def test_a_signal_as_the_thread_starts_or_is_waited_for_gives_it_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = TrafficActionRunner()
    function, done = getattr(threading.Thread, name), []

    def during() -> None:
        beside._cancelled.wait()
        done.append("given up")

    def struck(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, name, function)
        if name == "start":
            function(thread)
        signal.raise_signal(signal.SIGTERM)
        if name == "join":
            pytest.fail("it went on waiting")

    def work() -> None:
        with beside.running(during):
            if name == "start":
                wait()

    monkeypatch.setattr(threading.Thread, name, struck)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["given up"]


def test_a_trial_that_is_given_up_does_not_wait_for_what_was_to_happen() -> None:
    beside = TrafficActionRunner()
    done: list[str] = []

    def during() -> None:
        beside.at(lambda: done.append("event"), time.monotonic_ns() + 3_600_000_000_000)

    def given_up() -> None:
        with beside.running(during):
            raise InputError("no such trial")

    with pytest.raises(InputError, match="no such trial"):
        given_up()
    assert done == []


def test_what_goes_wrong_beside_a_trial_is_told_when_it_has_ended() -> None:
    done: list[str] = []

    def during() -> None:
        raise LabError("no such device")

    def trial() -> None:
        with TrafficActionRunner().running(during):
            done.append("trial")

    with pytest.raises(LabError, match="no such device"):
        trial()
    assert done == ["trial"]


def test_without_anything_to_happen_there_is_no_thread() -> None:
    before = threading.active_count()
    with TrafficActionRunner().running(None):
        assert threading.active_count() == before


def test_what_is_due_during_the_traffic_comes_even_if_it_is_noticed_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside = TrafficActionRunner()
    came: list[bool] = []

    def noticed_late() -> None:
        # As on a host that lets this thread wait until all is over.
        monkeypatch.setattr(beside._over, "wait", lambda timeout: threading.Event.wait(beside._over))
        came.append(beside.comes(20_000_000))

    with beside.running(noticed_late):
        while time.monotonic_ns() < beside._begun_ns + 20_000_000:
            pass
    assert came == [True]


def test_what_is_due_after_the_traffic_does_not_come() -> None:
    beside = TrafficActionRunner()
    came: list[bool] = []
    with beside.running(lambda: came.append(beside.comes(3_600_000_000_000))):
        pass
    assert came == [False]
