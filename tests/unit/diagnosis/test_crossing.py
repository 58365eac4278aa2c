"""Captures at both ends of a transfer: what becomes of the data between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.diagnosis.both import crossing

from .legs import MS, leg


def test_bytes_are_accounted_for_however_packets_were_split_and_joined() -> None:
    sender = leg([(0, 1, 3000, 3000), (10, 3001, 1000, 1000), (50, 1001, 1000, 0)])
    receiver = leg(
        [(20, 1, 1000, 1000), (21, 2001, 1000, 1000), (30, 3001, 1000, 1000), (70, 1001, 1000, 1000)]
    )
    found, *_ = crossing.cross(sender, receiver)
    assert (found.sent_bytes, found.again_bytes, found.arrived_bytes, found.twice_bytes) == (
        5000,
        1000,
        4000,
        0,
    )
    assert found.lost_bytes == 1000
    assert crossing.sentences(found)[0] == "Between the captures, 1.00 kB was lost, 20 % of what was sent."


def test_what_was_sent_again_without_need_arrives_twice() -> None:
    sender = leg([(0, 1, 1000, 1000), (40, 1, 1000, 0)])
    receiver = leg([(20, 1, 1000, 1000), (60, 1, 1000, 0)])
    found, *_ = crossing.cross(sender, receiver)
    assert (found.lost_bytes, found.twice_bytes) == (0, 1000)
    assert crossing.sentences(found)[0] == (
        "Nothing was lost between the captures, although data was retransmitted. 1.00 kB arrived twice: it "
        "was retransmitted needlessly."
    )


def test_delays_are_those_of_what_was_sent_only_once() -> None:
    # The second segment is lost, and comes 100 ms later; the receiver's card joins the others.
    sender = leg(
        [
            (0, 1, 1000, 1000),
            (1, 1001, 1000, 1000),
            (2, 2001, 1000, 1000),
            (90, 1001, 1000, 0),
            (95, 3001, 500, 500),
        ],
        [(25, 1001), (125, 3501)],
    )
    receiver = leg(
        [(10, 1, 1000, 1000), (14, 2001, 1000, 1000), (100, 1001, 1000, 1000), (111, 3001, 500, 500)],
        [(11, 1001), (112, 3001), (113, 3501)],
    )
    found, there, back = crossing.cross(sender, receiver)
    assert (there.delay_ns // MS).tolist() == [10, 12, 16]
    assert (there.time_ns // MS).tolist() == [10, 14, 111]
    assert (back.delay_ns // MS).tolist() == [14, 12]
    assert found.there is not None
    assert (found.there.least, found.there.most) == (10 * MS, 16 * MS)


def test_an_end_that_is_cut_by_a_later_retransmission_says_nothing_of_delay() -> None:
    sender = leg([(0, 1, 1000, 1000), (300, 1, 1000, 0)])
    receiver = leg([(310, 1, 1000, 1000)])
    found, there, _ = crossing.cross(sender, receiver)
    assert len(there.delay_ns) == 0
    assert found.there is None


def test_what_is_missing_from_a_capture_is_not_taken_for_loss() -> None:
    whole = leg([(0, 1, 1000, 1000)])
    found, *_ = crossing.cross(replace(whole, whole=False), leg([]))
    assert found.lost_bytes is None
    assert "is not known" in crossing.sentences(found)[0]


@pytest.mark.parametrize(
    ("there", "back", "said"),
    [
        ((5.0, 25.0), (5.0, 5.5), "There was a queue on the way to the receiver: data waited 20.0 ms"),
        ((5.0, 5.5), (5.0, 25.0), "There was a queue on the way back: ACKs waited 20.0 ms"),
        ((5.0, 25.0), (5.0, 15.0), "There were queues in both directions"),
        ((5.0, 5.5), (5.0, 5.5), "There was no standing queue in either direction."),
    ],
)
def test_the_queue_is_on_the_way_whose_delay_grows(
    there: tuple[float, float], back: tuple[float, float], said: str
) -> None:
    delays = [crossing.Delay(100, least * MS, mean * MS, 2 * mean * MS) for least, mean in (there, back)]
    found = crossing.ConnectionCrossing(1000, 0, 1000, 0, 0, *delays)
    assert crossing.sentences(found)[1].startswith(said)


def test_a_capture_in_between_tells_on_which_side_packets_were_lost_and_waited() -> None:
    there = [crossing.Delay(100, 5 * MS, mean * MS, 40 * MS) for mean in (5.5, 25.0)]
    before, behind = (
        crossing.ConnectionCrossing(10_000, 0, 10_000 - lost, 0, lost, delay, None)
        for lost, delay in zip((0, 2_000), there, strict=True)
    )
    assert crossing.located(before, behind) == [
        "Before the capture in between, 0 B was lost, and after it 2.00 kB.",
        "Data waited 500 µs on average before the capture in between, and 20.0 ms after it.",
    ]
    assert crossing.located(before, before) == []
