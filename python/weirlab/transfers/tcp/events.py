"""The retransmitted segments that a watch by events finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weirlab.cli.options.sockets import shown
from weirlab.transfers.tcp.watching import EVENTS_NEEDED, ConnectionTally, Samples

MOST_KEPT: Final = 20
RETRANSMITTED: Final = "retransmitted"
CONGESTION_STATES: Final = ("open", "disorder", "CWR", "recovery", "loss")
"""By number (``enum tcp_ca_state`` of the kernel)."""

_SPACE: Final = 1 << 32
"""Sequence numbers wrap around here."""


@dataclass(frozen=True)
class Retransmission:
    """A retransmitted segment; ``at_s`` counts from the first event of all."""

    at_s: float
    connection: str
    seq: int
    length: int
    """Sequence numbers that it takes: its bytes, and one each for SYN and FIN."""
    congestion: str
    cwnd: int
    rtt_us: int


@dataclass
class RetransmissionLog:
    """Counts the retransmitted segments, and keeps the first of them."""

    count: int = 0
    kept: list[Retransmission] = field(default_factory=list)
    _first_ns: int = 0

    def waiting(self) -> None:
        """Nothing has been sent yet."""

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        """Take the retransmissions among these events."""
        if not len(samples):
            return
        self._first_ns = self._first_ns or int(samples.time_ns[0])
        for row, event in enumerate(samples.events()):
            if event != RETRANSMITTED:
                continue
            self.count += 1
            if len(self.kept) < MOST_KEPT:
                self.kept.append(self._segment(samples, row, progress))

    def _segment(self, samples: Samples, row: int, progress: Mapping[str, Any]) -> Retransmission:
        seq, end_seq, state, cwnd, rtt_us = (
            int(samples.fields[name][0][row]) for name in (*EVENTS_NEEDED, "snd_cwnd", "rtt_us")
        )
        one = progress["connections"][samples.connection[row]]
        return Retransmission(
            at_s=(int(samples.time_ns[row]) - self._first_ns) / 1e9,
            connection=f"{shown(one['local'])} to {shown(one['remote'])}",
            seq=seq,
            length=(end_seq - seq) % _SPACE,
            congestion=CONGESTION_STATES[state] if state < len(CONGESTION_STATES) else str(state),
            cwnd=cwnd,
            rtt_us=rtt_us,
        )
