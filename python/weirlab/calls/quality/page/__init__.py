"""The page of ``weir quality``: how the voice streams of a capture were heard."""

from weirlab.calls.quality.page.story import StreamAssessment, build, tell

__all__ = ["StreamAssessment", "build", "tell"]
