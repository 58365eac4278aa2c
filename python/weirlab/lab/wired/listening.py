"""What others send at a port before anything of ours is sent: switches, and hosts besides the device."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from weirlab.base.interrupts import interruptible

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
