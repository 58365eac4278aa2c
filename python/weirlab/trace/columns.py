"""The columns of the Parquet files of series, as rows; ``schema.FILES`` has their types.

Times are since 1970, UTC. Sequence numbers count from the side's initial one (0 is its SYN), or from its
first packet where that was not captured, and go on beyond 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SegmentRow:
    """One TCP packet."""

    connection: int
    """Number of the connection, from 0."""
    from_side: int
    """Who sent it; 0: a, 1: b."""
    time_ns: int
    """Time of capture."""
    seq: int
    """Sequence number of the first byte of payload."""
    payload_bytes: int
    """Payload."""
    new_bytes: int
    """Of these, bytes seen for the first time."""
    ack: int
    """Acknowledgement number; counts as the other side's `seq`."""
    window_bytes: int
    """Window advertised, scaled."""
    flags: int
    """Byte 13 of the TCP header."""
    meaning: int
    """What it is for, by number from 0: `new`, `ack`, `duplicate_ack`, `out_of_order`, `timeout`, `fast`,
    `tail_probe`, `handshake`, `unexplained` (retransmissions by their cause), `copy`, `keep_alive`,
    `window_probe`, `reset`."""
    flight_bytes: int
    """Data sent and not yet acknowledged, after the packet."""
    sack_blocks: int
    """SACK blocks that it carries."""
    tsval: int | None
    """Time stamp by the clock of its sender (TSval, RFC 7323), as sent; empty without the option."""


@dataclass(frozen=True)
class RoundTripRow:
    """One round trip of data that a side sent."""

    connection: int
    """Number of the connection, from 0."""
    from_side: int
    """Who sent the data; 0: a, 1: b."""
    time_ns: int
    """Time of the answer."""
    rtt_ns: int
    """From the data to the answer, at the place of capture."""
    seq: int
    """End of the data answered."""
    method: int
    """How it was found; 0: by ACK, of data sent once (Karn), 1: by time stamps (RFC 7323)."""


@dataclass(frozen=True)
class SackRow:
    """One SACK block."""

    connection: int
    """Number of the connection, from 0."""
    from_side: int
    """Who sent the block; 0: a, 1: b."""
    time_ns: int
    """Time of capture."""
    left: int
    """First byte, in the other side's numbers."""
    right: int
    """Byte behind the last, in the other side's numbers."""
    duplicate: int
    """1 for DSACK (RFC 2883), else 0."""


@dataclass(frozen=True)
class PeriodRow:
    """What one side of a connection sent in one period; periods without packets are left out."""

    connection: int
    """Number of the connection, from 0."""
    from_side: int
    """Who sent; 0: a, 1: b."""
    start_ns: int
    """Begin of the period."""
    packets: int
    """Packets."""
    payload_bytes: int
    """Payload, retransmissions included."""
    unique_bytes: int
    """Payload, each byte once."""
    retransmissions: int
    """Packets retransmitted."""
    rtt_count: int
    """Round trips that ended in the period."""
    rtt_sum_ns: int
    """Sum of these round trips."""
    rtt_max_ns: int
    """Longest of these round trips."""
    flight_max_bytes: int
    """Most data in flight."""
    window_min_bytes: int
    """Least window that this side advertised."""
