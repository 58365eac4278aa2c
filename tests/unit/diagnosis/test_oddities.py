"""Captures in which clocks, windows or packets are not what they seem."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from .talks import MSS, diagnosed, opened


def test_messages_whose_answers_no_timer_delays_so_long_are_not_nagles(tmp_path: Path) -> None:
    talk = opened(40, place=1.0)
    talk.segments.clear()
    gaps = Random(3)
    for _ in range(40):
        talk.a.send(40)
        talk.b.ack()
        talk.wait(gaps.uniform(2_000, 13_000))
    assert diagnosed(talk, tmp_path, "a").share("nagle") == 0


def test_times_that_go_back_again_and_again_tell_nothing(tmp_path: Path) -> None:
    talk = opened(40)
    for _ in range(12):
        for _ in range(10):
            talk.a.send(MSS)
        talk.wait(40)
        talk.b.ack()
    clocks = Random(5)
    talk.segments[:] = [
        replace(each, time_ns=each.time_ns + clocks.choice([0, 0, 700, 4_000]) * 1_000_000)
        for each in talk.segments
    ]
    found = diagnosed(talk, tmp_path, "a")
    assert found.main.key == "unknown"
    assert "times of packets go back" in found.sentence


def test_packets_that_only_repeat_others_are_no_losses(tmp_path: Path) -> None:
    talk = opened(10)
    for _ in range(30):
        sent = talk.a.send(200, "lost")
        for _ in range(3):
            talk.wait(1)
            talk.a.again(sent, "lost")
        talk.b.take(sent)
        talk.wait(10)
        talk.b.ack()
    assert diagnosed(talk, tmp_path, "a").share("loss") == 0


@pytest.mark.parametrize("place", [0.0, 1.0])
def test_a_window_that_grows_later_was_not_full_with_small_messages_before(
    tmp_path: Path, place: float
) -> None:
    talk = opened(0.02, mss=65_483, window_bytes=47_000, place=place)
    for _ in range(40):
        talk.a.send(300)
        talk.wait(0.05)
        talk.b.ack()
        talk.wait(500)
    talk.b.ack(window_bytes=180_000)
    for _ in range(4):
        talk.a.send(300)
        talk.wait(0.05)
        talk.b.ack()
        talk.wait(500)
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.share("receive_window") == 0
    assert diagnosis.main.key == "application_write"


@pytest.mark.parametrize("lossy", [True, False])
def test_gaps_beside_losses_at_an_uncertain_place_are_not_the_applications(
    tmp_path: Path, lossy: bool
) -> None:
    # A connection that began before the capture, which is at the receiver.
    talk = opened(60, place=1.0)
    for number in range(60):
        sent = [talk.a.send(MSS, "late") for _ in range(4)]
        for segment in sent[lossy and number % 2 :]:
            talk.arrive(segment)
            talk.b.ack()
        talk.wait(61)
        if lossy and number % 2:
            talk.arrive(talk.a.again(sent[0], "late"))
            talk.b.ack()
            talk.wait(61)
    talk.segments[:] = [replace(each, options=b"") for each in talk.segments[3:]]
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert any("where it was captured" in each.what for each in diagnosis.blind)
    assert (diagnosis.share("application_write") < 0.2) == lossy
    assert not lossy or "not certain where it was captured" in diagnosis.sentence


@pytest.mark.parametrize("place", [0.0, 0.01])
def test_an_ack_of_a_device_on_the_path_is_not_the_least_round_trip(tmp_path: Path, place: float) -> None:
    talk = opened(280, place=place)
    talk.a.send(600)
    talk.wait(6)
    talk.b.ack()
    for size in range(10, 40):
        for _ in range(size):
            talk.a.send(MSS)
        talk.wait(279)
        for _ in range(4):
            talk.wait(0.2)
            talk.b.ack()
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.share("bottleneck") + diagnosis.share("foreign") == 0
    assert diagnosis.summary.rtt_min_s == pytest.approx(0.28, rel=0.02)
