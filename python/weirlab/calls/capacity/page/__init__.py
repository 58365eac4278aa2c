"""The page about capacity in calls: what is lost and heard over the number of calls, predicted and inside."""

from weirlab.calls.capacity.page.source import CapacityEvidence
from weirlab.calls.capacity.page.story import tell

__all__ = ["CapacityEvidence", "tell"]
