"""Kernel tunnels between two virtual machines, independent of the host's kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import InputError, LabError
from weirlab.base.interrupts import shielded
from weirlab.lab import wiring
from weirlab.lab.base import Site
from weirlab.lab.dut import nftables
from weirlab.lab.dut.rules import check
from weirlab.lab.dut.tunnels.tunnel import EncapsulationDriver
from weirlab.lab.dut.vm import site as sites
from weirlab.lab.dut.vm.filters import load
from weirlab.lab.linux.interface import Port
from weirlab.lab.vm import scripts
from weirlab.lab.vm.guest import Guest
from weirlab.lab.vm.scripts import GuestPort
from weirlab.records import RuleSetup

ROLES: Final = ("vm_near", "vm_far")
"""Prefixes of the names of the gateways' counters."""

_PATIENCE_S: Final = 15
"""Time limit for the tunnel to come up, and for its queues to drain."""


@dataclass(frozen=True)
class VirtualGateway:
    """One of the two gateways."""

    guest: Guest
    port: Port
    """Port to the other gateway."""
    beyond: Port
    """The other gateway's port on the same cable."""
    inside: str
    """The gateway's own address among the networks behind it."""
    own_networks: Sequence[str]
    networks: Sequence[str]
    """Networks behind the other gateway, reached through the tunnel."""

    @property
    def address(self) -> str:
        """Its address on the cable between the gateways."""
        return self.port.address

    @property
    def peer(self) -> str:
        """Address of the other gateway on that cable."""
        return self.beyond.address


class VirtualTunnel(EncapsulationDriver):
    """Two virtual machines with a tunnel between them.

    Rules, if any, are loaded with nftables in the near gateway, where they see packets in the clear.
    """

    forwards = True
    _ends: tuple[VirtualGateway, VirtualGateway] | None = None
    _guests: Sequence[Guest] = ()
    _ports: Sequence[Mapping[str, str]] = ()
    _filtered = False

    @property
    def ends(self) -> tuple[VirtualGateway, VirtualGateway]:
        """The running gateways."""
        if self._ends is None:
            raise LabError(f"the gateways of {self.name} are not switched on")
        return self._ends

    def check(self) -> list[str]:
        return sites.missing()

    def start(self, site: Site) -> Sequence[int]:
        assert site.far is not None
        mtu_bytes = wiring.BETWEEN_MTU_BYTES
        # The tunnel itself routes what is behind it.
        near = [
            GuestPort(site.inward, site.sender, wiring.SENDERS),
            GuestPort(wiring.NEAR, wiring.FAR, (), mtu_bytes),
        ]
        far = [
            GuestPort(wiring.FAR, wiring.NEAR, (), mtu_bytes),
            GuestPort(site.outward, site.receiver, wiring.RECEIVERS),
        ]
        named = (("the near gateway", site.netns, near), ("the far gateway", site.far, far))
        guests: list[Guest] = []
        self._guests = guests
        self._ports = (
            {"in": site.inward.name, "wan": wiring.NEAR.name},
            {"wan": wiring.FAR.name, "out": site.outward.name},
        )
        for name, netns, sides in named:
            guests.append(sites.between(name, netns, site.cpu, sides))
            guests[-1].switch_on()
        for guest, (_, _, sides) in zip(guests, named, strict=True):
            sites.begin(guest, sides)
        behind = wiring.SENDERS, wiring.RECEIVERS
        self._ends = (
            VirtualGateway(guests[0], wiring.NEAR, wiring.FAR, site.inward.address, *behind),
            VirtualGateway(guests[1], wiring.FAR, wiring.NEAR, site.outward.address, *reversed(behind)),
        )
        self.connect(*self._ends)
        self.settle()
        return [process for guest in guests for process in guest.machine.processes]

    @abstractmethod
    def connect(self, near: VirtualGateway, far: VirtualGateway) -> None:
        """Set up the tunnel in both gateways, replacing any existing one."""

    def check_alive(self) -> None:
        for guest in self._guests:
            guest.check()

    def settle(self) -> None:
        near, far = self.ends
        command = f"ping -c 1 -W 1 -w {_PATIENCE_S} -I {near.inside} {far.inside}"
        code, _ = near.guest.run(command)
        if code != 0:
            self.check_alive()
            raise LabError(f"{self.name}: nothing passed the tunnel for {_PATIENCE_S} s ({command})")

    @shielded
    def stop(self) -> None:
        guests, self._guests, self._ends = self._guests, (), None
        for guest in guests:
            guest.power_off()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check(rules)
        if rules.position or rules.stateful or self._filtered:
            load(self.ends[0].guest, nftables.FLUSH + nftables.ruleset(rules, "linear"))
            self._filtered = True

    def listing(self) -> list[str]:
        raise InputError(sites.NO_SESSION)

    def counters(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for end, role, ports in zip(self.ends, ROLES, self._ports, strict=True):
            files = scripts.port_counters(ports)
            found |= sites.counted(end.guest, role, files)
        return found

    def version(self) -> str:
        """Version of QEMU, which runs the gateways."""
        return sites.version()

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": self.version(),
            **self.described("nftables"),
            **sites.facts(self._guests if self._ends else ()),
        }
