"""Addresses of clients."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

_SITE_BITS: Final = 64
"""One customer has at least this much of IPv6 (RFC 6177), and any address in it."""


def parsed(text: str) -> IPv4Address | IPv6Address | None:
    """The address that ``text`` is, without IPv6 around IPv4 (RFC 4291, 2.5.5.2); None if it is none."""
    try:
        # A zone is a name of this host's.
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def site(text: str) -> str:
    """What counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address."""
    address = parsed(text)
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), _SITE_BITS), strict=False))
    return text if address is None else str(address)
