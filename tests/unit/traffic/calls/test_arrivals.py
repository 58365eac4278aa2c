from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls.arrivals import SET_UP_NS, Units, class_counts, draw_units
from weirlab.traffic.calls.spec import Calls, parse_calls

HORIZON_NS = 100 * NS_PER_S


def drawn(calls: Calls, warmup_s: float = 0.0, seed: int = 1) -> Units:
    return draw_units(calls, round(warmup_s * NS_PER_S), HORIZON_NS, np.random.default_rng(seed))


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=6), st.integers(1, 10_000))
def test_classes_have_their_shares_to_within_one_call(weights: list[float], count: int) -> None:
    kind = parse_calls(1).classes[0]
    shares = [weight / sum(weights) for weight in weights]
    counts = class_counts([replace(kind, share=share) for share in shares], count)
    assert sum(counts) == count
    for share, n in zip(shares, counts, strict=True):
        assert abs(share * count - n) < 1 + 1e-6


def test_classes_are_mixed_evenly() -> None:
    units = drawn(parse_calls(100, "g711:75,g729:25"))
    for first in range(0, 100, 20):
        assert (units.call_class[first : first + 20] == 1).sum() == 5


@given(st.integers(1, 400), st.sampled_from(["both", "forward", "back"]))
def test_even_phases_divide_the_packet_time_and_alternate_directions(count: int, directions: str) -> None:
    units = drawn(replace(parse_calls(count), directions=directions, signalling=False))
    phases = units.first_ns.reshape(-1)
    gaps = np.diff(phases, append=phases[0] + 20_000_000)
    assert phases[0] == 0
    assert gaps.min() >= 20_000_000 // len(phases)
    assert gaps.max() <= -(-20_000_000 // len(phases))


def test_packet_times_have_slots_of_their_own() -> None:
    units = drawn(replace(parse_calls(20, "g711:50,g729:40ms:50"), signalling=False))
    short, long = (units.first_ns[units.call_class == i].reshape(-1) for i in (0, 1))
    assert len(np.unique(long)) == len(long) == 20
    assert not set(short % 20_000_000) & set(long % 20_000_000)


def test_random_phases_fill_the_packet_time() -> None:
    units = drawn(replace(parse_calls(5000), phases="random", signalling=False))
    assert units.first_ns.max() < 20_000_000
    deciles = np.histogram(units.first_ns, bins=10, range=(0, 20_000_000))[0]
    # 10,000 draws: 1000 per decile with a standard deviation of 30.
    assert np.abs(deciles - 1000).max() < 150


def test_trunks_carry_all_calls_with_consecutive_numbers() -> None:
    units = drawn(parse_calls(103, "g711/iax2-trunk*8:50,gsm/rtp:50"))
    trunk = units.call_class == 0
    assert units.carried.sum() == 103
    assert sorted(units.carried[trunk]) == [4] + [8] * 6
    assert (units.carried[~trunk] == 1).all()
    numbers = [
        call for first, n in zip(units.call, units.carried, strict=True) for call in range(first, first + n)
    ]
    assert numbers == list(range(103))


def test_standing_calls_are_set_up_in_the_warm_up() -> None:
    units = drawn(parse_calls(1000), warmup_s=0.5)
    assert units.announced.all()
    assert units.dialled_ns.min() == 0
    assert (units.begin_ns == units.dialled_ns + SET_UP_NS).all()
    assert (units.first_ns >= units.begin_ns[:, None]).all()
    assert (units.first_ns < units.begin_ns[:, None] + 20_000_000).all()
    assert units.first_ns.max() < 0.5 * NS_PER_S


def test_standing_calls_stand_from_the_start_where_the_warm_up_is_too_short() -> None:
    units = drawn(parse_calls(1000), warmup_s=0.1)
    assert not units.announced.any()
    assert (units.begin_ns == 0).all()
    assert (units.dialled_ns < 0).all()


def test_setting_up_leaves_the_phases_as_they_were() -> None:
    early = drawn(replace(parse_calls(50), signalling=False), warmup_s=1.0)
    late = drawn(parse_calls(50), warmup_s=1.0)
    assert ((late.first_ns - early.first_ns) % 20_000_000 == 0).all()


def standing_at(units: Units, at_s: float) -> int:
    at_ns = at_s * NS_PER_S
    return int(((units.begin_ns <= at_ns) & (at_ns < units.end_ns)).sum())


def test_as_many_calls_stand_at_any_moment_as_were_asked_for() -> None:
    calls = replace(parse_calls(100), arrivals="poisson", holding_s=5.0)
    found = np.array(
        [[standing_at(drawn(calls, seed=seed), at) for at in (0, 1, 20, 99)] for seed in range(200)]
    )
    # 200 draws of a Poisson number of mean 100: the mean has a standard error of 0.7.
    assert np.abs(found.mean(axis=0) - 100).max() < 3
    # The variance of a Poisson number is its mean; its estimate has a standard error of 10 %.
    assert found.var(axis=0) == pytest.approx(100, rel=0.4)


def test_arrivals_and_holding_times_are_those_of_a_poisson_process() -> None:
    units = drawn(replace(parse_calls(1000), arrivals="poisson", holding_s=10.0))
    new = units.announced
    # 1000 calls / 10 s for 100.11 s.
    assert new.sum() == pytest.approx(10_011, rel=0.03)
    for some in (new, ~new):
        life_s = (units.end_ns - units.begin_ns)[some] / NS_PER_S
        assert life_s.mean() == pytest.approx(10, rel=0.1)
        assert life_s.std() == pytest.approx(10, rel=0.1)
    gaps_s = np.diff(units.begin_ns[new]) / NS_PER_S
    assert gaps_s.std() == pytest.approx(gaps_s.mean(), rel=0.05)


def test_classes_of_arriving_calls_have_their_shares() -> None:
    units = drawn(replace(parse_calls(1000, "g711:80,g729:20"), arrivals="poisson", holding_s=10.0))
    assert (units.call_class == 1).mean() == pytest.approx(0.2, abs=0.02)


def test_more_arrivals_than_can_be_are_refused() -> None:
    with pytest.raises(InputError, match="lengthen the holding time"):
        drawn(replace(parse_calls(100_000), arrivals="poisson", holding_s=0.5))


def test_holding_times_beyond_any_clock_are_for_ever() -> None:
    units = drawn(replace(parse_calls(100), arrivals="poisson", holding_s=1e300))
    assert (units.end_ns > HORIZON_NS).all()


def test_more_streams_than_can_be_are_refused_before_they_are_drawn() -> None:
    with pytest.raises(InputError, match=r"1,000,000,000,000 streams .* fewer calls"):
        drawn(parse_calls(10**12))
    assert len(drawn(parse_calls(4_194_304 // 2, "g711/iax2-trunk*2"))) == 1 << 20


def test_a_trunk_begins_a_packet_time_after_the_full_frames_of_its_calls() -> None:
    calls = parse_calls(9, "g711", "iax2-trunk*3")
    units = draw_units(calls, 500_000_000, 1_000_000_000, np.random.default_rng(1))
    assert units.announced.all()
    # A full frame with 20 ms of speech leaves where the set-up ends; the trunk must not say that again.
    assert (units.first_ns - units.begin_ns[:, None] >= 20_000_000).all()
    assert (units.first_ns < 500_000_000).all()
