"""Imports what draws the help, without the unused parts of rich, which are the slowest to import."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final

HELP_OPTIONS: Final = ("-h", "--help")

_UNUSED: Final = ("rich.markdown", "rich.traceback")
"""Typer imports them for Markdown texts and for its own tracebacks; Weir uses neither."""


def prepare_help(argv: Sequence[str]) -> None:
    """Import what draws the help, if ``argv`` asks for help."""
    if "typer.rich_utils" in sys.modules or (argv and not any(option in argv for option in HELP_OPTIONS)):
        return
    absent = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update({name: _stand_in(name) for name in absent})
    try:
        import_module("typer.rich_utils")
    finally:
        # Other importers get the real modules.
        for name in absent:
            del sys.modules[name]


def _stand_in(name: str) -> ModuleType:
    """A module that has a class under every name."""
    module = ModuleType(name)

    def find(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        return type(wanted, (), {})

    vars(module)["__getattr__"] = find
    return module
