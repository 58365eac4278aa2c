from __future__ import annotations

import ipaddress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.traffic.flows import table
from weirlab.traffic.places import (
    MAX_PLACES,
    Places,
    describe_places,
    flow_groups,
    mean_position,
    network,
    parse_places,
    turns,
    validate,
)
from weirlab.traffic.plan import BIN_NS, NEXT_FLOW, STEP_BIN_NS
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import SIMPLE_IMIX
from weirlab.traffic.spec import Flows, LoadStep, Rate, Traffic, stretches

HALF: Places = ((1, 0.5), (99, 0.5))
STEADY = Traffic(Rate(1e5), warmup_s=0.0, duration_s=1.0)


def shares_of(weights: list[int]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


weights = st.lists(st.integers(1, 50), min_size=2, max_size=MAX_PLACES)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=MAX_PLACES, unique=True), st.data())
def test_text_gives_the_places_back(positions: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.integers(1, 100), min_size=len(positions), max_size=len(positions)))
    places = parse_places(",".join(f"{n}:{part}" for n, part in zip(positions, parts, strict=True)))
    again = parse_places(describe_places(places))
    assert [n for n, _ in again] == sorted(positions)
    np.testing.assert_allclose([share for _, share in again], [share for _, share in places], rtol=1e-6)


def test_the_mean_position_weighs_the_shares() -> None:
    assert mean_position(HALF) == 50
    assert mean_position(parse_places("1:3,801:1")) == 201


@pytest.mark.parametrize("text", ["", "5", "1:50;99:50", "a:1", "0:1,5:1", "5:1,5:2", "3:0", "1:-1"])
def test_places_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="matching positions"):
        parse_places(text)


@pytest.mark.parametrize(
    "places", [((5, 0.5), (4, 0.5)), ((1, 0.5), (2, 0.6)), tuple((n, 1 / 17) for n in range(1, 18))]
)
def test_places_made_by_hand_are_checked_too(places: Places) -> None:
    with pytest.raises(InputError, match="matching positions"):
        validate(places)


@given(weights, st.integers(1, 300), st.integers(0, 5))
def test_the_pattern_holds_every_share_exactly(parts: list[int], flows: int, seed: int) -> None:
    places = tuple(zip(range(1, len(parts) + 1), shares_of(parts), strict=True))
    groups = flow_groups(places, flows)
    flow = turns(shares_of(parts), groups, 16384, np.random.default_rng(seed))
    counts = np.bincount(groups[flow], minlength=len(parts))
    np.testing.assert_array_equal(counts * sum(parts), len(flow) * np.array(parts))
    assert set(flow) == set(range(len(groups))), "every flow has its turn"


@given(weights)
def test_the_places_are_spread_evenly_over_the_pattern(parts: list[int]) -> None:
    share = shares_of(parts)
    groups = np.arange(len(parts))
    place = turns(share, groups, 16384, np.random.default_rng(1))
    for number, part in enumerate(share):
        so_far = np.cumsum(place == number)
        assert np.abs(so_far - part * np.arange(1, len(place) + 1)).max() < 10


def test_two_places_are_not_in_strict_alternation() -> None:
    place = turns([0.5, 0.5], np.arange(2), 64, np.random.default_rng(1))
    assert 0 < int((np.diff(place) == 0).sum()) < len(place) / 2


@given(weights, st.integers(1, 1000))
def test_flows_are_handed_to_the_places_in_proportion(parts: list[int], flows: int) -> None:
    places = tuple(zip(range(1, len(parts) + 1), shares_of(parts), strict=True))
    counts = np.bincount(flow_groups(places, flows))
    assert counts.sum() == max(flows, len(parts))
    assert counts.min() >= 1
    wanted = np.array(shares_of(parts)) * max(flows - len(parts), 0)
    assert np.abs(counts - 1 - wanted).max() < 1


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("order", ["advance", "random"])
def test_destinations_lie_in_the_network_of_their_place_alone(ip: int, order: str) -> None:
    places = tuple((n, 1 / MAX_PLACES) for n in range(1, MAX_PLACES + 1))
    flows = Flows(500, ip=ip, order=order)  # type: ignore[arg-type]
    addresses, groups = table(flows, places), flow_groups(places, 500)
    networks = [ipaddress.ip_network(network(flows.ip, place)) for place in range(MAX_PLACES)]
    for row, group in zip(addresses.dst_ip, groups, strict=True):
        address = ipaddress.ip_address(row[: 4 if ip == 4 else 16].tobytes())
        assert [address in each for each in networks] == [place == group for place in range(MAX_PLACES)]
    rows = np.column_stack([addresses.src_ip, addresses.dst_ip, addresses.src_port])
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_one_place_is_the_traffic_that_it_always_was() -> None:
    usual, one = compile_plan(STEADY), compile_plan(STEADY, ((7, 1.0),))
    assert one.flow.tolist() == usual.flow.tolist() == [NEXT_FLOW]
    np.testing.assert_array_equal(one.flows.dst_ip, usual.flows.dst_ip)


def test_sizes_gaps_and_flows_of_a_pattern_have_one_length() -> None:
    traffic = replace(STEADY, sizes=SIMPLE_IMIX, arrivals="poisson", flows=Flows(7))
    plan = compile_plan(traffic, ((1, 0.3), (5, 0.7)))
    assert len(plan.flow) == len(plan.frame_bytes) == len(plan.gap_ns) == plan.phases[0][2]
    assert len(plan.flows) == 7
    assert plan.nominal_pps == pytest.approx(1e5)


def test_a_position_step_goes_over_to_the_flows_of_the_other_place() -> None:
    traffic = replace(STEADY, steps=(LoadStep(0.4, None, 2000),))
    plan = compile_plan(traffic, ((1, 1.0), (2000, 0.0)))
    assert [end for end, _, _ in plan.phases] == [400_000_000, 1_000_000_000]
    before, after = (plan.flow[first : first + n] for _, first, n in plan.phases)
    assert set(before) == {0}
    assert set(after) == {1}
    assert plan.nominal_pps == pytest.approx(1e5), "the load stays"


def test_what_a_step_leaves_alone_stays_through_later_steps() -> None:
    traffic = replace(
        STEADY, steps=(LoadStep(0.2, None, 9), LoadStep(0.4, Rate(2e5)), LoadStep(0.6, Rate(1e5), 1))
    )
    assert stretches(traffic) == [(Rate(1e5), None), (Rate(1e5), 9), (Rate(2e5), 9), (Rate(1e5), 1)]


def test_a_position_step_works_at_full_speed() -> None:
    traffic = replace(STEADY, rate=Rate(0.0, "max"), steps=(LoadStep(0.4, None, 2),))
    assert len(compile_plan(traffic, ((1, 1.0), (2, 0.0))).phases) == 2


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (LoadStep(0.4, None, 5), "no rule accepts there"),
        (LoadStep(0.4), "changes neither load nor matching position"),
    ],
)
def test_steps_that_make_no_sense_are_refused(step: LoadStep, words: str) -> None:
    for places in ((), HALF):
        with pytest.raises(InputError, match=words):
            compile_plan(replace(STEADY, steps=(step,)), places)


def test_bins_are_finer_where_something_happens_on_the_way() -> None:
    assert compile_plan(STEADY).bin_ns == BIN_NS
    assert compile_plan(replace(STEADY, steps=(LoadStep(0.5, Rate(2e5)),))).bin_ns == STEP_BIN_NS
    assert compile_plan(replace(STEADY, bin_ns=250_000)).bin_ns == 250_000


@pytest.mark.parametrize("bin_ns", [-1, 0, 1, 1 << 32])
def test_bins_that_cannot_be_are_refused(bin_ns: int) -> None:
    with pytest.raises(InputError, match="time series"):
        compile_plan(replace(STEADY, bin_ns=bin_ns, duration_s=10.0))
