from __future__ import annotations

import os

import pytest

from weirlab.jobs import testbeds

from .conftest import Told


def test_a_machine_with_other_work_is_told_before_real_trials_alone(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[int] = []
    monkeypatch.setattr(testbeds, "owners", lambda: owners)
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 0.0, 0.0))
    monkeypatch.setattr(testbeds, "_loads_before", [])
    testbeds.tell_if_busy("sim", told)
    assert not told.notes
    testbeds.tell_if_busy("netns", told)
    assert "load average 99.00" in told.notes[0]
    # Once is enough.
    testbeds.tell_if_busy("netns", told)
    assert len(told.notes) == 1
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 99.0, 99.0))
    monkeypatch.setattr(testbeds, "_loads_before", [])
    testbeds.tell_if_busy("netns", told)
    # Its own work is no other.
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 0.0, 0.0))
    testbeds.tell_if_busy("netns", told)
    assert len(told.notes) == 1
    owners += [os.getpid(), 0]
    testbeds.tell_if_busy("netns", told)
    assert len(told.notes) == 1
    owners += [1, 1]
    testbeds.tell_if_busy("netns", told)
    assert "(process 1)" in told.notes[1]
