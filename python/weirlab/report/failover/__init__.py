"""The page about redundant pairs: arrivals around the switch, gaps of calls, pairs compared."""

from weirlab.report.failover.source import Campaign
from weirlab.report.failover.story import tell

__all__ = ["Campaign", "tell"]
