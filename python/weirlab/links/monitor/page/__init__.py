"""The page about link monitors: what they record, where frames are lost, what they cost the link."""

from weirlab.links.monitor.page.source import MonitorEvidence
from weirlab.links.monitor.page.story import tell

__all__ = ["MonitorEvidence", "tell"]
