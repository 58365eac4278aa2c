"""The columns of the study's table, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COSTS: Final = "esp_costs"


@dataclass(frozen=True)
class EspCostRow:
    """The processing time of packets in one round."""

    round: int
    """Number of the round, from 0."""
    suite: str
    """Cipher suite of ESP."""
    mode: str
    """`transport` or `tunnel`."""
    way: str
    """What was timed, as in the scenario."""
    packet_ms: float
    """Speech in a packet."""
    packet_bytes: int
    """Length of the IP packet in the clear, with UDP."""
    cost_ns: float
    """Mean processing time of a packet."""
