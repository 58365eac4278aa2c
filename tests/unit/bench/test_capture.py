"""The made-up capture of many packets says what it was made to say."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import capture
from weirlab.trace.analysis import analyse
from weirlab.trace.facts import Analysis

PACKETS = 12_000
CONNECTIONS = 3


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    path = tmp_path_factory.mktemp("captures") / "made.pcap"
    with path.open("wb") as out:
        written = capture.write(out, PACKETS, CONNECTIONS)
    assert PACKETS <= written <= PACKETS * 1.04 + 10 * CONNECTIONS
    assert path.stat().st_size == 24 + written * capture.RECORD.itemsize
    found = analyse(path)
    assert found["capture"]["packets"] == written
    return found


def test_every_connection_is_whole_and_loses_what_was_planted(analysis: Analysis) -> None:
    planted = capture.transfers(PACKETS, CONNECTIONS)
    found = sorted(analysis["connections"], key=lambda each: each["a"]["port"])
    assert [each["a"]["port"] - 10_000 for each in found] == [each.number for each in planted]
    for one, transfer in zip(found, planted, strict=True):
        assert (one["begin"], one["end"]) == ("handshake", "closed")
        sent = one["a"]
        lost = [n for n in range(transfer.segments) if n % transfer.loss_every == transfer.loss_every // 2]
        assert sent["unique_bytes"] == transfer.segments * capture.MSS
        assert sent["unseen_bytes"] == 0
        assert sent["retransmissions"]["fast"] == sent["retransmissions"]["total"] == len(lost)
        assert one["b"]["sack_blocks"] > 0
        assert sent["rtt"]["min_ns"] == transfer.rtt_ns


def test_packets_do_not_depend_on_how_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = io.BytesIO(), io.BytesIO()
    capture.write(whole, 2_000, 2)
    monkeypatch.setattr(capture, "BATCH", 100)
    capture.write(parts, 2_000, 2)
    assert whole.getvalue() == parts.getvalue()


def test_packets_are_in_the_order_of_time(tmp_path: Path) -> None:
    import numpy as np

    out = io.BytesIO()
    capture.write(out, 2_000, 3)
    packets = np.frombuffer(out.getvalue()[24:], capture.RECORD)
    time_ns = packets["seconds"].astype(np.int64) * 1_000_000_000 + packets["nanoseconds"]
    assert np.diff(time_ns).min() >= 0
