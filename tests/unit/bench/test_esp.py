"""What the benchmark of ESP makes of rounds: lines, ratios, and its page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import costs
import esp
import multibuffer
import scapys
import tunnels
from costs import Samples

QUIET = (1.0,) * 3
NOISY = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.0, 30.0)
SUITES = (
    "aes-cbc", "aes-cbc-hmac-md5-96", "aes-cbc-hmac-sha1-96", "aes-cbc-hmac-sha256-128", "aes-gcm-16",
    "chacha20-poly1305",
)  # fmt: skip
SIZES = (64, 120, 200, 280, 360, 440, 520, 760, 1000, 1400, 1500)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as these rounds need."""
    monkeypatch.setattr(costs, "DRAWS", 100)


Cost = Callable[[str, str, str, int], float]
"""ns of a packet, by suite, mode, way and bytes."""


def lines(cost: Cost, noise: tuple[float, ...] = QUIET, ways: tuple[str, ...] = esp.WAYS) -> Iterator[str]:
    """What the benchmark prints of packets that cost exactly this, but for ``noise`` of each round."""
    for number, factor in enumerate(noise):
        for suite in SUITES:
            for mode in ("transport", "tunnel"):
                for way in ways:
                    for size in SIZES:
                        ns = cost(suite, mode, way, size) * factor
                        key = {"suite": suite, "mode": mode, "way": way, "bytes": size}
                        yield json.dumps({"round": number, **key, "ns": ns}, separators=(",", ":"))


def plain_cost(suite: str, mode: str, way: str, size: int) -> float:
    """Within the target of every case."""
    ns = 1000.0 + 2.0 * size
    if suite != "aes-cbc":
        ns += 1000.0
    if "md5" in suite:
        ns *= 1.05
    if mode == "tunnel":
        ns += 300.0
    if way.startswith("raw"):
        return ns / 1.1
    return ns


@cache
def samples(cost: Cost, noise: tuple[float, ...] = QUIET) -> Samples:
    return costs.samples(lines(cost, noise))


def one_key(found: Samples) -> costs.Fit:
    key = ("aes-gcm-16", "tunnel", "in")
    return costs.fit(key, found[key])


def straight(suite: str, mode: str, way: str, size: int) -> float:
    return 90.0 + 0.4 * size


def test_the_line_that_was_put_in_is_found() -> None:
    found = one_key(samples(straight))
    assert (found.suite, found.mode, found.way) == ("aes-gcm-16", "tunnel", "in")
    assert found.fixed_ns == pytest.approx(90)
    assert found.per_byte_ns == pytest.approx(0.4)
    assert found.voice_ns == pytest.approx(170)
    assert found.worst_residual < 1e-9


def test_a_disturbed_round_widens_the_interval_and_moves_no_median() -> None:
    found = one_key(samples(straight, NOISY))
    assert found.voice_ns == pytest.approx(170, rel=0.01)
    low, high = found.voice_ns_interval
    assert low < 170 < high


def test_what_disturbs_both_leaves_their_ratio_alone() -> None:
    over, under = ([times * factor for factor in NOISY] for times in (3.0, 2.0))
    seen = costs.ratio(over, under)
    assert (seen.value, seen.low, seen.high) == pytest.approx((1.5, 1.5, 1.5))


CARRIED = {
    "esp:aes128gcm16": [100e3, 110e3, 90e3],
    "wireguard-go": [40e3, 50e3, 45e3],
    "openvpn:aes-128-gcm": [30e3, 30e3, 30e3],
}


def test_gateways_are_compared_by_medians_and_by_the_worst_case() -> None:
    assert tunnels.verdict(CARRIED, 2.0)[1:] == ("2.22 (1.80–2.75): esp:aes128gcm16 and wireguard-go", "met")
    assert tunnels.verdict(CARRIED, 3.0)[2] == "missed"
    assert tunnels.verdict({"esp": [1.0]}, 2.0)[2] == "not measured"
    rows = tunnels.rows(CARRIED)
    assert [row[0] for row in rows] == ["esp:aes128gcm16", "wireguard-go", "openvpn:aes-128-gcm"]
    assert rows[1] == ("wireguard-go", "45.0", "40.0–50.0", "3", "2.22 ×")


def test_a_suite_within_the_target_is_told_from_one_beyond() -> None:
    def dear(suite: str, mode: str, way: str, size: int) -> float:
        ns = plain_cost(suite, mode, way, size)
        return ns * 2 if (suite, mode, way) == ("aes-gcm-16", "tunnel", "out") else ns

    (cheap, *_), (missed, *_) = (esp.verdicts(samples(cost), CARRIED) for cost in (plain_cost, dear))
    assert cheap[2] == "met"
    assert missed[2] == "missed"
    assert missed[1] == "35 of 36; at most 2.20 (2.20–2.20): aes-gcm-16, tunnel, out"


def test_the_page_has_peers_beside_and_every_round_is_kept(tmp_path: Path) -> None:
    everything = {"warm, 1 flow": list(lines(plain_cost)), "cold, 1 flow": list(lines(plain_cost))}
    about: dict[str, Any] = {"date": "2026-11-23", "command": "bench/esp.py", "versions": {"cpu": "one"}}
    scapy = {("aes-cbc", "tunnel", "out"): 1e6}
    took = {("out", "one"): [461], ("out", "many"): [90, 110, 104], ("in", "one"): [78], ("in", "many"): [79]}
    printed = (
        json.dumps({"suite": "aes-cbc", "way": way, "how": how, "ns": ns})
        for (way, how), values in took.items()
        for ns in values
    )
    peers = esp.Peers(scapy, multibuffer.medians(printed), CARRIED)
    esp.publish(tmp_path, about, everything, peers, Console(quiet=True))
    page = (tmp_path / "README.md").read_text()
    assert re.search(r"\| aes-cbc \| out \| \d+ \| \d+ \| 461 \| 104 \|", page)
    assert re.search(r"\| aes-cbc \| in \| \d+ \| – \| 78 \| 79 \|", page)
    kept = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert len(kept) == sum(map(len, everything.values()))
    assert kept[0]["condition"] == "warm, 1 flow"
    raw = json.loads((tmp_path / "raw.json").read_text())
    assert raw["scapy_ns"] == {"aes-cbc tunnel out": 1e6}


def test_scapy_does_the_same_to_the_same_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scapys, "PACKETS", 1)
    found = scapys.scapy_costs(200)
    assert {key[0] for key in found} == set(scapys.SCAPY)
    assert len(found) == len(scapys.SCAPY) * 4
    assert all(ns > 0 for ns in found.values())
