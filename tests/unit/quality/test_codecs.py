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
    ("encoding", "kbps", "ie"),
    [
        ("PCMU", 64, 0),
        ("PCMA", 64, 0),
        ("G729", 8, 11),
        ("G723", 6.4, 15),
        ("G723", 5.3, 19),
        ("G722", 64, 13),
    ],
)
def test_names_of_sdp_are_understood(encoding: str, kbps: float, ie: float) -> None:
    assert of_encoding(encoding, kbps).ie == ie


def test_a_codec_that_is_not_known_has_no_values_and_a_reason() -> None:
    found = of_encoding("SPEEX", 15)
    assert math.isnan(found.ie)
    assert "SPEEX" in found.note
