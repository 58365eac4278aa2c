"""Weir's own ESP gateways: what is on the cable between them, taken apart by others, and what they count."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from weirlab.lab import dut, wiring
from weirlab.lab.dut.tunnels import esp, gateway
from weirlab.lab.dut.tunnels.esp import Esp
from weirlab.lab.dut.tunnels.tunnel import Tunnel
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.netns import NetnsLab

from .conftest import DEADLINE_S, RECEIVER, PlainTraffic, wait_until
from .test_tunnels import between_gateways, ends

pytestmark = pytest.mark.netns

SUITES: Final = {
    "esp:aes128gcm16": {"crypt_algo": "AES-GCM", "auth_algo": "NULL"},
    "esp-udp:aes128-sha1": {"crypt_algo": "AES-CBC", "auth_algo": "HMAC-SHA1-96"},
}
"""As Scapy calls them."""
PAYLOAD: Final = b"in the clear" * 5


@pytest.fixture(scope="module", params=SUITES)
def known(request: pytest.FixtureRequest) -> Iterator[tuple[NetnsLab, list[esp.Keys]]]:
    """A lab, and the keys of both directions."""
    made: list[esp.Keys] = []
    new_keys = esp.new_keys

    def remembered(cipher: str, name: str, spi: int) -> esp.Keys:
        made.append(new_keys(cipher, name, spi))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(esp, "new_keys", remembered)
        driver = dut.make(request.param)
        if missing := driver.check():
            pytest.skip("; ".join(missing))
        with NetnsLab(driver) as lab:
            PlainTraffic(lab)
            yield lab, made


def test_scapy_finds_in_the_tunnel_what_was_sent_in_the_clear(known: tuple[NetnsLab, list[esp.Keys]]) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.ipsec import ESP, SecurityAssociation

    lab, (there, _) = known
    driver = lab._driver
    assert isinstance(driver, Esp)
    association = SecurityAssociation(
        ESP,
        spi=there.spi,
        crypt_key=there.encryption or None,
        auth_key=there.authentication or None,
        tunnel_header=IP(src="203.0.113.1", dst="203.0.113.2"),
        **({"nat_t_header": UDP(sport=4500, dport=4500)} if driver.natt else {}),
        **SUITES[lab.dut],
    )
    frames = between_gateways(lab, PAYLOAD)
    inside = [bytes(association.decrypt(IP(frame[14:]))) for frame in frames]
    assert any(packet.endswith(PAYLOAD) for packet in inside)
    assert not any(PAYLOAD in frame for frame in frames)


def test_what_passes_is_counted_by_both_gateways(known: tuple[NetnsLab, list[esp.Keys]]) -> None:
    lab, _ = known
    # While the gateways come up, one may send (IPv6 multicast) what the interface of the other still refuses.
    before = lab.counters()
    with changes(lab) as changed:
        frames = between_gateways(lab, PAYLOAD)
        changed("far_esp_in_packets", len(frames))
    grown = {name: count - before[name] for name, count in lab.counters().items() if "_esp_" in name}
    assert grown["near_esp_out_packets"] >= len(frames)
    passed = ("out_packets", "in_packets")
    assert {name: count for name, count in grown.items() if count and not name.endswith(passed)} == {}


def test_drops_are_counted_by_their_reason(known: tuple[NetnsLab, list[esp.Keys]]) -> None:
    lab, _ = known
    driver = lab._driver
    assert isinstance(driver, Esp)
    frame = between_gateways(lab, PAYLOAD)[-1]
    esp_at = 14 + 20 + (8 if driver.natt else 0)
    number_at = slice(esp_at + 4, esp_at + 8)
    number = int.from_bytes(frame[number_at], "big")
    later = bytearray(frame)
    later[number_at] = (number + 500_000).to_bytes(4, "big")
    stranger = bytearray(frame)
    stranger[esp_at] ^= 1
    for sent, counter in ((frame, "replayed"), (bytes(later), "bad_tag"), (bytes(stranger), "foreign")):
        with changes(lab) as changed:
            send_between(lab, sent)
            changed(f"far_esp_in_{counter}", 1)
    # A forged number does not move the window: what comes after it is accepted.
    assert between_gateways(lab, PAYLOAD)


def test_a_packet_that_would_not_fit_is_counted_and_dropped(known: tuple[NetnsLab, list[esp.Keys]]) -> None:
    lab, _ = known
    longest = lab._driver.longest_packet_bytes(4)
    assert longest is not None
    near = Namespace(lab.namespaces["dut"])
    # The kernel would fragment it.
    near.call(lambda: interface.send_through(esp.INTERFACE, (), longest + 1))
    try:
        with ends(lab) as (sender, _), changes(lab) as changed:
            sender.sendto(bytes(longest + 1 - 28), ("198.19.1.1", 9))
            changed("near_esp_out_too_long", 1)
    finally:
        near.call(lambda: interface.send_through(esp.INTERFACE, (), longest))


BURST: Final = 10
"""Datagrams on their way at a time: fewer than a gateway has room for."""


@pytest.mark.parametrize(
    ("name", "counter", "rekeys"),
    [
        ("esp:rekey=7packets", "far_esp_in_rekeys", 20),
        ("esp-udp:aes128-sha1:rekey=1ms", "far_esp_in_rekeys", 20),
        ("esp:aes128", "far_esp_in_rekeys", 1),
        ("strongswan-libipsec:aes128-sha1:rekey=1s", "near_rekeys", 1),
        ("strongswan-kernel:rekey=100packets", "near_rekeys", 2),
    ],
)
def test_nothing_is_lost_while_the_gateways_rekey(name: str, counter: str, rekeys: int) -> None:
    driver = dut.make(name)
    if missing := driver.check():
        pytest.skip("; ".join(missing))
    assert isinstance(driver, Tunnel)
    with NetnsLab(driver) as lab:
        PlainTraffic(lab)
        before = lab.counters()
        between_gateways(lab, PAYLOAD)
        if driver.rekey is None:
            driver.rekey_now()
        with ends(lab) as (sender, receiver):
            receiver.settimeout(DEADLINE_S)

            def carried() -> bool:
                """Whether the keys changed so often; until then, every datagram came, in order."""
                sent = [number.to_bytes(4, "big") + PAYLOAD for number in range(BURST)]
                for datagram in sent:
                    sender.sendto(datagram, (RECEIVER[4], receiver.getsockname()[1]))
                assert [receiver.recv(4096) for _ in sent] == sent
                return lab.counters()[counter] - before[counter] >= rekeys

            wait_until(carried)
        grown = {name: count - before[name] for name, count in lab.counters().items()}
        assert {name: count for name, count in grown.items() if count and name in DROPS} == {}


DROPS: Final = frozenset(
    f"{side}_esp_{name}"
    for side in ("near", "far")
    for name in gateway.counter_names()
    if name not in ("out_packets", "in_packets", "out_rekeys", "in_rekeys", "in_late")
)


@contextmanager
def changes(lab: NetnsLab) -> Iterator[Callable[[str, int], None]]:
    """Waits until a counter has grown by so much since the beginning."""
    before = lab.counters()

    def changed(name: str, by: int) -> None:
        wait_until(lambda: lab.counters()[name] - before[name] >= by)

    yield changed


def send_between(lab: NetnsLab, frame: bytes) -> None:
    """Have the far gateway receive a frame from the cable."""
    near = Namespace(lab.namespaces["dut"])
    with near.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as raw:
        raw.bind((wiring.NEAR.name, 0))
        raw.send(frame)
