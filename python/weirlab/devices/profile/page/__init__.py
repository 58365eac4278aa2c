"""The page about a profile, its models, and how these did on held-out trials."""

from weirlab.devices.profile.page.source import Judgement, Verification, gather
from weirlab.devices.profile.page.story import tell

__all__ = ["Judgement", "Verification", "gather", "tell"]
