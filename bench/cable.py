"""What passes over one cable while something sends: counted by the interfaces, the same for every sender."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from weirlab.lab.netns import PlainPair

WARMUP_S = 0.5
WINDOW_S = 2.0
SENDING_S = WARMUP_S + WINDOW_S + 0.5
"""How long a sender has to go on for the window to lie inside."""


@dataclass(frozen=True)
class Window:
    """Counts of the interfaces at both ends over ``seconds``, and what the host took away meanwhile.

    ``arrived`` frames were taken in by the receiving interface; ``overflowed`` ones were
    sent while its ring was full. ``steal_ratio`` is the share of the two CPUs' time that
    the host gave to somebody else.
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
    """Count while ``send`` runs; it has to send for ``SENDING_S`` seconds."""
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
    # A full ring counts as dropped by its sender, whether skb or XDP frame.
    return now, counters["rx_rx_packets"], counters["tx_tx_dropped"], steal_s
