"""Captures with planted faults: the analysis has to find every one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weirlab.calls.calls.study import CaptureOutcome, write_calls
from weirlab.calls.quality.study import capture_quality
from weirlab.traffic.calls.codecs import CODECS
from weirlab.traffic.calls.impairments import Impairments
from weirlab.traffic.calls.spec import parse_calls

pytest.importorskip("weirlab._engine", reason="the engine is not built")


def written(path: Path, faults: Impairments | None) -> CaptureOutcome:
    calls = parse_calls("5", "g711", "rtp", 4)
    return write_calls(calls, path, duration_s=10.0, warmup_s=0.5, faults=faults)


@pytest.mark.parametrize(
    "faults",
    [
        Impairments(loss_ratio=0.03),
        Impairments(loss_ratio=0.05, loss_burst=5.0, seed=7),
        Impairments(reorder_ratio=0.02),
        Impairments(duplicate_ratio=0.02),
        Impairments(0.02, 4.0, 3e6, 0.01, 0.01),
    ],
    ids=["loss", "bursts", "reordering", "copies", "all"],
)
def test_the_quality_of_an_impaired_capture_tells_the_planted_numbers(
    tmp_path: Path, faults: Impairments
) -> None:
    outcome = written(tmp_path / "bad.pcap", faults)
    streams = capture_quality(tmp_path / "bad.pcap").table.streams
    found = {
        "lost": np.asarray(streams.losses.count),
        "reordered": np.asarray(streams.reordered),
        "duplicated": np.asarray(streams.duplicated),
    }
    arrivals = outcome.arrivals
    assert arrivals is not None
    # Flows of speech come first, and streams are numbered by their first packets.
    for name, per_stream in found.items():
        planted = getattr(arrivals, name)[: len(per_stream)]
        assert sorted(per_stream.tolist()) == sorted(planted.tolist())
    assert sum(outcome.planted.values()) > 0


@pytest.mark.parametrize("codec", [codec.name for codec in CODECS])
def test_the_loss_of_every_codec_in_talk_spurts_is_the_planted_one(tmp_path: Path, codec: str) -> None:
    calls = replace(parse_calls("2", codec, "rtp", 4), spurts=True)
    faults = Impairments(loss_ratio=0.03, loss_burst=3.0, jitter_ns=4e6)
    outcome = write_calls(calls, tmp_path / "bad.pcap", duration_s=20.0, warmup_s=0.5, faults=faults)
    measured = capture_quality(tmp_path / "bad.pcap")
    found = measured.table.streams
    assert outcome.arrivals is not None
    planted = outcome.arrivals.lost[: len(measured.streams)]
    assert sorted(found.losses.count.tolist()) == sorted(planted.tolist())
    assert all(stream.still == 0 and stream.nominal_hz == stream.clock_hz for stream in measured.streams)
    # Some runs of losses are long.
    assert not {finding.kind for finding in measured.findings} - {"far-end loss", "hole"}


def test_planted_jitter_is_found_again(tmp_path: Path) -> None:
    written(tmp_path / "bad.pcap", Impairments(jitter_ns=2e6))
    table = capture_quality(tmp_path / "bad.pcap").table
    assert np.median(table.streams.jitter_ns) == pytest.approx(2e6, rel=0.15)


def test_the_same_seed_writes_the_same_file(tmp_path: Path) -> None:
    for name in ("one.pcap", "two.pcap"):
        written(tmp_path / name, Impairments(0.02, 4.0, 3e6, 0.01, 0.01, seed=5))
    assert (tmp_path / "one.pcap").read_bytes() == (tmp_path / "two.pcap").read_bytes()
