"""Packets of transfers whose limit is known, as captures at the sender and at the receiver have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from weirlab.diagnosis import capture
from weirlab.diagnosis.capture import RttSeries
from weirlab.diagnosis.causes import Source
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Diagnosis

from .made import MS, MSS, NOWHERE, RTT_S, Sender, at_the_receiver

Place = Literal["sender", "receiver", "receiver without time stamps"]
PLACES: tuple[Place, ...] = ("sender", "receiver", "receiver without time stamps")
BULK = [(0.0, 4_000 * MSS)]


def found(sender: Sender, place: Place) -> Diagnosis:
    packets, trips, facts = sender.packets()
    behind = NOWHERE
    source: Source = "sender"
    if place != "sender":
        source = "receiver"
        packets, behind = at_the_receiver(packets, sender)
        trips = behind
    if place == "receiver without time stamps":
        packets = replace(packets, tsval=np.full(len(packets.seq), np.nan))
    read = capture.read(packets, source, facts, trips, behind)
    assert read is not None
    diagnosis = diagnose(*read)
    assert diagnosis is not None
    assert sum(each.share for each in diagnosis.findings) == pytest.approx(1, abs=0.01)
    return diagnosis


@pytest.mark.parametrize("place", PLACES)
def test_an_application_that_pauses(place: Place) -> None:
    # A block of 25 segments and a half every 30 ms.
    diagnosis = found(Sender([(n * 0.03, 25_500) for n in range(100)]), place)
    assert diagnosis.main.key == "application_write"
    assert diagnosis.share("application_write") > 0.95


@pytest.mark.parametrize("every_s", [0.0173, 0.0251, 0.031])
@pytest.mark.parametrize("place", PLACES)
def test_writes_that_follow_an_ack_by_chance_are_still_the_applications(place: Place, every_s: float) -> None:
    # Ten segments take 10 ms at the bottleneck, so that an ACK is often right before the next write.
    writes = [(n * every_s + 0.003 * (n * 7 % 11) / 11, 10_500) for n in range(100)]
    diagnosis = found(Sender(writes, rate_bytes_per_s=1.05e6), place)
    assert diagnosis.main.key == "application_write"
    # Without time stamps writes that keep step with the ACKs look like data that the ACKs let out.
    assert diagnosis.share("application_write") > (0.6 if "without" in place else 0.9)


@pytest.mark.parametrize("place", PLACES)
def test_a_window_that_is_full(place: Place) -> None:
    diagnosis = found(Sender(BULK, window_bytes=100 * MSS), place)
    assert diagnosis.main.key == "receive_window"
    assert diagnosis.share("receive_window") > 0.95
    assert "its buffer of 100 kB allows 16.0 Mbit/s at an RTT of 50.0 ms" in diagnosis.sentence


@pytest.mark.parametrize("window", [58, 64, 80, 200])
@pytest.mark.parametrize("place", PLACES)
def test_a_window_larger_than_the_path_holds_fills_a_queue_and_is_not_the_limit_for_certain(
    place: Place, window: int
) -> None:
    # The path holds 50 segments; what exceeds them waits in the queue.
    sender = Sender(BULK, window_bytes=window * MSS, rate_bytes_per_s=50 * MSS / RTT_S)
    first = found(sender, place).findings[0]
    assert first.cause.key in ("bottleneck", "receive_window")
    assert first.cause.key == "bottleneck" or first.confidence != "high"
    assert first.cause.key == "bottleneck" or window < 60


def test_a_window_that_cannot_be_scaled() -> None:
    sender = Sender(BULK, window_bytes=64 * MSS)
    diagnosis = found(replace(sender, facts=replace(sender.facts, window_scaling=False)), "sender")
    assert diagnosis.main.key == "window_scaling"
    assert diagnosis.notes[0].startswith("window scaling is off")


@pytest.mark.parametrize("place", PLACES)
def test_a_send_buffer_that_is_full_is_a_guess_that_says_so(place: Place) -> None:
    diagnosis = found(Sender(BULK, buffer_bytes=100 * MSS), place)
    assert diagnosis.main.key == "send_buffer"
    assert diagnosis.findings[0].confidence == "medium"
    assert diagnosis.findings[0].evidence[-1].endswith("would look the same")


def known_roughly(sender: Sender, tick_ms: int) -> Diagnosis:
    """At the receiver, by a sender's clock that ticks so slowly."""
    packets, _, facts = sender.packets()
    ticks = (packets.time_ns // (tick_ms * MS) + 2**32 - 100) % 2**32
    packets = replace(packets, tsval=np.where(packets.from_sender, ticks, np.nan))
    packets, behind = at_the_receiver(packets, sender)
    read = capture.read(packets, "receiver", facts, behind, behind)
    assert read is not None
    diagnosis = diagnose(*read)
    assert diagnosis is not None
    return diagnosis


@pytest.mark.parametrize("tick_ms", [1, 4, 10])
@pytest.mark.parametrize("window", [8, 20, 60])
def test_a_small_window_is_no_send_buffer_however_roughly_the_flight_is_known(
    tick_ms: int, window: int
) -> None:
    # The rest of the window has no room for a segment.
    diagnosis = known_roughly(Sender(BULK, window_bytes=window * MSS + 700), tick_ms)
    assert diagnosis.share("send_buffer") < 0.02
    assert diagnosis.main.key in ("receive_window", "unknown")
    assert tick_ms > 4 or diagnosis.main.key == "receive_window"


@pytest.mark.parametrize("tick_ms", [1, 4])
def test_a_full_buffer_is_one_where_the_window_is_plainly_larger(tick_ms: int) -> None:
    diagnosis = known_roughly(Sender(BULK, buffer_bytes=30 * MSS, window_bytes=90 * MSS), tick_ms)
    assert diagnosis.main.key == "send_buffer"


def test_a_pacer_is_told_from_an_application_and_from_acks_beside_the_sender() -> None:
    # Two segments every 2 ms, on a path that carries five times as much.
    diagnosis = found(Sender(BULK, pace_bytes_per_s=1e6, rate_bytes_per_s=5e6), "sender")
    assert diagnosis.main.key == "pacing"
    assert diagnosis.share("pacing") > 0.95
    assert diagnosis.sentence.endswith(
        "segments left evenly, at 8.19 Mbit/s, and not right after ACKs; an application or a small "
        "send buffer may look the same."
    )


def test_at_the_receiver_a_pacer_is_seen_by_time_stamps_alone_and_with_less_confidence() -> None:
    sender = Sender(BULK, pace_bytes_per_s=1e6, rate_bytes_per_s=5e6)
    diagnosis = found(sender, "receiver")
    assert diagnosis.main.key == "pacing"
    assert diagnosis.findings[0].confidence == "low"
    blind = found(sender, "receiver without time stamps")
    assert "pacing held data back" in [each.what for each in blind.blind]


def test_a_pause_that_a_queue_outlasts_costs_nothing() -> None:
    # Every 60 ms as much as the bottleneck transmits in 60 ms, behind a queue of 100 ms.
    writes = [(0.0, 200_500)] + [(n * 0.06, 120_500) for n in range(1, 60)]
    diagnosis = found(Sender(writes, rate_bytes_per_s=2e6), "receiver")
    assert diagnosis.main.key == "bottleneck"
    assert diagnosis.share("bottleneck") > 0.9


@pytest.mark.parametrize(("marked", "cause"), [(True, "marks"), (False, "send_buffer")])
def test_acks_that_report_marks_tell_why_the_flight_stays_small(marked: bool, cause: str) -> None:
    packets, trips, facts = Sender(BULK, cwnd_bytes=20 * MSS).packets()
    every = np.arange(len(packets.seq)) % 40 == 0
    packets = replace(packets, flags=np.where(~packets.from_sender & every & marked, 16 | 64, 16))
    read = capture.read(packets, "sender", facts, trips, NOWHERE)
    assert read is not None
    diagnosis = diagnose(*read)
    assert diagnosis is not None
    assert diagnosis.main.key == cause
    assert (diagnosis.share("marks") > 0.8) == marked


def test_a_flight_that_stays_the_same_says_nothing_where_no_queue_can_be_seen() -> None:
    sender = Sender(BULK, buffer_bytes=100 * MSS)
    packets, _, facts = sender.packets()
    packets, _ = at_the_receiver(packets, sender)
    packets = replace(packets, tsval=np.full(len(packets.seq), np.nan))
    handshake = RttSeries(packets.time_ns[:1], np.array([round(RTT_S * 1e9)]))
    read = capture.read(packets, "receiver", facts, handshake, handshake)
    assert read is not None
    diagnosis = diagnose(*read)
    assert diagnosis is not None
    assert diagnosis.share("send_buffer") == 0
    assert "the send buffer was full" in [each.what for each in diagnosis.blind]


def test_an_application_that_writes_evenly_is_no_pacer() -> None:
    # Whole segments, but ten at a time: a pacer has no reason to wait so long.
    diagnosis = found(Sender([(n * 0.02, 10 * MSS) for n in range(200)]), "sender")
    assert diagnosis.main.key == "application_write"
    assert diagnosis.share("application_write") > 0.95


def test_acks_that_come_evenly_are_no_pacer() -> None:
    # Half of what the window allows stands in the queue.
    sender = Sender(BULK, cwnd_bytes=100 * MSS, rate_bytes_per_s=1e6)
    assert found(sender, "sender").main.key == "bottleneck"


def test_a_busy_host_that_wakes_the_writer_late_does_not_hide_a_small_send_buffer() -> None:
    late = Sender(BULK, buffer_bytes=30 * MSS, wakes_s=(0.004, 0.0005, 0.002, 0.0062, 0.0001))
    diagnosis = found(late, "sender")
    assert diagnosis.main.key == "send_buffer"
    assert diagnosis.share("send_buffer") > 0.9


def test_a_writer_that_is_woken_at_any_time_still_fills_its_buffer_up_again() -> None:
    # Later than the next ACKs, so that bursts follow them no more than by chance.
    wakes_s = (0.002, 0.014, 0.005, 0.021, 0.009, 0.017, 0.001, 0.012)
    diagnosis = found(Sender(BULK, buffer_bytes=30 * MSS, wakes_s=wakes_s, rate_bytes_per_s=2e6), "sender")
    assert diagnosis.main.key == "send_buffer"
    assert diagnosis.share("send_buffer") > 0.9


@pytest.mark.parametrize("place", ["sender", "receiver"])
def test_a_writer_that_is_woken_round_trips_late_now_and_then_still_fills_its_buffer_up(place: Place) -> None:
    wakes_s = (0.001, 0.003, 0.002, 0.004, 0.001, 0.002, 0.005, 0.19, 0.003, 0.001, 0.002)
    diagnosis = found(Sender(BULK, buffer_bytes=30 * MSS, wakes_s=wakes_s, rate_bytes_per_s=5e6), place)
    assert diagnosis.main.key == "send_buffer"
    # While it sleeps on and nothing is in flight, its buffer is empty.
    assert diagnosis.share("send_buffer") + diagnosis.share("application_write") > 0.9
    assert diagnosis.share("send_buffer") > 0.7


def test_a_writer_of_large_pieces_overshoots_its_buffer_and_is_woken_at_the_same_mark() -> None:
    pieces = tuple(segments * MSS for segments in (10, 26, 14, 18, 22, 12))
    sender = Sender(BULK, buffer_bytes=30 * MSS, wakes_s=(0.0001,), pieces=pieces, rate_bytes_per_s=2e7)
    diagnosis = found(sender, "sender")
    assert diagnosis.main.key == "send_buffer"
    assert diagnosis.share("send_buffer") > 0.9


@pytest.mark.parametrize("place", ["sender", "receiver"])
def test_a_bottleneck_that_is_saturated(place: Place) -> None:
    diagnosis = found(Sender(BULK, cwnd_bytes=200 * MSS, rate_bytes_per_s=2e6), place)
    assert diagnosis.main.key == "bottleneck"
    assert diagnosis.share("bottleneck") > 0.9
    assert diagnosis.summary.capacity_bps == pytest.approx(16e6, rel=0.02)


def test_slow_start_lasts_until_the_flight_grows_no_more() -> None:
    diagnosis = found(Sender(BULK, cwnd_bytes=320 * MSS, slow_start=True), "sender")
    # 10, 20, 40, 80, 160 and 320 segments take five round trips to grow.
    (growing,) = [each for each in diagnosis.findings if each.cause.key == "slow_start"]
    assert growing.seconds == pytest.approx(5 * RTT_S, abs=1.1 * RTT_S)


@pytest.mark.parametrize("late", [1.13, 1.16, 1.3])
@pytest.mark.parametrize("cwnd", [200, 320])
def test_round_trips_that_are_long_from_the_beginning_on_are_no_queue(cwnd: int, late: float) -> None:
    # Longer than the handshake, as hosts delay ACKs, however little is in flight.
    diagnosis = found(Sender(BULK, cwnd_bytes=cwnd * MSS, slow_start=True, rtt_s=late * RTT_S), "sender")
    assert diagnosis.share("bottleneck") + diagnosis.share("foreign") == 0


def test_a_single_delayed_ack_is_no_queue() -> None:
    times = np.arange(10) * 10 * MS
    rtts = np.array([50, 50, 90, 50, 50, 50, 90, 50, 50, 50]) * MS
    assert capture.RttSeries(times, rtts).least(20 * MS).rtt_ns.max() == 50 * MS
    assert len(NOWHERE.least(20 * MS).time_ns) == 0


def test_hardly_any_data_is_no_transfer() -> None:
    packets, trips, facts = Sender([(0.0, 2 * MSS)]).packets()
    assert capture.read(packets, "sender", facts, trips, NOWHERE) is None


def test_a_pause_of_the_sender_is_no_round_trip_and_a_queue_is_one() -> None:
    # Three segments on end, and then nothing for 40 ms, over and over; or a steady stream behind a queue.
    apart = np.cumsum([1, 1, 40] * 10) * MS
    within = RttSeries(apart[3::3], np.full(9, 60 * MS)).without_pauses(apart, 25 * MS)
    assert set(within.rtt_ns) == {60 * MS}
    paused = RttSeries(apart[2::3], np.full(10, 60 * MS)).without_pauses(apart, 25 * MS)
    assert set(paused.rtt_ns) == {25 * MS}
    steady = np.arange(1, 21) * MS
    queued = RttSeries(steady[5:], np.full(15, 60 * MS)).without_pauses(steady, 25 * MS)
    assert set(queued.rtt_ns) == {60 * MS}
