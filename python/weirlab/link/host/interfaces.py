"""Interfaces as the kernel reports them, and which of them a tap may use."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import InputError, LabError, MissingCapability
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
    addresses: tuple[str, ...] = ()
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
        peer_index=int(link.get_attr("IFLA_LINK") or 0) if kind == "veth" else 0,
        peer_netns_id=link.get_attr("IFLA_LINK_NETNSID"),
    )


def choose(
    found: Mapping[str, InterfaceFacts], names: Sequence[str], where: str
) -> tuple[InterfaceFacts, ...]:
    """The interfaces called ``names``; raises ``InputError`` listing those that exist if one is missing."""
    for name in names:
        if name not in found:
            others = ", ".join(sorted(other for other, facts in found.items() if not facts.loopback))
            raise InputError(f"there is no interface {name} {where}; there are: {others or 'none'}")
    return tuple(found[name] for name in names)


def check_end(facts: InterfaceFacts, *, xdp: bool) -> None:
    """Raise if the interface cannot be an end of the link; ``xdp``: whether it will use XDP."""
    name = facts.name
    if facts.loopback:
        raise InputError(f"{name} is the loopback interface: it has no cable; name the two ends of a cable")
    if facts.wireless:
        raise InputError(
            f"{name} is wireless: a station may only send from its own address, so frames of others cannot "
            "be forwarded; use wired interfaces"
        )
    if not facts.ethernet:
        raise InputError(
            f"{name} is no Ethernet interface: frames cannot be bridged to it; use Ethernet interfaces"
        )
    if facts.master:
        raise LabError(
            f"{name} belongs to {facts.master}; take it out first: ip link set dev {name} nomaster"
        )
    if xdp and facts.xdp:
        raise LabError(
            f"{name} already has an XDP program (ID {facts.xdp}; another tap?); end what uses it, or: "
            f"ip link set dev {name} xdp off"
        )


def check_mirror(facts: InterfaceFacts) -> None:
    """Raise if copies cannot leave through this interface."""
    if facts.loopback or not facts.ethernet:
        raise InputError(f"--mirror {facts.name}: copies need an Ethernet interface that leads to the logger")


def warnings(ends: Sequence[InterfaceFacts], what: str = "the tap") -> tuple[str, ...]:
    """What the user should know before ``what`` takes the link."""
    return tuple(
        f"{facts.name} has the address {', '.join(facts.addresses)}: while {what} runs, this host's own "
        "traffic on it stops"
        for facts in ends
        if facts.addresses
    )


@dataclass(frozen=True)
class Peer:
    """The other end of a veth pair, in a namespace that can be entered."""

    name: str
    netns: str | None


def peers(ends: Sequence[InterfaceFacts], netns: str | None) -> dict[str, Peer]:
    """The peers of those ``ends`` that are veth, if they are in this namespace or in one with a name."""
    found: dict[str, Peer] = {}
    wanted = [facts for facts in ends if facts.peer_index]
    here = {facts.index: facts.name for facts in look(netns).values()} if wanted else {}
    for facts in wanted:
        if facts.peer_netns_id is None:
            if facts.peer_index in here:
                found[facts.name] = Peer(here[facts.peer_index], netns)
            continue
        candidate = _namespace_of(facts.peer_netns_id, netns)
        if candidate is None:
            continue
        with suppress(InputError, MissingCapability, OSError):
            name = next((f.name for f in look(candidate or None).values() if f.index == facts.peer_index), "")
            if name:
                found[facts.name] = Peer(name, candidate or None)
    return found


def _namespace_of(number: int, netns: str | None) -> str | None:
    """Name of the namespace that ``netns`` calls ``number``; "" for this process's own, None for none."""
    candidates: list[tuple[str, str]] = [("", "/proc/self/ns/net")]
    with suppress(OSError):
        candidates += [(path.name, str(path)) for path in sorted(namespace.DIRECTORY.iterdir())]
    for name, path in candidates:
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if inside(netns, lambda fd=fd: _number_of(fd)) == number:  # type: ignore[misc]
                    return name
            finally:
                os.close(fd)
    return None


def _number_of(fd: int) -> int | None:
    with IPRoute() as netlink:
        try:
            answer = netlink.get_netnsid(fd=fd)
        except NetlinkError as error:
            # A name that is just being created or removed refers to no namespace.
            if error.code != errno.EINVAL:
                raise
            return None
    return int(answer["nsid"]) if answer else None


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
