"""Links that are full although much is lost, and blocks that queue behind themselves."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from random import Random

import pytest

from weirlab.diagnosis.finding import Diagnosis
from weirlab.testing.tcp import TcpConversation, TcpSegment, TcpSide

from .talks import CLIENT, MSS, SERVER, diagnosed
from .test_policer import RATE, RTT_MS, PathTrips, chance, link, sent


def opened(place: float, *, timestamps: bool, rtt_ms: float = RTT_MS) -> TcpConversation:
    ends = (
        TcpSide(s.address, s.port, s.isn, 1460, 7, timestamps=timestamps, window_bytes=4_000_000)
        for s in (CLIENT, SERVER)
    )
    talk = TcpConversation(*ends)
    talk.handshake(rtt_ms=rtt_ms, place=place)
    return talk


@pytest.mark.parametrize("segments", [10, 60])
@pytest.mark.parametrize("timestamps", [False, True])
def test_a_full_link_is_no_loss_at_the_receiver(tmp_path: Path, segments: int, timestamps: bool) -> None:
    talk = opened(1.0, timestamps=timestamps)
    sent(talk, link(0.8 * RATE, segments), at_receiver=True)
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "bottleneck"
    assert diagnosis.findings[0].confidence == "medium"
    assert diagnosis.share("bottleneck") > 0.8
    assert diagnosis.share("loss") < 0.1
    assert diagnosis.summary.capacity_bps == pytest.approx(0.8 * RATE * 8_000, rel=0.1)
    # It could be a policer as well.
    assert any("policer" in each.what for each in diagnosis.blind)


def lossy(path: PathTrips, share: float) -> PathTrips:
    survives = chance(share)
    return lambda now: path(now) if survives(now) is not None else None


@pytest.mark.parametrize("share", [0.01, 0.03])
def test_a_full_link_that_a_sender_probes_is_no_loss_at_either_end(tmp_path: Path, share: float) -> None:
    for place in (0.0, 1.0):
        talk = opened(place, timestamps=True)
        sent(talk, lossy(link(1.1 * RATE, 1_000), share), at_receiver=place > 0)
        diagnosis = diagnosed(talk, tmp_path, "a")
        assert diagnosis.main.key == "bottleneck"
        assert diagnosis.share("loss") < 0.1
        assert diagnosis.share("foreign") == 0
        assert diagnosis.findings[0].confidence == "medium"
        assert diagnosis.summary.capacity_bps == pytest.approx(1.1 * RATE * 8_000, rel=0.05)


def test_losses_of_a_path_that_carries_all_that_is_sent_saturate_no_bottleneck(tmp_path: Path) -> None:
    talk = opened(0.0, timestamps=True)
    sent(talk, chance(0.02))
    assert diagnosed(talk, tmp_path, "a").share("bottleneck") == 0


def halving(
    talk: TcpConversation, rounds: int, every: int, rtt_ms: float = RTT_MS, jitter_ms: float = 0
) -> None:
    """A congestion window that a loss in each ``every``-th round trip halves, at the receiver."""
    late, window = Random(4), 40
    for number in range(rounds):
        segments = [talk.a.send(MSS, "late") for _ in range(window)]
        lost = number % every == every - 1
        for order, segment in enumerate(segments):
            if not (lost and order == 3):
                talk.wait(0.1)
                talk.arrive(segment)
                talk.b.ack()
        talk.wait(rtt_ms - window * 0.1 + late.uniform(0, jitter_ms))
        if lost:
            talk.arrive(talk.a.again(segments[3], "late"))
            talk.b.ack()
            talk.wait(rtt_ms + late.uniform(0, jitter_ms))
        window = window // 2 if lost else window + 1


@pytest.mark.parametrize("every", [6, 15])
def test_a_window_that_losses_halve_is_still_held_by_loss(tmp_path: Path, every: int) -> None:
    talk = opened(1.0, timestamps=False)
    halving(talk, 90, every)
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.share("bottleneck") == 0
    assert diagnosis.main.key == "loss"


def test_acks_that_take_a_little_longer_than_the_fastest_are_no_pauses_of_the_application(
    tmp_path: Path,
) -> None:
    talk = opened(1.0, timestamps=True, rtt_ms=400)
    halving(talk, 40, 5, rtt_ms=400, jitter_ms=15)
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "loss"
    assert diagnosis.share("application_write") < 0.1


def test_segments_that_a_path_cannot_carry_larger_end_no_messages(tmp_path: Path) -> None:
    talk = opened(1.0, timestamps=True)
    for size in (5, 10, 20, 40, 80):
        for _ in range(size):
            talk.a.send(1_300)
        talk.b.ack()
        talk.wait(RTT_MS + 1 - size * 0.01)
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "slow_start"
    assert diagnosis.share("application_write") < 0.25


def windowed(talk: TcpConversation, path: PathTrips, windows: dict[int, int], lost: set[int]) -> None:
    """A window (by the number of segments sent before) that ACKs clock, at the sender."""
    begun, now, flight, sent = talk.now_ns, 0.0, 0, 0
    coming: deque[tuple[float, TcpSegment]] = deque()
    missing: list[TcpSegment] = []
    for until, window in windows.items():
        while sent < until:
            while flight < window and sent < until:
                talk.now_ns = begun + round(now * 1e6)
                segment, trip = talk.a.send(MSS, "lost"), path(now)
                assert trip is not None
                if sent in lost:
                    missing.append(segment)
                else:
                    coming.append((now + trip, segment))
                flight, sent = flight + 1, sent + 1
            at, segment = coming.popleft()
            now, flight = max(now, at), flight - 1
            talk.now_ns = begun + round(now * 1e6)
            talk.b.take(segment)
            talk.b.ack()
            if missing and segment.seq > missing[0].seq + 2 * MSS:
                gone, trip = missing.pop(0), path(now)
                assert trip is not None
                coming.append((now + trip, talk.a.again(gone, "lost")))


def test_what_a_recovery_acknowledges_at_once_is_not_faster_than_the_link(tmp_path: Path) -> None:
    # A queue of a second at first, of a tenth later.
    talk = opened(0.0, timestamps=True)
    windowed(
        talk, link(100.0, 10_000), {100: 20, 200: 40, 400: 80, 900: 12}, {300, 330, 360, 500, 600, 700, 800}
    )
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "bottleneck"
    assert diagnosis.share("loss") < 0.1


def test_losses_without_a_queue_before_them_are_the_limit_however_much_of_a_link_is_used(
    tmp_path: Path,
) -> None:
    # 30 segments fill a queue at first; losses come while 8 are in flight, which the path itself holds.
    talk = opened(0.0, timestamps=True)
    windowed(talk, link(400.0, 10_000), {200: 30, 1_200: 8}, set(range(220, 1_200, 25)))
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.share("loss") > diagnosis.share("bottleneck")


def blocks(folder: Path, block: int, bytes_per_ms: float, number: int = 60) -> Diagnosis:
    """Blocks, each of which leaves as soon as the one before is acknowledged, over a slow link."""
    talk = opened(0.0, timestamps=True)
    for _ in range(number):
        sizes = [MSS] * (block // MSS) + [block % MSS]
        segments = [talk.a.send(size, "lost") for size in sizes]
        talk.wait(RTT_MS)
        for segment in segments:
            talk.wait(segment.payload_bytes / bytes_per_ms)
            talk.b.take(segment)
            talk.b.ack()
        talk.wait(0.1)
    return diagnosed(talk, folder, "a")


@pytest.mark.parametrize("bytes_per_ms", [80.0, 200.0])
def test_blocks_that_queue_behind_themselves_saturate_no_bottleneck(
    tmp_path: Path, bytes_per_ms: float
) -> None:
    diagnosis = blocks(tmp_path, 8_192, bytes_per_ms)
    assert diagnosis.share("bottleneck") == 0
    assert diagnosis.main.key in ("send_buffer", "application_write", "unknown")


def test_blocks_that_keep_a_link_busy_nearly_all_the_time_have_no_other_cause(tmp_path: Path) -> None:
    assert blocks(tmp_path, 60_000, 80.0).main.key in ("bottleneck", "unknown")
