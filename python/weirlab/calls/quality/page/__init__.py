"""The page of ``weir quality``: how the voice streams of a capture were heard."""

from weirlab.calls.quality.page.story import Assessed, build, tell

__all__ = ["Assessed", "build", "tell"]
