"""The page about capacity in calls: what is lost and heard over the number of calls, predicted and inside."""

from weirlab.studies.capacity.page.source import Findings
from weirlab.studies.capacity.page.story import tell

__all__ = ["Findings", "tell"]
