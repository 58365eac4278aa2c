"""Zones for DNS servers: made from a plan and written as text; and ENUM zones imported."""

from __future__ import annotations

from weirlab.numbering.zones.made import Record, Zone, zones
from weirlab.numbering.zones.text import put, written

__all__ = ["Record", "Zone", "put", "written", "zones"]
