"""Which interfaces a tap may use, and where their other ends are."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.lab.linux import namespace
from weirlab.lab.linux.inventory import InterfaceFacts, inside, look


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
