"""Messages of gatekeepers on the wire: how they are read and written, and where answers go."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.numbering.configs import configs
from weirlab.numbering.gatekeeper import datagrams, ras
from weirlab.numbering.gatekeeper.__main__ import MOST_OF_HOST as MOST_REQUESTS_OF_HOST
from weirlab.numbering.gatekeeper.__main__ import GatekeeperService, reply_place
from weirlab.numbering.gatekeeper.ras import Address, RasMessage
from weirlab.numbering.gatekeeper.table import GatekeeperTable

from ..plans import network

PBX = Address("192.0.2.6", 1720)


@pytest.mark.parametrize(
    "message",
    [
        ras.GatekeeperConfirm(1, "gk", Address("192.0.2.4", 1719)),
        ras.RegistrationConfirm(2, "gk", "192.0.2.3:1720", 60),
        ras.RegistrationReject(3, "fullRegistrationRequired"),
        ras.RegistrationReject(3, "resourceUnavailable"),
        ras.UnregistrationConfirm(4),
        ras.AdmissionConfirm(5, 1280, PBX),
        ras.AdmissionConfirm(6, 1280, Address("2001:db8::6", 1720), "420222"),
        ras.AdmissionReject(7, "calledPartyNotRegistered"),
        ras.AdmissionReject(7, "incompleteAddress"),
        ras.LocationReject(7, "incompleteAddress"),
        ras.DisengageConfirm(8),
        ras.BandwidthConfirm(9, 640),
        ras.LocationRequest(65535, "420222", Address("192.0.2.4", 1719), 7),
        ras.LocationConfirm(11, PBX, Address("192.0.2.4", 1719)),
        ras.LocationReject(12, "notRegistered"),
        ras.InfoRequestAck(13),
        ras.InfoRequestNak(14, "notRegistered"),
    ],
    ids=lambda message: message.NAME,
)
def test_what_a_gatekeeper_sends_is_read_as_it_was_meant(message: RasMessage) -> None:
    assert datagrams.read(datagrams.written(message)) == message


REPORTED = (
    "5ac0000322c0b8000027056f6f683332330676302e382e336d01c000310030002e00390035002e0030002e00340032003a00"
    "31003700320030000a5f002a32e601000a5f002a06b80001a0000c6162636465666768696a6b6c6d6e6f7006000a5f002a06"
    "b8000a5f002a06b8000003c10011006f6f68333233632d4177d220c93f00960c6000c06b03bb29c06b03bb290e2401N00180"
)
"""What Asterisk's ooh323 reports of a call, with N in place of needResponse: 0 for no, 8 for yes."""


RECORDED = {
    "00200000060008914a0004000a5f002932e622c0b8000027056f6f683332330676302e382e336d00024006"
    "00670077002d007700650073007401807536": ras.GatekeeperRequest(1),
    "0ec00001060008914a00048001000a5f002906b801000a5f002932e622c0b8000027056f6f683332330676302e382e336d"
    "0002400600670077002d0077006500730074018075360c0067006b002d007700650073007460b8000027056f6f68333233"
    "0676302e382e336d2c8a00000340012b01000100": ras.RegistrationRequest(
        2, Address("10.95.0.41", 1720), ("gw-west", "4203"), "", False, Address("10.95.0.41", 13030)
    ),
    "2790000200e000310030002e00390035002e0030002e00340031003a0031003700320030010580753735333334024006"
    "00670077002d007700650073007401807536000a5f002906b8800186a0000c6162636465666768696a6b6c6d6e6f700964"
    "2000010011006f6f68333233632d4177d220c93f00960f0c0067006b002d00770065007300740100": ras.AdmissionRequest(
        3,
        "10.95.0.41:1720",
        "420402000001",
        False,
        100000,
        None,
        False,
        "6f6f68333233632d4177d220c93f0096",
        12,
        ("gw-west", "4203"),
    ),
    "27d0000200e000310030002e00390035002e0030002e00340032003a0031003700320030010580753735333334000a5f00"
    "2a06b80201807536400600670077002d0077006500730074000a5f00292efe800186a0000c6162636465666768696a6b6c"
    "6d6e6f7049642000010011006f6f68333233632d4177d220c93f00960f0c0067006b002d00650061007300740100": (
        ras.AdmissionRequest(
            3,
            "10.95.0.42:1720",
            "420402000001",
            True,
            100000,
            Address("10.95.0.42", 1720),
            False,
            "6f6f68333233632d4177d220c93f0096",
            12,
            ("4203", "gw-west"),
        )
    ),
    REPORTED.replace("01N0", "0100"): ras.InfoRequestResponse(4, "10.95.0.42:1720", False),
    REPORTED.replace("01N0", "0180"): ras.InfoRequestResponse(4, "10.95.0.42:1720", True),
}
"""What Asterisk's ooh323 sends, and what it means."""


@pytest.mark.parametrize("content", RECORDED, ids=[message.NAME for message in RECORDED.values()])
def test_requests_of_a_real_gateway_are_read(content: str) -> None:
    assert datagrams.read(bytes.fromhex(content)) == RECORDED[content]


@pytest.mark.parametrize(
    ("message", "content"),
    [
        (
            ras.LocationConfirm(1, Address("10.95.0.42", 1720), Address("10.95.0.52", 1719)),
            "4c0000000a5f002a06b8000a5f003406b7",
        ),
        (
            ras.AdmissionConfirm(3, 100000, Address("10.95.0.42", 1720)),
            "2a000002800186a0000a5f002a06b82c00c0000180020000",
        ),
    ],
    ids=["LCF", "ACF"],
)
def test_answers_that_a_real_gateway_has_taken(message: RasMessage, content: str) -> None:
    assert datagrams.written(message).hex() == content


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_foreign_bytes_are_a_message_or_none(content: bytes) -> None:
    with suppress(ras.NoMessage):
        assert 1 <= datagrams.read(content).number <= 65535


@pytest.mark.parametrize(
    ("reply", "goes"),
    [
        (Address("192.0.2.50", 1719), Address("192.0.2.50", 1719)),
        (Address("192.0.2.50", 9999), Address("192.0.2.50", 9999)),
        (Address("198.51.100.1", 53), Address("192.0.2.50", 40000)),
    ],
    ids=["the same host", "another port", "another host"],
)
def test_an_answer_goes_to_no_host_but_the_one_that_asked(reply: Address, goes: Address) -> None:
    asked = ras.LocationRequest(9, "420222", reply)
    assert reply_place(asked, Address("192.0.2.50", 40000)) == goes
    admission = ras.AdmissionRequest(7, "192.0.2.3:1720", "420222", False, 1280, None, False)
    assert reply_place(admission, Address("192.0.2.50", 40000)) == Address("192.0.2.50", 40000)


class Wire(asyncio.DatagramTransport):
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[bytes, Address]] = []

    def sendto(self, data: bytes, addr: Any = None) -> None:
        self.sent.append((data, addr))


def test_a_flood_of_requests_is_answered_in_part() -> None:
    async def flooded() -> tuple[int, int]:
        table = GatekeeperTable.of(json.loads(configs(network(), "/x")["gk/gatekeeper.json"]))
        service, wire = GatekeeperService(table), Wire()
        service.connection_made(wire)
        request = datagrams.written(ras.LocationRequest(1, "420222", Address("198.51.100.1", 53)))
        for _ in range(3 * MOST_REQUESTS_OF_HOST):
            service.datagram_received(request, ("192.0.2.9", 5000))
        service.datagram_received(request, ("192.0.2.10", 5000))
        await asyncio.gather(*service._tasks)
        others = [addr for _, addr in wire.sent if addr.host == "192.0.2.10"]
        # There is room again.
        service.datagram_received(request, ("192.0.2.9", 5000))
        await asyncio.gather(*service._tasks)
        return len(wire.sent) - 2, len(others)

    assert asyncio.run(flooded()) == (MOST_REQUESTS_OF_HOST, 1)
