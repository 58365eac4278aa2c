"""The page about a search for throughput, and about the tests of RFC 2544."""

from weirlab.devices.search.page.rfc2544 import tell as tell_rfc2544
from weirlab.devices.search.page.source import Searched, Tested
from weirlab.devices.search.page.story import tell

__all__ = ["Searched", "Tested", "tell", "tell_rfc2544"]
