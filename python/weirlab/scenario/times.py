"""Times that people write: ``90s``, ``6min``, ``1.5h``."""

from __future__ import annotations

import re
from typing import Final

from weirlab.quoting import quoted

_UNITS: Final = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
_TIME: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|min|h|)")

LONGEST_S: Final = 7 * 24 * 3600.0
"""A week: more is a slip of the pen."""


def seconds(text: str) -> float:
    """``6min`` as 360.0; raises ``ValueError`` for what is no time, 0, or longer than a week."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{quoted(text)} is no time; write e.g. 90s, 6min or 1.5h")
    found = float(match[1]) * _UNITS[match[2]]
    if not 0 < found <= LONGEST_S:
        raise ValueError(f"{quoted(text)} must be more than 0 and at most a week")
    return found
