"""Interfaces for a tap: which may be used, where their other ends are, and how they are prepared."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import EthtoolError
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.lab.linux import namespace
from weirlab.lab.linux.inventory import InterfaceFacts, inside, look
from weirlab.lab.linux.namespace import write_sysctls
from weirlab.link.host import tools
from weirlab.link.host.journal import Journal, set_up

_SOL_PACKET: Final = 263
_PACKET_ADD_MEMBERSHIP: Final = 1
_PACKET_MR_PROMISC: Final = 1

_MERGING: Final = ("rx-gro", "rx-gro-hw", "rx-gro-list", "rx-udp-gro-forwarding", "rx-lro")
_RECEIVE_OFF: Final = (
    *_MERGING,
    # Neither XDP nor a record sees a tag that the hardware strips from the frame.
    *("rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"),
)
_VLAN_INSERT: Final = ("tx-vlan-hw-insert", "tx-vlan-stag-hw-insert")


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


class PromiscuousMode:
    """Makes interfaces receive frames for every address until :meth:`close`, or until this process is gone.

    The kernel counts such requests, so ending this one leaves those of others in place.
    """

    def __init__(self, netns: str | None, indices: Iterable[int]) -> None:
        self._socket = inside(netns, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        for index in indices:
            request = struct.pack("iHH8s", index, _PACKET_MR_PROMISC, 0, b"")
            self._socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, request)

    def close(self) -> None:
        """May be called twice."""
        self._socket.close()


def ends(journal: Journal, netns: str | None, interfaces: Sequence[InterfaceFacts]) -> list[str]:
    """Prepare the ends of the link; returns what was changed, in words."""
    said: list[str] = []
    for facts in interfaces:
        said += receive_as_on_the_wire(journal, netns, facts.name)
        said += up(journal, netns, facts)
    return said


def receive_as_on_the_wire(journal: Journal, netns: str | None, name: str) -> list[str]:
    """Switch off what merges frames or strips their tags; returns what was changed, in words."""
    return _switch(journal, netns, name, dict.fromkeys(_RECEIVE_OFF, False))


def merging(netns: str | None, name: str) -> list[str]:
    """The offloads by which an interface merges arriving frames into one, in words."""
    try:
        on = inside(netns, lambda: tools.differing_offloads(name, dict.fromkeys(_MERGING, False)))
    except (OSError, EthtoolError):
        # It has no such features, or does not report them.
        return []
    return sorted({_kind(feature) for feature in on})


def silence(journal: Journal, netns: str | None, interfaces: Sequence[InterfaceFacts]) -> list[str]:
    """Keep the host's own IPv6 (router solicitations, group reports) off the link; returns what was changed.

    IPv6 stays on if the interface was given an IPv6 address, which would be lost.
    """
    said: list[str] = []
    for facts in interfaces:
        key = f"net/ipv6/conf/{facts.name}/disable_ipv6"
        if any(":" in address for address in facts.addresses) or inside(netns, lambda key=key: _is_set(key)):  # type: ignore[misc]
            continue
        journal.note("ipv6", netns, facts.name)
        inside(netns, lambda key=key: write_sysctls({key: 1}))  # type: ignore[misc]
        said.append(f"{facts.name}: IPv6 of this host switched off")
    return said


def _is_set(key: str) -> bool:
    """Whether a sysctl is 1, or does not exist."""
    try:
        return Path("/proc/sys", key).read_text().strip() == "1"
    except FileNotFoundError:
        return True


def up(journal: Journal, netns: str | None, facts: InterfaceFacts) -> list[str]:
    """Bring the interface up if it is down; returns what was changed, in words."""
    if facts.up:
        return []
    journal.note("up", netns, facts.name)
    inside(netns, lambda: set_up(facts.name, up=True))
    return [f"{facts.name}: brought up"]


def far_ends(journal: Journal, peers: Mapping[str, Peer], *, xdp: bool) -> list[str]:
    """Prepare the other ends of veth pairs; returns what was changed, in words.

    What a veth sends goes to its peer as it lies in memory: many segments in one, checksums not filled in,
    VLAN tags outside the frame. Hardware would do all of that on the way to the wire. And XDP can only hand
    frames to a veth whose peer has an XDP program or GRO.
    """
    said: list[str] = []
    for peer in peers.values():
        wanted = dict.fromkeys(_VLAN_INSERT, False)
        for name in inside(peer.netns, lambda peer=peer: tools.offload_names(peer.name)):  # type: ignore[misc]
            if "segmentation" in name or name.startswith(("tx-gso", "tx-checksum")):
                wanted[name] = False
        if xdp:
            wanted["rx-gro"] = True
        where = f" (in namespace {peer.netns})" if peer.netns else ""
        said += _switch(journal, peer.netns, peer.name, wanted, where)
    return said


def _switch(
    journal: Journal, netns: str | None, name: str, wanted: Mapping[str, bool], where: str = ""
) -> list[str]:
    before = inside(netns, lambda: tools.differing_offloads(name, wanted))
    if not before:
        return []
    journal.note("features", netns, name, before=before)
    inside(netns, lambda: tools.switch_offloads(name, wanted))
    said = [
        f"{', '.join(kinds)} {word}"
        for word, value in (("off", False), ("on", True))
        if (kinds := sorted({_kind(feature) for feature in before if wanted[feature] is value}))
    ]
    return [f"{name}{where}: switched {'; '.join(said)}"]


def _kind(feature: str) -> str:
    """The kind of a feature; a veth has a dozen for segmentation, of which the user needs to see one."""
    kinds = {"vlan": "VLAN offload", "checksum": "checksum offload", "lro": "LRO", "gro": "GRO"}
    return next((kind for part, kind in kinds.items() if part in feature), "segmentation offload")
