"""Text from elsewhere (names, paths, files, what a tool printed) in messages and on terminals.

Such text may contain control sequences that a terminal obeys, and may be of any length.
"""

from __future__ import annotations

import re
from typing import Final

MOST_QUOTED: Final = 80
"""Characters of a value that a message quotes."""

MOST_IN_LINE: Final = 1000
"""Characters of a line in a message: more than any sentence of Weir's with a path or two."""

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    "\u2028\u2029\ufeff"  # line and paragraph separator, byte order mark
    "\ud800-\udfff]"  # lone surrogates: bytes of a name that are not UTF-8
)


def printable(text: str) -> str:
    r"""``text`` with everything that a terminal obeys or cannot print escaped, as in ``\x1b``.

    Tabs and line feeds stay: they are the layout of our own output. A byte that is not UTF-8 and
    that Python keeps as a lone surrogate is shown as this byte.
    """
    # Python's own idea of what cannot be printed includes all of these.
    return text if text.isprintable() else _UNPRINTABLE.sub(lambda match: _escaped(ord(match[0])), text)


def json_printable(text: str) -> str:
    """As :func:`printable` for text that is JSON: escaped in JSON's own way, so its meaning is the same."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def quoted(value: object, limit: int = MOST_QUOTED) -> str:
    """``value`` as a message quotes it: as Python writes it, at most ``limit`` characters of it.

    >>> quoted("a\\nb")
    "'a\\\\nb'"
    """
    if isinstance(value, str) and len(value) > limit:
        return f"{_literal(value[:limit])}... ({len(value):,} characters)"
    return _literal(value) if isinstance(value, str) else shortened(printable(repr(value)), limit)


def shortened(line: str, limit: int = MOST_IN_LINE) -> str:
    """``line`` with its middle left out if it is longer than ``limit``: beginning and end say most."""
    if len(line) <= limit:
        return line
    tail = limit // 4
    return f"{line[: limit - tail]} ... {line[len(line) - tail :]}"


def _literal(text: str) -> str:
    # repr() escapes all that cannot be printed, but a lone surrogate as such and not as the byte it is.
    return re.sub(r"\\udc([89a-f][0-9a-f])", r"\\x\1", repr(text))


def _escaped(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
