"""Zones for DNS servers: made from a plan and written as text; and ENUM zones imported."""

from __future__ import annotations

from weirlab.numbering.zones.records import put, written, zones

__all__ = ["put", "written", "zones"]
