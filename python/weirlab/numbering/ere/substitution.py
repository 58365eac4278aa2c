r"""Substitution expressions of NAPTR records, ``!^\+(.*)$!sip:\1@example.net!`` (RFC 3402, 3.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from weirlab.base.quoting import quoted
from weirlab.numbering.ere.patterns import MissingDigits, Pattern, compiled
from weirlab.numbering.ere.syntax import BadExpression

_FORBIDDEN: Final = "0123456789i\\"
"""Characters that cannot be delimiters."""


@dataclass(frozen=True)
class Substitution:
    """A pattern and the replacement of the whole text, of which only groups are kept."""

    pattern: Pattern
    replacement: str

    @classmethod
    def parse(cls, text: str) -> Substitution:
        """Read an expression with its delimiters.

        Raises
        ------
        BadExpression
            It is none.
        """
        return _parsed(text)

    @classmethod
    def of(cls, match: str, replace: str) -> Substitution:
        """Make a substitution from its two parts."""
        if problem := replacement_problem(replace, compiled(match, False).groups):
            raise BadExpression(problem)
        return cls(compiled(match, False), replace)

    @property
    def references(self) -> list[int]:
        """The groups that the replacement refers to, in its order."""
        signs = re.findall(r"\\(.)", self.replacement)
        return [int(sign) for sign in signs if sign != "\\"]

    def unused(self, text: str) -> list[int]:
        """The references to groups that take no part in the match of ``text``; ``text`` may have a tail.

        With a tail, the digits may decide which groups take part: those that need not.
        """
        try:
            parts = self.pattern.match(text)
        except MissingDigits:
            return [reference for reference in self.references if reference in self.pattern.optional_groups]
        return (
            [] if parts is None else [reference for reference in self.references if parts[reference] is None]
        )

    def apply(self, text: str) -> str | None:
        """What ``text`` becomes, or None if it does not match; ``MissingDigits`` as in ``Pattern.match``."""
        parts = self.pattern.match(text)
        if parts is None:
            return None
        return re.sub(r"\\(.)", lambda sign: _inserted(sign[1], parts), self.replacement)


def replacement_problem(replacement: str, groups: int) -> str:
    """What is wrong with a replacement for a pattern with ``groups`` groups; empty if nothing."""
    for match in re.finditer(r"\\(.?)", replacement):
        sign = match[1]
        if sign == "\\":
            continue
        if not sign or sign not in "123456789":
            return f"\\{sign} in the replacement; only \\1 to \\9 stand for groups"
        if int(sign) > groups:
            return f"\\{sign} in the replacement, but the pattern has {groups or 'no'} groups"
    return ""


def _inserted(sign: str, parts: tuple[str | None, ...]) -> str:
    return sign if sign == "\\" else parts[int(sign)] or ""


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Substitution:
    if len(text) < 3:
        raise BadExpression("it is too short: delimiter, pattern, delimiter, replacement, delimiter")
    delimiter = text[0]
    if delimiter in _FORBIDDEN:
        raise BadExpression(f"{quoted(delimiter)} cannot be the delimiter; ! is usual")
    fields = _fields(text, delimiter)
    if len(fields) != 3:
        raise BadExpression(f"the delimiter {delimiter} appears {len(fields)} times instead of three")
    match, replacement, flags = fields
    if flags not in ("", "i"):
        raise BadExpression(f"{quoted(flags)} after the last delimiter; only i is allowed")
    pattern = compiled(match, flags == "i")
    if problem := replacement_problem(replacement, pattern.groups):
        raise BadExpression(problem)
    return Substitution(pattern, replacement)


def _fields(text: str, delimiter: str) -> list[str]:
    """The fields between delimiters; an escaped delimiter is a character, without its backslash."""
    fields = [""]
    at = 1
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            fields[-1] += delimiter if text[at + 1] == delimiter else text[at : at + 2]
            at += 2
        elif text[at] == delimiter:
            fields.append("")
            at += 1
        else:
            fields[-1] += text[at]
            at += 1
    return fields
