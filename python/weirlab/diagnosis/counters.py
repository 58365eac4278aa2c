"""Where the time of a sender went, by the kernel's own counters.

``tcpi_busy_time``, ``tcpi_rwnd_limited`` and ``tcpi_sndbuf_limited`` (Linux 4.10, ``tcp_chrono_start`` in
``net/ipv4/tcp_output.c``) count in jiffies. They are shown as they are; :data:`CAUTION` says when they are
known to be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

COUNTERS: Final = ("busy_time_us", "rwnd_limited_us", "sndbuf_limited_us")

CAUTION: Final = (
    "These are the kernel's own counters, in steps of a jiffy (1 to 10 ms). An application that writes more "
    "than once per round trip looks like the network. The send buffer is counted only while nothing else "
    "holds the sender back."
)


@dataclass(frozen=True)
class TimeShares:
    """Shares of the time, from 0 to 1; their sum is 1.

    ``application``: nothing to send; ``receiver``: its window was full; ``send_buffer``: it was full;
    ``network``: everything else, which is the congestion window, pacing and the path.
    """

    application: float
    receiver: float
    send_buffer: float
    network: float


def shares(counters: Mapping[str, int], elapsed_us: float) -> TimeShares | None:
    """Shares of one connection, from the growth of its counters in ``elapsed_us``; None without counters.

    Jiffies may add up to more than the time that passed; then the shares are of their sum.
    """
    if elapsed_us <= 0 or any(name not in counters for name in COUNTERS):
        return None
    busy, receiver, send_buffer = (counters[name] for name in COUNTERS)
    held_back = receiver + send_buffer
    whole = max(elapsed_us, busy, held_back)
    busy = max(busy, held_back)
    return TimeShares(
        application=(whole - busy) / whole,
        receiver=receiver / whole,
        send_buffer=send_buffer / whole,
        network=(busy - held_back) / whole,
    )


def mean(parts: Sequence[TimeShares]) -> TimeShares | None:
    """The mean shares of connections that lasted equally long; None if there are none."""
    if not parts:
        return None
    total = len(parts)
    return TimeShares(
        application=sum(part.application for part in parts) / total,
        receiver=sum(part.receiver for part in parts) / total,
        send_buffer=sum(part.send_buffer for part in parts) / total,
        network=sum(part.network for part in parts) / total,
    )
