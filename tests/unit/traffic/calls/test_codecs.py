from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.base.units import FCS_BYTES
from weirlab.traffic.calls.codecs import CODECS, VoiceStream, describe_codec, parse_codec, silence


@pytest.mark.parametrize(
    ("codec", "frame_without_fcs", "pps"),
    [
        ("g711", 214, 50), ("g726-32", 134, 50), ("gsm", 87, 50), ("gsm:40ms", 120, 25),
        ("gsm-fast", 87, 50), ("GSM-slow", 120, 25),
    ],
)  # fmt: skip
def test_frames_are_those_published_for_rtp(codec: str, frame_without_fcs: int, pps: float) -> None:
    """Woernhard 2006, whose sizes leave out the FCS; his "GSM slow" carries two frames per packet."""
    stream = parse_codec(codec)
    assert stream.frame_bytes - FCS_BYTES == frame_without_fcs
    assert stream.rate_pps == pps


@pytest.mark.parametrize(
    ("codec", "payload", "bit_rate"),
    [
        ("g711", 160, 64_000), ("g722", 160, 64_000), ("g729", 20, 8_000), ("g723.1-6.3", 24, 6_400),
        ("ilbc-20", 38, 15_200), ("ilbc-30", 50, 13_333), ("opus", 80, 32_000),
        ("opus@24k:60ms", 180, 24_000), ("g726-16", 40, 16_000), ("g726-24", 60, 24_000),
        ("g726-40", 100, 40_000), ("g726", 80, 32_000),
    ],
)  # fmt: skip
def test_payload_and_bit_rate_are_the_codecs(codec: str, payload: int, bit_rate: float) -> None:
    stream = parse_codec(codec)
    assert stream.payload_bytes == payload
    assert stream.codec.bit_rate_bps == pytest.approx(bit_rate, rel=1e-3)


def test_ipv6_headers_are_20_bytes_longer() -> None:
    assert parse_codec("g729", ip=6).frame_bytes == parse_codec("g729").frame_bytes + 20


def test_a_two_way_call_is_two_streams() -> None:
    assert parse_codec("G.711").calls_pps(100) == 10_000
    assert parse_codec("G.711").calls_pps(100, directions=1) == 5_000


def test_every_codec_is_read_by_its_name() -> None:
    for codec in CODECS:
        assert parse_codec(codec.name) == VoiceStream(codec, codec.packet_ms)


@pytest.mark.parametrize(
    "text",
    ["g711", "g729:40ms", "opus@24k", "opus@6.5k:2.5ms", "gsm-slow", "ilbc:60ms", "g722:10", "opus@13.2k"],
)
def test_a_described_codec_is_read_back(text: str) -> None:
    stream = parse_codec(text, ip=6)
    assert parse_codec(describe_codec(stream), ip=6) == stream


@pytest.mark.parametrize(
    ("text", "payload_type", "clock_hz", "units"),
    [
        ("g711", 0, 8_000, 160), ("gsm-slow", 3, 8_000, 320), ("g723.1", 4, 8_000, 240),
        ("g722", 9, 8_000, 160), ("g729", 18, 8_000, 160), ("opus:60ms", 111, 48_000, 2_880),
        ("opus:2.5ms", 111, 48_000, 120),
    ],
)  # fmt: skip
def test_rtp_type_and_clock_are_those_of_rfc_3551_and_rfc_7587(
    text: str, payload_type: int, clock_hz: int, units: int
) -> None:
    """G.722 counts 8000 a second although it has 16,000 samples (RFC 3551, 4.5.2)."""
    stream = parse_codec(text)
    assert stream.codec.payload_type == payload_type
    assert stream.codec.rtp_clock_hz == clock_hz
    assert stream.stamp_units == units


def test_no_two_codecs_share_a_dynamic_payload_type() -> None:
    dynamic = [codec.payload_type for codec in CODECS if codec.payload_type >= 96]
    assert len(dynamic) == len(set(dynamic))
    assert max(dynamic) < 128


def test_a_silent_packet_is_as_long_as_a_spoken_one() -> None:
    texts = [codec.name for codec in CODECS] + [
        "gsm-slow",
        "opus@80k:120ms",
        "opus@24k:100ms",
        "opus@6k:40ms",
    ]
    for text in texts:
        assert len(silence(parse_codec(text))) == parse_codec(text).payload_bytes


def test_silence_of_a_law_codec_and_of_gsm_is_the_known_one() -> None:
    assert silence(parse_codec("g711")) == b"\xff" * 160
    frame = bytes.fromhex("d820a2e15a50004924924924500049249249245000492492492450004924924924")
    assert silence(parse_codec("gsm-slow")) == frame * 2


def test_a_packet_of_opus_that_is_too_long_for_a_frame_has_several() -> None:
    one, several = (silence(parse_codec(f"opus@{rate}k:40ms")) for rate in (255, 290))
    assert (len(one), one[0] & 3) == (1275, 0)
    # RFC 6716, 3.2.5: code 3, variable lengths, two frames; that of the first, the second has the rest.
    assert (several[0] & 3, several[1]) == (3, 0x80 | 2)
    first = several[2] + 4 * several[3]
    assert 0 < first <= 1275
    assert 0 < len(several) - 4 - first <= 1275


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("g7111", "codecs are g711"),
        ("", "codecs are g711"),
        ("g729:15ms", "multiple of 10 ms"),
        ("g711:500ms", "at most 200 ms"),
        ("g711@24k", "only Opus has a choice"),
        ("opus@1k", "6,000 to 510,000"),
        ("opus:30ms", "packets of Opus last"),
        ("opus@510k:120ms", "shorten the packets"),
    ],
)
def test_what_no_codec_does_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parse_codec(text)
