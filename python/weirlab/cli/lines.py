"""JSON Lines: events over time, one JSON document per line.

Every other command prints one JSON document. A long-running command prints one per interval, event or
sample as it occurs, each on its own line, and the result last: ``tail -n 1`` leaves what other commands
print. An error is also the last line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from weirlab.base.documents import plain
from weirlab.base.quoting import json_printable
from weirlab.cli.streams import tell

LinesOption = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON Lines on stdout: one document per line as it happens, the result last."
    ),
]


def line(document: Mapping[str, Any]) -> str:
    """``document`` on one line."""
    text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return json_printable(text)


def say(document: Mapping[str, Any]) -> None:
    """Print ``document`` at once."""
    tell(line(document))
