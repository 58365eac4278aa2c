"""The two ends of a wired lab: ports, addresses, gateways, and what others send there before a test."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface, ip_network
from typing import Final, Literal

from weirlab.base.errors import InputError
from weirlab.base.interrupts import interruptible
from weirlab.base.quoting import quoted
from weirlab.lab import wiring
from weirlab.traffic.spec import FlowEndpoints

LISTEN_S: Final = 3.0
"""Bridges send a BPDU every 2 s (IEEE 802.1Q)."""
_ALL_PROTOCOLS: Final = 0x0003
_OUTGOING: Final = 4
_SNAP_BYTES: Final = 64
_SPANNING_TREE: Final = frozenset({"01:80:c2:00:00:00", "01:80:c2:00:00:08", "01:00:0c:cc:cc:cd"})
"""IEEE 802.1D and 802.1ad bridges, and Cisco's PVST+."""
_CISCO: Final = "01:00:0c:cc:cc:cc"
_LLDP: Final = 0x88CC


@dataclass
class Neighbourhood:
    """What was heard at one port."""

    switches: set[str] = field(default_factory=set)
    """How switches make themselves known: ``spanning tree``, ``LLDP``, ``CDP``."""
    hosts: set[str] = field(default_factory=set)
    """Source MAC addresses of everything else."""

    def take(self, frame: bytes) -> None:
        """Note one frame."""
        destination, source = _mac(frame[:6]), _mac(frame[6:12])
        if destination in _SPANNING_TREE:
            self.switches.add("spanning tree")
        elif destination == _CISCO:
            self.switches.add("CDP")
        elif int.from_bytes(frame[12:14]) == _LLDP:
            self.switches.add("LLDP")
        else:
            self.hosts.add(source)

    def objection(self, own: Iterable[str], of_device: int = 1) -> str:
        """Why test traffic should not be sent here; empty if only the device is.

        ``own`` are MAC addresses of the tester; the device may have ``of_device`` of its own.
        """
        others = sorted(self.hosts - set(own))
        if self.switches:
            return f"a switch is connected to it ({', '.join(sorted(self.switches))})"
        if len(others) > of_device:
            shown = ", ".join(others[:4])
            return f"{len(others)} hosts are connected to it ({shown}{', ...' if len(others) > 4 else ''})"
        return ""


def open_socket(name: str) -> socket.socket:
    """A socket that hears every frame that arrives at a port of the calling thread's namespace."""
    heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    heard.bind((name, _ALL_PROTOCOLS))
    heard.setblocking(False)
    return heard


@interruptible
def listen(sockets: Mapping[str, socket.socket], length_s: float) -> dict[str, Neighbourhood]:
    """What arrives at each of ``sockets`` during that time."""
    found = {name: Neighbourhood() for name in sockets}
    names = {opened: name for name, opened in sockets.items()}
    end_s = time.monotonic() + length_s
    while (left_s := end_s - time.monotonic()) > 0:
        ready, _, _ = select.select(list(names), [], [], left_s)
        for opened in ready:
            frame, (_, _, kind, *_) = opened.recvfrom(_SNAP_BYTES)
            if kind != _OUTGOING and len(frame) >= 14:
                found[names[opened]].take(frame)
    return found


def _mac(octets: bytes) -> str:
    return octets.hex(":")


BENCHMARKING: Final = (IPv4Network("198.18.0.0/15"), IPv6Network("2001:2::/48"))
"""Networks set aside for tests of devices: RFC 2544 appendix C.2.2 and RFC 5180 section 8."""

_USUAL: Final = (
    (wiring.TX0.ipv4, wiring.RX0.ipv4, wiring.IN0.ipv4, wiring.OUT0.ipv4),
    (wiring.TX0.ipv6, wiring.RX0.ipv6, wiring.IN0.ipv6, wiring.OUT0.ipv6),
)
"""For each IP version, the addresses of sender and receiver and of the device's two ports."""

WiredMode = Literal["routed", "bridge"]

_PORTS: Final = (1024, 65535)


@dataclass(frozen=True)
class WiredEnd:
    """One end; addresses by IP version."""

    port: str
    """Name of the port."""
    addresses: Mapping[int, str]
    """With prefix length, e.g. ``198.18.0.2/24``."""
    gateways: Mapping[int, str]
    """The device's addresses on this side, without prefix length."""

    @property
    def host(self) -> str:
        """The IPv4 address without prefix length."""
        return self.addresses[4].partition("/")[0]


@dataclass(frozen=True)
class WiredSetting:
    """Which ports, how the device forwards between them, and what the user permits."""

    ends: tuple[WiredEnd, WiredEnd]
    mode: WiredMode = "routed"
    take: bool = False
    """Whether addresses of the ports are given up for the duration of the test."""
    shared: bool = False
    """Whether switches and other hosts may be connected to the ports."""
    allow: Sequence[str] = ()
    """Networks outside the benchmarking ones to which test traffic may go."""
    listen_s: float = LISTEN_S
    """How long to listen for switches and other hosts."""
    device_threads: Sequence[int] = ()
    """Kernel threads that do the device's work, if that runs on this machine."""


def wired_ends(
    between: Sequence[str], addresses: Sequence[str] = (), gateways: Sequence[str] = ()
) -> tuple[WiredEnd, WiredEnd]:
    """The ends at the ports ``between``.

    ``addresses`` and ``gateways`` are pairs for the first and the second port: one pair, or one of each IP
    version. An IP version that is left out has the addresses of the lab in namespaces.

    Raises
    ------
    InputError
        The ports are the same, an address cannot be read, or a gateway is not in its port's network.
    """
    if len(between) != 2:
        raise InputError("name two ports, the sender's and the receiver's: --between A B")
    if between[0] == between[1]:
        raise InputError(f"{between[0]} is named twice: a device is tested between two different ports")
    own = _pairs(addresses, "addresses", "198.18.0.2/24,198.19.0.2/24", prefix=True)
    next_hops = _pairs(gateways, "gateways", "198.18.0.1,198.19.0.1", prefix=False)
    for version, pair in own.items():
        if version not in next_hops and pair != _usual(_USUAL[version == 6][:2]):
            raise InputError(
                f"the IPv{version} addresses {', '.join(pair)} need gateways: the device's addresses in "
                "the networks of the first and the second port"
            )
    found = []
    for side, port in enumerate(between):
        mine: dict[int, str] = {}
        theirs: dict[int, str] = {}
        for version, usual in zip((4, 6), _USUAL, strict=True):
            mine[version] = own[version][side] if version in own else usual[side]
            gateway = next_hops[version][side] if version in next_hops else usual[2 + side]
            theirs[version] = gateway.partition("/")[0]
            network = ip_interface(mine[version]).network
            if ip_address(theirs[version]) not in network:
                raise InputError(f"the gateway {theirs[version]} is not in the network {network} of {port}")
            if theirs[version] == mine[version].partition("/")[0]:
                raise InputError(f"{theirs[version]} cannot be both the address of {port} and its gateway")
        found.append(WiredEnd(port, mine, theirs))
    return found[0], found[1]


def endpoints(ends: tuple[WiredEnd, WiredEnd], version: int) -> FlowEndpoints | None:
    """Where flows come from and go to: the ends' own addresses, if one of them is outside the benchmarking
    networks; None for the usual addresses of test traffic."""
    source, destination = (end.addresses[version].partition("/")[0] for end in ends)
    if all(is_reserved(address) for address in (source, destination)):
        return None
    return FlowEndpoints((source, source), (destination, destination), _PORTS, (7, 7))


def is_reserved(address: str) -> bool:
    """Whether ``address`` is in a network for tests."""
    return any(ip_address(address) in network for network in BENCHMARKING)


def refuse_others(ends: tuple[WiredEnd, WiredEnd], version: int, allowed: Iterable[str]) -> None:
    """Raise ``InputError`` if test traffic would leave for an address outside the benchmarking networks and
    those ``allowed`` (RFC 6815: never a production network)."""
    networks = [*BENCHMARKING, *read_networks(allowed)]
    for end in ends:
        address = ip_address(end.addresses[version].partition("/")[0])
        if endpoints(ends, version) is not None and not any(address in network for network in networks):
            raise InputError(
                f"test traffic would go to {address} at {end.port}, outside the networks for tests "
                f"(198.18.0.0/15 and 2001:2::/48). If that network is yours and carries nothing else: "
                f"--allow {ip_interface(end.addresses[version]).network}"
            )


def read_networks(texts: Iterable[str]) -> list[IPv4Network | IPv6Network]:
    """Networks such as ``10.1.0.0/16``; raises ``InputError``."""
    found = []
    for text in texts:
        try:
            found.append(ip_network(text, strict=False))
        except ValueError:
            raise InputError(f"{quoted(text)} is no network; write it as 10.1.0.0/16") from None
    return found


def _usual(pair: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(ip_interface(text)) for text in pair)


def _pairs(texts: Sequence[str], what: str, example: str, *, prefix: bool) -> dict[int, tuple[str, ...]]:
    """By IP version, the text for the first and the second port."""
    if len(texts) % 2:
        raise InputError(f"{what}: give one for each port, e.g. {example}")
    found: dict[int, tuple[str, ...]] = {}
    for pair in zip(texts[::2], texts[1::2], strict=True):
        try:
            if prefix and not all("/" in text for text in pair):
                raise ValueError
            read = [ip_interface(text) if prefix else ip_address(text) for text in pair]
        except ValueError:
            raise InputError(f"{what}: {quoted(','.join(pair))} not understood; e.g. {example}") from None
        if read[0].version != read[1].version or read[0].version in found:
            raise InputError(f"{what}: give two of the same IP version, one for each port, e.g. {example}")
        if read[0] == read[1]:
            raise InputError(f"{what}: {read[0]} is given for both ports")
        found[read[0].version] = tuple(str(each) for each in read)
    return found
