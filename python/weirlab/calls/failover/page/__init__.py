"""The page about redundant pairs: arrivals around the switch, gaps of calls, pairs compared."""

from weirlab.calls.failover.page.source import SwitchRun
from weirlab.calls.failover.page.story import tell

__all__ = ["SwitchRun", "tell"]
