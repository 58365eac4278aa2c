"""Converts plain values of options without pydantic.

Typer validates every option with pydantic, whose import takes longer than the summary of a capture. Valid
text, integers, paths and choices do not need it. Everything else, and every mistake, is left to Typer, so
values and messages are the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import typer

_ALIKE: Final = (str, int, bool)

_DIGITS: Final = re.compile("[0-9]{1,20}")
"""Limited in length: Python refuses to parse thousands of digits, and Typer has a message for that."""


def quicken(parameters: Iterable[Any]) -> None:
    """Let the parameters of a command convert plain values without pydantic."""
    for parameter in parameters:
        # Typer creates it on first use. A version of Typer without this attribute ignores it.
        if getattr(parameter, "_runtime_param", parameter) is None:
            parameter._runtime_param = _FastRuntimeParam()


class _FastRuntimeParam:
    """Replaces Typer's ``RuntimeParam``."""

    def coerce(self, value: Any, param: Any, ctx: typer.Context) -> Any:
        """``value`` as the type of ``param``."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        descriptor = param.type_descriptor
        taken = _taken(value, descriptor.annotation, descriptor.parameter_info)
        if taken is not None:
            return taken
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _taken(value: Any, kind: Any, info: Any) -> Any:
    """``value`` as a ``kind``; None if it needs Typer's full validation."""
    if info.parser is not None:
        return None
    if get_origin(kind) is list:
        if isinstance(value, str):
            return None
        items = [_taken(item, get_args(kind)[0], info) for item in value]
        return None if any(item is None for item in items) else items
    if kind is Path:
        return Path(value) if isinstance(value, str) and _is_usual(value, info) else None
    if kind is int and isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if kind in _ALIKE and type(value) is kind:
        low, high = info.min, info.max
        return value if (low is None or value >= low) and (high is None or value <= high) else None
    return value if isinstance(value, str) and value in get_args(kind) else None


def _is_usual(path: str, info: Any) -> bool:
    """Whether Typer would neither reject nor change ``path``."""
    special = info.resolve_path or info.allow_dash or info.path_type or info.writable
    if special or not (info.file_okay and info.dir_okay):
        return False
    return os.access(path, os.R_OK) or not (info.exists or os.path.exists(path))
