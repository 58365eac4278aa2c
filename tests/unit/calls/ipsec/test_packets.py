"""Lengths by their specifications, worked out by hand, and what a publication counts."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.calls.ipsec import published
from weirlab.traffic.encapsulation import packets
from weirlab.traffic.encapsulation.encapsulations import (
    ENCAPSULATIONS,
    KINDS,
    fragments,
    frame_bytes,
    inner_mtu,
    outer_parts,
)
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.encapsulation.suites import SUITES, suite

G711 = VoicePacket(160)
"""20 ms."""

BY_NAME = {each.name: each for each in ENCAPSULATIONS}


@pytest.mark.parametrize(
    ("mode", "name", "ip_bytes", "kbps"),
    [
        ("clear", "", 200, 80.0),
        ("transport", "AES", 236, 94.4),
        ("transport", "AES-SHA1", 248, 99.2),
        ("transport", "AES-MD5", 248, 99.2),
        ("tunnel", "AES", 252, 100.8),
        ("tunnel", "AES-SHA1", 264, 105.6),
        ("tunnel", "AES-MD5", 264, 105.6),
    ],
)
def test_bandwidths_of_20_ms_by_the_published_definition_are_exact(
    mode: str, name: str, ip_bytes: int, kbps: float
) -> None:
    """Kazemi, Wijesinha, Karne: kb/s of IP packets."""
    (cell,) = (c for c in published.cells() if (c.packet_ms, c.mode, c.suite) == (20, mode, name))
    assert cell.ip_bytes == ip_bytes
    assert cell.ip_bps == kbps * 1e3


@pytest.mark.parametrize(
    ("packet_ms", "clear", "transport", "tunnel"),
    [
        # 20 + 8 + 16 + pad16(8 + 12 + speech + 2), in tunnel mode pad16(20 + 8 + 12 + speech + 2).
        (10, 120, 156, 172),
        (20, 200, 236, 252),
        (30, 280, 316, 332),
        (40, 360, 396, 412),
        (50, 440, 476, 492),
        (60, 520, 556, 572),
    ],
)
def test_the_published_definition_at_every_packet_time(
    packet_ms: int, clear: int, transport: int, tunnel: int
) -> None:
    found = {(c.mode, c.suite): c for c in published.cells() if c.packet_ms == packet_ms}
    assert found["clear", ""].ip_bytes == clear
    assert found["transport", "AES"].ip_bytes == transport
    assert found["tunnel", "AES"].ip_bytes == tunnel
    for mode, alone in (("transport", transport), ("tunnel", tunnel)):
        for name in ("AES-SHA1", "AES-MD5"):
            assert found[mode, name].ip_bytes == alone + 12
    for cell in found.values():
        assert cell.ip_bps == pytest.approx(cell.ip_bytes * 8e3 / packet_ms, rel=1e-12)
        # Ethernet: header 14, FCS 4, preamble 8, gap 12.
        assert cell.wire_bps == pytest.approx((cell.ip_bytes + 38) * 8e3 / packet_ms, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "ip_bytes"),
    [
        ("clear", 200),
        ("esp-transport/aes-cbc-hmac-sha256-128", 252),
        ("esp-tunnel/aes-cbc-hmac-sha256-128", 268),
        ("esp-transport/aes-gcm-16", 236),
        ("esp-tunnel/aes-gcm-16", 256),
        ("esp-transport/chacha20-poly1305", 236),
        ("esp-tunnel/chacha20-poly1305", 256),
        ("esp-transport/aes-gcm-16-iiv", 228),
        ("esp-tunnel/aes-gcm-16-iiv", 248),
        ("esp-rtp/aes-cbc", 220),
        ("esp-tunnel/null-hmac-sha1-96", 244),
        # 12 + 12 in front of UDP, or of the whole packet behind another IP header.
        ("ah-transport/hmac-sha1-96", 224),
        ("ah-tunnel/hmac-sha256-128", 248),
        ("wireguard", 20 + 8 + 16 + 208 + 16),
        ("openvpn/aes-gcm", 252),
        ("openvpn/aes-gcm-tcp", 20 + 20 + 12 + 2 + 224),
        ("openvpn/aes-cbc-hmac-sha1", 20 + 8 + 4 + 20 + 16 + 208),
        ("srtp/aes-cm-sha1-80", 210),
        ("srtp/aes-cm-sha1-32", 204),
        ("srtp/aes-gcm", 216),
        ("dtls/1.2-aes-gcm", 237),
        ("dtls/1.2-chacha20-poly1305", 229),
        ("dtls/1.3", 222),
        ("gre", 224),
        ("gre/key", 228),
        ("gre-in-esp/aes-gcm-16", 20 + 8 + 8 + 208 + 16),
        ("vxlan", 250),
    ],
)
def test_20_ms_of_g711_in_ipv4(name: str, ip_bytes: int) -> None:
    assert BY_NAME[name].packet_bytes(G711) == ip_bytes


def test_every_kind_has_an_encapsulation_and_every_suite_every_mode() -> None:
    assert {each.kind for each in ENCAPSULATIONS} == set(KINDS)
    assert len(BY_NAME) == len(ENCAPSULATIONS)
    for mode in ("esp-transport", "esp-tunnel", "esp-rtp", "gre-in-esp"):
        assert {each.suite for each in ENCAPSULATIONS if each.kind == mode} == {s.name for s in SUITES}


def test_ipv6_has_20_bytes_more_of_header_and_a_longer_ah() -> None:
    inner6 = VoicePacket(160, ip=6, outer_ip=6)
    for name in ("clear", "srtp/aes-gcm", "dtls/1.3", "esp-transport/aes-gcm-16"):
        assert BY_NAME[name].packet_bytes(inner6) == BY_NAME[name].packet_bytes(G711) + 20
    # RFC 4302, 2.6: a multiple of 8, so that 12 + 16 become 32.
    ah = BY_NAME["ah-transport/hmac-sha256-128"]
    assert ah.formula(inner6)["AH padding"] == 4
    assert ah.packet_bytes(inner6) == ah.packet_bytes(G711) + 20 + 4


def test_the_ip_versions_inside_and_outside_a_tunnel_are_independent() -> None:
    tunnel = BY_NAME["esp-tunnel/aes-gcm-16"]
    sizes = {
        (inner, outer): tunnel.packet_bytes(VoicePacket(160, ip=inner, outer_ip=outer))
        for inner in (4, 6)
        for outer in (4, 6)
    }
    assert sizes == {(4, 4): 256, (4, 6): 276, (6, 4): 276, (6, 6): 296}


def test_natt_adds_a_udp_header_to_esp_alone() -> None:
    natt = VoicePacket(160, natt=True)
    for each in ENCAPSULATIONS:
        added = each.packet_bytes(natt) - each.packet_bytes(G711)
        assert added == (8 if each.suite else 0), each.name


def test_parts_are_never_negative_and_esp_is_aligned() -> None:
    for size in range(40):
        for each in ENCAPSULATIONS:
            parts = each.formula(VoicePacket(size))
            assert min(parts.values()) >= 0
            if each.suite:
                chosen = suite(each.suite)
                head = ("IP", "outer IP", "NAT-T", "ESP", "IV", "ICV")
                protected = sum(count for name, count in parts.items() if name not in head)
                assert protected % chosen.align_bytes == 0
                assert parts["padding"] < chosen.align_bytes


def test_a_suite_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputError, match="'des'; suites are aes-cbc, "):
        suite("des")


@pytest.mark.parametrize(
    ("packet", "ip", "mtu", "sent"),
    [
        (1500, 4, 1500, (1500,)),
        (1501, 4, 1500, (1500, 21)),
        # 1480 is a multiple of 8, 1479 leaves 1472.
        (1501, 4, 1499, (1492, 29)),
        # The last fragment need not be a multiple of 8.
        (1499, 4, 1498, (1492, 27)),
        (2973, 4, 1499, (1492, 1492, 29)),
        # 48 bytes of headers in each; 1448 is a multiple of 8.
        (1501, 6, 1500, (1496, 61)),
        (1280, 6, 1280, (1280,)),
        (68, 4, 68, (68,)),
        (69, 4, 68, (68, 21)),
    ],
)
def test_fragments_are_those_of_the_rfcs(packet: int, ip: int, mtu: int, sent: tuple[int, ...]) -> None:
    assert fragments(packet, 4 if ip == 4 else 6, mtu) == sent


def test_fragments_carry_everything_in_multiples_of_8_and_fit() -> None:
    for ip, header, extra in ((4, 20, 0), (6, 40, 8)):
        for mtu in (1280, 1281, 1287, 1500):
            for packet in range(mtu + 1, 4 * mtu, 7):
                sent = fragments(packet, 4 if ip == 4 else 6, mtu)
                carried = [size - header - extra for size in sent]
                assert sum(carried) == packet - header
                assert all(size % 8 == 0 for size in carried[:-1])
                assert max(sent) <= mtu
                assert min(carried) > 0


def test_the_inner_mtu_is_the_longest_packet_that_fits() -> None:
    for each in ENCAPSULATIONS:
        for mtu in (576, 1400, 1500):
            fits = inner_mtu(each, G711, mtu)
            assert fits <= mtu
            longest = VoicePacket(fits - 40)
            assert longest.packet_bytes == fits
            assert packets.total(outer_parts(each, longest, mtu)) <= mtu
            assert fits == mtu or packets.total(outer_parts(each, VoicePacket(fits - 39), mtu)) > mtu
    assert inner_mtu(BY_NAME["esp-tunnel/aes-gcm-16"], G711, 1500) == 1446
    assert inner_mtu(BY_NAME["wireguard"], G711, 1500) == 1440
    assert inner_mtu(BY_NAME["vxlan"], G711, 68) == 0


def test_wireguard_pads_no_further_than_its_own_mtu() -> None:
    # What wg-quick sets where gateways talk by IPv6: 1500 less 80.
    assert inner_mtu(BY_NAME["wireguard"], VoicePacket(160, outer_ip=6), 1500) == 1420
    longest = VoicePacket(1420 - 40, outer_ip=6)
    assert BY_NAME["wireguard"].packet_bytes(longest) == 1504
    parts = outer_parts(BY_NAME["wireguard"], longest, 1500)
    assert (packets.total(parts), parts["padding"]) == (1500, 0)
    longer = VoicePacket(1421 - 40, outer_ip=6)
    assert outer_parts(BY_NAME["wireguard"], longer, 1500) == BY_NAME["wireguard"].formula(longer)


def test_short_packets_are_padded_by_ethernet() -> None:
    assert frame_bytes(40) == 64
    assert frame_bytes(200) == 218


def test_parts_add_up_to_what_is_told() -> None:
    parts = packets.esp_tunnel(G711, suite("aes-cbc-hmac-sha1-96"))
    assert dict(parts) == {
        "outer IP": 20, "ESP": 8, "IV": 16, "inner packet": 200, "padding": 6, "ESP trailer": 2, "ICV": 12,
    }  # fmt: skip
