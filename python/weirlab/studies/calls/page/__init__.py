"""The page about one set of calls through a device: what each caller heard, and over time."""

from weirlab.studies.calls.page.story import Heard, tell

__all__ = ["Heard", "tell"]
