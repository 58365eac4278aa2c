"""The page about one connection of a capture: time-sequence graph, throughput, round trips, flight."""

from __future__ import annotations

from weirlab.transfers.trace.page.story import build, tell

__all__ = ["build", "tell"]
