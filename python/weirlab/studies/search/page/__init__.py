"""The page about a search for throughput, and about the tests of RFC 2544."""

from weirlab.studies.search.page.rfc2544 import tell as tell_rfc2544
from weirlab.studies.search.page.source import Searched, Tested
from weirlab.studies.search.page.story import tell

__all__ = ["Searched", "Tested", "tell", "tell_rfc2544"]
