"""How the help shows an option's value: words instead of the types of a programming language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

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
