"""The page about redundant pairs: arrivals around the switch, gaps of calls, pairs compared."""

from weirlab.studies.failover.page.source import SwitchRun
from weirlab.studies.failover.page.story import tell

__all__ = ["SwitchRun", "tell"]
