from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.traffic.sizes import (
    SIMPLE_IMIX,
    Constant,
    PoissonSizes,
    SizeMix,
    WeightedSizes,
    describe,
    draw,
    mean_bytes,
    parse_sizes,
    validate,
)

SIZES = st.integers(64, 2048)
MIXES = st.one_of(
    st.builds(Constant, SIZES),
    st.builds(
        WeightedSizes,
        st.lists(st.tuples(SIZES, st.integers(1, 1000).map(float)), min_size=1, max_size=6).map(tuple),
    ),
    st.tuples(SIZES, SIZES, st.floats(0, 1)).map(
        lambda t: PoissonSizes(min(t[:2]), max(t[:2]), min(t[:2]) + float(f"{t[2]:.3f}") * abs(t[0] - t[1]))
    ),
)


@pytest.mark.parametrize(
    ("text", "mix"),
    [
        ("64", Constant(64)),
        (" 1518 B ", Constant(1518)),
        ("imix", SIMPLE_IMIX),
        ("IMIX", SIMPLE_IMIX),
        ("64:1, 128:2.5", WeightedSizes(((64, 1.0), (128, 2.5)))),
        ("poisson:64-200", PoissonSizes(64, 200, 132.0)),
        ("poisson:64-200@120", PoissonSizes(64, 200, 120.0)),
    ],
)
def test_accepted_forms_are_understood(text: str, mix: SizeMix) -> None:
    assert parse_sizes(text) == mix


@pytest.mark.parametrize("text", ["", "small", "-64", "64.5", "64:", "64:7,", "poisson:64", "64-128"])
def test_nonsense_is_refused_naming_the_text_and_the_accepted_forms(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_sizes(text)
    assert f"'{text}'" in str(caught.value)
    assert "poisson:64-200" in str(caught.value)


@pytest.mark.parametrize("text", ["63", "2049", "64:1,3000:1", "poisson:20-200", "poisson:64-9000"])
def test_sizes_outside_the_ethernet_range_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="64 to 2048"):
        parse_sizes(text)


@pytest.mark.parametrize("text", ["64:0", "64:0,128:0"])
def test_a_mix_needs_a_weight_above_zero(text: str) -> None:
    with pytest.raises(InputError, match="weights"):
        parse_sizes(text)


def test_negative_weights_and_empty_mixes_are_refused() -> None:
    for mix in (WeightedSizes(((64, -1.0), (128, 2.0))), WeightedSizes(())):
        with pytest.raises(InputError):
            validate(mix)


@pytest.mark.parametrize("text", ["poisson:200-64", "poisson:64-200@300"])
def test_poisson_bounds_must_be_ordered_around_the_mean(text: str) -> None:
    with pytest.raises(InputError, match="poisson"):
        parse_sizes(text)


@given(MIXES)
def test_describe_is_read_back_as_the_same_mix(mix: SizeMix) -> None:
    again = parse_sizes(describe(mix))
    assert mean_bytes(again) == pytest.approx(mean_bytes(mix))
    assert type(again) is type(mix)


@given(MIXES, st.integers(1, 500), st.integers(0, 10))
def test_drawn_sizes_lie_within_the_mix(mix: SizeMix, n: int, seed: int) -> None:
    drawn = draw(mix, n, np.random.default_rng(seed))
    assert drawn.dtype == np.uint16
    assert len(drawn) == n
    match mix:
        case Constant(frame_bytes):
            assert set(drawn.tolist()) == {frame_bytes}
        case WeightedSizes(parts):
            assert set(drawn.tolist()) <= {size for size, _ in parts}
        case PoissonSizes(low, high, _):
            assert low <= drawn.min() <= drawn.max() <= high


def test_simple_imix_is_drawn_in_exact_proportions() -> None:
    drawn = draw(SIMPLE_IMIX, 1200, np.random.default_rng(3))
    assert [int((drawn == size).sum()) for size in (64, 594, 1518)] == [700, 400, 100]
    assert (np.diff(drawn.astype(int)) != 0).sum() > 100, "sizes come shuffled, not sorted"


@given(st.integers(1, 400))
def test_counts_of_a_mix_are_within_one_of_their_share(n: int) -> None:
    drawn = draw(SIMPLE_IMIX, n, np.random.default_rng(0))
    for size, weight in SIMPLE_IMIX.parts:
        assert abs(int((drawn == size).sum()) - n * weight / 12) < 1


def test_mean_of_simple_imix() -> None:
    assert mean_bytes(SIMPLE_IMIX) == pytest.approx((7 * 64 + 4 * 594 + 1518) / 12)


def test_mean_of_poisson_counts_the_truncation() -> None:
    assert mean_bytes(PoissonSizes(64, 2000, 500.0)) == pytest.approx(500.0, abs=1e-6)
    near_edge = PoissonSizes(64, 2000, 66.0)
    drawn = draw(near_edge, 200_000, np.random.default_rng(1))
    assert mean_bytes(near_edge) > 66.5
    assert mean_bytes(near_edge) == pytest.approx(drawn.mean(), rel=2e-3)


def test_weights_before_sizes_are_named() -> None:
    with pytest.raises(InputError, match="the size comes before its weight: 64:7,594:4,1518:1"):
        parse_sizes("7:64,4:594,1:1518")
