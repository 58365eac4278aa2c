"""Frames over one cable while a sender runs, counted by the interfaces in the same way for every sender."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from weirlab.lab.namespaces import PlainPair

WARMUP_S = 0.5
WINDOW_S = 2.0
SENDING_S = WARMUP_S + WINDOW_S + 0.5
"""How long a sender must send so that the window lies inside."""


@dataclass(frozen=True)
class Window:
    """Counts of the interfaces at both ends over ``seconds``, and the CPU time that the host took away.

    The receiving interface accepted ``arrived`` frames; ``overflowed`` frames were sent while
    its ring was full. ``steal_ratio`` is the share of the two CPUs' time that the host gave to
    others.
    """

    seconds: float
    arrived: int
    overflowed: int
    steal_ratio: float

    @property
    def sent_pps(self) -> float:
        return (self.arrived + self.overflowed) / self.seconds

    @property
    def arrived_ratio(self) -> float:
        return self.arrived / max(self.arrived + self.overflowed, 1)


def measure(bed: PlainPair, send: Callable[[], None]) -> Window:
    """Count while ``send`` runs, which must send for ``SENDING_S`` seconds."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        window = pool.submit(_watch, bed)
        send()
    return window.result()


def _watch(bed: PlainPair) -> Window:
    time.sleep(WARMUP_S)
    before = _reading(bed)
    time.sleep(WINDOW_S)
    after = _reading(bed)
    seconds, arrived, overflowed, steal_s = (b - a for a, b in zip(before, after, strict=True))
    return Window(seconds, round(arrived), round(overflowed), steal_s / (2 * seconds))


def _reading(bed: PlainPair) -> tuple[float, float, float, float]:
    counters = bed.counters()
    now = time.monotonic()
    steal_s = sum(states.get("steal", 0.0) for states in bed.host().cpu_s.values())
    # A frame that meets a full ring counts as dropped by the sender, whether skb or XDP frame.
    return now, counters["rx_rx_packets"], counters["tx_tx_dropped"], steal_s
