"""Messages of a call, byte for byte: SIP, IAX2, RTCP. Pure.

The schedule gets a call's :class:`Message` objects from here and sets when they depart. Every
payload ends with :data:`PROBE_BYTES` bytes for the engine's probe; each format has a place
at its end whose content receivers ignore.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ORIGIN_UNIX_S: Final = 1_136_073_600
"""Time 0 of a schedule in captures and NTP time stamps: 1 January 2006, so that the bytes of a schedule
are a function of the schedule alone."""

PROBE_BYTES: Final = 18
"""Length of the probe in the last bytes of every packet of a call (``crates/wire/src/probe.rs``)."""


@dataclass(frozen=True)
class SignallingMessage:
    """One packet of signalling, and when it departs.

    The function that made it says where ``at_ms`` counts from; ``payload`` is everything behind
    UDP. ``name`` is the protocol's name for it.
    """

    from_caller: bool
    at_ms: float
    payload: bytes
    name: str = ""
