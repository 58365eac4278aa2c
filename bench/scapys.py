"""The time that Scapy takes to encapsulate and decapsulate the same packets."""

from __future__ import annotations

import statistics
import time
from typing import Any

SCAPY = {
    "aes-cbc": ("AES-CBC", "NULL"),
    "aes-cbc-hmac-md5-96": ("AES-CBC", "HMAC-MD5-96"),
    "aes-cbc-hmac-sha1-96": ("AES-CBC", "HMAC-SHA1-96"),
    "aes-cbc-hmac-sha256-128": ("AES-CBC", "SHA2-256-128"),
    "aes-gcm-16": ("AES-GCM", "NULL"),
    "chacha20-poly1305": ("CHACHA20-POLY1305", "NULL"),
    "null-hmac-md5-96": ("NULL", "HMAC-MD5-96"),
    "null-hmac-sha1-96": ("NULL", "HMAC-SHA1-96"),
    "null-hmac-sha256-128": ("NULL", "SHA2-256-128"),
}
"""Encryption and authentication, as Scapy calls them, by suite."""
KEY_BYTES = {"AES-CBC": 16, "AES-GCM": 20, "CHACHA20-POLY1305": 36, "NULL": 0}
AUTHENTICATION_BYTES = {"HMAC-MD5-96": 16, "HMAC-SHA1-96": 20, "SHA2-256-128": 32, "NULL": 0}
PACKETS = 30


def scapy_costs(packet_bytes: int) -> dict[tuple[str, str, str], float]:
    """Median ns per packet, by suite, mode and way."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.ipsec import ESP
    from scapy.layers.ipsec import SecurityAssociation as Untyped
    from scapy.packet import Raw

    make: Any = Untyped
    found = {}
    clear = IP(src="198.18.0.1", dst="198.19.0.1") / UDP(sport=20000, dport=20002)
    clear /= Raw(bytes(packet_bytes - len(clear)))
    for suite, (cipher, authentication) in SCAPY.items():
        for mode in ("transport", "tunnel"):
            outer = {"tunnel_header": IP(src="192.0.2.1", dst="192.0.2.2")} if mode == "tunnel" else {}
            association = make(
                ESP,
                spi=0x1000,
                crypt_algo=cipher,
                crypt_key=bytes(KEY_BYTES[cipher]) or None,
                auth_algo=authentication,
                auth_key=bytes(AUTHENTICATION_BYTES[authentication]) or None,
                **outer,
            )
            sent = [_timed(association.encrypt, IP(bytes(clear))) for _ in range(PACKETS)]
            received = [_timed(association.decrypt, packet) for _, packet in sent]
            for way, done in (("out", sent), ("in", received)):
                found[suite, mode, way] = statistics.median(ns for ns, _ in done)
    return found


def _timed(work: Any, packet: Any) -> tuple[float, Any]:
    begun_ns = time.perf_counter_ns()
    made = work(packet)
    return float(time.perf_counter_ns() - begun_ns), made
