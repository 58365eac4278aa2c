"""Addresses and socket options as text: parsing them from options, and showing them."""

from __future__ import annotations

from ipaddress import ip_address

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted


def parse_address(text: str, option: str = "--bind") -> str:
    """The IP address in ``text``; raises ``InputError`` naming ``option`` if it is not one."""
    try:
        found = ip_address(text.strip())
    except ValueError:
        raise InputError(f"{option} {quoted(text)} is not an IP address such as 192.0.2.1 or ::1") from None
    if getattr(found, "scope_id", None):
        raise InputError(f"{option} {quoted(text)}: an address with a zone cannot be used; leave %zone out")
    return str(found)


def parse_option(text: str, option: str = "--option") -> tuple[str, str]:
    """``TCP_NODELAY=1`` or ``6:1=1`` as name and value.

    Raises
    ------
    InputError
        One of the two is missing. The engine checks whether the option exists.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    if not (name and value):
        raise InputError(
            f"{option} {quoted(text)} not understood; accepted are NAME=VALUE and LEVEL:NUMBER=VALUE, e.g. "
            "TCP_NODELAY=1"
        )
    return name, value


def shown(end: tuple[str, int]) -> str:
    """An address and port as text: ``192.0.2.1:443``, ``[2001:db8::1]:443``."""
    address, port = end
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
