"""Values of a numbering plan that are text of a certain form, and what is said of other text.

Telephone numbers are E.164, what people dial, or names in the domain name system.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import date
from typing import Annotated, Final, Literal
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator, Field

MOST_DIGITS: Final = 15
"""Of an international number, country code included (ITU-T E.164, 6.1)."""

MOST_SHORT_DIGITS: Final = 6
"""Of a short number; a longer one is a whole number as dialled in its country."""

NUMBER: Final = re.compile(r"\+[0-9]+")
PREFIX: Final = re.compile(r"\+[0-9]*")
DIALLED: Final = re.compile(r"\+?[0-9]+")


_SPELT: Final = re.compile(r"[+0-9][0-9(). -]*")
_SEPARATORS: Final = str.maketrans("", "", "(). -")


def spelling(text: str) -> str | None:
    """The number that a SIP or tel URI, or its user part, names, in the one spelling that is compared.

    Escapes are decoded once (RFC 3261, 19.1.4), separators behind the first digit or + are for people
    (RFC 3966, 5.1.1), and parameters do not count: a local number is one of the engine that gets it. None for
    other text.

    >>> spelling("+4%320-(224) 355.289;ext=1")
    '+420224355289'
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() in ("sip", "sips", "tel"):
        text = rest.partition("@")[0]
    number = unquote(text.partition(";")[0])
    found = number.translate(_SEPARATORS) if _SPELT.fullmatch(number) else ""
    return found if DIALLED.fullmatch(found) else None


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


Protocol = Literal["sip", "h323", "mgcp"]
Kind = Literal["proxy", "gateway", "gatekeeper", "endpoint"]
Visibility = Literal["public", "private"]
Transport = Literal["udp", "tcp"]

_LONGEST = 40
"""Characters of a number; those that are too long but for a slip of the pen are for the checks."""

_LONGEST_LINE = 1000
_LONGEST_EMAIL = 254
"""RFC 5321, 4.5.3.1.3."""
_LONGEST_WORD = 64

_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_EMAIL = re.compile(rf"[^@\s]+@{_LABEL}(\.{_LABEL})+")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_MGCP_LINE = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_CODEC = re.compile(r"[a-z0-9]+")


def _in_quotes(value: object) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError('YAML read it as a number and lost its "+" or its zeros; write it in quotes')
    return value


def _number(text: str) -> str:
    if len(text) > _LONGEST or not is_number(text):
        raise ValueError('must be an international number, such as "+420224355289"')
    return text


def _prefix(text: str) -> str:
    if len(text) > _LONGEST or not PREFIX.fullmatch(text):
        raise ValueError('must be the beginning of international numbers, such as "+420950"')
    return text


def _dialled(text: str) -> str:
    if len(text) > _LONGEST or not DIALLED.fullmatch(text):
        raise ValueError('must be digits as they are dialled, such as "+420224355289" or "00420224355289"')
    return text


def _digits(text: str) -> str:
    if len(text) > _LONGEST or not re.fullmatch(r"\+?[0-9]*", text):
        raise ValueError(f"must be up to {_LONGEST} digits, with a + in front or without")
    return text


def _host(text: str) -> str:
    name = text.lower().rstrip(".")
    if len(name) > 253 or not _HOST.fullmatch(name) or is_address(name):
        raise ValueError("must be a host or domain name, such as gw.example.net")
    return name


def _address(text: str) -> str:
    try:
        # The zone of an IPv6 address may hold anything, line ends included.
        if "%" in text:
            raise ValueError
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("must be an IPv4 or IPv6 address, such as 192.0.2.10") from None


def is_address(text: str) -> bool:
    """Is ``text`` an IP address?"""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _email(text: str) -> str:
    if len(text) > _LONGEST_EMAIL or not _EMAIL.fullmatch(text):
        raise ValueError("must be an e-mail address, such as hostmaster@example.net")
    return text


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("must be a name of small letters, digits and hyphens, at most 32 of them")
    return text


def _codec(text: str) -> str:
    if len(text) > _LONGEST_WORD or not _CODEC.fullmatch(text):
        raise ValueError("must be the name of a codec as Asterisk has it, such as alaw, ulaw, g722 or opus")
    return text


def _line(text: str) -> str:
    if len(text) > _LONGEST_LINE:
        raise ValueError(f"has {len(text):,} characters; at most {_LONGEST_LINE:,} are allowed")
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError("must be a single line without control characters")
    if re.search("[\ud800-\udfff]", text):
        raise ValueError("has half of a surrogate pair, which is no character")
    return text


def _mgcp_line(text: str) -> str:
    if len(text) > _LONGEST_WORD or not _MGCP_LINE.fullmatch(text):
        raise ValueError("must be a local endpoint name of MGCP, such as aaln/1")
    return text


def as_list(value: object) -> object:
    """A single word as a list of one."""
    return [value] if isinstance(value, str) else value


Number = Annotated[str, BeforeValidator(_in_quotes), AfterValidator(_number)]
Prefix = Annotated[str, BeforeValidator(_in_quotes), AfterValidator(_prefix)]
Dialled = Annotated[str, BeforeValidator(_in_quotes), AfterValidator(_dialled)]
Digits = Annotated[str, BeforeValidator(_in_quotes), AfterValidator(_digits)]
Host = Annotated[str, AfterValidator(_host)]
Address = Annotated[str, AfterValidator(_address)]
Email = Annotated[str, AfterValidator(_email)]
Name = Annotated[str, AfterValidator(_name)]
Codec = Annotated[str, AfterValidator(_codec)]
MgcpLine = Annotated[str, AfterValidator(_mgcp_line)]
Line = Annotated[str, AfterValidator(_line)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Short = Annotated[int, Field(strict=True, ge=0, le=65535)]
Serial = Annotated[int, Field(strict=True, ge=1, le=4294967295)]
Length = Annotated[int, Field(strict=True, ge=1, le=_LONGEST)]
Calls = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Seconds = Annotated[int, Field(strict=True, ge=1, le=2147483647)]
Day = Annotated[date, BeforeValidator(_in_quotes)]
