"""Devices that are one virtual machine: a packet filter in Weir's own, or the user's disk image."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from weirlab.base.errors import InputError, LabError
from weirlab.base.files import Inputs
from weirlab.base.interrupts import interruptible
from weirlab.base.quoting import printable, quoted
from weirlab.lab import wiring
from weirlab.lab.base import Site
from weirlab.lab.dut import nftables, tool
from weirlab.lab.dut.datapaths import ingress
from weirlab.lab.dut.nftables import Layout
from weirlab.lab.dut.rules import check, check_none, check_single, check_stateless
from weirlab.lab.dut.vm import site as sites
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines import qemu
from weirlab.lab.machines.guest import Guest
from weirlab.lab.machines.qemu import Boot
from weirlab.records import RuleSetup

KIND: Final = "vm"
USUAL: Final = "nftables"

_LAYOUTS: Final[Mapping[str, Layout]] = {
    "nftables": "linear",
    "nftables-set": "set",
    "nftables-vmap": "vmap",
    "flowtable": "linear",
}
FLOWER: Final = "tc-flower"
KINDS: Final = ("forward", *_LAYOUTS, FLOWER)
"""The filters that the guest supports."""

_WORDS: Final = {
    "forward": "no filter",
    "flowtable": "nftables, linear rules in front of a flowtable",
    FLOWER: "filters of tc flower, linear",
}

_MAGIC: Final = {b"QFI\xfb": "qcow2", b"KDMV": "vmdk", b"vhdxfile": "vhdx"}
_LONGEST: Final = max(map(len, _MAGIC))
_MEMORY_MB: Final = 2048


class VirtualFilter(sites.VirtualDriver):
    """One virtual machine that forwards between its two interfaces, behind the rules of nftables or none.

    Parameters
    ----------
    kind
        The filter, one of :data:`KINDS`; None for nftables.

    Raises
    ------
    InputError
        There is no such filter.
    """

    def __init__(self, kind: str | None = None) -> None:
        self.kind = USUAL if kind is None else kind
        if self.kind not in KINDS:
            raise InputError(
                f"the device 'vm' has no filter {quoted(self.kind)}; there are {', '.join(KINDS)}"
            )
        self.name = f"{KIND}:{self.kind}"
        self._ports: Mapping[str, str] = {}

    @property
    def guest(self) -> Guest:
        """The running virtual machine."""
        if not self._guests:
            raise LabError("the virtual machine is not switched on")
        return self._guests[0]

    def start(self, site: Site) -> Sequence[int]:
        self._ports = {"in": site.inward.name, "out": site.outward.name}
        sides = sites.inner_sides(site.inward, site.outward, site.sender, site.receiver)
        guest = sites.between("the virtual machine", site.netns, site.cpu, sides)
        self._guests = [guest]
        guest.switch_on()
        sites.begin(guest, sides)
        return guest.machine.processes

    def settle(self) -> None:
        # It answers when it has nothing more urgent to do, such as forwarding.
        self.guest.do("true")

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check(rules)
        if self.kind == "forward":
            if rules.position or rules.stateful:
                check_none(rules, self.name, "has no rules", "; choose 'vm'")
            return
        if self.kind == FLOWER:
            check_stateless(rules, self.name, ingress.MOST_FILTERS)
            load(self.guest, ingress.filters(rules, [*self._ports.values()]), ingress.COMMAND)
            return
        layout = _LAYOUTS[self.kind]
        if layout != "linear":
            check_single(rules, self.name)
        text = nftables.ruleset(rules, layout)
        if self.kind == "flowtable":
            text += nftables.fast_table(nftables.fast_ports(site))
        load(self.guest, nftables.FLUSH + text)

    def counters(self) -> Mapping[str, int]:
        counted = sites.counted(self.guest, "vm", sites.port_counters(self._ports))
        if self.kind == FLOWER:
            shown = self.guest.do("\n".join(" ".join(ingress.shown(port)) for port in self._ports.values()))
            counted |= {f"vm_{name}": count for name, count in ingress.counted(shown).items()}
        elif self.kind == "flowtable":
            listed = self.guest.do(" ".join(nftables.FAST_LISTING))
            counted[f"vm_{nftables.SLOW}"] = nftables.slow_packets(listed)
        return counted

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": sites.version(),
            "layout": f"a virtual machine with {_WORDS.get(self.kind, self.kind)}",
            **sites.facts(self._guests),
        }


def load(guest: Guest, text: str, command: Sequence[str] = nftables.COMMAND) -> None:
    """Have a program of the guest load the rules in ``text``; ``LabError`` with its message."""
    code, said = guest.run(sites.pipe_script(command, text))
    if code != 0:
        raise LabError(tool.refusal(command[0], said, text, "generated rules"))


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


APPLIANCE_BOOT_S: Final = 300.0
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


class Appliance(sites.VirtualDriver):
    """A virtual machine that boots from the user's disk image and forwards between its two interfaces.

    A packet that it forwards shows that it is up.

    Parameters
    ----------
    path
        The image. It is not changed: what the guest writes is discarded.
    """

    name = "image"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = [path]
        self._boot: Boot | None = None
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
        guest = Guest("the virtual machine", Namespace(site.netns), site.cpu, self._boot, nics)
        self._guests = [guest]
        guest.switch_on()
        try:
            self._wait(APPLIANCE_BOOT_S)
        except LabError:
            if not guest.starts_without_kvm():
                raise
            self._wait(APPLIANCE_BOOT_S)
        guest.is_up()
        return guest.machine.processes

    def settle(self) -> None:
        self._wait(_SETTLE_S)

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_none(rules, self.name, "has its own rules")

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": sites.version(),
            "layout": "a virtual machine from a disk image",
            "image": printable(self.path.name),
            "image_bytes": self.path.stat().st_size,
            **sites.accelerated(self._guests),
        }

    @interruptible
    def _wait(self, patience_s: float) -> None:
        """Wait until a packet sent now comes out at the other side."""
        (guest,) = self._guests
        end_s = time.monotonic() + patience_s
        with _ends(Namespace(self._netns), self._taps) as (into, out_of):
            while not self._passes(into, out_of):
                guest.check()
                if time.monotonic() > end_s:
                    raise LabError(
                        f"the virtual machine forwarded nothing for {patience_s:g} s from "
                        f"{wiring.SENDERS[0]} at its first interface to {wiring.RECEIVERS[0]} via "
                        f"{wiring.RX0.address} at its second; {guest.console()}"
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
