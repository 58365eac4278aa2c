"""Telephone numbers as text: E.164, what people dial, and names in the domain name system."""

from __future__ import annotations

import re
from typing import Final

MOST_DIGITS: Final = 15
"""Of an international number, country code included (ITU-T E.164, 6.1)."""

NUMBER: Final = re.compile(r"\+[0-9]+")
PREFIX: Final = re.compile(r"\+[0-9]*")
DIALLED: Final = re.compile(r"\+?[0-9]+")


def is_number(text: str) -> bool:
    """Is ``text`` an international number such as ``+420224355289``, of any length?"""
    return NUMBER.fullmatch(text) is not None


def reversed_digits(digits: str) -> str:
    """``digits`` as labels of the domain name system, the last digit first (RFC 6116, 3.2).

    >>> reversed_digits("420")
    '0.2.4'
    """
    return ".".join(reversed(digits))


def owner_name(digits: str, suffix: str) -> str:
    """The absolute name below ``suffix`` that is asked for ``digits``."""
    return f"{reversed_digits(digits)}.{suffix}." if digits else f"{suffix}."


def digits_below(name: str, suffix: str) -> str | None:
    """The digits of ``name`` below ``suffix`` in the order of dialling; None for another name.

    >>> digits_below("0.2.4.e164.arpa", "e164.arpa")
    '420'
    """
    name, suffix = name.rstrip(".").lower(), suffix.rstrip(".").lower()
    if name == suffix:
        return ""
    labels = name.removesuffix(f".{suffix}").split(".") if name.endswith(f".{suffix}") else ["?"]
    return "".join(reversed(labels)) if all(re.fullmatch("[0-9]", label) for label in labels) else None
