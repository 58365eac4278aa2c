"""Prepares interfaces for a tap: up, promiscuous, and with one frame in memory for each on the wire."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pyroute2.ethtool.ioctl import EthtoolError

from weirlab.lab.linux.inventory import InterfaceFacts, inside
from weirlab.lab.linux.namespace import write_sysctls
from weirlab.link.host import offloads
from weirlab.link.host.interfaces import Peer
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
        on = inside(netns, lambda: offloads.differing(name, dict.fromkeys(_MERGING, False)))
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
        for name in inside(peer.netns, lambda peer=peer: offloads.names(peer.name)):  # type: ignore[misc]
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
    before = inside(netns, lambda: offloads.differing(name, wanted))
    if not before:
        return []
    journal.note("features", netns, name, before=before)
    inside(netns, lambda: offloads.switch(name, wanted))
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
