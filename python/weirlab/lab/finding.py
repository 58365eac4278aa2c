"""A finding about this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

AS_ROOT: Final = (
    "run as root; in a container: --pid=host --cap-add NET_ADMIN,NET_RAW,SYS_ADMIN,SYS_NICE "
    "--security-opt unmask=ALL. Without root, use the simulated lab: --lab sim"
)


@dataclass(frozen=True)
class Finding:
    """One check and its result. ``remedy`` says what to do when it is not ``ok``."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    essential: bool = True
    """Whether the namespaces lab needs it; if not, the lab still works, less well or not for all devices."""


def reason(error: Exception) -> str:
    """The reason of a failure, without the name of what failed."""
    words = error.strerror if isinstance(error, OSError) else str(error)
    return words or type(error).__name__
