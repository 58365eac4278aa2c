"""Units and conversions; the one place that says what a frame size means.

A *frame size* is the Ethernet frame from destination address to frame check
sequence (FCS), as in RFC 1242 and RFC 2544. On the wire every frame also costs a
preamble, a start delimiter and the inter-frame gap (IEEE 802.3): 20 bytes.
A packet socket or an XDP program sees the frame without its FCS.
"""

from __future__ import annotations

from typing import Final

FCS_BYTES: Final = 4
"""Frame check sequence, part of the frame size but never seen by software."""

WIRE_OVERHEAD_BYTES: Final = 20
"""Preamble (7), start-of-frame delimiter (1) and inter-frame gap (12)."""

PREAMBLE_BYTES: Final = 8
"""Preamble and start-of-frame delimiter."""

MIN_FRAME_BYTES: Final = 64
MAX_FRAME_BYTES: Final = 2048

NS_PER_S: Final = 1_000_000_000


def wire_bits(frame_bytes: float) -> float:
    """Bits that one frame occupies on the wire, preamble and gap included."""
    return (frame_bytes + WIRE_OVERHEAD_BYTES) * 8.0


def pps_from_bps(rate_bps: float, frame_bytes: float) -> float:
    """Packets per second that fill ``rate_bps`` of wire with frames of (mean) ``frame_bytes``."""
    return rate_bps / wire_bits(frame_bytes)


def bps_from_pps(rate_pps: float, frame_bytes: float) -> float:
    """Wire rate in bit/s of ``rate_pps`` frames of (mean) ``frame_bytes``."""
    return rate_pps * wire_bits(frame_bytes)
