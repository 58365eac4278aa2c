"""Cipher suites of ESP and authenticators of AH: what each adds to a packet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted

_MUST_NOT_CBC: Final = "encrypts without authenticating, which RFC 8221 forbids"
_MUST_NOT_MD5: Final = "HMAC-MD5, which RFC 8221 forbids"


@dataclass(frozen=True)
class CipherSuite:
    """Encryption and authentication of an ESP security association."""

    name: str
    title: str
    iv_bytes: int
    """Sent with every packet; 0 where the sequence number serves (RFC 8750) or nothing is encrypted."""
    align_bytes: int
    """The encrypted part, trailer included, is padded to a multiple of this (RFC 4303, 2.4: at least 4)."""
    icv_bytes: int
    source: str
    historic: str = ""
    """Why it should no longer be used; empty for current suites."""


SUITES: Final[tuple[CipherSuite, ...]] = (
    CipherSuite("aes-cbc", "AES-CBC", 16, 16, 0, "RFC 3602", _MUST_NOT_CBC),
    CipherSuite(
        "aes-cbc-hmac-md5-96", "AES-CBC, HMAC-MD5-96", 16, 16, 12, "RFC 3602, RFC 2403", _MUST_NOT_MD5
    ),
    CipherSuite("aes-cbc-hmac-sha1-96", "AES-CBC, HMAC-SHA1-96", 16, 16, 12, "RFC 3602, RFC 2404"),
    CipherSuite("aes-cbc-hmac-sha256-128", "AES-CBC, HMAC-SHA256-128", 16, 16, 16, "RFC 3602, RFC 4868"),
    CipherSuite("aes-gcm-16", "AES-GCM-16", 8, 4, 16, "RFC 4106"),
    CipherSuite("aes-gcm-16-iiv", "AES-GCM-16, implicit IV", 0, 4, 16, "RFC 4106, RFC 8750"),
    CipherSuite("chacha20-poly1305", "ChaCha20-Poly1305", 8, 4, 16, "RFC 7634"),
    CipherSuite("chacha20-poly1305-iiv", "ChaCha20-Poly1305, implicit IV", 0, 4, 16, "RFC 7634, RFC 8750"),
    CipherSuite("null-hmac-md5-96", "NULL, HMAC-MD5-96", 0, 4, 12, "RFC 2410, RFC 2403", _MUST_NOT_MD5),
    CipherSuite("null-hmac-sha1-96", "NULL, HMAC-SHA1-96", 0, 4, 12, "RFC 2410, RFC 2404"),
    CipherSuite("null-hmac-sha256-128", "NULL, HMAC-SHA256-128", 0, 4, 16, "RFC 2410, RFC 4868"),
)
"""Every suite; the key length (128 or 256 bits) does not change packets."""


@dataclass(frozen=True)
class Authenticator:
    """The algorithm of AH's integrity check value."""

    name: str
    title: str
    icv_bytes: int
    source: str
    historic: str = ""


AUTHENTICATORS: Final[tuple[Authenticator, ...]] = (
    Authenticator("hmac-md5-96", "HMAC-MD5-96", 12, "RFC 2403", _MUST_NOT_MD5),
    Authenticator("hmac-sha1-96", "HMAC-SHA1-96", 12, "RFC 2404"),
    Authenticator("hmac-sha256-128", "HMAC-SHA256-128", 16, "RFC 4868"),
)


def suite(name: str) -> CipherSuite:
    """The suite of this name.

    Raises
    ------
    InputError
        There is none.
    """
    found = next((each for each in SUITES if each.name == name.strip().lower()), None)
    if found is None:
        known = ", ".join(each.name for each in SUITES)
        raise InputError(f"there is no cipher suite {quoted(name)}; suites are {known}")
    return found
