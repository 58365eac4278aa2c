"""Names of what takes part in a switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    pass

Firewall = Literal["a", "b"]


FIREWALLS: Final[tuple[Firewall, ...]] = ("a", "b")
"""``a`` is the preferred master."""


Side = Literal["lan", "wan"]


SIDES: Final[tuple[Side, ...]] = ("lan", "wan")
"""``lan`` is where the sender is and from where calls are admitted."""


Role = Literal["master", "backup"]


ROLES: Final[tuple[Role, ...]] = ("master", "backup")


EventKind = Literal["soft", "hard", "return"]
