"""Messages of a telephone of H.323: round trips, and bytes that Asterisk's ooh323 sent."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.numbering.gatekeeper import datagrams, ras
from weirlab.numbering.gatekeeper.ras import Address, NoMessage
from weirlab.numbering.telephone import h225, h245
from weirlab.numbering.telephone.h225 import H225Message
from weirlab.numbering.telephone.h245 import Channel

ENDPOINT = "192.0.2.1:1720"
CALL = "000102030405060708090a0b0c0d0e0f"
HERE, THERE = Address("192.0.2.1", 6200), Address("2001:db8::2", 1720)
CHANNELS = (
    Channel(1, "alaw", control=HERE),
    Channel(2, "alaw", reverse=True, media=HERE, control=HERE),
    Channel(3, "g729", control=HERE),
    Channel(4, "gsm", reverse=True, media=THERE),
)


@pytest.mark.parametrize(
    "signal",
    [
        H225Message(
            h225.SETUP, 7, call=CALL, number="420401000001", channels=CHANNELS, source=HERE, alias="hall"
        ),
        H225Message(h225.PROCEEDING, 7, from_callee=True, call=CALL),
        H225Message(h225.ALERTING, 7, from_callee=True, call=CALL),
        H225Message(h225.CONNECT, 32767, from_callee=True, call=CALL, control=THERE),
        H225Message(h225.CONNECT, 1, from_callee=True, call=CALL, channels=CHANNELS[:2]),
        H225Message(h225.RELEASE, 1, call=CALL, cause=h225.BUSY),
    ],
    ids=lambda signal: signal.title,
)
def test_call_signalling_is_read_as_it_was_meant(signal: H225Message) -> None:
    assert h225.read(h225.written(signal)) == signal


@pytest.mark.parametrize(
    "message",
    [
        h245.Capabilities(1, tuple(h245.CODECS)),
        h245.CapabilitiesAck(1),
        h245.Determination(50, 12345),
        h245.DeterminationAck(True),
        h245.DeterminationAck(False),
        h245.OpenChannel(Channel(1, "ulaw", control=HERE)),
        h245.OpenChannelAck(1, HERE, THERE),
        h245.OpenChannelReject(1),
        h245.CloseChannel(1),
        h245.CloseChannelAck(1),
        h245.RoundTrip(3),
        h245.RoundTripAnswer(3),
        h245.EndSession(),
    ],
    ids=h245.title,
)
def test_messages_of_h245_are_read_as_they_were_meant(message: h245.ControlMessage) -> None:
    assert h245.read(h245.written(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        ras.RegistrationRequest(1, HERE, ("hall",), "", False, HERE),
        ras.RegistrationRequest(2, HERE, ("hall", "420"), "192.0.2.1:6200", True, HERE),
        ras.UnregistrationRequest(3, "192.0.2.1:6200", HERE),
        ras.AdmissionRequest(4, ENDPOINT, "420401", False, 1280, None, False, CALL, 7, ("hall",)),
        ras.AdmissionRequest(5, ENDPOINT, "", True, 1280, HERE, False, CALL, 7, ("hall",)),
        ras.DisengageRequest(6, ENDPOINT, CALL, 7),
        ras.LocationRequest(7, "420401", HERE, 3, ("hall",)),
    ],
    ids=lambda message: message.NAME,
)
def test_what_a_telephone_asks_is_read_as_it_was_meant(message: ras.RasMessage) -> None:
    assert datagrams.read(datagrams.written(message)) == message


GUID = "6f6f68333233632d4177d220c93f0096"
CAPTURED = {
    "0802000c0504038090a3280867772d7765737400700d813432303430323030303030317e00850520b8060008914a000402"
    "400600670077002d00770065007300740180753622c0b8000027056f6f683332330676302e382e336d0001058075373533"
    "3334000a5f002a06b8006162636465666768696a6b6c6d6e6f7000d50d980007000a5f00292efe11006f6f68333233632d"
    "4177d220c93f009601000100010001000100010010800100": H225Message(
        h225.SETUP, 12, call=GUID, number="420402000001",
        source=Address("10.95.0.41", 12030), alias="gw-west",
    ),
    "0802800c0704038090a3280867772d65617374007e00620522c0060008914a0004000a5f002a2efe22c0b8000027056f6f"
    "683332330676302e382e336d006162636465666768696a6b6c6d6e6f701d0dc011006f6f68333233632d4177d220c93f00"
    "9601000100090105807537353333340100010010800100": H225Message(
        h225.CONNECT, 12, from_callee=True, call=GUID, control=Address("10.95.0.42", 12030)
    ),
    "0802800c62280867772d65617374007e002e052680060008914a00048101001f040011006f6f68333233632d4177d220c9"
    "3f009607000a5f002a2efe10800100": H225Message(
        h225.FACILITY, 12, from_callee=True, call=GUID, control=Address("10.95.0.42", 12030)
    ),
    "0802000c5a08028090280867772d77657374007e001f0505c0060008914a000458880011006f6f68333233632d4177d220"
    "c93f0096": H225Message(h225.RELEASE, 12, call=GUID, cause=h225.NORMAL),
}  # fmt: skip
"""What Asterisk's ooh323 sent, and what it means."""


@pytest.mark.parametrize("content", CAPTURED, ids=[each.title for each in CAPTURED.values()])
def test_call_signalling_of_a_real_gateway_is_read(content: str) -> None:
    assert h225.read(bytes.fromhex(content)) == CAPTURED[content]


@settings(max_examples=60)
@given(st.binary(max_size=80))
def test_foreign_bytes_are_a_message_or_none(content: bytes) -> None:
    for read in (h225.read, h245.read, h245.proposal):
        with suppress(NoMessage):
            read(content)
    with suppress(NoMessage):
        h225.read(b"\x08\x02\x00\x01\x05\x7e\x00\x10\x05" + content)


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(1, 7))
def test_packets_are_put_together_however_they_are_cut(contents: list[bytes], size: int) -> None:
    stream = b"".join(map(h225.tpkt, contents))
    packets = h225.TpktReader()
    found = [each for at in range(0, len(stream), size) for each in packets.take(stream[at : at + size])]
    assert found == contents


@pytest.mark.parametrize("content", [b"GET / HTTP/1.1\r\n", b"\x03\x00\x00\x01"])
def test_what_is_no_packet_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(NoMessage, match=f"no TPKT: {content[:8].hex(' ')}"):
        list(h225.TpktReader().take(content))
