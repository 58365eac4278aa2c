"""Lengths by formula beside recorded packets of WireGuard and OpenVPN.

``captures`` were taken with tcpdump between two network namespaces with a tunnel: wireguard-go 0.0.20220316
with an MTU of 1420, and OpenVPN 2.6.14 (``--disable-dco``, ``--peer-fingerprint``, ``--auth SHA1``) with
AES-128-GCM over UDP and over TCP and with AES-128-CBC over UDP. Through each went eight UDP packets of IPv4
with 12 bytes, as RTP has, and then ``SIZES`` bytes, 0.1 s apart.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from weirlab.traffic.encapsulation.encapsulations import ENCAPSULATIONS
from weirlab.traffic.encapsulation.packets import VoicePacket

CAPTURES: Final = Path(__file__).parent / "captures"
SIZES: Final = (0, 1, 2, 3, 14, 15, 160, 480)
P_DATA_V2: Final = 9


def is_wireguard_data(payload: bytes) -> bool:
    """A transport data message with something in it: not a handshake, not a keepalive."""
    return payload[:1] == b"\x04" and len(payload) > 32


def is_openvpn_data(payload: bytes) -> bool:
    return bool(payload) and payload[0] >> 3 == P_DATA_V2


def is_openvpn_data_in_tcp(payload: bytes) -> bool:
    return is_openvpn_data(payload[2:])


@pytest.mark.parametrize(
    ("name", "file", "is_data"),
    [
        ("wireguard", "wireguard-go", is_wireguard_data),
        ("openvpn/aes-gcm", "openvpn-aes-gcm", is_openvpn_data),
        ("openvpn/aes-gcm-tcp", "openvpn-aes-gcm-tcp", is_openvpn_data_in_tcp),
        ("openvpn/aes-cbc-hmac-sha1", "openvpn-aes-cbc-hmac-sha1", is_openvpn_data),
    ],
)
def test_recorded_packets_are_as_long(name: str, file: str, is_data: Callable[[bytes], bool]) -> None:
    (formula,) = (each for each in ENCAPSULATIONS if each.name == name)
    found = [packet.len for packet in recorded(CAPTURES / f"{file}.pcap") if is_data(carried(packet))]
    assert found == [formula.packet_bytes(VoicePacket(size)) for size in SIZES]


def recorded(path: Path) -> list[Any]:
    """IP packets of a capture."""
    from scapy.layers.inet import IP
    from scapy.layers.l2 import Ether
    from scapy.utils import RawPcapReader

    with RawPcapReader(str(path)) as capture:
        frames = [Ether(data) for data, _ in capture]
    return [frame[IP] for frame in frames if IP in frame]


def carried(packet: Any) -> bytes:
    """What is behind UDP or TCP."""
    transport = packet.payload
    return bytes(transport.payload)
