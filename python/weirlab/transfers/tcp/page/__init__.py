"""The page about a transfer: why it was not faster, where the time went, everything on one time axis."""

from __future__ import annotations

from weirlab.transfers.tcp.page.story import tell

__all__ = ["tell"]
