"""Why streams are bad, in the sentence and per stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.calls.quality.study import CaptureReading, capture_quality
from weirlab.calls.quality.wording import verdict
from weirlab.quality.jitterbuffer import BufferChoice

from .captures import Rtp, frames, later, pcap, talk, without
from .situations import found, outcome_of


def many(packets: Sequence[Rtp], streams: int) -> list[Rtp]:
    return [
        replace(one, ssrc=number, src_port=5000 + 2 * number) for number in range(streams) for one in packets
    ]


def test_loss_and_jitter_of_different_streams_are_counted_apart(file: Path) -> None:
    good = talk(1000)
    holey = without(good, [n for start in range(50, 950, 60) for n in range(start, start + 9)])
    shaky = talk(1000, jitter_us=150_000)
    parts = [(holey, 9000), (holey, 9002), (shaky, 9004)]
    bad = [replace(one, ssrc=port, src_port=port) for packets, port in parts for one in packets]
    outcome = outcome_of(file, [*many(good, 4), *bad])
    assert outcome.causes == [
        (),
        (),
        (),
        (),
        ("loss before the capture",),
        ("loss before the capture",),
        ("jitter",),
    ]
    assert found(outcome, "jitter")[0][0] == (7,)
    assert verdict(outcome).startswith(
        "3 of 7 voice streams are below MOS 4.0: 2 by loss before the capture (streams 5, 6), "
        "1 by jitter (stream 7)."
    )


@pytest.mark.parametrize("heard", ["best", "fixed", "adaptive"])
def test_jitter_is_the_cause_behind_any_buffer(file: Path, heard: BufferChoice) -> None:
    """A first packet that is late anchors the fixed buffer so deep that none is late later."""
    stalls = [later(one, max(0, 8 - i % 100) * 20_000) for i, one in enumerate(talk(1000))]
    pcap(file, frames(stalls))
    outcome = capture_quality(file, CaptureReading(heard=heard, network_ms=30))
    assert (outcome.causes, bool(outcome.late[0])) == ([("jitter",)], heard == "adaptive")


def test_loss_beside_harmful_jitter_is_not_all(file: Path) -> None:
    shaky = without(talk(1_000, jitter_us=20_000), [n for n in range(50, 950) if not n % 12])
    assert outcome_of(file, shaky).causes == [("loss before the capture", "jitter")]


def test_a_long_way_is_neither_loss_nor_jitter(file: Path) -> None:
    pcap(file, frames(talk(1000)))
    assert capture_quality(file, CaptureReading(network_ms=600)).causes == [("delay",)]


def test_a_codec_that_nobody_likes_is_why(file: Path) -> None:
    pcap(file, frames(talk(1000, payload_type=3, payload_bytes=33)))
    assert capture_quality(file).causes == [("codec",)]


def test_a_hole_is_told_though_mos_is_good(file: Path) -> None:
    outcome = outcome_of(file, without(talk(5_000), range(700, 724)))
    assert outcome.mos[0] > 4.2
    assert found(outcome, "hole")[0][0] == (1,)
    assert "well" not in verdict(outcome)


def test_good_calls_were_heard_well(file: Path) -> None:
    outcome = outcome_of(file, talk(1000))
    assert (outcome.causes, verdict(outcome)) == ([()], "The voice stream was heard well (MOS 4.0 or more).")
