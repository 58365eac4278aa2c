"""Fragments of IP packets that are longer than the MTU, and Ethernet frames. Pure."""

from __future__ import annotations

from typing import Final

from weirlab.base.units import FCS_BYTES, MIN_FRAME_BYTES
from weirlab.traffic.calls.codecs import ETHERNET_BYTES, IP_BYTES
from weirlab.traffic.encapsulation.encapsulations import Encapsulation
from weirlab.traffic.encapsulation.packets import IpVersion, Parts, VoicePacket, total

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
