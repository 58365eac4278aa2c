"""The columns of the tables ``switch_calls`` and ``switch_series``, as rows; times count from the event."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SwitchCallRow:
    """One call in one direction around a switch."""

    trial_id: str
    """The attempt in `switches`."""
    call: int
    """Number of the call, from 0."""
    back: bool
    """Direction: false where the sender's side talks."""
    gap_ns: float
    """Longest time between two arrivals around the event; of a dead stream until the end of the trial."""
    excess_ns: float
    """The gap beyond the time between two packets."""
    gap_begins_ns: float
    """Last arrival before the gap."""
    gap_ends_ns: float
    """First arrival after the gap; null: never again."""
    alive: bool
    """Heard before the event and in the last part of the trial."""
    sent: int
    """Packets that departed in the affected seconds."""
    received: int
    """Of these, packets that arrived, each once."""
    lost: int
    """Packets sent less packets received."""
    duplicated: int
    """Arrivals of packets that had come before."""
    reordered: int
    """Packets that came after one with a higher sequence number (RFC 4737)."""
    jitter_ns: float
    """Jitter in the affected seconds (RFC 3550), mean over the packets."""
    jitter_before_ns: float
    """Jitter before the event."""
    jitter_during_ns: float
    """Jitter from the event until a second after the last stream was back."""
    jitter_after_ns: float
    """Jitter from then on."""
    mos: float
    """MOS in the affected seconds, 1 to 4.5."""
    mos_before: float
    """MOS before the event."""
    mos_after: float
    """MOS after the switch."""


@dataclass(frozen=True)
class SwitchSeriesRow:
    """Packets of all calls in one direction in a bin of time around a switch."""

    trial_id: str
    """The attempt in `switches`."""
    back: bool
    """Direction: false where the sender's side talks."""
    start_ns: int
    """Begin of the bin."""
    sent: int
    """Packets that departed in the bin."""
    received: int
    """Packets that arrived in the bin, second copies left out."""
    lost: int
    """Packets that departed in the bin and never arrived."""
    delay_max_ns: float
    """Greatest one-way delay of what arrived in the bin."""
