from __future__ import annotations

import pytest

from weirlab.errors import InputError
from weirlab.traffic.voice import CODECS, VoiceStream, parse_codec
from weirlab.units import FCS_BYTES


@pytest.mark.parametrize(
    ("codec", "frame_without_fcs", "pps"),
    [("g711", 214, 50), ("g726-32", 134, 50), ("gsm", 87, 50), ("gsm:40ms", 120, 25)],
)
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
        ("opus@24k:60ms", 180, 24_000),
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
