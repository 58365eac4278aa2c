"""Captures at both ends of a transfer: what they tell together, and neither of them alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.diagnosis import capture, causes, finding
from weirlab.diagnosis.both import crossing, reading
from weirlab.diagnosis.both.crossing import CaptureLeg
from weirlab.diagnosis.both.fates import fates
from weirlab.diagnosis.causes import Source
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Diagnosis, PathEvidence, RetransmissionCounts, path_evidence
from weirlab.diagnosis.timeline import Timeline, TransferFacts

from .legs import MS, Segment, leg
from .made import MSS, NOWHERE, Sender

FIRST: list[Segment] = [(number, 1 + 1000 * number, 1000, 1000) for number in range(5)]
"""Five segments, which take 10 ms."""
AGAIN: Segment = (60, 1001, 1000, 0)
CAME: list[Segment] = [(at + 10, *rest) for at, *rest in FIRST]  # type: ignore[misc]
COPY: Segment = (70, 1001, 1000, 0)
FATES = RetransmissionCounts(0, 0, 0, 0, 0, 0.0, 0, 100, 0)


def fate(came: list[Segment], acks: list[tuple[float, int]], apart_ms: float = 0.0) -> RetransmissionCounts:
    """Of the second segment, which was sent twice; the receiver's clock is ``apart_ms`` ahead."""
    sender = leg([*FIRST, AGAIN], [(at + 10, ack) for at, ack in acks])
    receiver = leg(
        [(at + apart_ms, *rest) for at, *rest in came],  # type: ignore[misc]
        [(at + apart_ms, ack) for at, ack in acks],
    )
    return fates(sender, receiver, (10 + apart_ms) * MS, (10 - apart_ms) * MS)


@pytest.mark.parametrize("apart_ms", [0.0, -5_000.0, 5_000.0])
def test_the_reason_of_a_retransmission_is_what_arrived_whatever_the_clocks_are(apart_ms: float) -> None:
    lacking = [each for each in CAME if each[1] != 1001]
    stuck = [(10.0, 1001), (12.0, 1001), (13.0, 1001), (71.0, 5001)]
    lost = fate([*lacking, (70, 1001, 1000, 1000)], stuck, apart_ms)
    assert (lost.lost, lost.again, lost.overtaken) == (1, 1, 0)
    # The first copy comes 20 ms late, behind the fifth segment.
    late = fate([*lacking, (31, 1001, 1000, 1000), COPY], [*stuck[:3], (31.0, 5001)], apart_ms)
    assert (late.late, late.again, late.overtaken) == (1, 1, 1)
    assert late.overtaken_s == pytest.approx(0.019)
    dropped = fate([*CAME, COPY], stuck, apart_ms)
    assert (dropped.dropped, dropped.again, dropped.overtaken) == (1, 1, 0)
    answered = [(11.0, 2001), (13.0, 4001), (14.0, 5001)]
    needless = fate([*CAME, COPY], answered, apart_ms)
    assert (needless.needless, needless.again, needless.duplicated) == (1, 1, 0)


def test_a_copy_of_which_nothing_arrived_was_lost_and_so_was_the_first() -> None:
    found = fate([each for each in CAME if each[1] != 1001], [(10.0, 1001)])
    assert (found.lost, found.again) == (1, 1)
    assert fates(leg([*FIRST, AGAIN]), leg([]), 0.0, 0.0).lost == 1


def test_what_arrives_more_often_than_it_was_sent_was_duplicated() -> None:
    found = fates(
        leg(FIRST, [(20, 5001)]), leg([*CAME, (15, 1001, 1000, 0)], [(14, 3001), (15, 5001)]), 10 * MS, 0.0
    )
    assert (found.duplicated, found.again) == (1, 0)
    assert (found.acks, found.acks_lost) == (2, 1)


def twos(gaps_ms: list[float]) -> tuple[CaptureLeg, CaptureLeg]:
    """Two segments at once every 50 ms, and captured so far apart."""
    sent: list[Segment] = []
    came: list[Segment] = []
    for number, gap in enumerate(gaps_ms):
        at, seq = 50.0 * number, 1 + 2000 * number
        sent += [(at, seq, 1000, 1000), (at + 0.01, seq + 1000, 1000, 1000)]
        came += [(at + 10, seq, 1000, 1000), (at + 10 + gap, seq + 1000, 1000, 1000)]
    return leg(sent), leg(came)


def test_the_capacity_is_what_most_pairs_show_although_others_come_in_between() -> None:
    gaps = [1.0, 1.02, 0.98, 2.0, 1.01, 3.1] * 10
    found, number = crossing.capacity(*twos(gaps))
    assert found == pytest.approx(1_000_000, rel=0.03)
    assert number == 40


def test_pairs_that_are_few_or_scattered_show_nothing() -> None:
    assert crossing.capacity(*twos([1.0] * 10)) == (None, 0)
    assert crossing.capacity(*twos(np.geomspace(1, 20, 60).tolist())) == (None, 0)
    assert crossing.capacity(leg([]), leg([])) == (None, 0)


def test_segments_that_left_apart_say_nothing_of_the_capacity() -> None:
    _, came = twos([1.0] * 40)
    apart = replace(came, data_ns=came.data_ns - 10 * MS)
    assert crossing.capacity(apart, came) == (None, 0)


def test_each_way_and_the_receiver_have_their_part_of_the_round_trip() -> None:
    sender = leg([(0, 1, 1000, 1000), (100, 1001, 1000, 1000)], [(25, 1001), (160, 2001)])
    receiver = leg([(10, 1, 1000, 1000), (130, 1001, 1000, 1000)], [(15, 1001), (140, 2001)])
    _, there, back = crossing.cross(sender, receiver)
    found = reading.found(sender, receiver, there, back)
    assert (found.there_s, found.answer_s, found.back_s) == pytest.approx((0.010, 0.0075, 0.005))
    assert found.fates is not None
    partly = reading.found(replace(sender, whole=False), receiver, there, back)
    assert (partly.fates, partly.there_s) == (None, found.there_s)


def test_what_was_kept_of_two_captures_is_read_again() -> None:
    for one in (None, replace(FATES, lost=3)):
        between = PathEvidence(one, 0.01, None, 0.002, 20e6, 40)
        assert path_evidence(between.document()) == between


# -- the rules -----------------------------------------------------------------------------------------------


def seen(between: PathEvidence, queue_s: float = 0.0, back_s: float = 0.0) -> tuple[Timeline, TransferFacts]:
    """A sender behind a bottleneck of 1 MB/s, whose congestion window fills a queue."""
    made = Sender([(0.0, 6_000 * MSS)], cwnd_bytes=200 * MSS, rate_bytes_per_s=1e6)
    packets, trips, facts = made.packets()
    found = capture.read(packets, "sender", facts, trips, NOWHERE)
    assert found is not None
    timeline, facts = found
    like = np.ones(len(timeline.lasts_s))
    timeline = replace(timeline, source="both", queue_s=queue_s * like, back_s=back_s * like)
    return timeline, replace(facts, between=between)


def told(timeline: Timeline, facts: TransferFacts) -> Diagnosis:
    found = diagnose(timeline, facts)
    assert found is not None
    assert finding.read(found.document()) == found
    return found


def blind(found: Diagnosis) -> set[str]:
    return {each.what for each in found.blind}


UNPAIRED = PathEvidence(FATES, 0.15, 0.0, 0.0, None, 0)


def test_a_bottleneck_whose_capacity_is_known_is_own_or_foreign() -> None:
    own = told(*seen(replace(UNPAIRED, capacity_bps=8e6, pairs=50), queue_s=0.15))
    assert own.main is causes.BOTTLENECK
    assert own.share("bottleneck") > 0.9
    assert causes.FOREIGN.held not in blind(own)
    others = told(*seen(replace(UNPAIRED, capacity_bps=16e6, pairs=50), queue_s=0.15))
    assert others.main is causes.FOREIGN
    assert others.findings[0].confidence == "high"
    assert "50 pairs of segments" in others.findings[0].evidence[1]
    neither = told(*seen(UNPAIRED, queue_s=0.15))
    assert neither.main is causes.BOTTLENECK
    assert causes.FOREIGN.held in blind(neither)


def test_a_capacity_that_was_exceeded_is_none() -> None:
    found = told(*seen(replace(UNPAIRED, capacity_bps=1e6, pairs=50), queue_s=0.15))
    assert found.main is causes.BOTTLENECK
    assert causes.FOREIGN.held in blind(found)


def test_a_queue_on_the_way_back_is_no_bottleneck_of_the_data() -> None:
    timeline, facts = seen(UNPAIRED, back_s=0.15)
    found = told(timeline, facts)
    assert found.main is causes.ACK_QUEUE
    assert found.share("bottleneck") == 0
    alone = told(replace(timeline, source="sender", queue_s=None, back_s=None), replace(facts, between=None))
    assert alone.main is causes.BOTTLENECK
    assert causes.ACK_QUEUE.held in blind(alone)


def test_what_acks_let_out_evenly_looks_like_a_pace_to_the_receiver() -> None:
    timeline, facts = seen(UNPAIRED)
    pieces = len(timeline.lasts_s)
    nothing, all_of_it = np.zeros(pieces, dtype=bool), np.ones(pieces, dtype=bool)
    one = replace(timeline, source="receiver", queue_s=np.zeros(pieces), back_s=None, flat=nothing)
    facts = replace(facts, between=None)
    paced = told(replace(one, paced=all_of_it, starting=nothing), facts)
    assert paced.main is causes.PACING
    assert causes.ACK_QUEUE.held in blind(paced)
    assert causes.ACK_QUEUE.held not in blind(told(one, facts))


@pytest.mark.parametrize(
    ("fates", "cause", "said"),
    [
        (replace(FATES, lost=40), causes.LOSS, "of 40 retransmitted segments, 40 lost between the captures"),
        (
            replace(FATES, late=30, lost=10),
            causes.REORDERING,
            "30 of 40 retransmitted segments had not been lost",
        ),
        (replace(FATES, dropped=40), causes.RECEIVER_DROPS, "40 dropped by the receiver's host"),
        (replace(FATES, needless=40), causes.LOSS, "its ACK came late or not at all"),
    ],
)
def test_what_was_sent_again_has_the_cause_of_most_of_it(
    fates: RetransmissionCounts, cause: causes.Cause, said: str
) -> None:
    timeline, facts = seen(replace(UNPAIRED, fates=fates))
    nothing = np.zeros(len(timeline.lasts_s), dtype=bool)
    lossy = replace(timeline, lost=np.full(len(nothing), 40.0), flat=nothing, starting=nothing)
    facts = replace(facts, retransmitted=fates.again, spurious=fates.late + fates.needless, sack=False)
    found = told(lossy, facts)
    assert found.main == cause
    assert any(said in each for each in (found.sentence, *found.findings[0].evidence))
    assert not {causes.RECEIVER_DROPS.held, causes.REORDERING.held} & blind(found)
    alone = told(replace(lossy, source="sender"), replace(facts, spurious=0, between=None))
    assert alone.main is causes.LOSS
    assert {causes.RECEIVER_DROPS.held, causes.REORDERING.held} <= blind(alone)


def test_times_since_the_last_packet_empty_a_queue() -> None:
    delays = crossing.Delays(np.array([110, 140]) * MS, np.array([10, 40]) * MS)
    at_s = np.array([0.05, 0.1, 0.11, 0.2])
    known_s = np.array([0.1, 0.1])
    found = reading.waits(at_s, known_s, delays)
    assert found == pytest.approx([0.0, 0.03, 0.02, 0.0])


def test_round_trips_alone_tell_as_much_as_before() -> None:
    made = Sender([(0.0, 2_000 * MSS)], cwnd_bytes=50 * MSS)
    packets, trips, facts = made.packets()
    found = capture.read(packets, "sender", facts, trips, NOWHERE)
    assert found is not None
    assert found[0].queue_s is found[0].back_s is None
    assert found[0].begun_ns in packets.time_ns


@pytest.mark.parametrize("source", ["both", "sender"])
def test_connections_of_the_same_test_are_no_other_traffic(source: Source) -> None:
    timeline, facts = seen(replace(UNPAIRED, capacity_bps=16e6, pairs=50), queue_s=0.15)
    timeline = replace(timeline, source=source)
    facts = facts if source == "both" else replace(facts, between=None)
    found = told(timeline, replace(facts, siblings=3))
    assert found.main is causes.BOTTLENECK
    assert found.share("foreign") == 0
    if source == "sender":
        assert "3 other connections of this test" in found.sentence
