"""What gaps between arrivals show of a sender far away: little, if ACKs came late or data was lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from weirlab.diagnosis import capture
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.testing.tcp import TcpConversation

from .made import MS, Sender, at_the_receiver
from .made import MSS as SEGMENT
from .talks import MSS, diagnosed
from .test_drain import opened


def bursts(talk: TcpConversation, sizes: list[int], rtt_ms: float, jitter_ms: float) -> None:
    """Segments that leave as soon as the ACKs of the round trip before have come, some of them late."""
    late = Random(7)
    for size in sizes:
        for _ in range(size):
            talk.a.send(MSS)
            talk.wait(0.01)
        talk.b.ack()
        talk.wait(rtt_ms - size * 0.01 + late.uniform(0.0, jitter_ms))


@pytest.mark.parametrize(("rtt_ms", "jitter_ms"), [(13, 6), (60, 25)])
def test_acks_that_come_up_to_half_a_round_trip_late_are_no_pauses_of_the_application(
    tmp_path: Path, rtt_ms: float, jitter_ms: float
) -> None:
    talk = opened(1.0, timestamps=True, rtt_ms=rtt_ms)
    bursts(talk, [10, 20, 40, *range(44, 100, 4)], rtt_ms, jitter_ms)
    assert diagnosed(talk, tmp_path, "a").share("application_write") < 0.2


def test_an_application_that_pauses_for_longer_is_still_told(tmp_path: Path) -> None:
    talk = opened(1.0, timestamps=True, rtt_ms=13)
    bursts(talk, [20] * 30, 60, 10)
    assert diagnosed(talk, tmp_path, "a").share("application_write") > 0.7


@pytest.mark.parametrize(("acks_ms", "waited"), [([0, 40, 80], True), ([0], False), ([0, 190], False)])
def test_a_gap_before_data_that_knows_no_ack_of_it_need_be_no_pause(acks_ms: list[int], waited: bool) -> None:
    packets, _, _ = Sender([(0.0, SEGMENT)]).packets()
    at_ns = np.array(acks_ms, np.int64) * MS
    count = len(at_ns)
    acks = replace(packets, time_ns=at_ns, from_sender=np.zeros(count, bool), payload_bytes=at_ns * 0)
    # The least round trip is 20 ms; at 200 ms data comes that echoes the ACK of 0 ms.
    echoes = capture.RttSeries(np.array([20, 200]) * MS, np.array([20, 200]) * MS)
    found = capture.overdue_acks(acks, echoes)
    assert found is not None
    assert [*found[1]] == [False, waited]


@pytest.mark.parametrize("timestamps", [False, True])
def test_a_silence_that_ends_behind_lost_segments_is_none_of_the_application(
    tmp_path: Path, timestamps: bool
) -> None:
    rtt_ms = 120
    talk = opened(1.0, timestamps=timestamps, rtt_ms=rtt_ms)
    for _ in range(8):
        for _ in range(6):
            talk.a.send(MSS)
            talk.b.ack()
        talk.wait(rtt_ms)
        first, second, third = (talk.a.send(MSS, "late") for _ in range(3))
        talk.wait(1_500)
        # The last one arrives, as it was sent again; both before it are still missing.
        talk.arrive(talk.a.again(third, "late"))
        talk.b.ack()
        talk.wait(600)
        for segment in (second, first):
            talk.arrive(talk.a.again(segment, "late"))
            talk.b.ack()
            talk.wait(rtt_ms)
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.share("application_write") < 0.1
    assert diagnosis.main.key in ("loss", "timeout")


@pytest.mark.parametrize(("times", "cause"), [(1.0, "receive_window"), (2.0, "unknown")])
def test_a_window_below_what_seems_to_be_in_flight_shows_only_that_acks_came_sooner(
    times: float, cause: str
) -> None:
    sender = Sender([(0.0, 4_000 * SEGMENT)], window_bytes=100 * SEGMENT)
    packets, _, facts = sender.packets()
    packets, behind = at_the_receiver(packets, sender)
    packets = replace(packets, tsval=np.full(len(packets.seq), np.nan))
    behind = replace(behind, rtt_ns=(behind.rtt_ns * times).astype(np.int64))
    read = capture.read(packets, "receiver", facts, behind, behind)
    assert read is not None
    diagnosis = diagnose(*read)
    assert diagnosis is not None
    assert diagnosis.main.key == cause
    assert diagnosis.share("receive_window") == pytest.approx(float(times == 1.0), abs=0.1)
