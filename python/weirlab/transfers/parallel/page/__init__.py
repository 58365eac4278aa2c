"""The page about a run: methods beside the sum of independent streams, and throughput over time by path."""

from weirlab.transfers.parallel.page.story import tell

__all__ = ["tell"]
