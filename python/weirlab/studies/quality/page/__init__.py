"""The page of ``weir quality``: how the voice streams of a capture were heard."""

from weirlab.studies.quality.page.page import Assessed, build, render

__all__ = ["Assessed", "build", "render"]
