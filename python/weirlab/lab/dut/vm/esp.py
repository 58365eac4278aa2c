"""The kernel's ESP in tunnel mode between two virtual machines, with fresh keys for each run.

There is no key exchange: both gateways get the security associations and policies of ``ip xfrm``.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.lab import wiring
from weirlab.lab.dut.tunnels import esp, strongswan
from weirlab.lab.dut.tunnels.tunnel import TunnelSuite
from weirlab.lab.dut.vm.gateways import ROLES, VirtualGateway, VirtualTunnel
from weirlab.lab.vm.guest import Guest

_UNAUTHENTICATED: Final = ("aes128", "aes256")
SUITES: Final = (*strongswan.SUITES, *(suite for suite in esp.SUITES if suite.name in _UNAUTHENTICATED))
"""The suites that the kernel supports, by strongSwan's keywords."""

_SALT_BYTES: Final = 4
_WINDOW: Final = 64
"""Size of the anti-replay window: the default of RFC 4303."""


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
