"""The page about capacity in calls: what is lost and heard over the number of calls, predicted and inside."""

from weirlab.report.capacity.source import Findings
from weirlab.report.capacity.story import tell

__all__ = ["Findings", "tell"]
