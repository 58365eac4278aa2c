"""How a plug-in reads and answers: JSON on standard input and output; messages for failures."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn


def read() -> Any:
    """The document on standard input; fails where there is none."""
    try:
        return json.load(sys.stdin)
    except ValueError as error:
        fail(f"standard input is not JSON: {error}")


def answer(document: Any) -> NoReturn:
    """Print ``document`` and succeed."""
    json.dump(document, sys.stdout)
    print()
    sys.exit(0)


def say(text: str) -> NoReturn:
    """Print ``text`` and succeed."""
    print(text)
    sys.exit(0)


def fail(message: str) -> NoReturn:
    """Print ``message`` on standard error and fail."""
    print(message, file=sys.stderr)
    sys.exit(1)


def taken(document: Any, *keys: str) -> Any:
    """The value at ``keys``; fails where it is missing."""
    for key in keys:
        if not isinstance(document, dict) or key not in document:
            fail(f"the input lacks {'.'.join(keys)}")
        document = document[key]
    return document


def mime_type() -> str:
    """What a format is wanted in: ``text/plain`` or ``text/html``."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "text/plain"
    if wanted not in ("text/plain", "text/html"):
        fail(f'unsupported MIME type "{wanted}"; expected is text/plain or text/html')
    return wanted
