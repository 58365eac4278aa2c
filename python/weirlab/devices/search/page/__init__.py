"""The page about a search for throughput, and about the tests of RFC 2544."""

from weirlab.devices.search.page.rfc2544 import tell as tell_rfc2544
from weirlab.devices.search.page.story import Rfc2544Evidence, ThroughputEvidence, tell

__all__ = ["Rfc2544Evidence", "ThroughputEvidence", "tell", "tell_rfc2544"]
