"""Tunnels of the kernel between two virtual machines, independent of the host's kernel: ESP and WireGuard."""

from __future__ import annotations

import secrets
import shlex
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import LabError
from weirlab.lab import wiring
from weirlab.lab.base import Site
from weirlab.lab.dut import nftables
from weirlab.lab.dut.rules import check
from weirlab.lab.dut.tunnels import esp, strongswan
from weirlab.lab.dut.tunnels.tunnel import EncapsulationDriver, TunnelSuite
from weirlab.lab.dut.tunnels.vpn import INTERFACE, wireguard_config
from weirlab.lab.dut.vm import site as sites
from weirlab.lab.dut.vm.device import load
from weirlab.lab.dut.vm.site import GuestPort
from weirlab.lab.linux.interface import Port
from weirlab.lab.machines.guest import Guest
from weirlab.records import RuleSetup

ROLES: Final = ("vm_near", "vm_far")
"""Prefixes of the names of the gateways' counters."""

_PATIENCE_S: Final = 15
"""Time limit for the tunnel to come up, and for its queues to drain."""

_UNAUTHENTICATED: Final = ("aes128", "aes256")
SUITES: Final = (*strongswan.SUITES, *(suite for suite in esp.SUITES if suite.name in _UNAUTHENTICATED))
"""The suites that the kernel supports, by strongSwan's keywords."""

_SALT_BYTES: Final = 4
_WINDOW: Final = 64
"""Size of the anti-replay window: the default of RFC 4303."""

_SUITES: Final = (TunnelSuite("", "wireguard"),)
_CONFIG: Final = "/run/wireguard.conf"


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


class VirtualTunnel(sites.VirtualDriver, EncapsulationDriver):
    """Two virtual machines with a tunnel between them.

    Rules, if any, are loaded with nftables in the near gateway, where they see packets in the clear.
    """

    _ends: tuple[VirtualGateway, VirtualGateway] | None = None
    _ports: Sequence[Mapping[str, str]] = ()
    _filtered = False

    @property
    def ends(self) -> tuple[VirtualGateway, VirtualGateway]:
        """The running gateways."""
        if self._ends is None:
            raise LabError(f"the gateways of {self.name} are not switched on")
        return self._ends

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

    def settle(self) -> None:
        near, far = self.ends
        command = f"ping -c 1 -W 1 -w {_PATIENCE_S} -I {near.inside} {far.inside}"
        code, _ = near.guest.run(command)
        if code != 0:
            self.check_alive()
            raise LabError(f"{self.name}: nothing passed the tunnel for {_PATIENCE_S} s ({command})")

    def stop(self) -> None:
        self._ends = None
        super().stop()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check(rules)
        if rules.position or rules.stateful or self._filtered:
            load(self.ends[0].guest, nftables.FLUSH + nftables.ruleset(rules, "linear"))
            self._filtered = True

    def counters(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for end, role, ports in zip(self.ends, ROLES, self._ports, strict=True):
            files = sites.port_counters(ports)
            found |= sites.counted(end.guest, role, files)
        return found

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": sites.version(),
            **self.described("nftables"),
            **sites.facts(self._guests if self._ends else ()),
        }


@dataclass(frozen=True)
class _Transform:
    """An algorithm by its kernel name (crypto(7)), as in ip-xfrm(8)."""

    kind: str
    name: str
    key_bytes: int
    icv_bits: int | None = None

    def with_new_key(self) -> str:
        """Its arguments for ``ip xfrm state add``, with a new key."""
        key = f"0x{secrets.token_hex(self.key_bytes)}" if self.key_bytes else ""
        icv = "" if self.icv_bits is None else f" {self.icv_bits}"
        return f"{self.kind} {shlex.quote(self.name)} {shlex.quote(key)}{icv}"


_ENCRYPTIONS: Final = {
    "aes128": _Transform("enc", "cbc(aes)", 16),
    "aes256": _Transform("enc", "cbc(aes)", 32),
    "null": _Transform("enc", "ecb(cipher_null)", 0),
}
_AUTHENTICATIONS: Final = {
    "md5": _Transform("auth-trunc", "hmac(md5)", 16, 96),
    "sha1": _Transform("auth-trunc", "hmac(sha1)", 20, 96),
    "sha256": _Transform("auth-trunc", "hmac(sha256)", 32, 128),
}
_COMBINED: Final = {
    "aes128gcm16": _Transform("aead", "rfc4106(gcm(aes))", 16 + _SALT_BYTES, 128),
    "aes256gcm16": _Transform("aead", "rfc4106(gcm(aes))", 32 + _SALT_BYTES, 128),
    "chacha20poly1305": _Transform("aead", "rfc7539esp(chacha20,poly1305)", 32 + _SALT_BYTES, 128),
}

DROPS: Final = {
    "in_no_state": "XfrmInNoStates",
    "in_bad_tag": "XfrmInStateProtoError",
    "in_replayed": "XfrmInStateSeqError",
    "in_no_policy": "XfrmInNoPols",
    "out_no_state": "XfrmOutNoStates",
}
"""Reasons for drops in a gateway, by the kernel's names (Documentation/networking/xfrm_proc.rst)."""

_STATISTICS: Final = "/proc/net/xfrm_stat"


class VirtualEsp(VirtualTunnel):
    """Security associations of both directions, and a policy for each pair of networks."""

    product = "ESP of Linux in virtual machines"
    kind = "vm-esp"

    def __init__(self, suite: str | None = None) -> None:
        super().__init__(SUITES, suite)

    def connect(self, near: VirtualGateway, far: VirtualGateway) -> None:
        states = associations(self.suite, near, far)
        for end in (near, far):
            end.guest.do(states + "".join(f"{line}\n" for line in _policies(end)))

    def counters(self) -> Mapping[str, int]:
        """Counters, including what the kernel's ESP dropped, by gateway and reason."""
        found = dict(super().counters())
        for role, end in zip(ROLES, self.ends, strict=True):
            dropped = _statistics(end.guest)
            found |= {f"{role}_esp_{name}": dropped[each] for name, each in DROPS.items()}
        return found


def transforms(suite: TunnelSuite) -> Sequence[_Transform]:
    """The algorithms of a suite."""
    if suite.name in _COMBINED:
        return [_COMBINED[suite.name]]
    encryption, _, authentication = suite.name.partition("-")
    found = [_ENCRYPTIONS[encryption]]
    return [*found, _AUTHENTICATIONS[authentication]] if authentication else found


def associations(suite: TunnelSuite, near: VirtualGateway, far: VirtualGateway) -> str:
    """Script that makes the states of both directions with new keys, the same for both gateways."""
    lines = ["set -e", "modprobe -a esp4 esp6 xfrm_user", "ip xfrm state flush", "ip xfrm policy flush"]
    for spi, source, destination in (
        (esp.FIRST_SPI, near.address, far.address),
        (esp.FIRST_SPI + 1, far.address, near.address),
    ):
        words = " ".join(transform.with_new_key() for transform in transforms(suite))
        # Packets of both versions of IP are carried.
        lines.append(
            f"ip xfrm state add src {source} dst {destination} proto esp spi {spi:#x} reqid 1 mode tunnel "
            f"replay-window {_WINDOW} flag af-unspec {words}"
        )
    return "\n".join(lines) + "\n"


def _policies(end: VirtualGateway) -> Iterator[str]:
    """Policies for packets into and out of the tunnel, and the route to the other gateway."""
    for own, other in zip(end.own_networks, end.networks, strict=True):
        for way, source, destination, ends in (
            ("out", own, other, (end.address, end.peer)),
            ("in", other, own, (end.peer, end.address)),
            ("fwd", other, own, (end.peer, end.address)),
        ):
            yield (
                f"ip xfrm policy add src {source} dst {destination} dir {way} "
                f"tmpl src {ends[0]} dst {ends[1]} proto esp reqid 1 mode tunnel"
            )
    # The kernel only looks for a policy after it has found a route.
    for route in wiring.behind(end.beyond, end.port, end.networks):
        yield f"ip route replace {route.network} via {route.gateway} dev {route.name} onlink"


def _statistics(guest: Guest) -> dict[str, int]:
    """The kernel's counters, by their kernel names."""
    words = (line.split() for line in guest.do(f"cat {_STATISTICS}").splitlines())
    return {name: int(value) for name, value in words}


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
            end.guest.do(sites.write_script(_CONFIG, wireguard_config(own[0], other[1], end.peer)))
            end.guest.do("\n".join(lines) + "\n")


def _pair_of_keys(guest: Guest) -> tuple[str, str]:
    """A private key and its public key."""
    private, public = guest.do("key=$(wg genkey); echo $key; echo $key | wg pubkey").split()
    return private, public
