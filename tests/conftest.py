"""Which tests this machine can run, and how hypothesis searches."""

from __future__ import annotations

import functools
import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from weirlab.base import interrupts
from weirlab.lab import doctor

# The same examples in every run and no deadline: a slow machine or an unlucky draw fails nothing.
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")


LONG = frozenset({"wheel", "browser", "fuzz", "web", "jobs", "recorded", "bench"})
"""Folders of tests that take long: they begin first, or a worker would wait for them in the end."""


# Modules and collected tests stay until the end. Looking through them again and again would take a seventh
# of the time.
gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.isdisjoint(item.path.parts))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@functools.cache
def missing_for_namespaces() -> str | None:
    """Why no labs in network namespaces can be made here; None where they can."""
    return doctor.missing_for_namespaces()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("netns") and (reason := missing_for_namespaces()):
        pytest.skip(f"needs a lab in network namespaces; {reason}")


@pytest.fixture
def caught_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Signals are caught as the command catches them, and as before afterwards."""
    numbers = (*interrupts.SIGNALS, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    monkeypatch.setattr(interrupts, "_state", interrupts._SignalState())
    for number in interrupts.SIGNALS:
        # The shell that began the tests in the background may have had them ignored.
        signal.signal(number, signal.default_int_handler)
    interrupts.catch()
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    for number, handler in before.items():
        signal.signal(number, handler)
