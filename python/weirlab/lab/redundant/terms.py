"""Names of the participants in a switch."""

from __future__ import annotations

from typing import Final, Literal

Firewall = Literal["a", "b"]


FIREWALLS: Final[tuple[Firewall, ...]] = ("a", "b")
"""``a`` is the preferred master."""


Side = Literal["lan", "wan"]


SIDES: Final[tuple[Side, ...]] = ("lan", "wan")
"""``lan`` is the sender's side, from which calls are admitted."""


Role = Literal["master", "backup"]


ROLES: Final[tuple[Role, ...]] = ("master", "backup")
"""Roles of a firewall, for each side."""


EventKind = Literal["soft", "hard", "return"]
"""The master steps down, it dies, or a dead firewall comes back."""
