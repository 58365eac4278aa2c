"""The columns of the table ``packets``, as a row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PacketRow:
    """One arrival of a recorded packet, copies included, in order of arrival within each direction."""

    trial_id: str
    """The attempt in `trials`."""
    flow: int
    """Number of the flow, from 0."""
    call: int
    """Number of the call, from 0."""
    back: bool
    """Direction: false where the sender's side talks."""
    media: bool
    """Whether the flow carries speech; false for signalling and RTCP."""
    seq: int
    """Sequence number within the flow, 0 for its first recorded packet."""
    sent_ns: int
    """Departure, from the start of recording."""
    arrival_ns: int
    """Arrival, from the start of recording."""
    delay_ns: int
    """Arrival less departure."""
