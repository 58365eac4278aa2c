"""The page about one connection of a capture: time-sequence graph, throughput, round trips, flight."""

from __future__ import annotations

from weirlab.studies.trace.page.page import build, render

__all__ = ["build", "render"]
