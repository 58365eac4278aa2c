"""Single packets sent through a device, and what they look like where they arrive.

They find out what a device does to packets before it is measured: which arrive, and with which addresses and
ports. Packets are sent and received by packet sockets, at interfaces that nothing else uses meanwhile.

Sender and receiver are packet sockets at the other ends of the device's cables. Frames that reach those ends
are addressed to others, so that the namespace does not receive them once more.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.extras import engine_needed
from weirlab.lab import wiring
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.traffic.flows import FlowAddresses
from weirlab.traffic.plan import DeparturePlan, single_packets

Macs = tuple[bytes, bytes]
"""Source and destination of frames."""

_EVERYTHING: Final = 0x0003
"""ETH_P_ALL of linux/if_ether.h."""
_OUTGOING: Final = 4
"""PACKET_OUTGOING of linux/if_packet.h."""
_SO_RCVBUFFORCE: Final = 33
_BUFFER_BYTES: Final = 1 << 24
_PROBE: Final = struct.Struct(">HI")
"""Beginning of the probe (``bpf/weir.h``): magic number and flow."""
_PROBE_BYTES: Final = 18
_MAGIC: Final = 0x5765
"""Of frames that are not sent by the engine (``crates/engine/src/frames.rs``)."""
_ETHERNET_BYTES: Final = 14
_LENGTHS: Final = {0x0800: (4, 12), 0x86DD: (16, 8)}
"""By EtherType: bytes of an address, and where the source address begins in the header."""
_AT_ONCE: Final = 64
_QUIET_S: Final = 0.2
_MOST_S: Final = 5.0


class FourTuple(NamedTuple):
    """Addresses and ports of a packet; addresses are 4 or 16 bytes."""

    src_ip: bytes
    dst_ip: bytes
    src_port: int
    dst_port: int


def socket_at(interface: str) -> socket.socket:
    """A packet socket at the interface of the calling thread's namespace."""
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        found.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        found.bind((interface, _EVERYTHING))
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found


@dataclass(frozen=True)
class DevicePorts:
    """Two interfaces with a device in between."""

    near: socket.socket
    far: socket.socket
    forward: Macs
    back: Macs

    @classmethod
    def between(
        cls, near: tuple[Namespace, str], far: tuple[Namespace, str], forward: Macs, back: Macs
    ) -> DevicePorts:
        """The crossing between interfaces in two namespaces."""
        (here, name), (there, other) = near, far
        first = here.call(lambda: socket_at(name))
        try:
            return cls(first, there.call(lambda: socket_at(other)), forward, back)
        except BaseException:
            first.close()
            raise

    def close(self) -> None:
        """May be called twice."""
        self.near.close()
        self.far.close()

    def arrivals(
        self, plan: DeparturePlan, flows: npt.NDArray[np.int64], *, back: bool = False
    ) -> dict[int, FourTuple]:
        """Send one packet of each of ``flows``, from the far side if ``back``: the ends of those that arrive,
        by flow."""
        if not len(flows):
            return {}
        source, sink = (self.far, self.near) if back else (self.near, self.far)
        sent = _frames(single_packets(plan, flows), self.forward, self.back)
        found: dict[int, FourTuple] = {}
        _drain(sink)
        for i in range(0, len(sent), _AT_ONCE):
            for frame in sent[i : i + _AT_ONCE]:
                _send(source, frame)
            found |= _read(sink, plan)
        end_s = time.monotonic() + _MOST_S
        while len(found) < len(sent) and time.monotonic() < end_s:
            if not select.select([sink], [], [], _QUIET_S)[0]:
                break
            found |= _read(sink, plan)
        return found


def directions(plan: DeparturePlan) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The numbers of the flows from the sender's side, and of those from the receiver's."""
    every = np.arange(len(plan.flows), dtype=np.int64)
    back = np.zeros(len(every), dtype=np.bool_) if plan.media is None else plan.media.flows.back
    return every[~back], every[back]


def ends_of(flows: FlowAddresses, which: npt.NDArray[np.int64], ip: int) -> list[FourTuple]:
    """Addresses and ports of some flows."""
    size = 4 if ip == 4 else 16
    return [
        FourTuple(
            flows.src_ip[i, :size].tobytes(),
            flows.dst_ip[i, :size].tobytes(),
            int(flows.src_port[i]),
            int(flows.dst_port[i]),
        )
        for i in which.tolist()
    ]


def answers_follow(plan: DeparturePlan, arrivals: Mapping[int, FourTuple]) -> DeparturePlan:
    """``plan`` with answers that go to where the packets of their call came from when they arrived.

    An endpoint of symmetric RTP does that (RFC 4961). Flows of which nothing arrived stay as they are.
    """
    forward, back = directions(plan)
    answered = {
        FourTuple(ends.dst_ip, ends.src_ip, ends.dst_port, ends.src_port): flow
        for flow, ends in zip(forward.tolist(), ends_of(plan.flows, forward, plan.ip), strict=True)
    }
    flows = replace(plan.flows, **{name: values.copy() for name, values in vars(plan.flows).items()})
    for flow, ends in zip(back.tolist(), ends_of(plan.flows, back, plan.ip), strict=True):
        arrived = arrivals.get(answered.get(ends, -1))
        if arrived is not None:
            size = len(arrived.src_ip)
            flows.src_ip[flow, :size] = np.frombuffer(arrived.dst_ip, dtype=np.uint8)
            flows.dst_ip[flow, :size] = np.frombuffer(arrived.src_ip, dtype=np.uint8)
            flows.src_port[flow], flows.dst_port[flow] = arrived.dst_port, arrived.src_port
    return replace(plan, flows=flows)


def answers_astray(
    plan: DeparturePlan, before: Mapping[int, FourTuple], after: Mapping[int, FourTuple]
) -> int:
    """To how many flows answers, which followed ``before``, went elsewhere than these come from ``after``."""
    forward, _ = directions(plan)
    went = dict(zip(forward.tolist(), ends_of(plan.flows, forward, plan.ip), strict=True)) | dict(before)
    return sum(went[flow] != ends for flow, ends in after.items())


def _frames(plan: DeparturePlan, forward: Macs, back: Macs) -> list[bytes]:
    with engine_needed():
        from weirlab import _engine
    raw = _engine.frames(plan, forward, back)
    content, lengths = raw["bytes"].tobytes(), raw["length"].tolist()
    starts = itertools.accumulate(lengths, initial=0)
    return [content[start : start + length] for start, length in zip(starts, lengths, strict=False)]


def _send(source: socket.socket, frame: bytes) -> None:
    while True:
        try:
            source.send(frame)
            return
        except BlockingIOError:
            select.select([], [source], [], _QUIET_S)


def _drain(sink: socket.socket) -> None:
    for _ in _packets(sink):
        pass


def _read(sink: socket.socket, plan: DeparturePlan) -> dict[int, FourTuple]:
    """What has arrived so far."""
    return dict(found for frame in _packets(sink) if (found := _parse(frame, tail=plan.media is not None)))


def _packets(sink: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            frame, address = sink.recvfrom(1 << 16)
        except BlockingIOError:
            return
        if address[2] != _OUTGOING:
            yield frame


def _parse(frame: bytes, *, tail: bool) -> tuple[int, FourTuple] | None:
    """The flow of a probe and its ends; None for any other frame."""
    if len(frame) < _ETHERNET_BYTES + 20:
        return None
    size, start = _LENGTHS.get(int.from_bytes(frame[12:14], "big"), (0, 0))
    if not size:
        return None
    packet = frame[_ETHERNET_BYTES:]
    length = (packet[0] & 15) * 4 if size == 4 else 40
    protocol = packet[9] if size == 4 else packet[6]
    segment = packet[length:]
    if len(segment) < 20:
        return None
    if tail:
        total = int.from_bytes(segment[4:6], "big")
        probe = segment[total - _PROBE_BYTES : total]
    else:
        probe = segment[8 if protocol == socket.IPPROTO_UDP else (segment[12] >> 4) * 4 :]
    if len(probe) < _PROBE_BYTES:
        return None
    magic, flow = _PROBE.unpack_from(probe)
    source = start + size
    ports = struct.unpack_from(">HH", segment)
    ends = FourTuple(packet[start:source], packet[source : source + size], *ports)
    return (flow, ends) if magic == _MAGIC else None


NEAR: Final = Port("weirtx0", "02:77:65:69:72:11", "", "")
FAR: Final = Port("weirrx0", "02:77:65:69:72:12", "", "")
"""Ends of the cables, with other addresses than the neighbours that the device knows."""

_PLACEHOLDERS: Final = ("dummy", "bridge")
"""Kinds of interfaces that carry nothing, the first one that the kernel has."""


@contextmanager
def replica(
    ports: tuple[Port, Port], networks: tuple[Sequence[str], Sequence[str]], others: Iterable[str]
) -> Iterator[DevicePorts]:
    """A device that forwards between ``ports``, behind which ``networks`` lie; also has interfaces called
    ``others``. For use in :func:`~weirlab.lab.linux.namespace.in_private`."""
    write_sysctls(wiring.ROUTER)
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for end, port in zip((NEAR, FAR), ports, strict=True):
            wiring.make_end(end, port, here)
            interface.set_offloads(port.name, gro=False)
    finally:
        os.close(here)
    interface.bring_up([NEAR, FAR], [])
    sides = zip(ports, (wiring.TX0, wiring.RX0), networks, strict=True)
    interface.bring_up(
        ports, [route for port, neighbour, there in sides for route in wiring.behind(neighbour, port, there)]
    )
    make_placeholders(others)
    into, out_of = (wiring.mac_bytes(port.mac) for port in ports)
    sender, receiver = wiring.mac_bytes(wiring.TX0.mac), wiring.mac_bytes(wiring.RX0.mac)
    with (
        socket_at(NEAR.name) as near,
        closing(DevicePorts(near, socket_at(FAR.name), (sender, into), (receiver, out_of))) as crossing,
    ):
        yield crossing


def make_placeholders(names: Iterable[str]) -> None:
    """Make interfaces with these names in the calling thread's namespace, except those that exist.

    Rules that name an interface by ``iif``, ``oif`` or as a device can only be loaded if there is one. Names
    that no interface can have are left out: loading the rules reports them.
    """
    for name in names:
        for kind in _PLACEHOLDERS:
            with suppress(NetlinkError):
                interface.make(name, kind)
                break
