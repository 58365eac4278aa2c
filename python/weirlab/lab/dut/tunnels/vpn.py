"""WireGuard in the kernel or in wireguard-go, and OpenVPN in user space, between two gateways."""

from __future__ import annotations

import hashlib
import re
import signal
import ssl
import subprocess
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.lab.dut import tool
from weirlab.lab.dut.tunnels.tunnel import Gateway, Tunnel, TunnelSuite, lacking
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import in_private

PORT: Final = 51820
INTERFACE: Final = "wg0"

_SUITES: Final = (TunnelSuite("", "wireguard"),)
_CONFIG: Final = "/run/wireguard.conf"
_DAEMON: Final = "wireguard-go"

TUN: Final = "tun0"

_AEAD: Final = "openvpn/aes-gcm"
_CBC: Final = "openvpn/aes-cbc-hmac-sha1"
_OPENVPN_SUITES: Final = (
    TunnelSuite("aes-128-gcm", _AEAD),
    TunnelSuite("aes-256-gcm", _AEAD),
    # The formula fits any AEAD: all have tags of 16 bytes and do not send their nonces.
    TunnelSuite("chacha20-poly1305", _AEAD),
    TunnelSuite("aes-128-cbc", _CBC),
    TunnelSuite("aes-256-cbc", _CBC),
)
_OPENVPN: Final = "openvpn"
_OPENVPN_CONFIG: Final = "/run/openvpn.conf"
_OLDEST: Final = (2, 6)
"""The first version that accepts a peer by its fingerprint and can be kept in user space."""


class WireGuard(Tunnel):
    """Both ends configured by ``wg``; the subclass chooses the implementation."""

    product = "WireGuard"

    def __init__(self, suite: str | None = None) -> None:
        super().__init__(_SUITES, suite)

    def begin(self, near: Gateway, far: Gateway) -> None:
        keys = _pair_of_keys(), _pair_of_keys()
        for here, there, gateway in ((0, 1, near), (1, 0, far)):
            gateway.machine.write(_CONFIG, wireguard_config(keys[here][0], keys[there][1], gateway.peer))
            self.boot(gateway)

    def boot(self, gateway: Gateway) -> None:
        """Make a gateway's interface with the written configuration, and route through it."""
        self.make_interface(gateway)
        self.command(gateway, ["wg", "setconf", INTERFACE, _CONFIG])
        self.route(gateway, INTERFACE)

    @abstractmethod
    def make_interface(self, gateway: Gateway) -> None:
        """Make the interface; it may appear a little later."""


class WireGuardGo(WireGuard):
    """The user-space daemon of Debian's ``wireguard-go``."""

    kind = "wireguard-go"
    returns = True

    def check(self) -> list[str]:
        return lacking({"wireguard-go": [_DAEMON], "wireguard-tools": ["wg"]})

    def make_interface(self, gateway: Gateway) -> None:
        self.daemon(gateway, _DAEMON, ["env", "LOG_LEVEL=error", _DAEMON, "--foreground", INTERFACE])

    def fail(self, near: Gateway) -> None:
        near.machine.stop(_DAEMON, by=signal.SIGKILL)

    def revive(self, near: Gateway, far: Gateway) -> None:
        self.boot(near)

    def version(self) -> str:
        return tool.version(_DAEMON)


class WireGuardKernel(WireGuard):
    """The kernel's WireGuard, which does not stay on the device's CPU: it encrypts on all CPUs."""

    kind = "wireguard-kernel"

    def check(self) -> list[str]:
        return [*lacking({"wireguard-tools": ["wg"]}), *_missing_in_kernel()]

    def make_interface(self, gateway: Gateway) -> None:
        gateway.namespace.call(lambda: interface.make(INTERFACE, "wireguard"))

    def version(self) -> str:
        return tool.version("wg")

    def facts(self) -> Mapping[str, object]:
        return {**super().facts(), "cpus": "the kernel encrypts on all CPUs, the sender's too"}


def usual_wireguard(suite: str | None = None) -> WireGuard:
    """The kernel's WireGuard if it has one, else the daemon's."""
    kernel = WireGuardKernel(suite)
    return WireGuardGo(suite) if _missing_in_kernel() else kernel


def wireguard_config(private_key: str, peers_key: str, peer: str) -> str:
    """Configuration for ``wg setconf`` (wg(8)): one peer, which may send anything."""
    return (
        "[Interface]\n"
        f"PrivateKey = {private_key}\n"
        f"ListenPort = {PORT}\n"
        "[Peer]\n"
        f"PublicKey = {peers_key}\n"
        f"Endpoint = {peer}:{PORT}\n"
        "AllowedIPs = 0.0.0.0/0, ::/0\n"
    )


def _missing_in_kernel() -> list[str]:
    try:
        if in_private(lambda: interface.can_make("wireguard")):
            return []
    except OSError:
        return ["whether this kernel has WireGuard could not be tried: run as root"]
    return ["this kernel has no WireGuard: modprobe wireguard, or choose wireguard-go"]


def _pair_of_keys() -> tuple[str, str]:
    """A private key and its public key."""
    private = _wg("genkey")
    return private, _wg("pubkey", private)


def _wg(command: str, text: str = "") -> str:
    done: subprocess.CompletedProcess[str] = programs.run(
        ["wg", command], input=text, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise LabError(f"wg {command} failed: {done.stderr.strip() or 'no reason given'}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key, in PEM."""

    certificate: str
    key: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the certificate, in the format of ``--peer-fingerprint``."""
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.certificate)).hexdigest().upper()
        return ":".join(re.findall("..", digest))


class OpenVpn(Tunnel):
    """Point to point; each end knows the other by the fingerprint of its certificate."""

    product = "OpenVPN"
    kind = "openvpn"

    def __init__(self, suite: str | None = None) -> None:
        super().__init__(_OPENVPN_SUITES, suite)

    def check(self) -> list[str]:
        if missing := lacking({"openvpn": [_OPENVPN], "openssl": ["openssl"]}):
            return missing
        found = re.search(r"OpenVPN (\d+)\.(\d+)", self.version())
        if found is not None and (int(found[1]), int(found[2])) < _OLDEST:
            return [f"{found[0]} is too old: OpenVPN {_OLDEST[0]}.{_OLDEST[1]} or later is needed"]
        return []

    def version(self) -> str:
        return tool.version(_OPENVPN)

    def begin(self, near: Gateway, far: Gateway) -> None:
        identities = _identity("near"), _identity("far")
        mtu_bytes = self.longest_packet_bytes(4)
        for here, there, gateway in ((0, 1, near), (1, 0, far)):
            text = openvpn_config(
                gateway,
                "server" if here == 0 else "client",
                self.suite.name,
                mtu_bytes,
                identities[here],
                identities[there].fingerprint,
            )
            gateway.machine.write(_OPENVPN_CONFIG, text)
            self.daemon(gateway, _OPENVPN, [_OPENVPN, "--config", _OPENVPN_CONFIG])
        for gateway in (near, far):
            self.route(gateway, TUN)


def openvpn_config(
    gateway: Gateway,
    role: Literal["server", "client"],
    cipher: str,
    mtu_bytes: int,
    identity: Identity,
    peers_fingerprint: str,
) -> str:
    """The configuration file of one gateway (openvpn(8))."""
    lines = [
        f"dev {TUN}",
        "dev-type tun",
        "proto udp4",
        f"local {gateway.address}",
        f"remote {gateway.peer}",
        f"tls-{role}",
        *(["dh none"] if role == "server" else []),
        f"data-ciphers {cipher.upper()}",
        f"data-ciphers-fallback {cipher.upper()}",
        # An AEAD ignores this.
        "auth SHA1",
        f"tun-mtu {mtu_bytes}",
        "mssfix 0",
        # Otherwise the kernel module would carry the packets, and the interface would have another name.
        "disable-dco",
        "verb 3",
        f"peer-fingerprint {peers_fingerprint}",
        f"<cert>\n{identity.certificate}\n</cert>",
        f"<key>\n{identity.key}\n</key>",
    ]
    return "\n".join(lines) + "\n"


def _identity(name: str) -> Identity:
    """Make an identity, valid for a month."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-nodes", "-days", "30", "-subj", f"/CN={name}", "-keyout", "-", "-out", "-"]
    done: subprocess.CompletedProcess[str] = programs.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"openssl cannot make a certificate: {done.stderr.strip() or 'no reason given'}")
    return Identity(_pem("CERTIFICATE", done.stdout), _pem("PRIVATE KEY", done.stdout))


def _pem(what: str, text: str) -> str:
    (found,) = re.findall(f"-----BEGIN {what}-----.*?-----END {what}-----", text, re.S)
    return str(found)
