"""What a look at this machine found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

AS_ROOT: Final = (
    "run as root; in a container: --privileged --pid=host. Without, use the simulated lab: --lab sim"
)


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``remedy`` says what to do when it is not ``ok``."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    essential: bool = True
    """Whether the namespaces lab cannot do without it; else it works, less well or not for all devices."""


def reason(error: Exception) -> str:
    """Why something failed, without what failed."""
    words = error.strerror if isinstance(error, OSError) else str(error)
    return words or type(error).__name__
