"""Every encapsulation by name: formula, specification and title; fragments and Ethernet frames of packets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from weirlab.base.units import FCS_BYTES, MIN_FRAME_BYTES
from weirlab.traffic.calls.codecs import ETHERNET_BYTES, IP_BYTES
from weirlab.traffic.encapsulation import packets
from weirlab.traffic.encapsulation.packets import IpVersion, Parts, VoicePacket, total
from weirlab.traffic.encapsulation.suites import AUTHENTICATORS, SUITES, CipherSuite

Kind = Literal[
    "clear", "esp-transport", "esp-rtp", "esp-tunnel", "ah-transport", "ah-tunnel", "gre-in-esp",
    "wireguard", "openvpn", "srtp", "dtls", "gre", "vxlan",
]  # fmt: skip
KINDS: Final[tuple[Kind, ...]] = (
    "clear", "esp-transport", "esp-rtp", "esp-tunnel", "ah-transport", "ah-tunnel", "gre-in-esp",
    "wireguard", "openvpn", "srtp", "dtls", "gre", "vxlan",
)  # fmt: skip

TUNNELS: Final[frozenset[Kind]] = frozenset(
    {"esp-tunnel", "ah-tunnel", "gre-in-esp", "wireguard", "openvpn", "gre", "vxlan"}
)
"""Whole packets are carried between two gateways, so there is an outer IP header."""

WITH_SUITE: Final[frozenset[Kind]] = frozenset({"esp-transport", "esp-rtp", "esp-tunnel", "gre-in-esp"})


@dataclass(frozen=True)
class Encapsulation:
    """One way for a packet of speech to travel."""

    name: str
    kind: Kind
    title: str
    formula: Callable[[VoicePacket], Parts]
    source: str
    suite: str = ""
    historic: str = ""
    """Why it should no longer be used."""
    padding_gives_way: bool = False
    """Packets are padded up to the tunnel's own MTU at most."""

    @property
    def is_tunnel(self) -> bool:
        return self.kind in TUNNELS

    def ip(self, voice: VoicePacket) -> IpVersion:
        """Version of the outermost IP header."""
        return voice.outer_ip if self.is_tunnel else voice.ip

    def packet_bytes(self, voice: VoicePacket) -> int:
        """The outermost IP packet, before any fragmentation."""
        return packets.total(self.formula(voice))


def _with(
    kind: Kind, title: str, formula: Callable[[VoicePacket, CipherSuite], Parts]
) -> list[Encapsulation]:
    return [
        Encapsulation(
            name=f"{kind}/{suite.name}",
            kind=kind,
            title=f"{title}, {suite.title}",
            formula=partial(_behind, formula, suite),
            source=f"RFC 4303, {suite.source}",
            suite=suite.name,
            historic=suite.historic,
        )
        for suite in SUITES
    ]


def _behind(
    formula: Callable[[VoicePacket, CipherSuite], Parts], suite: CipherSuite, voice: VoicePacket
) -> Parts:
    return formula(voice, suite)


def _authenticated() -> list[Encapsulation]:
    made = []
    for kind, title, formula in (
        ("ah-transport", "AH transport", packets.ah_transport),
        ("ah-tunnel", "AH tunnel", packets.ah_tunnel),
    ):
        for each in AUTHENTICATORS:
            made.append(
                Encapsulation(
                    name=f"{kind}/{each.name}",
                    kind=kind,  # type: ignore[arg-type]
                    title=f"{title}, {each.title}",
                    formula=partial(formula, authenticator=each),
                    source=f"RFC 4302, {each.source}",
                    historic=each.historic,
                )
            )
    return made


_SRTP: Final = (
    ("aes-cm-sha1-80", "AES-CM, 80-bit tag", 10, "RFC 3711, 3.1"),
    ("aes-cm-sha1-32", "AES-CM, 32-bit tag", 4, "RFC 3711, 3.1"),
    ("aes-gcm", "AES-GCM", 16, "RFC 3711, 3.1; RFC 7714"),
)

ENCAPSULATIONS: Final[tuple[Encapsulation, ...]] = (
    Encapsulation("clear", "clear", "in the clear", packets.clear, "RFC 3550"),
    *_with("esp-transport", "ESP transport", packets.esp_transport),
    *_with("esp-rtp", "ESP without UDP", packets.esp_rtp),
    *_with("esp-tunnel", "ESP tunnel", packets.esp_tunnel),
    *_authenticated(),
    *_with("gre-in-esp", "GRE in ESP", packets.gre_in_esp),
    Encapsulation(
        "wireguard",
        "wireguard",
        "WireGuard",
        packets.wireguard,
        "WireGuard whitepaper, 5.4.6",
        padding_gives_way=True,
    ),
    Encapsulation(
        "openvpn/aes-gcm", "openvpn", "OpenVPN, AES-GCM, UDP", packets.openvpn_gcm, "OpenVPN wire protocol"
    ),
    Encapsulation(
        "openvpn/aes-gcm-tcp",
        "openvpn",
        "OpenVPN, AES-GCM, TCP",
        packets.openvpn_gcm_tcp,
        "OpenVPN wire protocol",
    ),
    Encapsulation(
        "openvpn/aes-cbc-hmac-sha1",
        "openvpn",
        "OpenVPN, AES-CBC, HMAC-SHA1, UDP",
        packets.openvpn_cbc,
        "OpenVPN wire protocol",
    ),
    *(
        Encapsulation(f"srtp/{name}", "srtp", f"SRTP, {title}", partial(packets.srtp, tag_bytes=tag), source)
        for name, title, tag, source in _SRTP
    ),
    Encapsulation("dtls/1.2-aes-gcm", "dtls", "DTLS 1.2, AES-GCM", packets.dtls12_gcm, "RFC 6347, RFC 5288"),
    Encapsulation(
        "dtls/1.2-chacha20-poly1305",
        "dtls",
        "DTLS 1.2, ChaCha20-Poly1305",
        packets.dtls12_chacha,
        "RFC 6347, RFC 7905",
    ),
    Encapsulation("dtls/1.3", "dtls", "DTLS 1.3", packets.dtls13, "RFC 9147"),
    Encapsulation("gre", "gre", "GRE", packets.gre, "RFC 2784"),
    Encapsulation("gre/key", "gre", "GRE with key", packets.gre_key, "RFC 2890"),
    Encapsulation("vxlan", "vxlan", "VXLAN", packets.vxlan, "RFC 7348"),
)
"""All encapsulations, in the order in which they are shown."""


def chosen(kinds: Sequence[Kind], suites: Sequence[CipherSuite]) -> list[Encapsulation]:
    """The encapsulations of these kinds, with these suites if the kind has one; in their order."""
    names = {suite.name for suite in suites}
    return [each for each in ENCAPSULATIONS if each.kind in kinds and (not each.suite or each.suite in names)]


LEAST_MTU: Final[dict[IpVersion, int]] = {4: 68, 6: 1280}
"""Packet size that every link carries unfragmented (RFC 791, 3.2; RFC 8200, 5)."""

ETHERNET_MTU: Final = 1500

_FRAGMENT_BYTES: Final[dict[IpVersion, int]] = {4: 0, 6: 8}
"""Extension header of a fragment (RFC 8200, 4.5); IPv4 has the fields in its header."""


def fragments(packet_bytes: int, ip: IpVersion, mtu: int) -> tuple[int, ...]:
    """Lengths of the IP packets that carry one of ``packet_bytes``; itself if it fits (RFC 791, 3.2).

    All but the last carry a multiple of 8 bytes.
    """
    if packet_bytes <= mtu:
        return (packet_bytes,)
    header = IP_BYTES[ip] + _FRAGMENT_BYTES[ip]
    room = (mtu - header) // 8 * 8
    left = packet_bytes - IP_BYTES[ip]
    made = []
    while left > mtu - header:
        made.append(header + room)
        left -= room
    return (*made, header + left)


def frame_bytes(packet_bytes: int) -> int:
    """The Ethernet frame with FCS around an IP packet, padded to Ethernet's minimum."""
    return max(ETHERNET_BYTES + packet_bytes + FCS_BYTES, MIN_FRAME_BYTES)


def outer_parts(encapsulation: Encapsulation, voice: VoicePacket, mtu: int) -> Parts:
    """Parts of the outermost IP packet of a tunnel whose own MTU is :func:`inner_mtu`."""
    parts = encapsulation.formula(voice)
    beyond = total(parts) - mtu
    if encapsulation.padding_gives_way and 0 < beyond <= parts["padding"]:
        return {**parts, "padding": parts["padding"] - beyond}
    return parts


def inner_mtu(encapsulation: Encapsulation, voice: VoicePacket, mtu: int) -> int:
    """The longest IP packet in the clear that still fits into ``mtu``; 0 if none does.

    Never longer than ``mtu`` itself, as speech has to reach the gateway first.
    """
    headers = voice.packet_bytes - voice.payload_bytes
    for payload in range(mtu - headers, -1, -1):
        longest = VoicePacket(payload, voice.ip, voice.outer_ip, voice.natt)
        if total(outer_parts(encapsulation, longest, mtu)) <= mtu:
            return longest.packet_bytes
    return 0
