"""The page about one set of calls through a device: what each caller heard, and over time."""

from weirlab.calls.calls.page.story import CallsRun, tell

__all__ = ["CallsRun", "tell"]
