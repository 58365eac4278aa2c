"""The catalog of a plan's zones (RFC 9432): a secondary that follows it serves new zones by itself. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from weirlab.studies.voice.zones.made import Record, Zone

_VERSION: Final = "2"
"""Of the schema (RFC 9432, 4.2.1)."""


def catalog(name: str, zones: Sequence[Zone]) -> Zone:
    """The zone ``name`` that lists ``zones``, with their serial. There is at least one."""
    listed = (
        Record(f"{_label(zone.origin)}.zones.{name}.", "PTR", f"{zone.origin}.")
        for zone in sorted(zones, key=lambda each: each.origin)
    )
    head = (
        # Nobody asks it for its name servers (RFC 9432, 4).
        Record(f"{name}.", "NS", "invalid."),
        Record(f"version.{name}.", "TXT", f'"{_VERSION}"'),
    )
    return Zone(name, 0, zones[0].dns, zones[0].serial, (*head, *listed))


def _label(origin: str) -> str:
    """A label that is the zone's alone and never changes: with another one, a secondary starts it anew."""
    return hashlib.sha256(origin.lower().encode()).hexdigest()[:32]
