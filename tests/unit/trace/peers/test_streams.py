"""Voice streams summed up while they go by (`weir trace`), beside all their packets (`weir quality`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weirlab import _engine
from weirlab.calls.quality.study import QualityOutcome, capture_quality

from ...calls.quality.captures import Rtp, ethernet, frames, later, pcap, talk, udp_over_ip, without
from ...calls.quality.test_study import INVITE, iax2_frames

SPEECH = talk(300, jitter_us=3000)
CASES: dict[str, list[Rtp]] = {
    "as sent": talk(300),
    "jitter": SPEECH,
    "two packets": talk(2, payload_type=0),
    "loss in runs": without(SPEECH, [20, 21, 22, 60, 100, 101, 250, 251, 252, 253]),
    "numbers and stamps wrap": talk(300, seq=65_400, stamp=2**32 - 9000, jitter_us=2000, seed=2),
    "late packets": [later(SPEECH[50], 45_000), later(SPEECH[70], 130_000), *without(SPEECH, [50, 70, 90])],
    "late before the first": [later(SPEECH[0], 30_000), *SPEECH[1:]],
    "copies": [*SPEECH, later(SPEECH[30], 1500), later(SPEECH[80], 100), later(SPEECH[80], 200)],
    "a stray": [*SPEECH, replace(SPEECH[100], at_us=SPEECH[100].at_us + 1, seq=SPEECH[100].seq + 30_000)],
    "started anew": [*SPEECH, *(later(p, 6_100_000) for p in talk(200, seq=40_000, stamp=77, jitter_us=900))],
    "silences": [
        replace(p, at_us=p.at_us + i // 50 * 700_000, stamp=p.stamp + i // 50 * 5600, marker=i % 50 == 0)
        for i, p in enumerate(SPEECH)
    ],
    "many streams": [
        p for i in range(12) for p in talk(100, ssrc=i + 1, src_port=5000 + 2 * i, jitter_us=500 * i, seed=i)
    ],
    "an unknown codec": [
        replace(p, stamp=960 * i, payload_type=96) for i, p in enumerate(talk(300, jitter_us=800))
    ],
}


def metered(path: Path) -> list[dict[str, Any]]:
    streams = _engine.analyse([str(path)])["streams"]
    return sorted(streams, key=lambda stream: (stream["first_ns"], stream["ssrc"], stream["part"]))


def assert_same(mine: list[dict[str, Any]], full: QualityOutcome) -> None:
    assert len(mine) == len(full.streams)
    rows = [full._row(i) for i in range(len(full.streams))]
    rows.sort(key=lambda row: (row["first_ns"], row["ssrc"], row["part"]))
    for stream, row in zip(mine, rows, strict=True):
        if stream["lost"] is None:
            # Both count what is missing; quality does not tell it where it is not known to be lost.
            row |= {name: stream[name] for name in ("loss_runs", "longest_run") if row[name] is None}
        assert {name: stream[name] for name in ALIKE} == {name: row[theirs] for name, theirs in ALIKE.items()}
        assert [tuple(kind) for kind in stream["payload_types"]] == list(row["payload_types"])
        assert stream["packets"] == row["received"] + row["duplicated"]
        assert stream["expected"] == row["sent"]
        assert number(stream, "gap_max_ns") == pytest.approx(row["longest_gap_ns"], nan_ok=True)
        assert number(stream, "jitter_mean_ns") == pytest.approx(row["jitter_ns"], rel=1e-9, nan_ok=True)
        assert number(stream, "jitter_max_ns") == pytest.approx(row["jitter_max_ns"], rel=1e-9, nan_ok=True)


ALIKE = {
    name: name
    for name in (
        "src", "dst", "src_port", "dst_port", "ssrc", "vlan", "interface", "protocol", "media", "codec",
        "known_by", "clock_hz", "payload_type", "part", "strays", "first_ns", "last_ns",
        "lost", "loss_estimated", "loss_runs", "longest_run", "reordered",
    )
} | {"copies": "duplicated"}  # fmt: skip
"""Names here, and of the columns of quality."""


def number(stream: Mapping[str, Any], name: str) -> float:
    return float("nan") if stream[name] is None else float(stream[name])


@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_all_packets(tmp_path: Path, case: str) -> None:
    announced = [(0, ethernet(udp_over_ip("192.0.2.2", "192.0.2.1", 5060, 5060, INVITE)))]
    file = pcap(tmp_path / "file.pcap", [*(announced if case == "two packets" else []), *frames(CASES[case])])
    assert_same(metered(file), capture_quality(file))


def test_events_count_for_loss_and_are_left_out_of_jitter(tmp_path: Path) -> None:
    events = range(100, 110)
    tones = [
        replace(p, payload_type=101, stamp=SPEECH[100].stamp) if i in events else p
        for i, p in enumerate(SPEECH)
    ]
    file = pcap(tmp_path / "tones.pcap", frames(without(tones, [104])))
    mine, full = metered(file), capture_quality(file)
    assert_same(mine, full)
    silent = pcap(tmp_path / "silent.pcap", frames(without(SPEECH, events)))
    (expected,) = metered(silent)
    assert mine[0]["jitter_mean_ns"] == pytest.approx(expected["jitter_mean_ns"], rel=1e-9)


def test_comfort_noise_in_front_is_left_out_of_jitter(tmp_path: Path) -> None:
    noise_first = [replace(p, payload_type=13) if i < 80 else p for i, p in enumerate(SPEECH)]
    file = pcap(tmp_path / "noise.pcap", frames(noise_first))
    assert_same(metered(file), capture_quality(file))
    speech = pcap(tmp_path / "speech.pcap", frames(SPEECH[80:]))
    (mine,), (expected,) = metered(file), metered(speech)
    assert mine["codec"] == "PCMU"
    assert mine["jitter_mean_ns"] == pytest.approx(expected["jitter_mean_ns"], rel=1e-9)


def test_a_few_packets_of_another_type_in_front_change_neither_jitter_nor_delay(tmp_path: Path) -> None:
    # Packets that open a way through a firewall long before anything is said.
    opening = [replace(p, at_us=2_000 * i, payload_type=125, stamp=0) for i, p in enumerate(talk(4, seq=996))]
    media = [replace(later(p, 10_000_000), seq=1000 + i) for i, p in enumerate(SPEECH)]
    both = [
        capture_quality(pcap(tmp_path / f"{len(each)}.pcap", frames(each)))
        for each in (opening + media, media)
    ]
    assert_same(metered(tmp_path / f"{len(opening + media)}.pcap"), both[0])
    with_opening, without_it = (each.table for each in both)
    assert with_opening.streams.jitter_ns == pytest.approx(without_it.streams.jitter_ns, rel=1e-9)
    assert with_opening.streams.delay_p99_ns == pytest.approx(without_it.streams.delay_p99_ns, abs=1)
    assert with_opening.fixed.late.tolist() == without_it.fixed.late.tolist()
    assert with_opening.mos == pytest.approx(without_it.mos, abs=1e-6)


def test_time_stamps_that_restart_at_a_marker_are_no_delay(tmp_path: Path) -> None:
    moved = [
        replace(p, stamp=p.stamp + 344_000, marker=i == 150) if i >= 150 else p for i, p in enumerate(SPEECH)
    ]
    file = pcap(tmp_path / "restart.pcap", frames(moved))
    outcome, plain = capture_quality(file), capture_quality(pcap(tmp_path / "plain.pcap", frames(SPEECH)))
    assert_same(metered(file), outcome)
    assert outcome.table.streams.delay_max_ns == pytest.approx(plain.table.streams.delay_max_ns, abs=2e6)
    assert outcome.table.streams.jitter_max_ns == pytest.approx(plain.table.streams.jitter_max_ns, rel=0.2)
    assert outcome.mos == pytest.approx(plain.mos, abs=0.02)


def test_iax2_stamps_that_are_not_locked_to_media_are_no_loss(tmp_path: Path) -> None:
    stamps = [20 * i + (0, 7, 2, 11, 5, 13, 1)[i % 7] for i in range(1, 80)]
    file = pcap(tmp_path / "iax2.pcap", iax2_frames(stamps))
    outcome = capture_quality(file)
    assert_same(metered(file), outcome)
    (row,) = outcome.document()["streams"]
    assert (row["lost"], row["loss_known"], row["received"]) == (None, False, 79)
    assert [row[name] for name in ("jitter_ns", "delay_max_ns", "mos")] == pytest.approx(
        [np.nan] * 3, nan_ok=True
    )
    assert "these do not follow the speech" in outcome.notes()[-1]


def test_a_pause_of_minutes_is_part_of_the_stream_and_its_losses_count(tmp_path: Path) -> None:
    second = [
        replace(p, at_us=p.at_us + 90_000_000, seq=p.seq + 4500, stamp=p.stamp + 720_000) for p in SPEECH
    ]
    clock = [later(Rtp(0, 1, 1, ssrc=9, dst_port=9), 1_000_000 * i) for i in range(100)]
    file = pcap(tmp_path / "pause.pcap", frames([*SPEECH, *second, *clock]))
    assert_same(metered(file), capture_quality(file))
    assert [(stream["packets"], stream["lost"]) for stream in metered(file)] == [(600, 4200)]
