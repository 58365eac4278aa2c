"""What receivers report by RTCP of streams that a capture shows."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.calls.quality.page import assessed, tell
from weirlab.calls.quality.study import CaptureReading, capture_quality
from weirlab.calls.quality.wording import verdict

from .captures import ethernet, talk, udp_over_ip, without
from .situations import INVITE, back, found, message, outcome_of, sip


def rtcp(at_us: int, content: bytes, *, from_caller: bool) -> tuple[int, bytes]:
    ends = ("192.0.2.1", "192.0.2.2", 4001, 4003)
    src, dst, src_port, dst_port = ends if from_caller else (ends[1], ends[0], ends[3], ends[2])
    return at_us, ethernet(udp_over_ip(src, dst, src_port, dst_port, content))


def sender_report(ssrc: int, middle: int) -> bytes:
    return struct.pack(">BBHIHIHIII", 0x80, 200, 6, ssrc, 0, middle, 0, 0, 0, 0)


def receiver_report(
    about: int,
    *,
    lost: int = 0,
    highest: int = 0,
    fraction: int = 0,
    since: tuple[int, float] = (0, 0.0),
    jitter: int = 0,
) -> bytes:
    losses = fraction << 24 | (lost & 0xFFFFFF)
    words = (77, about, losses, highest, jitter, since[0], round(since[1] * 65_536))
    return struct.pack(">BBH7I", 0x81, 201, 7, *words)


def voip_metrics(about: int) -> bytes:
    """2 % lost, 6 % discarded, a round trip of 240 ms, R 70, MOS-LQ 3.6, MOS-CQ 3.4."""
    ratings = (5, 15, 0, 0, 0, 0, 240, 30, 0, 0, 0, 16, 70, 127, 36, 34, 0, 0, 0, 0, 0)
    metrics = struct.pack(">I4B4H4B4B2B3H", about, *ratings)
    return struct.pack(">BBHIBBH", 0x80, 207, 10, 77, 7, 0, 8) + metrics


def test_reports_of_receivers_give_the_delay_and_the_loss_beyond_the_capture(file: Path) -> None:
    speaker = talk(600)
    reports = [
        rtcp(1_000_000, sender_report(0x1234ABCD, 0xAAAA0001), from_caller=True),
        rtcp(
            1_250_000, receiver_report(0x1234ABCD, highest=150, since=(0xAAAA0001, 0.05)), from_caller=False
        ),
        rtcp(9_000_000, receiver_report(0x1234ABCD, lost=20, highest=550), from_caller=False),
    ]
    outcome = outcome_of(file, [*speaker, *back(speaker)], reports)
    row = outcome.document()["streams"][0]
    assert row["far_end"]["round_trip_mean_ns"] == pytest.approx(200e6, rel=1e-3)
    assert row["far_end"]["loss_ratio"] == pytest.approx(0.05)
    assert row["network_ms"] == pytest.approx(100, rel=1e-3)
    assert row["lost_beyond_ratio"] == pytest.approx(0.05)
    # Half of the same round trip, and no loss, is what the other end hears.
    assert outcome.document()["streams"][1]["network_ms"] == pytest.approx(100, rel=1e-3)
    assert outcome.mos[0] < outcome.mos[1] - 0.4
    assert "half of the round trip that RTCP shows: 100 ms" in outcome.notes()[0]
    assert found(outcome, "far-end loss")
    assert found(outcome, "round trip")
    without_reports = outcome_of(file, [*speaker, *back(speaker)])
    assert outcome.mos[1] < without_reports.mos[1]
    told = capture_quality(file, CaptureReading(network_ms=100))
    assert told.mos[1] == pytest.approx(outcome.mos[1], abs=0.01)


def test_round_trips_to_both_ends_add_up(file: Path) -> None:
    reports = [
        rtcp(1_000_000, sender_report(0x1234ABCD, 1), from_caller=True),
        rtcp(1_030_000, receiver_report(0x1234ABCD, since=(1, 0.0)), from_caller=False),
        rtcp(2_000_000, sender_report(5, 2), from_caller=False),
        rtcp(2_050_000, receiver_report(5, since=(2, 0.0)), from_caller=True),
    ]
    outcome = outcome_of(file, [*talk(300), *back(talk(300))], reports)
    assert outcome.table.network_ns.tolist() == [40e6, 40e6]


@pytest.mark.parametrize(("round_trip_us", "near"), [(500, True), (50_000, False)])
def test_jitter_of_a_sender_that_is_near_is_that_senders(file: Path, round_trip_us: int, near: bool) -> None:
    reports = [
        rtcp(2_000_000, sender_report(5, 2), from_caller=False),
        rtcp(2_000_000 + round_trip_us, receiver_report(5, since=(2, 0.0)), from_caller=True),
    ]
    shaky = talk(1_000, jitter_us=150_000)
    outcome = outcome_of(file, [*shaky, *back(talk(1_000))], reports)
    assert outcome.causes == [(), ("jitter near the sender" if near else "jitter",)]
    # The stream that the reports are about need not be chosen.
    assert capture_quality(file, CaptureReading(only=["2"])).causes == outcome.causes[1:]


def test_jitter_that_a_receiver_reports_and_the_capture_does_not_show_is_told(file: Path) -> None:
    reports = [
        rtcp(at_us, receiver_report(0x1234ABCD, highest=highest, jitter=240), from_caller=False)
        for at_us, highest in ((4_000_000, 290), (9_000_000, 540))
    ]
    outcome = outcome_of(file, talk(600), reports)
    assert [streams for streams, _ in found(outcome, "far-end jitter")] == [(1,)]
    assert "well" not in verdict(outcome)


def test_round_trips_are_told_by_conversation_the_worst_first(file: Path) -> None:
    speaker = talk(600)
    talks = [
        replace(each, src_port=each.src_port + 10 * n, dst_port=each.dst_port + 10 * n, ssrc=100 + n)
        for n in range(5)
        for each in (without(speaker, range(60, 500, 9)) if n == 4 else speaker)
    ]
    reports = [
        rtcp(at_us, content, from_caller=caller)
        for n in range(5)
        for at_us, content, caller in (
            (1_000_000, sender_report(100 + n, n + 1), True),
            (1_030_000, receiver_report(100 + n, since=(n + 1, 0.0)), False),
        )
    ]
    outcome = outcome_of(file, talks, reports)
    assert [streams for streams, _ in found(outcome, "round trip")] == [(5,), (1,), (2,), (3,), (4,)]


def test_streams_with_loss_are_those_whose_receivers_report_it_too(file: Path) -> None:
    report = rtcp(
        9_000_000, receiver_report(0x1234ABCD, lost=20, highest=550, fraction=12), from_caller=False
    )
    first = rtcp(1_000_000, receiver_report(0x1234ABCD, highest=150), from_caller=False)
    outcome = outcome_of(file, [*talk(600), *back(talk(600))], [first, report])
    story = tell(assessed(outcome), command="weir")
    (tile,) = (tile for tile in story.tiles if tile.label == "Streams with loss")
    assert (tile.value, outcome.causes[0]) == ("1", ("loss behind the capture",))
    assert [text for _, text in found(outcome, "far-end loss")] == list(story.findings)


def test_losses_that_the_capture_shows_do_not_count_twice(file: Path) -> None:
    speaker = without(talk(1_001), range(10, 1_000, 20))
    report = rtcp(
        15_000_000, receiver_report(0x1234ABCD, fraction=13, lost=37, highest=849), from_caller=False
    )
    outcome = outcome_of(file, speaker, [report])
    assert outcome.streams[0].far_end is not None
    assert outcome.streams[0].far_end["loss_ratio"] == pytest.approx(0.05, abs=0.001)
    assert outcome.table.beyond.tolist() == [0]


@pytest.mark.parametrize(
    ("fraction", "lost", "highest"),
    [
        # Before the first number, 100; and hardly any of its numbers later.
        (253, 900, 99),
        (253, 900, 140),
        # Nothing says since when.
        (128, 0, 400),
    ],
)
def test_a_report_about_what_was_not_captured_is_no_loss(
    file: Path, fraction: int, lost: int, highest: int
) -> None:
    about = receiver_report(0x1234ABCD, fraction=fraction, lost=lost, highest=highest)
    outcome = outcome_of(file, talk(600), [rtcp(900_000, about, from_caller=False)])
    assert outcome.streams[0].far_end is not None
    assert outcome.streams[0].far_end["loss_ratio"] is None
    assert outcome.table.beyond.tolist() == [0]
    assert outcome.mos[0] > 4.3
    ((_, text),) = found(outcome, "far-end loss")
    assert "do not count" in text


@pytest.mark.parametrize(("lost", "beyond"), [(200, 0), (216, 0.05), (16, 0)])
def test_numbers_that_were_skipped_on_hold_are_no_loss_behind_the_capture_and_others_are(
    file: Path, lost: int, beyond: float
) -> None:
    held = [*talk(200), *talk(600)[400:]]
    signals = [
        sip(at_us, "192.0.2.1", "192.0.2.2", message(INVITE, 4000, direction=direction, cseq=f"{n} INVITE"))
        for n, at_us, direction in (
            (1, 0, "sendrecv"),
            (2, 3_990_000, "inactive"),
            (3, 7_990_000, "sendrecv"),
        )
    ]
    reports = [
        rtcp(1_000_000, receiver_report(0x1234ABCD, highest=150), from_caller=False),
        rtcp(11_500_000, receiver_report(0x1234ABCD, fraction=9, highest=670, lost=lost), from_caller=False),
    ]
    outcome = outcome_of(file, held, [*signals, *reports])
    assert outcome.streams[0].not_sent == 200
    assert outcome.table.beyond.tolist() == pytest.approx([beyond])
    # With fewer losses than numbers that were skipped, the receiver must have begun anew.
    assert (outcome.table.reported.tolist(), len(found(outcome, "far-end loss"))) == (
        [lost >= 200],
        int(lost != 200),
    )


def test_reports_about_what_came_after_the_captured_part_are_no_loss(file: Path) -> None:
    reports = [
        rtcp(500_000, receiver_report(0x1234ABCD, highest=120), from_caller=False),
        rtcp(9_000_000, receiver_report(0x1234ABCD, fraction=255, lost=400, highest=540), from_caller=False),
    ]
    outcome = outcome_of(file, talk(30), reports)
    assert outcome.table.beyond.tolist() == [0]


def test_one_report_about_what_was_captured_is_believed(file: Path) -> None:
    about = receiver_report(0x1234ABCD, fraction=51, lost=80, highest=499)
    outcome = outcome_of(file, talk(600), [rtcp(8_000_000, about, from_caller=False)])
    assert outcome.table.beyond.tolist() == pytest.approx([0.2])
    assert outcome.mos[0] < 3


def test_two_reports_that_came_before_the_stream_are_no_loss(file: Path) -> None:
    reports = [
        rtcp(500_000, receiver_report(0x1234ABCD, fraction=20, lost=0, highest=65_000), from_caller=False),
        rtcp(600_000, receiver_report(0x1234ABCD, fraction=90, lost=100, highest=65_400), from_caller=False),
    ]
    outcome = outcome_of(file, talk(600), reports)
    assert outcome.table.beyond.tolist() == [0]


def test_extended_reports_say_what_the_receiver_heard(file: Path) -> None:
    outcome = outcome_of(file, talk(300), [rtcp(2_000_000, voip_metrics(0x1234ABCD), from_caller=False)])
    claim = outcome.streams[0].far_end and outcome.streams[0].far_end["claim"]
    assert claim == {
        "loss_ratio": 5 / 256, "discard_ratio": 15 / 256, "round_trip_ms": 240, "end_system_ms": 30,
        "r": 70, "mos_lq": 3.6, "mos_cq": 3.4,
    }  # fmt: skip
    assert outcome.table.network_ns.tolist() == [120e6]
    ((_, text),) = found(outcome, "far-end claim")
    assert "R 70; MOS-LQ 3.6; MOS-CQ 3.4" in text


def test_encrypted_reports_are_counted_and_not_believed(file: Path) -> None:
    report = receiver_report(0x1234ABCD, fraction=200) + b"\x80\0\0\1" + b"tag" * 3
    outcome = outcome_of(file, talk(100), [rtcp(1_000, report, from_caller=False)])
    assert outcome.streams[0].far_end is None
    assert "1 packet of RTCP was encrypted or damaged" in outcome.notes()[0]
