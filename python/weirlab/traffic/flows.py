"""Addresses and ports of the flows that share a load, and the receive queues that take them in (RSS).

Network cards compute the Toeplitz hash of addresses and ports, and look its last bits up in a table of
queues (Microsoft, "RSS hashing functions"; Linux, Documentation/networking/scaling.rst). Here the key is
that of Microsoft's examples, which many drivers have as well, and the table gives all queues the same number
of entries.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.traffic.places import Places, flow_groups
from weirlab.traffic.spec import FlowEndpoints, Flows

PROBE_BYTES: Final = 18
"""Magic, flow, sequence number and send time behind the transport header."""

MAX_FLOWS: Final = 1 << 22

DESTINATION_PORT: Final = 7
FIRST_SOURCE_PORT: Final = 0xC020
"""Both ports as in the test frames of RFC 2544, appendix C.2.6.4."""

# The first and last /24 of each /16 stay free for the addresses of the lab's routers and hosts.
HOSTS: Final = 254 * 254
"""On each side."""
_HOSTS_OF_PLACE: Final = 14 * 254
_PORTS: Final = 65536 - 1024

_IP_BYTES: Final = {4: 20, 6: 40}
_L4_BYTES: Final = {"udp": 8, "tcp": 20}
Side = Literal["src", "dst"]

_SOURCES: Final[dict[int, tuple[str, str]]] = {
    4: ("198.18.1.1", "198.18.254.254"),
    6: ("2001:2:0:1::101", "2001:2:0:1::fefe"),
}
_LAST_BITS: Final = 0xFFFFFFFF

_V4_NET: Final[dict[Side, bytes]] = {"src": bytes([198, 18]), "dst": bytes([198, 19])}
_V6_NET: Final[dict[Side, bytes]] = {
    "src": bytes.fromhex("20010002000000010000000000000000"),
    "dst": bytes.fromhex("20010002000000020000000000000000"),
}


@dataclass(frozen=True)
class NewFlows:
    """Sources of flows with one packet each: addresses count down, then ports.

    ``host`` is the last 32 bits of the first flow's source address, ``port`` its source port; there are
    ``hosts`` addresses and ``ports`` ports.
    """

    hosts: int
    host: int
    ports: int
    port: int


@dataclass(frozen=True)
class FlowAddresses:
    """One row per flow, in flow order; only those of calls in one flow share all of addresses and ports.

    ``src_ip`` and ``dst_ip`` have shape (n, 16) in network order, IPv4 in the first 4 bytes;
    ``src_port`` and ``dst_port`` have shape (n,).
    """

    src_ip: npt.NDArray[np.uint8]
    dst_ip: npt.NDArray[np.uint8]
    src_port: npt.NDArray[np.uint16]
    dst_port: npt.NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.src_port)


def min_frame_bytes(flows: Flows) -> int:
    """Smallest frame, FCS included, with room for all headers and the probe."""
    ethernet, fcs = 14, 4
    return ethernet + _IP_BYTES[flows.ip] + _L4_BYTES[flows.l4] + PROBE_BYTES + fcs


def describe_headers(flows: Flows) -> str:
    """For messages, e.g. ``a UDP/IPv4 probe``."""
    return f"a {flows.l4.upper()}/IPv{flows.ip} probe"


def table(flows: Flows, places: Places = (), endpoints: FlowEndpoints | None = None) -> FlowAddresses:
    """Addresses and ports of every flow: from the benchmarking ranges, or between ``endpoints``.

    ``advance`` counts the source address up and, once all 64,516 are used, the source
    port; ``random`` draws source address, destination address and source port. With
    several ``places`` the destinations of each lie in its own network, and there are at
    least as many flows as places (:func:`weirlab.traffic.places.flow_groups`).
    """
    if not 1 <= flows.count <= MAX_FLOWS:
        raise InputError(f"{flows.count} flows requested; between 1 and {MAX_FLOWS} can be sent")
    if endpoints is not None:
        return _between(flows, endpoints)
    several = len(places) > 1
    group = flow_groups(places, flows.count) if several else np.zeros(flows.count, dtype=np.int64)
    count, hosts = len(group), _HOSTS_OF_PLACE if several else HOSTS
    if flows.order == "advance":
        index = np.arange(count, dtype=np.int64)
        src, dst = index % HOSTS, np.zeros_like(index)
        port = (FIRST_SOURCE_PORT - 1024 + index // HOSTS) % _PORTS
    else:
        key = _distinct(count, HOSTS * hosts * _PORTS, np.random.default_rng(flows.seed))
        key, port = np.divmod(key, _PORTS)
        src, dst = np.divmod(key, hosts)
    return FlowAddresses(
        src_ip=host_addresses("src", src, flows.ip),
        # The networks of places are 16 apart in the second to last byte.
        dst_ip=host_addresses("dst", dst + 16 * 254 * group, flows.ip),
        src_port=(1024 + port).astype(np.uint16),
        dst_port=np.full(count, DESTINATION_PORT, dtype=np.uint16),
    )


def new_flows(flows: Flows, endpoints: FlowEndpoints | None = None) -> NewFlows:
    """Sources of new flows, from the other end of the addresses and ports than those of :func:`table`."""
    addresses, ports = _SOURCES[flows.ip], (1024, 65535)
    if endpoints is not None:
        addresses, ports = endpoints.source, endpoints.source_port
    host = int(ipaddress.ip_address(addresses[1])) & _LAST_BITS
    return NewFlows(min(hosts_between(addresses), host + 1), host, ports[1] - ports[0] + 1, ports[1])


def with_new(known: FlowAddresses, ip: Literal[4, 6]) -> FlowAddresses:
    """``known`` and a last flow that stands for new ones: the bytes that differ are zero."""
    src_ip = known.src_ip[-1:].copy()
    src_ip[:, slice(0, 4) if ip == 4 else slice(12, 16)] = 0
    return FlowAddresses(
        src_ip=np.concatenate([known.src_ip, src_ip]),
        dst_ip=np.concatenate([known.dst_ip, known.dst_ip[:1]]),
        src_port=np.append(known.src_port, np.uint16(0)),
        dst_port=np.append(known.dst_port, known.dst_port[:1]),
    )


def room(endpoints: FlowEndpoints) -> int:
    """How many different flows there can be between ``endpoints``."""
    return math.prod(_sizes(endpoints))


def _sizes(endpoints: FlowEndpoints) -> tuple[int, int, int, int]:
    """The number of source addresses, source ports, destination addresses and destination ports."""
    (first_port, last_port), (first_to, last_to) = endpoints.source_port, endpoints.destination_port
    return (
        hosts_between(endpoints.source),
        last_port - first_port + 1,
        hosts_between(endpoints.destination),
        last_to - first_to + 1,
    )


def _between(flows: Flows, endpoints: FlowEndpoints) -> FlowAddresses:
    """Flows between ``endpoints``: source addresses count up, then source ports, destinations and ports."""
    sizes = _sizes(endpoints)
    most = math.prod(sizes)
    if flows.count > most:
        raise InputError(
            f"{flows.count:,} flows requested, but the rule that they must match has room for only {most:,} "
            "different pairs of addresses and ports; use fewer flows, or another rule"
        )
    if flows.order == "advance":
        key = np.arange(flows.count, dtype=np.int64)
    else:
        key = _distinct(flows.count, most, np.random.default_rng(flows.seed))
    digits = []
    for size in sizes:
        key, digit = np.divmod(key, size)
        digits.append(digit)
    src, port, dst, to = digits
    first_port, first_to = endpoints.source_port[0], endpoints.destination_port[0]
    return FlowAddresses(
        src_ip=host_addresses("src", src, flows.ip, endpoints),
        dst_ip=host_addresses("dst", dst, flows.ip, endpoints),
        src_port=(first_port + port).astype(np.uint16),
        dst_port=(first_to + to).astype(np.uint16),
    )


def hosts_between(addresses: tuple[str, str]) -> int:
    """Number of addresses from the first to the last."""
    first, last = (int(ipaddress.ip_address(address)) for address in addresses)
    return last - first + 1


def _distinct(n: int, below: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """``n`` different integers in random order."""
    values = np.empty(0, dtype=np.int64)
    while len(values) < n:
        values = np.concatenate([values, rng.integers(below, size=n - len(values), dtype=np.int64)])
        _, first = np.unique(values, return_index=True)
        values = values[np.sort(first)]
    return values


def host_addresses(
    side: Side, host: npt.NDArray[np.int64], ip: int, endpoints: FlowEndpoints | None = None
) -> npt.NDArray[np.uint8]:
    """Host ``h`` is ``<net>.x.y`` with x and y counting from 1 to 254, or the h-th from the first of
    ``endpoints``, from 0."""
    if endpoints is not None:
        return _counted(endpoints.source if side == "src" else endpoints.destination, host)
    rows = np.zeros((len(host), 16), dtype=np.uint8)
    if ip == 4:
        rows[:, :2] = np.frombuffer(_V4_NET[side], dtype=np.uint8)
        place = 2
    else:
        rows[:] = np.frombuffer(_V6_NET[side], dtype=np.uint8)
        place = 14
    rows[:, place] = 1 + host // 254
    rows[:, place + 1] = 1 + host % 254
    return rows


def _counted(addresses: tuple[str, str], host: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The ``host``-th address from the first one; raises ``InputError`` beyond the last."""
    first, room = ipaddress.ip_address(addresses[0]), hosts_between(addresses)
    if len(host) and int(host.max()) >= room:
        raise InputError(
            f"{int(host.max()) + 1:,} hosts are needed, but the rule that they must match has room for only "
            f"{room:,}, {addresses[0]} to {addresses[1]}; use less traffic, or another rule"
        )
    rows = np.zeros((len(host), 16), dtype=np.uint8)
    each, which = np.unique(host, return_inverse=True)
    packed = [(first + int(h)).packed for h in each]
    known = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), -1)
    rows[:, : known.shape[1]] = known[which]
    return rows


U32 = npt.NDArray[np.uint32]

_KEY: Final = bytes.fromhex(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
)
_ENTRIES: Final = 128
"""Of the table."""


def queues(flows: FlowAddresses, ip: Literal[4, 6], count: int) -> npt.NDArray[np.int64]:
    """The queue of each flow, from 0; shape (flows,). There are ``count`` queues."""
    if count == 1:
        return np.zeros(len(flows), dtype=np.int64)
    return (toeplitz(flows, ip) % np.uint32(_ENTRIES) % np.uint32(count)).astype(np.int64)


def shares(flows: FlowAddresses, ip: Literal[4, 6], count: int) -> tuple[float, ...]:
    """The share of the flows, and so of packets that flows send in turn, in each of ``count`` queues."""
    found = np.bincount(queues(flows, ip, count), minlength=count)
    return tuple((found / len(flows)).tolist())


def toeplitz(flows: FlowAddresses, ip: Literal[4, 6]) -> U32:
    """The hash of each flow's addresses and ports; shape (flows,)."""
    width = 4 if ip == 4 else 16
    ports = np.stack([flows.src_port, flows.dst_port], axis=1).astype(">u2").view(np.uint8)
    fields = np.concatenate([flows.src_ip[:, :width], flows.dst_ip[:, :width], ports], axis=1)
    key = np.unpackbits(np.frombuffer(_KEY, dtype=np.uint8))
    found = np.zeros(len(flows), dtype=np.uint32)
    for place in range(8 * fields.shape[1]):
        window = np.packbits(key[place : place + 32]).view(">u4")[0]
        is_set = fields[:, place // 8] & (0x80 >> place % 8) != 0
        found[is_set] ^= np.uint32(window)
    return found
