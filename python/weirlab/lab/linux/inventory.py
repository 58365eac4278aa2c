"""Interfaces of a network namespace as the kernel reports them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyroute2 import IPRoute

from weirlab.base.errors import InputError, MissingCapability
from weirlab.lab.linux import namespace, syscalls
from weirlab.lab.linux.privilege import way_out

_LOOPBACK: Final = 0x8
_UP: Final = 0x1
_ETHERNET: Final = 1
"""ARPHRD_ETHER of linux/if_arp.h."""

T = TypeVar("T")


@dataclass(frozen=True)
class InterfaceFacts:
    """One interface."""

    name: str
    index: int
    mac: str = ""
    kind: str = ""
    """Of virtual ones: ``veth``, ``bridge``, ``vlan``; empty for hardware."""
    up: bool = True
    loopback: bool = False
    ethernet: bool = True
    wireless: bool = False
    master: str = ""
    xdp: int = 0
    """ID of the attached XDP program; 0 for none."""
    lower_index: int = 0
    """The interface that a VLAN or the like is on top of, in the same namespace; 0 for none."""
    addresses: tuple[str, ...] = ()
    mtu_bytes: int = 1500
    carrier: bool = True
    """Whether its cable leads to a port that is up; not known while it is down."""
    peer_index: int = 0
    """The other end of a veth pair."""
    peer_netns_id: int | None = None
    """Its namespace as this one numbers it; None: this one itself."""


def inside(netns: str | None, action: Callable[[], T]) -> T:
    """Run ``action`` in the namespace ``netns`` (None: this one) and return its result.

    Raises ``InputError`` if there is no such namespace, ``MissingCapability`` without the right to enter.
    """
    if netns is None:
        return action()
    place = namespace.Namespace(netns)
    if not place.path.exists():
        names = sorted(path.name for path in namespace.DIRECTORY.glob("*"))
        raise InputError(
            f"--netns {netns}: there is no such namespace; there are: {', '.join(names) or 'none'}"
        )
    try:
        return place.call(action)
    except PermissionError as error:
        raise MissingCapability(
            f"the namespace {netns} cannot be entered: {error.strerror}; {way_out(error)}"
        ) from error


def look(netns: str | None = None) -> dict[str, InterfaceFacts]:
    """Every interface of the namespace, by name."""
    return inside(netns, _look)


def _look() -> dict[str, InterfaceFacts]:
    with IPRoute() as netlink:
        links = list(netlink.get_links())
        addresses: dict[int, list[str]] = {}
        for each in netlink.get_addr():
            text = f"{each.get_attr('IFA_ADDRESS')}/{each['prefixlen']}"
            # Every interface that is up has one of these; it was not configured.
            if not text.startswith("fe80:"):
                addresses.setdefault(each["index"], []).append(text)
    names = {link["index"]: str(link.get_attr("IFLA_IFNAME")) for link in links}
    sysfs = _sysfs()
    try:
        return {
            names[link["index"]]: _facts(link, names, tuple(addresses.get(link["index"], ())), sysfs)
            for link in links
        }
    finally:
        if sysfs is not None:
            os.close(sysfs)


def _facts(
    link: Any, names: Mapping[int, str], addresses: tuple[str, ...], sysfs: int | None
) -> InterfaceFacts:
    name = names[link["index"]]
    info, xdp = link.get_attr("IFLA_LINKINFO"), link.get_attr("IFLA_XDP")
    kind = str(info.get_attr("IFLA_INFO_KIND") or "") if info is not None else ""
    return InterfaceFacts(
        name=name,
        index=link["index"],
        mac=str(link.get_attr("IFLA_ADDRESS") or ""),
        kind=kind,
        up=bool(link["flags"] & _UP),
        loopback=bool(link["flags"] & _LOOPBACK),
        ethernet=link["ifi_type"] == _ETHERNET,
        wireless=sysfs is not None and any(_exists(sysfs, name, each) for each in ("wireless", "phy80211")),
        master=names.get(link.get_attr("IFLA_MASTER") or 0, ""),
        xdp=int(xdp.get_attr("IFLA_XDP_PROG_ID") or 0) if xdp is not None else 0,
        addresses=addresses,
        lower_index=_lower(link, kind),
        mtu_bytes=int(link.get_attr("IFLA_MTU") or 0),
        carrier=bool(link.get_attr("IFLA_CARRIER")),
        peer_index=int(link.get_attr("IFLA_LINK") or 0) if kind == "veth" else 0,
        peer_netns_id=link.get_attr("IFLA_LINK_NETNSID"),
    )


def _lower(link: Any, kind: str) -> int:
    if kind == "veth" or link.get_attr("IFLA_LINK_NETNSID") is not None:
        return 0
    return int(link.get_attr("IFLA_LINK") or 0)


def _sysfs() -> int | None:
    """/sys of this namespace; None if it cannot be mounted, and then no interface counts as wireless."""
    try:
        return syscalls.mount_sysfs()
    except OSError:
        return None


def _exists(sysfs: int, name: str, entry: str) -> bool:
    try:
        os.stat(f"class/net/{name}/{entry}", dir_fd=sysfs)
    except OSError:
        return False
    return True
