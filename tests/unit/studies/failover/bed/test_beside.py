"""What runs beside a trial ends with it, at whatever moment a signal arrives."""

from __future__ import annotations

import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from weirlab.studies.failover.bed.lab import RedundantLab

pytestmark = pytest.mark.usefixtures("caught_signals")


def wait() -> None:
    while True:
        signal.pause()


@pytest.mark.parametrize("name", ["start", "join"])
def test_a_signal_as_the_thread_starts_or_is_waited_for_gives_it_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab: Any = SimpleNamespace(_cancelled=threading.Event())
    function, done = getattr(threading.Thread, name), []

    def during() -> None:
        lab._cancelled.wait()
        done.append("given up")

    def struck(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, name, function)
        if name == "start":
            function(thread)
        signal.raise_signal(signal.SIGTERM)
        if name == "join":
            pytest.fail("it went on waiting")

    def work() -> None:
        with RedundantLab._beside(lab, during):
            if name == "start":
                wait()

    monkeypatch.setattr(threading.Thread, name, struck)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["given up"]
