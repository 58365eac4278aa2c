"""The page about a profile, its models, and how these did on held-out trials."""

from weirlab.devices.profile.page.source import RunJudgement, VerificationEvidence, gather
from weirlab.devices.profile.page.story import tell

__all__ = ["RunJudgement", "VerificationEvidence", "gather", "tell"]
