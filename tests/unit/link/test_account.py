"""Where frames went: sums, and the sentence about them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from weirlab.link.account import (
    FrameBalance,
    LinkSide,
    Mirror,
    RecorderCounts,
    RecordGap,
    RingWatch,
    added,
    from_tap,
    verdict,
)
from weirlab.testing.link import FakeTap, side

A = LinkSide("eth1", received=10, forwarded=10, copied=10, bytes=1000)
B = LinkSide("eth2", received=5, forwarded=5, copied=5, bytes=500)
WRITTEN = (RecorderCounts("eth1", seen=10, written=10), RecorderCounts("eth2", seen=5, written=5))
GOOD = FrameBalance((A, B), ring=True, recorded=WRITTEN, recording=True)


def test_every_sum_holds_where_nothing_was_lost() -> None:
    sums = list(GOOD.sums())
    assert len(sums) == 7
    assert all(each.holds for each in sums)
    assert (GOOD.missing, GOOD.waiting) == (0, 0)


def test_a_frame_that_no_stage_has_breaks_a_sum() -> None:
    lacking = FrameBalance((A, B), ring=True, recorded=WRITTEN[:1], recording=True)
    (broken,) = [each for each in lacking.sums() if not each.holds]
    assert (broken.left, broken.right) == (15, 10)
    assert lacking.waiting == 5


def test_frames_that_went_with_a_recorder_and_repeated_ones_settle_the_sum() -> None:
    lost = FrameBalance((A, B), ring=True, recorded=WRITTEN[:1], recording=True, vanished=5)
    assert all(each.holds for each in lost.sums())
    again = FrameBalance(
        (A, B), ring=True, recorded=(*WRITTEN, RecorderCounts("x", 2, written=2)), repeated=2
    )
    assert all(each.holds for each in again.sums())


def test_what_the_mirror_took_must_be_what_came_in() -> None:
    short = FrameBalance((A, B), mirror=Mirror("eth3", sent=12, not_sent=2))
    assert [each.what for each in short.sums() if not each.holds] == ["received = mirrored by eth3"]
    whole = FrameBalance((A, B), mirror=Mirror("eth3", sent=12, not_sent=2, waiting=1))
    assert all(each.holds for each in whole.sums())


def test_recorders_one_after_the_other_are_added_by_interface() -> None:
    total = added([WRITTEN, (RecorderCounts("eth2", seen=3, lost=1, filtered=1, written=1, not_written=1),)])
    assert total == (WRITTEN[0], RecorderCounts("eth2", seen=8, lost=1, filtered=1, written=6, not_written=1))


def test_the_counters_of_a_tap_get_the_names_of_its_interfaces() -> None:
    tap = FakeTap(
        a=side(10, not_forwarded=1), b=side(5, not_copied=2), mirror={"sent": 15, "not_sent": 0, "waiting": 0}
    )
    (a, b), mirror = from_tap(tap.counters(), "eth1", "eth2", "eth3")
    assert (a.interface, a.received, a.forwarded, a.not_forwarded, a.bytes) == ("eth1", 10, 9, 1, 1000)
    assert (b.interface, b.copied, b.not_copied) == ("eth2", 3, 2)
    assert mirror == Mirror("eth3", 15, 0, 0)
    assert from_tap(tap.counters(), "eth1", "eth2", None)[1] is None


@pytest.mark.parametrize(
    ("account", "troubles", "sentence"),
    [
        (GOOD, (), "The link is unharmed: 15 frames forwarded, none lost; the record is complete."),
        (
            FrameBalance((A, B), mirror=Mirror("eth3", sent=15)),
            (),
            "The link is unharmed: 15 frames forwarded, none lost; every copy left by eth3.",
        ),
        (
            FrameBalance((LinkSide("eth1", 10, 8, 2, reason="the queue of eth2 was full"), B)),
            (),
            "The link loses frames: 2 of 15 were not forwarded (2 from eth1): the queue of eth2 was full.",
        ),
        (
            FrameBalance(
                (LinkSide("eth1", 10, 10, copied=7, not_copied=3), B), ring=True, recording=True, vanished=4
            ),
            ("the recorder has been silent for 3 s (process 7)",),
            "The link is unharmed: 15 frames forwarded, none lost; the record is missing 7 frames: 3 at the "
            "ring (the recorder, or its disk, was too slow or stalled), 4 with a recorder that died; the "
            "recorder has been silent for 3 s (process 7).",
        ),
        (
            FrameBalance(recorded=(RecorderCounts("eth0", 9, filtered=2, written=7),), recording=True),
            (),
            "The record is complete: 7 frames written, 2 were filtered out.",
        ),
        (
            FrameBalance(
                recorded=(RecorderCounts("eth0", 9, lost=1, written=7, not_written=2),), recording=True
            ),
            (),
            "The record is missing 3 frames: 1 at the ring (the recorder, or its disk, was too slow or "
            "stalled), 2 at the disk.",
        ),
    ],
)
def test_one_sentence_says_whether_link_and_record_are_whole(
    account: FrameBalance, troubles: tuple[str, ...], sentence: str
) -> None:
    assert verdict(account, troubles) == sentence


def test_without_word_of_what_was_refused_nothing_is_said_to_be_unharmed() -> None:
    account = replace(GOOD, assumed=True)
    assert verdict(account) == (
        "The link is bridged: 15 frames forwarded; what the other end refused is unknown; the "
        "record is complete."
    )
    # A sum of which one part is worked out from the rest proves nothing.
    assert not any("forwarded" in each.what for each in account.sums())


DONE = replace(GOOD, finished=True)
GAP = RecordGap(1, 2, "ring", 3)


def test_a_record_is_complete_when_every_frame_of_a_finished_session_is_in_it() -> None:
    assert DONE.complete is True
    assert GOOD.complete is None
    assert replace(DONE, recording=False).complete is None


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (replace(DONE, unknown=True), "an unknown number of frames"),
        (replace(DONE, gaps=(GAP,)), "may lack frames"),
        (replace(DONE, failures=("no space left",)), "may lack frames"),
        (replace(DONE, recorded=WRITTEN[:1]), "counters disagree .*: 15 and 10"),
        (replace(DONE, sides=(replace(A, cut=2), B)), "missing from the record; only the first bytes of 2"),
        (
            replace(DONE, vanished=2, recorded=(RecorderCounts("eth1", 8, written=8), WRITTEN[1])),
            "is missing 2",
        ),
        (
            replace(DONE, ring=False, unknown=True, recorded=(RecorderCounts("eth1", 5, lost=1, written=5),)),
            "is missing 1 frame and an unknown number more",
        ),
    ],
)
def test_whatever_is_the_matter_keeps_a_record_from_being_called_complete(
    account: FrameBalance, words: str
) -> None:
    assert account.complete is False
    assert re.search(words, verdict(account, account.failures))
    assert "the record is complete" not in verdict(account).lower()


def test_while_it_runs_a_death_keeps_the_record_from_being_called_complete() -> None:
    assert "known at the end" in verdict(replace(GOOD, interrupted=True))


def test_looks_that_find_the_ring_full_in_a_row_are_one_gap() -> None:
    watch = RingWatch()
    for at_ns, lost in enumerate([0, 0, 3, 8, 8, 9, 9]):
        watch.look(at_ns * 100, {"eth1": lost, "eth2": 0})
    first, second = watch.gaps()
    assert first == RecordGap(100, 300, "ring", 8, "eth1", "the ring was full")
    assert (second.from_ns, second.to_ns, second.frames) == (400, 500, 1)


def test_a_ring_that_is_still_full_is_a_gap_already() -> None:
    watch = RingWatch()
    watch.look(100, {"eth1": 0})
    watch.look(200, {"eth1": 4})
    assert [gap.frames for gap in watch.gaps()] == [4]
