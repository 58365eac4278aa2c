"""The page about link monitors: what they record, where frames are lost, what they cost the link."""

from weirlab.report.monitor.source import Evidence
from weirlab.report.monitor.story import tell

__all__ = ["Evidence", "tell"]
