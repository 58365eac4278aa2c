"""OpenVPN between two gateways, in user space, over UDP."""

from __future__ import annotations

import hashlib
import re
import ssl
import subprocess
from dataclasses import dataclass
from typing import Final, Literal

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.lab.dut import tool
from weirlab.lab.dut.tunnels.tunnel import Gateway, Tunnel, TunnelSuite, lacking

INTERFACE: Final = "tun0"

_AEAD: Final = "openvpn/aes-gcm"
_CBC: Final = "openvpn/aes-cbc-hmac-sha1"
_SUITES: Final = (
    TunnelSuite("aes-128-gcm", _AEAD),
    TunnelSuite("aes-256-gcm", _AEAD),
    # The formula fits any AEAD: all have tags of 16 bytes and do not send their nonces.
    TunnelSuite("chacha20-poly1305", _AEAD),
    TunnelSuite("aes-128-cbc", _CBC),
    TunnelSuite("aes-256-cbc", _CBC),
)
_DAEMON: Final = "openvpn"
_CONFIG: Final = "/run/openvpn.conf"
_OLDEST: Final = (2, 6)
"""The first version that accepts a peer by its fingerprint and can be kept in user space."""


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
        super().__init__(_SUITES, suite)

    def check(self) -> list[str]:
        if missing := lacking({"openvpn": [_DAEMON], "openssl": ["openssl"]}):
            return missing
        found = re.search(r"OpenVPN (\d+)\.(\d+)", self.version())
        if found is not None and (int(found[1]), int(found[2])) < _OLDEST:
            return [f"{found[0]} is too old: OpenVPN {_OLDEST[0]}.{_OLDEST[1]} or later is needed"]
        return []

    def version(self) -> str:
        return tool.version(_DAEMON)

    def begin(self, near: Gateway, far: Gateway) -> None:
        identities = _identity("near"), _identity("far")
        mtu_bytes = self.longest_packet_bytes(4)
        for here, there, gateway in ((0, 1, near), (1, 0, far)):
            text = config(
                gateway,
                "server" if here == 0 else "client",
                self.suite.name,
                mtu_bytes,
                identities[here],
                identities[there].fingerprint,
            )
            gateway.machine.write(_CONFIG, text)
            self.daemon(gateway, _DAEMON, [_DAEMON, "--config", _CONFIG])
        for gateway in (near, far):
            self.route(gateway, INTERFACE)


def config(
    gateway: Gateway,
    role: Literal["server", "client"],
    cipher: str,
    mtu_bytes: int,
    identity: Identity,
    peers_fingerprint: str,
) -> str:
    """The configuration file of one gateway (openvpn(8))."""
    lines = [
        f"dev {INTERFACE}",
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
