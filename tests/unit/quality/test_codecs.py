"""Impairment factors: values of ITU-T G.113, and what is said where there are none."""

from __future__ import annotations

import math

import pytest

from weirlab.quality.codecs import impairment, named, of_encoding
from weirlab.traffic.calls.codecs import CODECS, parse_codec

# G.113 Table I.4: Ie and Bpl under random loss, the decoder concealing by itself.
TABLE_I4 = [("g711", 0, 25.1), ("g729", 11, 19), ("g723.1-6.3", 15, 16.1), ("gsm-efr", 5, 10)]


@pytest.mark.parametrize(("name", "ie", "bpl"), TABLE_I4)
def test_values_of_table_i4_are_those_of_itu(name: str, ie: float, bpl: float) -> None:
    found = named(name)
    assert (found.ie, found.bpl, found.provisional) == (ie, bpl, False)


# G.113 Table I.1: Ie without loss.
@pytest.mark.parametrize(
    ("name", "ie"),
    [("g726-40", 2), ("g726-32", 7), ("g726-24", 25), ("g726-16", 50), ("gsm", 20), ("g723.1-5.3", 19)],
)
def test_a_robustness_that_itu_does_not_have_is_marked(name: str, ie: float) -> None:
    found = named(name)
    assert found.ie == ie
    assert found.provisional
    assert "Bpl is that of" in found.note


def test_g711_without_concealment_is_the_reference_of_g107() -> None:
    assert named("g711", concealment=False).bpl == 4.3


def test_every_codec_of_weir_has_values_or_says_why_not() -> None:
    for codec in CODECS:
        found = impairment(codec)
        assert (found.source and math.isfinite(found.ie)) or found.note
        assert found.band != "narrowband" or not codec.wideband


def test_opus_depends_on_its_bit_rate_and_is_provisional() -> None:
    low, usual, high = (impairment(parse_codec(f"opus@{rate}k").codec) for rate in (20, 32, 64))
    assert low.ie > usual.ie > high.ie
    assert usual.provisional
    assert usual.band == "fullband"


def test_opus_below_what_was_tested_has_no_values() -> None:
    assert math.isnan(impairment(parse_codec("opus@8k").codec).ie)


@pytest.mark.parametrize(
    ("encoding", "payload_bytes", "packet_ms", "ie"),
    [
        ("PCMU", 160, 20, 0),
        ("PCMA", 80, 10, 0),
        ("G729", 20, 20, 11),
        ("G723", 24, 30, 15),
        ("G723", 20, 30, 19),
        ("G722", 160, 20, 13),
    ],
)
def test_names_of_sdp_are_understood(encoding: str, payload_bytes: int, packet_ms: float, ie: float) -> None:
    assert of_encoding(encoding, payload_bytes, packet_ms).ie == ie


@pytest.mark.parametrize(
    ("sizes", "ie"),
    [
        ((19, 18), 41),
        ((25, 24), 26),
        ((34, 33), 13),
        ((38, 37), 10),
        ((42, 41), 7),
        ((48, 47), 5),
        ((52, 51), 3),
        ((60, 59), 1),
        ((62, 61), 8),
    ],
)
def test_the_mode_of_amr_wb_follows_from_the_size_octet_aligned_or_not(
    sizes: tuple[int, int], ie: float
) -> None:
    for payload_bytes in sizes:
        found = of_encoding("AMR-WB", payload_bytes, 20)
        assert (found.band, found.ie) == ("wideband", ie)
    # Three frames in a packet: a header, and per frame its speech and an entry of 8 bits.
    assert of_encoding("AMR-WB", 1 + 3 * (sizes[0] - 1), 60).ie == ie


@pytest.mark.parametrize(
    ("payload_bytes", "ie", "bpl"), [(33, 5, 10), (32, 5, 10), (21, 10, 10), (20, 10, 10), (28, 7.1, 10)]
)
def test_amr_has_the_values_of_the_codecs_that_its_modes_are(
    payload_bytes: int, ie: float, bpl: float
) -> None:
    found = of_encoding("AMR", payload_bytes, 20)
    assert (found.band, found.ie, found.bpl) == ("narrowband", ie, bpl)


@pytest.mark.parametrize("payload_bytes", [14, 15, 16, 18])
def test_modes_of_amr_without_published_values_have_none(payload_bytes: int) -> None:
    found = of_encoding("AMR", payload_bytes, 20)
    assert math.isnan(found.ie)
    assert "no values" in found.note


def test_a_codec_that_is_not_known_has_no_values_and_a_reason() -> None:
    found = of_encoding("SPEEX", 38, 20)
    assert math.isnan(found.ie)
    assert "SPEEX" in found.note
