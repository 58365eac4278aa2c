"""Packet lengths: one formula per encapsulation, from the IP packet that it carries. Pure.

Every formula returns its parts in the order of the wire, so that a sum can be traced to its
specification. Bytes are those of IP packets; Ethernet is separate (:mod:`.frames`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from weirlab.traffic.calls.codecs import ETHERNET_BYTES, IP_BYTES, RTP_BYTES, UDP_BYTES
from weirlab.traffic.encapsulation.suites import Authenticator, CipherSuite

IpVersion = Literal[4, 6]
Parts = Mapping[str, int]
"""Bytes by part, outermost first."""

TCP_BYTES: Final = 20
"""Without options; OpenVPN over TCP also has the time stamp option."""
TIMESTAMP_OPTION_BYTES: Final = 12
"""RFC 7323, appendix A: two bytes of padding in front of the option's ten."""

_ESP_BYTES: Final = 8
_ESP_TRAILER_BYTES: Final = 2
_AH_BYTES: Final = 12


@dataclass(frozen=True)
class VoicePacket:
    """An IP packet of speech in the clear, and how it travels.

    ``outer_ip`` is the version between the gateways of a tunnel; ``natt`` puts ESP into UDP (RFC 3948).
    """

    payload_bytes: int
    ip: IpVersion = 4
    outer_ip: IpVersion = 4
    natt: bool = False

    @property
    def packet_bytes(self) -> int:
        """The IP packet in the clear."""
        return IP_BYTES[self.ip] + UDP_BYTES + RTP_BYTES + self.payload_bytes


def clear(voice: VoicePacket) -> Parts:
    """RTP over UDP (RFC 3550, RFC 768)."""
    return {"IP": IP_BYTES[voice.ip], "UDP": UDP_BYTES, "RTP": RTP_BYTES, "speech": voice.payload_bytes}


def esp_transport(voice: VoicePacket, suite: CipherSuite) -> Parts:
    """ESP between IP and UDP (RFC 4303, 3.1.1)."""
    inner = {"UDP": UDP_BYTES, "RTP": RTP_BYTES, "speech": voice.payload_bytes}
    return _esp(inner, suite, voice.ip, voice.natt)


def esp_rtp(voice: VoicePacket, suite: CipherSuite) -> Parts:
    """As :func:`esp_transport`, but without UDP: RTP has no IP protocol number, so an experimental one."""
    return _esp({"RTP": RTP_BYTES, "speech": voice.payload_bytes}, suite, voice.ip, voice.natt)


def esp_tunnel(voice: VoicePacket, suite: CipherSuite) -> Parts:
    """The whole packet in ESP between two gateways (RFC 4303, 3.1.2)."""
    return _esp({"inner packet": voice.packet_bytes}, suite, voice.outer_ip, voice.natt)


def ah_transport(voice: VoicePacket, authenticator: Authenticator) -> Parts:
    """AH between IP and UDP (RFC 4302, 3.1.1)."""
    inner = {"UDP": UDP_BYTES, "RTP": RTP_BYTES, "speech": voice.payload_bytes}
    return {"IP": IP_BYTES[voice.ip], **_ah(authenticator, voice.ip), **inner}


def ah_tunnel(voice: VoicePacket, authenticator: Authenticator) -> Parts:
    """The whole packet behind AH between two gateways (RFC 4302, 3.1.2)."""
    return {
        "outer IP": IP_BYTES[voice.outer_ip],
        **_ah(authenticator, voice.outer_ip),
        "inner packet": voice.packet_bytes,
    }


def wireguard(voice: VoicePacket) -> Parts:
    """WireGuard's transport data message: header 16, the packet padded to 16, tag 16 (whitepaper, 5.4.6).

    The specification, Linux and wireguard-go pad; boringtun does not.
    """
    return {
        **_outer_udp(voice.outer_ip),
        "WireGuard": 16,
        "inner packet": voice.packet_bytes,
        "padding": _padding(voice.packet_bytes, 16),
        "tag": 16,
    }


def openvpn_gcm(voice: VoicePacket) -> Parts:
    """OpenVPN's P_DATA_V2 with an AEAD and no compression: operation and peer 4, packet ID 4, tag 16."""
    return {**_outer_udp(voice.outer_ip), **_openvpn_gcm(voice)}


def openvpn_gcm_tcp(voice: VoicePacket) -> Parts:
    """The same over TCP, one message per segment, with a length field of 2 bytes in front."""
    return {
        "outer IP": IP_BYTES[voice.outer_ip],
        "TCP": TCP_BYTES,
        "TCP time stamp": TIMESTAMP_OPTION_BYTES,
        "OpenVPN length": 2,
        **_openvpn_gcm(voice),
    }


def openvpn_cbc(voice: VoicePacket) -> Parts:
    """P_DATA_V2 with AES-CBC and HMAC-SHA1: 4, HMAC 20, IV 16, and packet ID and packet padded by PKCS #7."""
    return {
        **_outer_udp(voice.outer_ip),
        "OpenVPN": 4,
        "HMAC": 20,
        "IV": 16,
        "packet ID": 4,
        "inner packet": voice.packet_bytes,
        # PKCS #7 pads by at least one byte.
        "padding": 16 - (4 + voice.packet_bytes) % 16,
    }


def srtp(voice: VoicePacket, tag_bytes: int) -> Parts:
    """SRTP without master key identifier (RFC 3711, 3.1): only a tag is added, AES-GCM's of 16 (RFC 7714)."""
    return {**clear(voice), "tag": tag_bytes}


def dtls12_gcm(voice: VoicePacket) -> Parts:
    """RTP as application data of DTLS 1.2: record 13 (RFC 6347, 4.1), explicit nonce 8, tag 16 (RFC 5288)."""
    return {**_udp(voice.ip), "DTLS": 13, "nonce": 8, **_rtp(voice), "tag": 16}


def dtls12_chacha(voice: VoicePacket) -> Parts:
    """The same with ChaCha20-Poly1305, whose nonce is not sent (RFC 7905)."""
    return {**_udp(voice.ip), "DTLS": 13, **_rtp(voice), "tag": 16}


def dtls13(voice: VoicePacket) -> Parts:
    """RTP in DTLS 1.3 (RFC 9147, 4): unified header with 16 bits of number and length, no connection ID."""
    return {**_udp(voice.ip), "DTLS": 5, **_rtp(voice), "content type": 1, "tag": 16}


def gre(voice: VoicePacket) -> Parts:
    """GRE without options (RFC 2784)."""
    return {"outer IP": IP_BYTES[voice.outer_ip], "GRE": 4, "inner packet": voice.packet_bytes}


def gre_key(voice: VoicePacket) -> Parts:
    """GRE with a key, 4 bytes more (RFC 2890)."""
    return {"outer IP": IP_BYTES[voice.outer_ip], "GRE": 4, "key": 4, "inner packet": voice.packet_bytes}


def gre_in_esp(voice: VoicePacket, suite: CipherSuite) -> Parts:
    """GRE protected by ESP in transport mode, as routers do it."""
    return _esp({"GRE": 4, "inner packet": voice.packet_bytes}, suite, voice.outer_ip, voice.natt)


def vxlan(voice: VoicePacket) -> Parts:
    """VXLAN (RFC 7348): the Ethernet frame, without FCS, behind UDP and 8 bytes."""
    return {
        **_outer_udp(voice.outer_ip),
        "VXLAN": 8,
        "inner Ethernet": ETHERNET_BYTES,
        "inner packet": voice.packet_bytes,
    }


def total(parts: Parts) -> int:
    """Bytes of the whole IP packet."""
    return sum(parts.values())


def _esp(inner: Parts, suite: CipherSuite, ip: IpVersion, natt: bool) -> Parts:
    protected = sum(inner.values()) + _ESP_TRAILER_BYTES
    parts = {
        "outer IP" if "inner packet" in inner else "IP": IP_BYTES[ip],
        "NAT-T": UDP_BYTES if natt else 0,
        "ESP": _ESP_BYTES,
        "IV": suite.iv_bytes,
        **inner,
        "padding": _padding(protected, suite.align_bytes),
        "ESP trailer": _ESP_TRAILER_BYTES,
        "ICV": suite.icv_bytes,
    }
    return {name: size for name, size in parts.items() if size or name == "padding"}


def _ah(authenticator: Authenticator, ip: IpVersion) -> Parts:
    """RFC 4302, 2.6: the header is a multiple of 4 bytes in IPv4, of 8 in IPv6."""
    padding = _padding(_AH_BYTES + authenticator.icv_bytes, 4 if ip == 4 else 8)
    return {"AH": _AH_BYTES, "ICV": authenticator.icv_bytes, "AH padding": padding}


def _openvpn_gcm(voice: VoicePacket) -> Parts:
    return {"OpenVPN": 4, "packet ID": 4, "tag": 16, "inner packet": voice.packet_bytes}


def _outer_udp(ip: IpVersion) -> Parts:
    return {"outer IP": IP_BYTES[ip], "UDP": UDP_BYTES}


def _udp(ip: IpVersion) -> Parts:
    return {"IP": IP_BYTES[ip], "UDP": UDP_BYTES}


def _rtp(voice: VoicePacket) -> Parts:
    return {"RTP": RTP_BYTES, "speech": voice.payload_bytes}


def _padding(size: int, align: int) -> int:
    return -size % align
