"""A sender that paces and bears losses (as BBR does), in front of what drops them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from weirlab.diagnosis.finding import Diagnosis
from weirlab.testing.tcp import Fate, TcpConversation, TcpSegment

from .talks import MSS, diagnosed, opened

RTT_MS = 40.0
RATE = 1000.0
"""Bytes per ms."""
GAINS = (1.25, 0.9, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1)
"""What the sender sends in each of eight round trips, as multiples of the rate."""

PathTrips = Callable[[float], "float | None"]
"""How long a segment that leaves at a time (ms) takes there and back; None: it is lost."""


def policer(rate: float, burst_bytes: float) -> PathTrips:
    level, before = burst_bytes, 0.0

    def takes(now: float) -> float | None:
        nonlocal level, before
        level, before = min(level + rate * (now - before), burst_bytes), now
        if level < MSS:
            return None
        level -= MSS
        return RTT_MS

    return takes


def chance(share: float) -> PathTrips:
    random = Random(7)
    return lambda _: None if random.random() < share else RTT_MS


def link(rate: float, segments: int) -> PathTrips:
    """A link with a queue of so many segments."""
    free = 0.0

    def takes(now: float) -> float | None:
        nonlocal free
        if free - now > segments * MSS / rate:
            return None
        free = max(free, now) + MSS / rate
        return free - now + RTT_MS

    return takes


def sent(talk: TcpConversation, path: PathTrips, segments: int = 3_000, *, at_receiver: bool = False) -> None:
    """Two segments at a time, and what is lost again after a round trip."""
    begun = talk.now_ns
    acks: deque[tuple[float, TcpSegment]] = deque()
    lost: deque[tuple[float, TcpSegment]] = deque()
    now = 0.0
    fate: Fate = "late" if at_receiver else "lost"
    for number in range(segments):
        while acks and acks[0][0] <= now:
            at, segment = acks.popleft()
            talk.now_ns = begun + round(at * 1e6)
            if at_receiver:
                talk.arrive(segment)
            else:
                talk.b.take(segment)
            talk.b.ack()
        talk.now_ns = begun + round(now * 1e6) + number % 2 * 10_000
        if lost and lost[0][0] <= now:
            segment = talk.a.again(lost.popleft()[1], fate)
        else:
            segment = talk.a.send(MSS, fate)
        trip = path(now)
        if trip is None:
            lost.append((now + RTT_MS, segment))
        else:
            acks.append((now + trip, segment))
        if number % 2:
            now += 2 * MSS / RATE / GAINS[int(now / RTT_MS) % len(GAINS)]


def found(path: PathTrips, folder: Path) -> Diagnosis:
    talk = opened(RTT_MS)
    sent(talk, path)
    return diagnosed(talk, folder, "a")


@pytest.mark.parametrize(("share", "burst_bytes"), [(1.0, 10_000), (0.8, 40_000), (0.6, 20_000)])
def test_a_policer_is_named_with_its_rate(tmp_path: Path, share: float, burst_bytes: float) -> None:
    diagnosis = found(policer(share * RATE, burst_bytes), tmp_path)
    assert diagnosis.main.key == "policer"
    assert diagnosis.share("policer") > 0.7
    assert diagnosis.findings[0].confidence == "medium"
    assert f"it let {share * 8:.2f} Mbit/s through" in diagnosis.sentence


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_losses_by_chance_are_no_policer(tmp_path: Path, share: float) -> None:
    assert found(chance(share), tmp_path).share("policer") == 0


def test_a_full_queue_is_no_policer(tmp_path: Path) -> None:
    assert found(link(RATE, 40), tmp_path).share("policer") == 0


def hides_policer(path: PathTrips, folder: Path) -> bool:
    """Whether a capture at the receiver says that a policer cannot be told."""
    talk = opened(RTT_MS, place=1.0)
    sent(talk, path, at_receiver=True)
    diagnosis = diagnosed(talk, folder, "a")
    assert diagnosis.source == "receiver"
    assert diagnosis.share("policer") == 0
    return any("policer" in each.what for each in diagnosis.blind)


def test_at_the_receiver_a_policer_cannot_be_told(tmp_path: Path) -> None:
    assert hides_policer(policer(0.8 * RATE, 40_000), tmp_path)


def test_few_losses_hide_no_policer(tmp_path: Path) -> None:
    assert not hides_policer(chance(0.02), tmp_path)
