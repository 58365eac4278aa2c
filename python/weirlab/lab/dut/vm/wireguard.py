"""The kernel's WireGuard between two virtual machines."""

from __future__ import annotations

from typing import Final

from weirlab.lab.dut.tunnels.tunnel import TunnelSuite
from weirlab.lab.dut.tunnels.wireguard import INTERFACE, config
from weirlab.lab.dut.vm.gateways import VirtualGateway, VirtualTunnel
from weirlab.lab.vm import scripts
from weirlab.lab.vm.guest import Guest

_SUITES: Final = (TunnelSuite("", "wireguard"),)
_CONFIG: Final = "/run/wireguard.conf"


class VirtualWireGuard(VirtualTunnel):
    """Each gateway has its own key and the other's public key."""

    product = "WireGuard of Linux in virtual machines"
    kind = "vm-wireguard"

    def __init__(self, suite: str | None = None) -> None:
        super().__init__(_SUITES, suite)

    def connect(self, near: VirtualGateway, far: VirtualGateway) -> None:
        pairs = [_pair_of_keys(end.guest) for end in (near, far)]
        for end, own, other in ((near, pairs[0], pairs[1]), (far, pairs[1], pairs[0])):
            lines = [
                "set -e",
                f"ip link delete {INTERFACE} 2>/dev/null || true",
                f"ip link add {INTERFACE} type wireguard",
                f"wg setconf {INTERFACE} {_CONFIG}",
                f"ip link set {INTERFACE} mtu {self.longest_packet_bytes(4)} up",
                *(f"ip route replace {network} dev {INTERFACE}" for network in end.networks),
            ]
            end.guest.do(scripts.written(_CONFIG, config(own[0], other[1], end.peer)))
            end.guest.do("\n".join(lines) + "\n")


def _pair_of_keys(guest: Guest) -> tuple[str, str]:
    """A private key and its public key."""
    private, public = guest.do("key=$(wg genkey); echo $key; echo $key | wg pubkey").split()
    return private, public
