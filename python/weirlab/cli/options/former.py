"""Names that options had in the release before: scripts may use them, and the help does not show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FORMER: Final[Mapping[str, Mapping[str, str]]] = {
    "quality": {"--report": "--out"},
    "trace": {"--report": "--out"},
    "link": {"--for": "--duration"},
    "tcp measure": {"--time": "--duration"},
    "tcp send": {"--time": "--duration"},
    "tcp watch": {"--time": "--duration"},
    "tcp why": {"--time": "--duration"},
    "voice lab": {"--for": "--duration"},
}
"""By command the former name of an option, and its name. Until release 0.3."""


def accept_former(command: Any, path: str) -> None:
    """Let ``command``, the words of ``path`` behind ``weir``, take its options by their former names, too."""
    if (names := FORMER.get(path)) is None or "make_parser" in vars(command):
        return
    make = command.make_parser

    def parser(context: Any) -> Any:
        made = make(context)
        for old, name in names.items():
            made._long_opt[old] = made._long_opt[name]
        return made

    command.make_parser = parser
