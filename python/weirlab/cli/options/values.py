"""Values of options: converted without pydantic, and named in the help in words, not in types of Python.

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


_SHOWN: Final = {
    "<bool>": None,
    "<str>": "TEXT",
    "<list[str]>": "TEXT",
    "<path>": "FILE",
    "<int>": "N",
    "<int range>": "N",
    "<float>": "NUMBER",
    "<float range>": "NUMBER",
}
_RANGE: Final = re.compile(r"(\S+)<=x<=(\S+)")
_LEAST: Final = re.compile(r"x>=(\S+)")


def reshape(parameters: Iterable[Any]) -> None:
    """Let the help show shapes. A version of Typer without these methods shows types as before."""
    for parameter in parameters:
        for name, shown in (("display_type_rich", shape), ("_get_number_range_help_str", limits)):
            if (ask := getattr(parameter, name, None)) is not None and name not in vars(parameter):
                setattr(parameter, name, _through(ask, shown))


def shape(text: str | None) -> str | None:
    """``<int range>`` as ``N``, ``<a|b>`` as ``a|b``; nothing for a flag."""
    if text is None or text in _SHOWN:
        return _SHOWN.get(text or "")
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def limits(text: str | None) -> str | None:
    """``0<=x<=3600.0`` as ``0 to 3,600``; an upper limit that no value reaches in practice is not shown."""
    if text is None:
        return None
    if (both := _RANGE.fullmatch(text)) is not None:
        low, high = float(both[1]), float(both[2])
        return f"from {low:,.12g}" if high > 1e15 else f"{low:,.12g} to {high:,.12g}"
    if (least := _LEAST.fullmatch(text)) is not None:
        return f"from {float(least[1]):,.12g}"
    return text


def _through(ask: Any, shown: Any) -> Any:
    return lambda *args, **more: shown(ask(*args, **more))
