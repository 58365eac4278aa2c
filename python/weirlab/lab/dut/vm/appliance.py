"""The user's disk image as the device: a router or firewall that is already configured."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from weirlab.base.errors import InputError, LabError
from weirlab.base.files import Inputs
from weirlab.base.interrupts import interruptible, shielded
from weirlab.base.quoting import printable
from weirlab.lab import wiring
from weirlab.lab.base import Driver, Site
from weirlab.lab.dut.vm import site as sites
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.vm import qemu
from weirlab.lab.vm.guest import Guest
from weirlab.lab.vm.qemu import Boot
from weirlab.records import RuleSetup

_MAGIC: Final = {b"QFI\xfb": "qcow2", b"KDMV": "vmdk", b"vhdxfile": "vhdx"}
_LONGEST: Final = max(map(len, _MAGIC))
_MEMORY_MB: Final = 2048


def format_of(begin: bytes) -> str:
    """QEMU's name for the format of an image, from its first bytes; raw if they are unknown."""
    return next((name for magic, name in _MAGIC.items() if begin.startswith(magic)), "raw")


def boot(path: Path, inputs: Inputs) -> Boot:
    """Boot from the image, which is one file; what the guest writes is discarded.

    Raises ``InputError`` if it cannot be read, or may not be.
    """
    fd = inputs.open(path, "a disk image")
    try:
        begin = os.pread(fd, _LONGEST, 0)
    finally:
        os.close(fd)
    name = str(path.absolute()).replace(",", ",,")
    options = ["-drive", f"file={name},format={format_of(begin)},if=ide,snapshot=on"]
    return Boot(options, (path,), has_agent=False, memory_mb=_MEMORY_MB)


BOOT_S: Final = 300.0
"""Time limit for the guest to start forwarding."""

_SETTLE_S: Final = 15.0
_ANSWER_S: Final = 0.1
_PORT: Final = 9
_LAST: Final = ("198.18.255.254", "198.19.255.254")
"""The last addresses of test traffic: behind a route, like all of it, and not on the guest's own links."""
_ETHERTYPE: Final = 0x0800
_EVERY: Final = 0x0003
"""ETH_P_ALL. A socket for one protocol would only see frames after tc, which hands them over before that."""
_UDP: Final = 17


class Appliance(Driver):
    """A virtual machine that boots from the user's disk image and forwards between its two interfaces.

    A packet that it forwards shows that it is up.

    Parameters
    ----------
    path
        The image. It is not changed: what the guest writes is discarded.
    """

    name = "image"
    forwards = True
    takes_turns = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = [path]
        self._boot: Boot | None = None
        self._guest: Guest | None = None
        self._netns = ""
        self._taps: Sequence[str] = ()
        self._tokens = 0

    def open_files(self, inputs: Inputs) -> None:
        self._boot = boot(self.path, inputs)

    def check(self) -> list[str]:
        return qemu.missing()

    def start(self, site: Site) -> Sequence[int]:
        assert self._boot is not None
        ports = [(port, wiring.MTU_BYTES) for port in (site.inward, site.outward)]
        nics = sites.plugged(site.netns, ports)
        self._netns, self._taps = site.netns, [nic.tap for nic in nics]
        self._guest = Guest("the virtual machine", Namespace(site.netns), site.cpu, self._boot, nics)
        self._guest.switch_on()
        try:
            self._wait(BOOT_S)
        except LabError:
            if not self._guest.starts_without_kvm():
                raise
            self._wait(BOOT_S)
        self._guest.is_up()
        return self._guest.machine.processes

    def check_alive(self) -> None:
        if self._guest is not None:
            self._guest.check()

    def settle(self) -> None:
        self._wait(_SETTLE_S)

    @shielded
    def stop(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.power_off()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False) != RuleSetup():
            raise InputError(
                "the device 'image' has its own rules: only matching position 0, stateless, is possible"
            )

    def listing(self) -> list[str]:
        raise InputError(sites.NO_SESSION)

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": sites.version(),
            "layout": "a virtual machine from a disk image",
            "image": printable(self.path.name),
            "image_bytes": self.path.stat().st_size,
            **sites.accelerated([] if self._guest is None else [self._guest]),
        }

    @interruptible
    def _wait(self, patience_s: float) -> None:
        """Wait until a packet sent now comes out at the other side."""
        assert self._guest is not None
        end_s = time.monotonic() + patience_s
        with _ends(Namespace(self._netns), self._taps) as (into, out_of):
            while not self._passes(into, out_of):
                self._guest.check()
                if time.monotonic() > end_s:
                    raise LabError(
                        f"the virtual machine forwarded nothing for {patience_s:g} s from "
                        f"{wiring.SENDERS[0]} at its first interface to {wiring.RECEIVERS[0]} via "
                        f"{wiring.RX0.address} at its second; {self._guest.console()}"
                    )

    def _passes(self, into: socket.socket, out_of: socket.socket) -> bool:
        self._tokens += 1
        token = b"weir" + self._tokens.to_bytes(8, "big")
        into.send(probe(token))
        try:
            while token not in out_of.recv(wiring.MTU_BYTES):
                # Another frame that the guest sends.
                pass
        except TimeoutError:
            return False
        return True


def probe(token: bytes) -> bytes:
    """A frame of test traffic for the device: UDP from sender to receiver."""
    macs = wiring.mac_bytes(wiring.IN0.mac) + wiring.mac_bytes(wiring.TX0.mac)
    ends = [socket.inet_aton(address) for address in _LAST]
    length = 8 + len(token)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, _UDP, 0) + b"".join(ends)
    header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
    # A checksum of 0 means none (RFC 768).
    return macs + struct.pack("!H", _ETHERTYPE) + header + struct.pack("!4H", _PORT, _PORT, length, 0) + token


def _checksum(header: bytes) -> int:
    """Internet checksum (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@contextmanager
def _ends(namespace: Namespace, taps: Sequence[str]) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Packet sockets at the taps: one sends to the guest, and the other receives what the guest sends."""

    def packets() -> socket.socket:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)

    with ExitStack() as opened:
        found = []
        for tap in taps:
            found.append(opened.enter_context(namespace.call(packets)))
            found[-1].bind((tap, _EVERY))
            found[-1].settimeout(_ANSWER_S)
        yield found[0], found[1]
