from __future__ import annotations

import struct

import pytest

from weirlab.base.errors import InputError
from weirlab.traffic.calls.signalling import PROBE_BYTES, SignallingMessage, iax2
from weirlab.traffic.calls.signalling.iax2 import IaxCall, IaxVoiceFrame

CALL = IaxCall(5, 9, "g711", 160)


def header(message: SignallingMessage) -> tuple[int, int, int, int, int, int, int]:
    """Source, destination, time stamp, sequence numbers out and in, type, subclass."""
    source, destination, stamp, out, into, kind, subclass = struct.unpack_from(">HHIBBBB", message.payload)
    assert source & 0x8000
    return source & 0x7FFF, destination, stamp, out, into, kind, subclass


def elements(message: SignallingMessage) -> dict[int, bytes]:
    found, rest = {}, message.payload[12:]
    while rest:
        assert len(rest) >= 2 + rest[1]
        found[rest[0]] = rest[2 : 2 + rest[1]]
        rest = rest[2 + rest[1] :]
    return found


def test_a_call_is_set_up_and_ended_as_in_rfc_5456() -> None:
    messages = iax2.full_frames(CALL, hang_up_ms=1000)
    assert [(m.from_caller, m.name, header(m)[3:5]) for m in messages] == [
        (True, "NEW", (0, 0)),
        (False, "ACCEPT", (0, 1)),
        (True, "ACK", (1, 1)),
        (False, "RINGING", (1, 1)),
        (True, "ACK", (1, 2)),
        (False, "ANSWER", (2, 1)),
        (True, "ACK", (1, 3)),
        (True, "HANGUP", (1, 3)),
        (False, "ACK", (3, 2)),
    ]
    assert [header(m)[5:] for m in messages] == [
        (6, 1), (6, 7), (6, 4), (4, 3), (6, 4), (4, 4), (6, 4), (6, 5), (6, 4),
    ]  # fmt: skip


def test_only_the_first_frame_knows_no_number_of_the_callee() -> None:
    for message in iax2.full_frames(CALL, hang_up_ms=1000):
        expected = (5, 0) if message.name == "NEW" else (5, 9) if message.from_caller else (9, 5)
        assert header(message)[:2] == expected


def test_new_names_version_numbers_and_codec() -> None:
    found = elements(iax2.full_frames(CALL)[0])
    assert found[0x0B] == b"\x00\x02"
    assert found[0x09] == found[0x08] == b"\x00\x00\x00\x04"
    assert (found[0x01], found[0x02]) == (b"b9", b"a5")


@pytest.mark.parametrize(
    "message",
    iax2.full_frames(CALL, [IaxVoiceFrame(True, 120, 120)], hang_up_ms=1000),
    ids=lambda m: str(m.name),
)
def test_every_frame_ends_with_bytes_for_the_probe(message: SignallingMessage) -> None:
    assert message.payload[-PROBE_BYTES:] == bytes(PROBE_BYTES)
    if header(message)[5] == 6:
        assert elements(message)[iax2.PROBE_ELEMENT] == bytes(PROBE_BYTES)


def test_an_acknowledgement_repeats_the_time_stamp_and_takes_no_number() -> None:
    voice = [
        IaxVoiceFrame(True, 120.4, 120),
        IaxVoiceFrame(False, 130, 130),
        IaxVoiceFrame(True, 65_540, 65_540),
    ]
    messages = iax2.full_frames(CALL, voice)[-6:]
    assert [(m.from_caller, m.name, *header(m)[2:5]) for m in messages] == [
        (True, "VOICE", 120, 1, 3),
        (False, "ACK", 120, 3, 2),
        (False, "VOICE", 130, 3, 2),
        (True, "ACK", 130, 2, 4),
        (True, "VOICE", 65_540, 2, 4),
        (False, "ACK", 65_540, 4, 3),
    ]


def test_a_frame_still_on_its_way_is_not_counted_as_received() -> None:
    first, second, *_ = iax2.full_frames(
        CALL, [IaxVoiceFrame(True, 120.0, 120), IaxVoiceFrame(False, 120.5, 120)], established=True
    )
    assert header(first)[3:5] == (1, 3)
    assert header(second)[3:5] == (3, 1)


def test_a_call_that_stood_before_goes_on_with_its_numbers() -> None:
    voice = [IaxVoiceFrame(True, 65_540, 65_540)]
    new = iax2.full_frames(CALL, voice, hang_up_ms=70_000)
    assert iax2.full_frames(CALL, voice, established=True, hang_up_ms=70_000) == new[7:]


def test_sequence_numbers_wrap_at_256() -> None:
    voice = [IaxVoiceFrame(True, 200.0 + 100 * i, 200 + 100 * i) for i in range(300)]
    out = [header(m)[3] for m in iax2.full_frames(CALL, voice) if m.name == "VOICE"]
    assert out == [(1 + i) % 256 for i in range(300)]


@pytest.mark.parametrize(
    ("codec", "subclass"), [("g711", 0x04), ("gsm", 0x02), ("g726-32", 0x10), ("g729", 0x88), ("g722", 0x8C)]
)
def test_voice_names_its_codec_as_a_bit_or_as_a_power_of_two(codec: str, subclass: int) -> None:
    (voice, _) = iax2.full_frames(IaxCall(5, 9, codec, 33), [IaxVoiceFrame(True, 20, 20)], established=True)
    assert header(voice)[5:] == (2, subclass)
    assert len(voice.payload) == 12 + 33


def test_mini_frames_carry_the_low_bits_of_the_time_stamp() -> None:
    assert iax2.mini_header(CALL, True, 65_560) == bytes.fromhex("0005 0018")
    assert iax2.mini_header(CALL, False, 40) == bytes.fromhex("0009 0028")


def test_a_trunk_frame_holds_an_entry_per_call() -> None:
    assert iax2.meta_header(0x12345678) == bytes.fromhex("0000 01 00 12345678")
    entries = iax2.trunk_entries((5, 7), 20)
    assert entries == bytes.fromhex("0005 0014") + bytes(20) + bytes.fromhex("0007 0014") + bytes(22)
    assert iax2.trunk_bytes(2, 20) == len(iax2.meta_header()) + len(entries)


def test_speech_is_the_codecs_silence_up_to_the_probe() -> None:
    call = IaxCall(5, 9, "gsm", 33, filler=b"\x01\x02\x03")
    voice, _ = iax2.full_frames(call, [IaxVoiceFrame(True, 20, 20)], established=True)
    assert voice.payload[12:] == b"\x01\x02\x03" * 5 + bytes(18)
    entries = iax2.trunk_entries((5, 7), 33, b"\x01\x02\x03")
    assert entries[4:37] == b"\x01\x02\x03" * 11
    assert entries[41:] == b"\x01\x02\x03" * 5 + b"\x01\x02" + bytes(18)


@pytest.mark.parametrize("number", [0, 32_768])
def test_call_numbers_have_15_bits(number: int) -> None:
    with pytest.raises(InputError, match="1 to 32,767"):
        IaxCall(number, 1, "g711", 160)


def test_a_codec_without_a_number_in_iax2_is_refused() -> None:
    with pytest.raises(InputError, match="'opus'"):
        IaxCall(1, 1, "opus", 80)
