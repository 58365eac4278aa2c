"""Lengths by formula beside packets that other implementations made: Scapy, libsrtp and OpenSSL.

ESP in transport and tunnel mode is in ``test_esp_peers.py``.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable
from typing import Any, Final

import pytest

from weirlab.traffic.encapsulation.encapsulations import ENCAPSULATIONS
from weirlab.traffic.encapsulation.packets import VoicePacket

BY_NAME = {each.name: each for each in ENCAPSULATIONS}

SIZES: Final = (0, 1, 2, 3, 14, 15, 160, 480)
"""Bytes of speech: codecs' and those around the steps of padding."""

IP_VERSIONS: Final = ((4, 4), (4, 6), (6, 4), (6, 6))
"""Inside and outside."""

AES_KEY: Final = bytes(range(16))
CIPHERS: Final[dict[str, dict[str, Any]]] = {
    "aes-cbc": {"crypt_algo": "AES-CBC", "crypt_key": AES_KEY},
    "aes-gcm-16": {"crypt_algo": "AES-GCM", "crypt_key": AES_KEY + b"salt"},
    "chacha20-poly1305": {"crypt_algo": "CHACHA20-POLY1305", "crypt_key": bytes(range(32)) + b"salt"},
    "null": {"crypt_algo": "NULL", "crypt_key": None},
}
AUTHENTICATORS: Final[dict[str, dict[str, Any]]] = {
    "hmac-md5-96": {"auth_algo": "HMAC-MD5-96", "auth_key": bytes(16)},
    "hmac-sha1-96": {"auth_algo": "HMAC-SHA1-96", "auth_key": bytes(20)},
    "hmac-sha256-128": {"auth_algo": "SHA2-256-128", "auth_key": bytes(32)},
}
SUITES: Final = [
    "aes-cbc", "aes-gcm-16", "chacha20-poly1305",
    *(f"{cipher}-{authenticator}" for cipher in ("aes-cbc", "null") for authenticator in AUTHENTICATORS),
]  # fmt: skip
"""Scapy's; it knows no implicit IV."""


def algorithms(suite: str) -> dict[str, Any]:
    """Scapy's arguments for a suite of ours."""
    for name, cipher in CIPHERS.items():
        if suite == name:
            return cipher
        if suite.startswith(f"{name}-hmac"):
            return {**cipher, **AUTHENTICATORS[suite.removeprefix(f"{name}-")]}
    raise AssertionError(suite)


def header(version: int, *, outer: bool = False) -> Any:
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    net = "1" if outer else "2"
    if version == 4:
        return IP(src=f"198.18.{net}.1", dst=f"198.18.{net}.2")
    return IPv6(src=f"2001:2:{net}::1", dst=f"2001:2:{net}::2")


def speech(version: int, size: int) -> Any:
    """An IP packet with RTP in the clear."""
    from scapy.layers.inet import UDP
    from scapy.layers.rtp import RTP
    from scapy.packet import Raw

    return header(version) / UDP(sport=20000, dport=20002) / RTP() / Raw(bytes(size))


def outermost(packet: Any) -> int:
    """Length that the outermost IP header tells, which has to be all there is."""
    raw = bytes(packet)
    told = int.from_bytes(raw[2:4]) if raw[0] >> 4 == 4 else 40 + int.from_bytes(raw[4:6])
    assert told == len(raw)
    return told


@pytest.mark.parametrize("suite", SUITES)
def test_esp_of_scapy_without_udp_and_around_gre_is_as_long(suite: str) -> None:
    from scapy.layers.inet import IP
    from scapy.layers.ipsec import ESP, SecurityAssociation
    from scapy.layers.l2 import GRE
    from scapy.layers.rtp import RTP
    from scapy.packet import Raw

    association = SecurityAssociation(ESP, spi=7, **algorithms(suite))
    for size in SIZES:
        # 253 is for experiments (RFC 3692).
        alone = IP(src="198.18.2.1", dst="198.18.2.2", proto=253) / Raw(bytes(RTP() / Raw(bytes(size))))
        made = association.encrypt(alone)
        assert outermost(made) == BY_NAME[f"esp-rtp/{suite}"].packet_bytes(VoicePacket(size))
        made = association.encrypt(header(4, outer=True) / GRE() / speech(4, size))
        assert outermost(made) == BY_NAME[f"gre-in-esp/{suite}"].packet_bytes(VoicePacket(size))


@pytest.mark.parametrize("name", list(AUTHENTICATORS))
def test_ah_of_scapy_is_as_long(name: str) -> None:
    from scapy.layers.ipsec import AH, SecurityAssociation

    for inner, outer in IP_VERSIONS:
        tunnel = SecurityAssociation(
            AH, spi=7, tunnel_header=header(outer, outer=True), **AUTHENTICATORS[name]
        )
        transport = SecurityAssociation(AH, spi=7, **AUTHENTICATORS[name])
        for size in SIZES:
            voice = VoicePacket(size, 4 if inner == 4 else 6, 4 if outer == 4 else 6)
            made = tunnel.encrypt(speech(inner, size))
            assert outermost(made) == BY_NAME[f"ah-tunnel/{name}"].packet_bytes(voice)
            if inner == outer:
                made = transport.encrypt(speech(inner, size))
                assert outermost(made) == BY_NAME[f"ah-transport/{name}"].packet_bytes(voice)


def test_gre_and_vxlan_of_scapy_are_as_long() -> None:
    from scapy.layers.inet import UDP
    from scapy.layers.l2 import GRE, Ether
    from scapy.layers.vxlan import VXLAN

    wrappers: dict[str, Callable[[Any], Any]] = {
        "clear": lambda packet: packet,
        "gre": lambda packet: GRE() / packet,
        "gre/key": lambda packet: GRE(key_present=1, key=5) / packet,
        "vxlan": lambda packet: (
            UDP(dport=4789) / VXLAN(vni=5) / Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet
        ),
    }
    for name, wrap in wrappers.items():
        for inner, outer in IP_VERSIONS:
            for size in SIZES:
                made = wrap(speech(inner, size))
                made = made if name == "clear" else header(outer, outer=True) / made
                voice = VoicePacket(size, 4 if inner == 4 else 6, 4 if outer == 4 else 6)
                assert outermost(made) == BY_NAME[name].packet_bytes(voice)


@pytest.mark.parametrize(
    ("name", "profile", "key_bytes"),
    [
        ("srtp/aes-cm-sha1-80", "SRTP_PROFILE_AES128_CM_SHA1_80", 30),
        ("srtp/aes-cm-sha1-32", "SRTP_PROFILE_AES128_CM_SHA1_32", 30),
        ("srtp/aes-gcm", "SRTP_PROFILE_AEAD_AES_128_GCM", 28),
    ],
)
def test_srtp_of_libsrtp_is_as_long(name: str, profile: str, key_bytes: int) -> None:
    from pylibsrtp import Policy, Session
    from scapy.layers.rtp import RTP
    from scapy.packet import Raw

    policy = Policy(
        key=bytes(key_bytes), ssrc_type=Policy.SSRC_ANY_OUTBOUND, srtp_profile=getattr(Policy, profile)
    )
    sender = Session(policy=policy)
    for number, size in enumerate(SIZES):
        sent = sender.protect(bytes(RTP(sequence=number) / Raw(bytes(size))))
        assert 20 + 8 + len(sent) == BY_NAME[name].packet_bytes(VoicePacket(size))


@pytest.mark.parametrize(
    ("name", "cipher"),
    [
        ("dtls/1.2-aes-gcm", b"ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("dtls/1.2-aes-gcm", b"ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("dtls/1.2-chacha20-poly1305", b"ECDHE-ECDSA-CHACHA20-POLY1305"),
    ],
)
def test_dtls_of_openssl_is_as_long(name: str, cipher: bytes) -> None:
    client = connected(cipher)
    for size in SIZES:
        client.send(bytes(12 + size))
        assert 20 + 8 + len(client.bio_read(65_536)) == BY_NAME[name].packet_bytes(VoicePacket(size))


def connected(cipher: bytes) -> Any:
    """A client of DTLS 1.2 after the handshake with a server, both in memory."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from OpenSSL import SSL

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    day = datetime.datetime(2026, 1, 1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day)
        .not_valid_after(day + datetime.timedelta(days=36_500))
        .sign(key, hashes.SHA256())
    )
    sides = []
    for is_server in (False, True):
        context = SSL.Context(SSL.DTLS_METHOD)
        context.set_cipher_list(cipher)
        if is_server:
            context.use_certificate(certificate)
            context.use_privatekey(key)
        side = SSL.Connection(context, None)
        side.set_ciphertext_mtu(1500)
        (side.set_accept_state if is_server else side.set_connect_state)()
        sides.append(side)
    client, server = sides
    for _ in range(20):
        states = [shaken(client, server), shaken(server, client)]
        if all(states):
            return client
    raise AssertionError("no handshake")


def shaken(side: Any, other: Any) -> bool:
    """Whether ``side`` is done with the handshake; what it has to say goes to ``other``."""
    from OpenSSL import SSL

    done = True
    try:
        side.do_handshake()
    except SSL.WantReadError:
        done = False
    with contextlib.suppress(SSL.WantReadError):
        other.bio_write(side.bio_read(65_536))
    return done
