"""The catalog of a plan's zones (RFC 9432), by which secondaries find new zones by themselves. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from weirlab.numbering.zones.records import Zone, ZoneRecord

_VERSION: Final = "2"
"""Version of the schema (RFC 9432, 4.2.1)."""


def catalog(name: str, zones: Sequence[Zone]) -> Zone:
    """The zone ``name`` that lists ``zones``, of which there is at least one, with their serial."""
    listed = (
        ZoneRecord(f"{_label(zone.origin)}.zones.{name}.", "PTR", f"{zone.origin}.")
        for zone in sorted(zones, key=lambda each: each.origin)
    )
    head = (
        # Its name servers are never queried (RFC 9432, 4).
        ZoneRecord(f"{name}.", "NS", "invalid."),
        ZoneRecord(f"version.{name}.", "TXT", f'"{_VERSION}"'),
    )
    return Zone(name, 0, zones[0].dns, zones[0].serial, (*head, *listed))


def _label(origin: str) -> str:
    """A unique label of the zone that never changes: if it did, secondaries would reset the zone."""
    return hashlib.sha256(origin.lower().encode()).hexdigest()[:32]
