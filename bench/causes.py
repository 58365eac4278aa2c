"""The causes that `planted.py` plants: who does what wrong, on which path, and what the truth is then."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weirlab.studies.emulator.account import Account

MSS = 1448
SECONDS = 6.0


@dataclass(frozen=True)
class Truth:
    """What those who caused it counted; times in s."""

    seconds: float
    sender: Mapping[str, Any]
    receiver: Mapping[str, Any]
    link: Account
    first_hit_s: float = 0.0
    """When the first frame was sent that the link lost or held back."""

    @property
    def utilisation(self) -> float:
        """Share of the time for which the emulated link was transmitting."""
        up = self.link.up
        return min(up.departed_bytes * 8 / (up.rate_bps or math.inf) / self.seconds, 1.0)


@dataclass(frozen=True)
class Case:
    """`causes`: names that are right, the first being the one that was planted."""

    name: str
    causes: tuple[str, ...]
    truth: Callable[[Truth], float]
    says: str
    """Where the truth comes from."""
    path: tuple[Mapping[str, str], Mapping[str, str]]
    send: Mapping[str, Any] = field(default_factory=lambda: {"mode": "bulk"})
    receive: Mapping[str, Any] = field(default_factory=lambda: {"mode": "fast"})
    sysctls: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    seconds: float = SECONDS


def _path(**words: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Delay each way; everything else in the direction of the data."""
    return words, {"delay": words["delay"]}


def _after_growth(limit_bytes: int, rtt_s: float) -> Callable[[Truth], float]:
    """All of the time but for the round trips in which ten segments grow to the limit."""
    trips = max(math.ceil(math.log2(limit_bytes / (10 * MSS))), 0)
    return lambda truth: 1 - trips * rtt_s / truth.seconds


def _since_first_hit(truth: Truth) -> float:
    return 1 - truth.first_hit_s / truth.seconds


def _idle_link(truth: Truth) -> float:
    return 1 - truth.utilisation


WINDOW = 131_072
CASES = (
    Case(
        "slow writer",
        ("application_write",),
        lambda truth: truth.sender["held_s"] / truth.seconds,
        "application's pauses",
        _path(delay="20ms", rate="20Mbit/s", queue="100pkts"),
        send={"mode": "slow", "write_bytes": 10_000, "every_s": 0.02, "share": 0.7},
    ),
    Case(
        "slow reader",
        ("application_read",),
        lambda truth: truth.receiver["held_s"] / truth.seconds,
        "reader's pauses with a full buffer",
        _path(delay="10ms", rate="50Mbit/s", queue="200pkts"),
        receive={"mode": "sleepy", "reads_s": 0.5, "sleeps_s": 0.8, "options": {"SO_RCVBUF": 262_144}},
    ),
    Case(
        "small send buffer",
        ("send_buffer",),
        lambda truth: min(truth.sender["held_s"] / truth.seconds, 1.0),
        "time in send()",
        _path(delay="25ms", rate="200Mbit/s", queue="1000pkts"),
        send={"mode": "bulk", "chunk": 14_480, "options": {"SO_SNDBUF": 16_384}},
    ),
    Case(
        "small receive window",
        ("receive_window",),
        _after_growth(WINDOW, 0.05),
        "arithmetic",
        _path(delay="25ms", rate="200Mbit/s", queue="1000pkts"),
        receive={"mode": "fast", "options": {"SO_RCVBUF": WINDOW}},
    ),
    Case(
        "window scaling off",
        ("window_scaling",),
        _after_growth(WINDOW, 0.05),
        "arithmetic",
        _path(delay="25ms", rate="200Mbit/s", queue="1000pkts"),
        sysctls=({}, {"net/ipv4/tcp_window_scaling": 0}),
    ),
    Case(
        "random loss",
        ("loss",),
        _since_first_hit,
        "since the first loss",
        _path(delay="20ms", rate="100Mbit/s", queue="1000pkts", loss="1%", seed="7"),
    ),
    Case(
        "shallow queue",
        ("loss",),
        _idle_link,
        "link idle",
        _path(delay="50ms", rate="50Mbit/s", queue="5pkts"),
    ),
    Case(
        "bottleneck saturated",
        ("bottleneck",),
        lambda truth: truth.utilisation,
        "link busy",
        _path(delay="20ms", rate="20Mbit/s", queue="100pkts"),
    ),
    Case(
        "foreign traffic",
        ("foreign",),
        lambda truth: truth.sender["foreign_s"] / truth.seconds,
        "others' time",
        _path(delay="20ms", rate="20Mbit/s", queue="400pkts"),
        send={"mode": "bulk", "foreign_bps": 10e6, "share": 0.6},
    ),
    Case(
        "reordering",
        ("reordering",),
        _since_first_hit,
        "since the first overtaken",
        _path(delay="20ms", rate="50Mbit/s", queue="500pkts", reorder="2%,by=15ms", seed="7"),
        sysctls=(
            {"net/ipv4/tcp_recovery": 0, "net/ipv4/tcp_max_reordering": 3, "net/ipv4/tcp_timestamps": 0},
            {},
        ),
    ),
    Case(
        "Nagle, delayed ACK",
        ("nagle",),
        lambda truth: truth.sender["held_s"] / truth.seconds,
        "exchange beyond an RTT",
        _path(delay="10ms", rate="20Mbit/s", queue="100pkts"),
        send={"mode": "asking", "message_bytes": 400, "rtt_s": 0.02},
        receive={"mode": "answering", "message_bytes": 400},
    ),
    Case(
        "starved receiver",
        ("receiver_host", "application_read"),
        lambda truth: truth.receiver["held_s"] / truth.seconds,
        "scheduler of the receiver",
        _path(delay="10ms", rate="50Mbit/s", queue="200pkts"),
        receive={"mode": "starved", "options": {"SO_RCVBUF": 262_144}},
    ),
)
