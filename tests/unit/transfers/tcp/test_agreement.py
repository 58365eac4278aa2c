"""The same quantity from the kernel and from a capture: whether they agree, and why not."""

from __future__ import annotations

from typing import Any, cast

import polars as pl

from weirlab.trace.facts import Connection
from weirlab.transfers.tcp.measure import captured
from weirlab.transfers.tcp.measure.captured import ConnectionCapture, QuantityAgreement

KERNEL = pl.DataFrame(
    {
        "total_retrans": [0, 3, None],
        "bytes_retrans": [0, 3000, None],
        "bytes_sent": [1000, 103_000, None],
        "min_rtt_us": [11_000, 10_000, None],
        "snd_mss_bytes": [1000, 1000, None],
        "rtt_us": [0, 12_000, 14_000],
    },
    schema=dict.fromkeys(
        ("total_retrans", "bytes_retrans", "bytes_sent", "min_rtt_us", "snd_mss_bytes", "rtt_us"), pl.UInt64
    ),
)


def seen(missing: int = 0, whole: bool = True, **changed: Any) -> ConnectionCapture:
    again = {"total": 3, "bytes": 3000}
    rtt = {"min_ns": 9_900_000, "mean_ns": 12_500_000.0}
    side = {"unique_bytes": 100_000, "payload_max": 1000, "retransmissions": again, "rtt": rtt, **changed}
    return ConnectionCapture(cast("Connection", {"a": side, "b": {}}), "a", missing, whole)


def pairs(place: captured.Place, one: ConnectionCapture) -> dict[str, QuantityAgreement]:
    return {each.quantity: each for each in captured.agreements(KERNEL, {place: one})}


def test_counts_that_are_the_same_agree() -> None:
    found = pairs("sender", seen())
    assert list(found) == [
        "Bytes, each counted once", "Bytes retransmitted", "Segments retransmitted", "Minimum round trip",
        "Mean round trip",
    ]  # fmt: skip
    assert all(each.agrees for each in found.values())
    assert found["Bytes, each counted once"].kernel == found["Bytes, each counted once"].capture == 100_000
    assert (found["Mean round trip"].kernel, found["Mean round trip"].capture) == (13_000, 12_500)
    assert found["Segments retransmitted"].why == ""
    assert "smoothed" in found["Mean round trip"].why


def test_why_they_differ_is_said() -> None:
    joined = pairs("sender", seen(payload_max=3000, retransmissions={"total": 1, "bytes": 3000}))
    assert not joined["Segments retransmitted"].agrees
    assert "the network card splits it later" in joined["Segments retransmitted"].why
    lost = pairs("receiver", seen(retransmissions={"total": 2, "bytes": 2000}))
    assert list(lost) == ["Bytes, each counted once", "Bytes retransmitted", "Segments retransmitted"]
    assert lost["Bytes retransmitted"].why == "some retransmissions were lost on their way here"
    fast = pairs("sender", seen(missing=7, unique_bytes=99_000))
    assert fast["Bytes, each counted once"].why == "7 packets came too fast to be captured"
    cut = pairs("sender", seen(whole=False, unique_bytes=50_000))
    assert cut["Bytes, each counted once"].why == "the capture does not cover the whole transfer"
    late = pairs("sender", seen(unique_bytes=101_000))
    assert late["Bytes, each counted once"].why == "the kernel's last report is older than the last packet"


def test_round_trips_may_differ_by_what_a_host_takes() -> None:
    near = pairs("sender", seen(rtt={"min_ns": 9_000_000, "mean_ns": 10_500_000.0}))
    assert near["Minimum round trip"].agrees
    assert near["Mean round trip"].agrees
    far = pairs("sender", seen(rtt={"min_ns": 1_000_000, "mean_ns": None}))
    assert not far["Minimum round trip"].agrees
    assert "Mean round trip" not in far
