"""Zones for DNS servers: made from a plan and written as text; and ENUM zones imported."""

from __future__ import annotations

from weirlab.studies.voice.zones.made import Record, Zone, zones
from weirlab.studies.voice.zones.text import put, written

__all__ = ["Record", "Zone", "put", "written", "zones"]
