"""Scripted conversations in which nothing but applications, lost packets or devices on the path cost time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weirlab import trace
from weirlab.testing.tcp import Flag, TcpConversation, TcpSide
from weirlab.trace import wording

from .talks import CLIENT, MSS, SERVER, diagnosed, opened


@pytest.mark.parametrize("ask_bytes", [40, 300, 4_000])
@pytest.mark.parametrize("mss", [65_483, 32_768])
def test_a_window_of_one_huge_segment_is_not_full_with_a_small_request(
    tmp_path: Path, mss: int, ask_bytes: int
) -> None:
    talk = opened(0.02, mss=mss, window_bytes=65_536)
    for _ in range(40):
        talk.a.send(ask_bytes)
        talk.wait(0.1)
        talk.b.send(700)
        talk.wait(0.1)
        talk.a.ack()
        talk.wait(90)
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "application_write"
    assert diagnosis.share("receive_window") == 0


@pytest.mark.parametrize("delay_ms", [70, 150, 400])
def test_acks_that_a_timer_delays_are_neither_a_queue_nor_other_traffic(
    tmp_path: Path, delay_ms: int
) -> None:
    talk = opened(30)
    for flight in (1, 2, 3, 4, 6, 8, 10, 12, 12, 12):
        for _ in range(flight):
            talk.a.send(MSS)
        talk.wait(30 + delay_ms)
        talk.b.ack()
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.summary.capacity_bps is None
    assert diagnosis.share("foreign") + diagnosis.share("bottleneck") == 0


@pytest.mark.parametrize(("rtt_ms", "timeout_ms"), [(20, 240), (60, 330)])
def test_the_last_segment_lost_again_and_again_costs_time_outs(
    tmp_path: Path, rtt_ms: float, timeout_ms: float
) -> None:
    talk = opened(rtt_ms)
    for _ in range(12):
        for _ in range(3):
            talk.a.send(MSS)
        last = talk.a.send(500, "lost")
        talk.wait(rtt_ms)
        talk.b.ack()
        talk.wait(timeout_ms - rtt_ms)
        talk.a.again(last)
        talk.wait(rtt_ms)
        talk.b.send(100)
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "timeout"
    waited = timeout_ms / (timeout_ms + rtt_ms)
    assert diagnosis.share("timeout") == pytest.approx(waited, abs=0.06)
    assert diagnosis.findings[0].evidence[0].startswith("12 of them: nothing was sent after")


@pytest.mark.parametrize("place", [0.0, 1.0])
@pytest.mark.parametrize("every_ms", [400, 1_000])
def test_one_write_now_and_then_is_the_application_although_acks_are_delayed(
    tmp_path: Path, place: float, every_ms: float
) -> None:
    talk = opened(20, place=place)
    for _ in range(30):
        talk.a.send(600)
        talk.wait(20 * (1 - place) + 200)
        talk.b.ack()
        talk.wait(every_ms - 200 - 20 * (1 - place))
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "application_write"
    assert diagnosis.share("nagle") < 0.05


def test_silence_after_everything_was_acknowledged_is_the_applications_despite_a_loss(tmp_path: Path) -> None:
    talk = opened(30)
    sent = [talk.a.send(MSS, "lost" if n == 3 else "arrives") for n in range(10)]
    talk.wait(30)
    for _ in range(6):
        talk.b.ack()
    talk.a.again(sent[3])
    talk.wait(30)
    talk.b.ack()
    for _ in range(6):
        talk.wait(700)
        for _ in range(4):
            talk.a.send(MSS)
        talk.wait(30)
        talk.b.ack()
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "application_write"
    assert diagnosis.share("application_write") == pytest.approx(4.2 / 4.45, abs=0.05)


def test_a_capture_without_acks_tells_nothing(tmp_path: Path) -> None:
    talk = opened(30)
    # What carries data is captured.
    for _ in range(2):
        talk.a.send(200)
        talk.wait(30)
        talk.b.send(300)
    for _ in range(10):
        for _ in range(10):
            talk.a.send(MSS)
            talk.b.ack("unseen")
        talk.wait(15)
    found = diagnosed(talk, tmp_path, "a")
    assert found.main.key == "unknown"
    assert found.findings[0].share == 1
    assert "does not have the receiver's ACKs" in found.sentence


@pytest.mark.parametrize("passes", [200, 1_200])
def test_a_path_that_swallows_large_packets_is_a_black_hole(tmp_path: Path, passes: int) -> None:
    talk = opened(40)
    talk.b.send(300)
    talk.a.send(passes)
    sent = [talk.a.send(MSS, "lost") for _ in range(12)]
    talk.wait(40)
    talk.b.ack()
    for doubled in range(7):
        talk.wait(240 * 2**doubled)
        talk.a.again(sent[0], "lost")
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "black_hole"
    assert f"none of 19 transmissions of 1,448 B or more was acknowledged, while up to {passes:,} B" in (
        diagnosis.sentence
    )


def test_a_black_hole_is_found_in_very_few_packets(tmp_path: Path) -> None:
    talk = opened(40)
    for size in (200, 400):
        talk.a.send(size)
        talk.wait(40)
        talk.b.ack()
    sent = [talk.a.send(MSS, "lost") for _ in range(4)]
    for doubled in range(4):
        talk.wait(240 * 2**doubled)
        talk.a.again(sent[0], "lost")
    assert diagnosed(talk, tmp_path, "a").main.key == "black_hole"


def test_a_path_that_dies_is_no_black_hole(tmp_path: Path) -> None:
    talk = opened(40)
    for _ in range(3):
        for _ in range(6):
            talk.a.send(MSS)
        talk.wait(40)
        talk.b.ack()
    sent = [talk.a.send(MSS, "lost") for _ in range(6)]
    for doubled in range(6):
        talk.wait(240 * 2**doubled)
        talk.a.again(sent[0], "lost")
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "timeout"
    assert diagnosis.share("black_hole") == 0
    with trace.read([tmp_path / "made.pcap"], series=False) as read:
        (connection,) = read.facts["connections"]
    assert connection["a"]["unanswered"] == 12
    assert "were never answered" in wording.conclusion(connection)


@pytest.mark.parametrize("place", [0.0, 0.4])
@pytest.mark.parametrize("tries", [1, 5])
def test_the_wait_after_the_last_retransmission_is_for_a_time_out_too(
    tmp_path: Path, tries: int, place: float
) -> None:
    talk = opened(4, place=place)
    for _ in range(3):
        for _ in range(6):
            talk.a.send(MSS)
        talk.wait(4)
        talk.b.ack()
    asked = talk.a.send(409, "lost")
    for doubled in range(tries):
        talk.wait(300 * 2**doubled)
        talk.a.again(asked, "lost")
    talk.wait(300 * 2**tries)
    talk.a.reset()
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "timeout"
    assert diagnosis.share("timeout") > 0.9
    assert diagnosis.share("loss") < 0.05


@pytest.mark.parametrize("lost", [1, 3])
def test_lost_syns_are_noted_with_the_time_that_they_cost(tmp_path: Path, lost: int) -> None:
    ends = (TcpSide(s.address, s.port, s.isn, 1460, 7, window_bytes=4_000_000) for s in (CLIENT, SERVER))
    talk = TcpConversation(*ends)
    for doubled in range(lost):
        talk.a.syn("lost")
        talk.wait(1_000 * 2**doubled)
    talk.handshake(rtt_ms=40)
    for _ in range(10):
        for _ in range(4):
            talk.a.send(MSS)
        talk.wait(40)
        talk.b.ack()
    (note,) = diagnosed(talk, tmp_path, "a").notes
    assert note.startswith(f"the connection took {2**lost - 1}.04 s to open: {lost + 1} SYNs were sent")


def test_sack_blocks_that_cover_what_was_never_sent_are_noted(tmp_path: Path) -> None:
    talk = opened(40)
    for _ in range(4):
        sent = [talk.a.send(MSS, "lost" if n == 0 else "arrives") for n in range(10)]
        talk.wait(40)
        for _ in range(5):
            talk.b.ack()
        talk.wait(250)
        talk.a.again(sent[0])
        talk.wait(40)
        talk.b.ack()
    shifted = talk.segments
    for at, segment in enumerate(shifted):
        blocks = segment.options.find(b"\x05")
        if segment.sender == "b" and segment.options[12:14] == b"\x01\x01" and blocks == 14:
            moved = bytearray(segment.options)
            for edge in range(16, len(moved), 4):
                value = (int.from_bytes(moved[edge : edge + 4], "big") + 99_000_000) % 2**32
                moved[edge : edge + 4] = value.to_bytes(4, "big")
            shifted[at] = type(segment)(**{**vars(segment), "options": bytes(moved)})
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert any("covered what was never sent" in note for note in diagnosis.notes)
    (waits,) = (each for each in diagnosis.findings if each.cause.key == "timeout")
    assert waits.evidence[0].startswith("4 of them: three or more duplicate ACKs")


@pytest.mark.parametrize("place", [0.0, 1.0])
def test_a_window_whose_scale_was_removed_on_the_path_is_not_full(tmp_path: Path, place: float) -> None:
    talk = opened(10, place=place, window_bytes=500_000)
    for _ in range(20):
        for _ in range(12):
            talk.b.send(MSS)
        talk.wait(10)
        talk.a.ack()
    offer, nothing = b"\x01\x03\x03\x07", b"\x01\x01\x01\x01"
    for at, segment in enumerate(talk.segments):
        if segment.sender == "b" and segment.flags & Flag.SYN:
            stripped = segment.options.replace(offer, nothing)
            talk.segments[at] = replace(segment, options=stripped)
    diagnosis = diagnosed(talk, tmp_path, "b")
    assert diagnosis.share("receive_window") == diagnosis.share("window_scaling") == 0
    assert not any("window scaling is off" in note for note in diagnosis.notes)
    assert any("removed the option" in each.why for each in diagnosis.blind)


def test_what_any_path_carries_falls_into_no_black_hole_if_nothing_arrives_any_more(tmp_path: Path) -> None:
    # A client that goes away before the answer, which any path would carry.
    talk = opened(40)
    for _ in range(3):
        talk.a.send(41)
        talk.wait(40)
        talk.b.send(800)
    answer = talk.a.send(1_056, "lost")
    for doubled in range(5):
        talk.wait(240 * 2**doubled)
        talk.a.again(answer, "lost")
    assert diagnosed(talk, tmp_path, "a").main.key == "timeout"


@pytest.mark.parametrize("closed", [False, True])
def test_a_window_of_unknown_scale_is_closed_only_if_its_receiver_says_so(
    tmp_path: Path, closed: bool
) -> None:
    talk = opened(40)
    # What the first ACK acknowledges was sent before the capture: its window seems to end before the rest.
    talk.a.send(2_000)
    early = replace(talk.b.ack("late"), window=250)
    for _ in range(60):
        talk.a.send(MSS)
    talk.segments[:] = [replace(early, time_ns=talk.now_ns)]
    for _ in range(60):
        talk.a.send(MSS)
    talk.wait(300)
    talk.b.ack(window_bytes=0 if closed else None)
    talk.wait(300)
    talk.b.ack(window_bytes=4_000_000)
    for _ in range(2):
        for _ in range(40):
            talk.a.send(MSS)
        talk.wait(40)
        talk.b.ack()
    diagnosis = diagnosed(talk, tmp_path, "b")
    assert (diagnosis.share("application_read") > 0.3) == closed
    assert diagnosis.share("receive_window") == 0


@pytest.mark.parametrize("answers", [False, True])
def test_probes_of_a_closed_window_show_a_slow_reader_only_if_it_answers(
    tmp_path: Path, answers: bool
) -> None:
    talk = opened(40)
    for _ in range(8):
        for _ in range(10):
            talk.a.send(MSS)
        talk.wait(40)
        talk.b.ack()
    talk.b.ack(window_bytes=0)
    for doubled in range(7):
        talk.wait(240 * 2**doubled)
        talk.a.probe()
        talk.wait(40)
        if answers:
            talk.b.ack()
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert (diagnosis.share("application_read") > 0.9) == answers
    assert diagnosis.main.key == ("application_read" if answers else "unknown")


def test_full_segments_that_probe_a_closed_window_are_no_time_outs(tmp_path: Path) -> None:
    talk = opened(40)
    for _ in range(8):
        for _ in range(10):
            talk.a.send(MSS)
        talk.wait(40)
        talk.b.ack()
    talk.b.ack(window_bytes=0)
    talk.wait(300)
    probe = talk.a.send(MSS, "lost")
    for doubled in range(5):
        talk.wait(40)
        talk.b.ack()
        talk.wait(240 * 2**doubled)
        talk.a.again(probe, "lost")
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert diagnosis.main.key == "application_read"
    assert diagnosis.share("timeout") + diagnosis.share("loss") == 0


def test_a_sequence_number_that_no_window_allows_tells_nothing(tmp_path: Path) -> None:
    talk = opened(40)
    for n in range(30):
        sent = talk.a.send(13)
        if n == 3:
            # One bit is wrong.
            talk.segments[-1] = replace(sent, seq=sent.seq ^ 1 << 28)
        talk.wait(40)
        talk.b.send(54)
        talk.wait(2_000)
    found = diagnosed(talk, tmp_path, "a")
    assert found.main.key == "unknown"
    assert "sequence numbers jump" in found.sentence


@pytest.mark.parametrize("whole", [False, True])
def test_messages_that_grow_in_number_are_no_slow_start(tmp_path: Path, whole: bool) -> None:
    talk = opened(100)
    for number in (4, 8, 16, 32, 64):
        for n in range(number):
            talk.a.send(MSS if whole or n % 2 else 300)
            talk.wait(0.1)
        talk.wait(95)
        for _ in range(number // 2):
            talk.b.ack()
    diagnosis = diagnosed(talk, tmp_path, "a")
    assert (diagnosis.main.key == "slow_start") == whole
