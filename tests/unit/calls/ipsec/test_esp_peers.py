"""The engine's ESP beside Scapy's and tshark's: each takes the other's packets, bit by bit."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from weirlab._engine import EspInbound, EspOutbound
from weirlab.testing.tcp import frame, write_pcap
from weirlab.traffic.encapsulation.encapsulations import ENCAPSULATIONS
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.encapsulation.suites import SUITES

SPI: Final = 0x1000
IV_KEY: Final = bytes(range(100, 116))
GATEWAYS: Final = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}
HOSTS: Final = {4: ("198.18.0.1", "198.19.0.1"), 6: ("2001:2:1::1", "2001:2:2::1")}
SIZES: Final = (0, 1, 15, 160, 1300)
"""Bytes of speech."""

LONG: Final = bytes(range(1, 33))
SALT: Final = b"salt"


@dataclass(frozen=True)
class Keys:
    """A suite with keys, as we and as Scapy call it."""

    suite: str
    encryption: bytes
    authentication: bytes
    crypt_algo: str
    auth_algo: str

    def ours(self) -> dict[str, Any]:
        return {
            "spi": SPI,
            "suite": self.suite,
            "encryption_key": self.encryption,
            "authentication_key": self.authentication,
        }

    def scapys(self) -> dict[str, Any]:
        return {
            "spi": SPI,
            "crypt_algo": self.crypt_algo,
            "crypt_key": self.encryption or None,
            "auth_algo": self.auth_algo,
            "auth_key": self.authentication or None,
        }


def keys() -> list[Keys]:
    """Every suite that Scapy has, with every length of key."""
    authenticators = (("hmac-md5-96", "HMAC-MD5-96", 16), ("hmac-sha1-96", "HMAC-SHA1-96", 20), (
        "hmac-sha256-128", "SHA2-256-128", 32))  # fmt: skip
    made = [Keys("chacha20-poly1305", LONG + SALT, b"", "CHACHA20-POLY1305", "NULL")]
    for size in (16, 32):
        made.append(Keys("aes-cbc", LONG[:size], b"", "AES-CBC", "NULL"))
        made.append(Keys("aes-gcm-16", LONG[:size] + SALT, b"", "AES-GCM", "NULL"))
        for name, scapys, length in authenticators:
            made.append(Keys(f"aes-cbc-{name}", LONG[:size], LONG[:length], "AES-CBC", scapys))
    for name, scapys, length in authenticators:
        made.append(Keys(f"null-{name}", b"", LONG[:length], "NULL", scapys))
    return made


ALL = keys()
each_suite = pytest.mark.parametrize("suite", ALL, ids=lambda k: f"{k.suite}-{len(k.encryption)}")


@dataclass(frozen=True)
class Way:
    """IP version inside, tunnel in which version (0: transport mode), whether in UDP."""

    inner: int
    outer: int
    natt: bool

    def ours(self) -> dict[str, Any]:
        return {
            "tunnel": GATEWAYS[self.outer] if self.outer else None,
            "natt": (4500, 4500) if self.natt else None,
        }

    def scapys(self) -> dict[str, Any]:
        from scapy.layers.inet import UDP

        made: dict[str, Any] = {}
        if self.outer:
            made["tunnel_header"] = header(self.outer, GATEWAYS)
        if self.natt:
            made["nat_t_header"] = UDP(sport=4500, dport=4500)
        return made


WAYS: Final = [
    Way(4, 0, False), Way(6, 0, False), Way(4, 0, True), Way(6, 0, True),
    Way(4, 4, False), Way(6, 4, True), Way(4, 6, True), Way(6, 6, False),
]  # fmt: skip


def header(version: int, ends: dict[int, tuple[str, str]]) -> Any:
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    source, destination = ends[version]
    kind = IP if version == 4 else IPv6
    return kind(src=source, dst=destination)


def speech(version: int, size: int) -> bytes:
    """An IP packet with UDP."""
    from scapy.layers.inet import UDP
    from scapy.packet import Raw

    payload = bytes(number % 251 for number in range(12 + size))
    return bytes(header(version, HOSTS) / UDP(sport=20000, dport=20002) / Raw(payload))


def association(suite: Keys, way: Way, **more: Any) -> Any:
    """Scapy's."""
    from scapy.layers.ipsec import ESP, SecurityAssociation

    return SecurityAssociation(ESP, **suite.scapys(), **way.scapys(), **more)


def formula(suite: str, way: Way, size: int) -> int:
    """Bytes of the whole packet."""
    kind = "esp-tunnel" if way.outer else "esp-transport"
    (found,) = (each for each in ENCAPSULATIONS if (each.kind, each.suite) == (kind, suite))
    voice = VoicePacket(size, 4 if way.inner == 4 else 6, 6 if way.outer == 6 else 4, way.natt)
    return found.packet_bytes(voice)


def read(packet: bytes) -> Any:
    """As Scapy reads it from the wire."""
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    return IP(packet) if packet[0] >> 4 == 4 else IPv6(packet)


@each_suite
def test_scapy_takes_our_packets(suite: Keys) -> None:
    for way in WAYS:
        ours = EspOutbound(iv_key=IV_KEY, **suite.ours(), **way.ours())
        theirs = association(suite, way)
        packets = [speech(way.inner, size) for size in SIZES]
        for packet, sent in zip(packets, ours.encapsulate_each(packets), strict=True):
            assert bytes(theirs.decrypt(read(sent))) == packet, way


@each_suite
def test_we_take_scapys_packets_which_are_as_long_as_the_formula_says(suite: Keys) -> None:
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    for way in WAYS:
        ours = EspInbound(**suite.ours(), **way.ours())
        theirs = association(suite, way)
        for size in SIZES:
            packet = speech(way.inner, size)
            sent = bytes(theirs.encrypt(IP(packet) if way.inner == 4 else IPv6(packet)))
            assert ours.decapsulate(sent) == packet, way
            assert len(sent) == formula(suite.suite, way, size)
        assert ours.counts["accepted"] == len(SIZES)


@pytest.mark.parametrize("suite", [each.name for each in SUITES])
def test_our_packets_are_as_long_as_the_formula_says(suite: str) -> None:
    """Also those with implicit IV, which Scapy has not."""
    known = {each.suite: each for each in ALL}
    keyed = known[suite.removesuffix("-iiv")]
    for way in WAYS:
        for esn in (False, True):
            if esn and suite == "aes-cbc":
                continue
            ours = EspOutbound(iv_key=IV_KEY, **{**keyed.ours(), "suite": suite}, **way.ours(), esn=esn)
            for size in SIZES:
                made = ours.encapsulate(speech(way.inner, size))
                assert len(made) == formula(suite, way, size)


@pytest.mark.parametrize("suite", ["aes-gcm-16", "aes-cbc-hmac-sha256-128"])
def test_the_unsent_half_of_a_number_is_authenticated_as_the_rfcs_say(suite: str) -> None:
    """With primitives, as Scapy leaves that half out of separate codes."""
    import hashlib
    import hmac

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    keyed = next(each for each in ALL if each.suite == suite)
    ours = EspOutbound(iv_key=IV_KEY, **keyed.ours(), tunnel=GATEWAYS[4], esn=True, sent=(5 << 32) - 1)
    esp = ours.encapsulate(speech(4, 160))[20:]
    assert ours.sent == 5 << 32
    assert esp[4:8] == bytes(4)
    upper = (5).to_bytes(4)
    if suite == "aes-gcm-16":
        plain = AESGCM(keyed.encryption[:-4]).decrypt(SALT + esp[8:16], esp[16:], esp[:4] + upper + esp[4:8])
        assert plain[:200] == speech(4, 160)
    else:
        code = hmac.new(keyed.authentication, esp[:-16] + upper, hashlib.sha256).digest()
        assert esp[-16:] == code[:16]


@pytest.mark.parametrize("suite", ["aes-gcm-16-iiv", "chacha20-poly1305-iiv"])
@pytest.mark.parametrize("esn", [False, True])
def test_an_implicit_iv_is_the_sequence_number(suite: str, esn: bool) -> None:
    """RFC 8750, with primitives."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    key = LONG[:16] if "gcm" in suite else LONG
    sent = (7 << 32) + 4 if esn else 4
    ours = EspOutbound(
        spi=SPI, suite=suite, iv_key=IV_KEY, encryption_key=key + SALT, tunnel=GATEWAYS[4], esn=esn, sent=sent
    )
    esp = ours.encapsulate(speech(4, 160))[20:]
    number = (sent + 1).to_bytes(8)
    aead = AESGCM(key) if "gcm" in suite else ChaCha20Poly1305(key)
    plain = aead.decrypt(SALT + number, esp[8:], esp[:4] + (number if esn else number[4:]))
    assert plain[:200] == speech(4, 160)


def test_what_is_refused_says_why() -> None:
    suite = next(each for each in ALL if each.suite == "aes-gcm-16").ours()
    with pytest.raises(ValueError, match='no cipher suite "des"'):
        EspOutbound(iv_key=IV_KEY, **{**suite, "suite": "des"})
    with pytest.raises(ValueError, match="20 or 36 bytes"):
        EspInbound(**{**suite, "encryption_key": bytes(16)})
    with pytest.raises(ValueError, match="is not an IP address"):
        EspInbound(**suite, tunnel=("here", "there"))
    sender = EspOutbound(iv_key=IV_KEY, **suite)
    with pytest.raises(ValueError, match="no IP packet"):
        sender.encapsulate(b"x" * 40)
    sent = sender.encapsulate(speech(4, 20))
    receiver = EspInbound(**suite)
    assert receiver.decapsulate(sent) == speech(4, 20)
    with pytest.raises(ValueError, match="sequence number 1 came before"):
        receiver.decapsulate(sent)
    assert receiver.counts["replayed"] == 1


TSHARK_CIPHERS: Final = {
    "AES-CBC": "AES-CBC [RFC3602]",
    "AES-GCM": "AES-GCM with 16 octet ICV [RFC4106]",
    "NULL": "NULL",
}
TSHARK_AUTHENTICATORS: Final = {
    "NULL": "NULL",
    "HMAC-MD5-96": "HMAC-MD5-96 [RFC2403]",
    "HMAC-SHA1-96": "HMAC-SHA-1-96 [RFC2404]",
    "SHA2-256-128": "HMAC-SHA-256-128 [RFC4868]",
}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="not here: tshark")
def test_tshark_decrypts_and_verifies_our_packets(tmp_path: Path) -> None:
    """All suites but ChaCha20-Poly1305, which it does not know in ESP; an SPI for each."""
    options, sent, expected = [], [], []
    for spi, suite in enumerate((each for each in ALL if each.crypt_algo in TSHARK_CIPHERS), SPI):
        options += ["-o", f"uat:esp_sa:{tshark_association(suite, spi)}"]
        ours = EspOutbound(iv_key=IV_KEY, **{**suite.ours(), "spi": spi}, **Way(4, 4, natt=False).ours())
        made = ours.encapsulate_each([speech(4, size) for size in SIZES])
        good = "" if suite.suite == "aes-cbc" else "1"
        inside = (f"{GATEWAYS[4][0]},{HOSTS[4][0]}", "0x04")
        expected += [(f"0x{spi:08x}", good, str(8 + 12 + size), *inside) for size in SIZES]
        if good:
            # Ends with another code.
            made.append(made[0][:-1] + bytes([made[0][-1] ^ 1]))
            expected.append((f"0x{spi:08x}", "0"))
        sent += made
    path = write_pcap(tmp_path / "esp.pcap", enumerate(map(frame, sent)))
    fields = ("esp.spi", "esp.icv_good", "udp.length", "ip.src", "esp.protocol")
    done = subprocess.run(
        [
            "tshark", "-n", "-r", str(path),
            "-o", "esp.enable_encryption_decode:TRUE", "-o", "esp.enable_authentication_check:TRUE",
            *options, "-T", "fields", *(argument for field in fields for argument in ("-e", field)),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [tuple(line.split("\t")) for line in done.stdout.splitlines()]
    assert len(lines) == len(expected), done.stderr
    for line, wanted in zip(lines, expected, strict=True):
        # Of a wrong code it depends on the suite whether the rest is read.
        assert line[: len(wanted)] == wanted


def tshark_association(suite: Keys, spi: int) -> str:
    """A row of its table ``esp_sa``."""
    texts = (
        "IPv4", *GATEWAYS[4], f"0x{spi:08x}", TSHARK_CIPHERS[suite.crypt_algo], hexadecimal(suite.encryption),
        TSHARK_AUTHENTICATORS[suite.auth_algo], hexadecimal(suite.authentication),
    )  # fmt: skip
    return ",".join(f'"{text}"' for text in texts)


def hexadecimal(key: bytes) -> str:
    return f"0x{key.hex()}" if key else ""
