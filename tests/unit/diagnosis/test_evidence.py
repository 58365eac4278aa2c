"""What packets do not show: they are not taken for evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.diagnosis import capture
from weirlab.diagnosis.capture import ConnectionPackets, RttSeries
from weirlab.diagnosis.causes import Source
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Diagnosis
from weirlab.diagnosis.timeline import TransferFacts

from .made import MSS, NAN, NOWHERE, RTT_S, Sender, at_the_receiver

BULK = [(0.0, 1_000 * MSS)]


def diagnosed(
    packets: ConnectionPackets,
    facts: TransferFacts,
    source: Source = "sender",
    trips: RttSeries = NOWHERE,
    behind: RttSeries = NOWHERE,
    *,
    scaled: bool = True,
) -> Diagnosis:
    read = capture.read(packets, source, facts, trips, behind, scaled=scaled)
    assert read is not None
    diagnosis = diagnose(*read)
    assert diagnosis is not None
    return diagnosis


def behind_a_handshake(sender: Sender, growth_s: float = 0.0) -> Diagnosis:
    """At the receiver, without time stamps; each data packet's way is longer by up to ``growth_s``."""
    packets, _, facts = sender.packets()
    packets, _ = at_the_receiver(packets, sender)
    packets = replace(packets, tsval=np.full(len(packets.seq), NAN))
    handshake = RttSeries(packets.time_ns[:1], np.array([round(sender.rtt_s * 1e9)]))
    if growth_s:
        times = packets.time_ns - packets.time_ns[0]
        stretched = packets.time_ns + np.rint(times / sender.rtt_s * growth_s).astype(np.int64)
        packets = replace(packets, time_ns=stretched)
    return diagnosed(packets, facts, "receiver", handshake, handshake)


@pytest.mark.parametrize("window", [8, 20, 100])
def test_more_in_flight_than_the_window_allows_means_that_acks_are_missing(window: int) -> None:
    packets, trips, facts = Sender(BULK, cwnd_bytes=200 * MSS).packets()
    tight = replace(packets, window_bytes=np.where(packets.from_sender, 60_000, window * MSS))
    diagnosis = diagnosed(tight, facts, trips=trips)
    assert (diagnosis.main.key, diagnosis.findings[0].confidence) == ("unknown", "low")
    assert "the capture does not have all ACKs" in diagnosis.sentence


@pytest.mark.parametrize("segments", [20, 60])
def test_a_window_of_unknown_scale_that_the_flight_reaches_and_never_exceeds_is_not_scaled(
    segments: int,
) -> None:
    packets, trips, facts = Sender(BULK, window_bytes=segments * MSS).packets()
    assert diagnosed(packets, facts, trips=trips, scaled=False).main.key == "receive_window"
    scaled = replace(packets, window_bytes=packets.window_bytes // 4)
    assert diagnosed(scaled, facts, trips=trips, scaled=False).share("receive_window") == 0


def test_a_closed_window_is_closed_whatever_its_scale() -> None:
    writes = [(at * 0.2, 40 * MSS) for at in range(10)]
    packets, trips, facts = Sender(writes).packets()
    last = np.append(np.diff(packets.time_ns) > 100_000_000, False) & ~packets.from_sender
    shut = replace(packets, window_bytes=np.where(last, 0, packets.window_bytes // 128))
    diagnosis = diagnosed(shut, facts, trips=trips, scaled=False)
    assert diagnosis.main.key == "application_read"
    assert diagnosis.sentence.endswith("the receiving application did not read: its window was closed.")


@pytest.mark.parametrize(
    ("window_bytes", "cause"), [(12 * MSS, "receive_window"), (64 * MSS, "window_scaling")]
)
def test_scaling_is_not_the_cause_if_the_window_is_far_smaller_than_it_could_be(
    window_bytes: int, cause: str
) -> None:
    packets, trips, facts = Sender(BULK, window_bytes=window_bytes).packets()
    assert diagnosed(packets, replace(facts, window_scaling=False), trips=trips).main.key == cause


@pytest.mark.parametrize("growth_s", [0.02, 0.04])
def test_round_trips_that_grow_after_the_handshake_are_no_pauses(growth_s: float) -> None:
    diagnosis = behind_a_handshake(Sender(BULK, cwnd_bytes=20 * MSS), growth_s)
    assert diagnosis.share("application_write") < 0.05


@pytest.mark.parametrize("pause_s", [0.3, 0.6])
def test_pauses_that_exceed_any_round_trip_are_the_applications(pause_s: float) -> None:
    writes = [(at * pause_s, 20_500) for at in range(20)]
    diagnosis = behind_a_handshake(Sender(writes))
    assert diagnosis.main.key == "application_write"
    assert diagnosis.share("application_write") > 0.7


def test_without_any_round_trip_silence_between_whole_segments_shows_nothing() -> None:
    writes = [(at * 0.6, 10 * MSS) for at in range(20)]
    packets, _, facts = Sender(writes, rtt_s=0.0).packets()
    diagnosis = diagnosed(packets, replace(facts, min_rtt_s=0.0))
    assert diagnosis.main.key == "unknown"


def test_requests_show_that_the_sender_had_nothing_to_send_even_without_a_round_trip() -> None:
    writes = [(at * 0.6, 10 * MSS) for at in range(20)]
    packets, _, facts = Sender(writes, rtt_s=0.0).packets()
    late = np.append(np.diff(packets.time_ns) > 300_000_000, False) & ~packets.from_sender
    asked = replace(packets, payload_bytes=np.where(late, 100, packets.payload_bytes))
    assert diagnosed(asked, replace(facts, min_rtt_s=0.0)).main.key == "application_write"


def test_a_shaper_in_the_senders_host_is_not_an_application_that_writes_segment_by_segment() -> None:
    # Each segment is acknowledged long before the next one may leave.
    sender = Sender(BULK, pace_bytes_per_s=120_000, rtt_s=0.0003)
    packets, trips, facts = replace(sender, facts=replace(sender.facts, min_rtt_s=0.0003)).packets()
    assert diagnosed(packets, facts, trips=trips).main.key == "pacing"


def test_small_writes_beside_pauses_are_one_application_and_no_full_buffer() -> None:
    # For a while it writes as ACKs come; most of the time it pauses.
    writes = [(at * RTT_S, 20_000) for at in range(25)] + [(2 + at * 0.3, 20_500) for at in range(12)]
    packets, trips, facts = Sender(writes).packets()
    diagnosis = diagnosed(packets, facts, trips=trips)
    assert diagnosis.main.key == "application_write"
    assert diagnosis.share("send_buffer") == 0
