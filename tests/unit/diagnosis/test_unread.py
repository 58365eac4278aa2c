"""Receivers that read on after the last data, and second causes."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.diagnosis.causes import BOTTLENECK
from weirlab.diagnosis.finding import Diagnosis

from .talks import MSS, diagnosed
from .test_drain import opened
from .test_policer import RTT_MS


def slow_at_the_end(folder: Path, place: float, *, left: float, after_ms: float) -> Diagnosis:
    """``left`` of the window is open after the last data, and all of it ``after_ms`` later."""
    talk = opened(place, timestamps=True)
    most, window = talk.b.window_bytes, 60
    for number in range(40):
        segments = [talk.a.send(MSS, "late") for _ in range(window)]
        if number == 39:
            talk.b.window_bytes = round(left * most)
        for segment in segments:
            talk.wait(1.0)
            talk.arrive(segment)
            talk.b.ack()
        talk.wait(RTT_MS)
    talk.wait(after_ms)
    talk.b.window_bytes = most
    talk.b.send(1)
    return diagnosed(talk, folder, "a")


@pytest.mark.parametrize("place", [0.0, 1.0])
def test_what_a_receiver_reads_after_the_last_data_is_its_time(tmp_path: Path, place: float) -> None:
    diagnosis = slow_at_the_end(tmp_path, place, left=0.02, after_ms=6_000)
    assert diagnosis.main.key == "application_read"
    assert diagnosis.findings[0].seconds == pytest.approx(6.1, abs=0.2)
    assert diagnosis.intervals[-1].cause.key == "application_read"


def test_an_answer_that_comes_late_after_all_is_read_is_not_the_readers_time(tmp_path: Path) -> None:
    diagnosis = slow_at_the_end(tmp_path, 0.0, left=0.9, after_ms=6_000)
    assert diagnosis.share("application_read") == 0


@pytest.mark.parametrize(("after_ms", "second"), [(1_500, True), (200, False)])
def test_a_second_cause_is_named_if_it_is_large(tmp_path: Path, after_ms: float, second: bool) -> None:
    diagnosis = slow_at_the_end(tmp_path, 0.0, left=0.02, after_ms=after_ms)
    assert diagnosis.main.key != "application_read"
    assert (diagnosis.share("application_read") >= 0.2) is second
    assert ("the receiving application did not read" in diagnosis.advice) is second
    assert not (second and BOTTLENECK.advice in diagnosis.advice)
