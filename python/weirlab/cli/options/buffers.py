"""The parser for ``--jitter-buffer``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

if TYPE_CHECKING:
    from weirlab.quality.jitterbuffer import BufferChoice, Buffers

_BUFFER: Final = re.compile(r"(?P<kind>best|fixed|adaptive)(?::(?P<depth>\d+(?:\.\d+)?)(?:ms)?)?")


def jitter_buffer(text: str) -> tuple[BufferChoice, Buffers]:
    """Parse ``best``, ``fixed``, ``fixed:60ms`` or ``adaptive``.

    Raises
    ------
    InputError
        It is none of these.
    """
    from weirlab.quality.jitterbuffer import Buffers

    match = _BUFFER.fullmatch(text.strip().lower())
    if match is None or (match["depth"] and match["kind"] != "fixed"):
        raise InputError(
            f"--jitter-buffer {quoted(text)} not understood; accepted are fixed:60ms (any depth), "
            "adaptive, and best for the better one of each call"
        )
    depth = float(match["depth"]) if match["depth"] else Buffers.fixed_ms
    kinds: dict[str, BufferChoice] = {"best": "best", "fixed": "fixed", "adaptive": "adaptive"}
    return kinds[match["kind"]], Buffers(fixed_ms=depth)
