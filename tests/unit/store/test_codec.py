from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import StoreError
from weirlab.records import RuleSetup, TrialSpec
from weirlab.store.codec import spec_from_json, spec_to_json
from weirlab.traffic.sizes import SIMPLE_IMIX, Constant, PoissonSizes, WeightedSizes
from weirlab.traffic.spec import Flows, LoadStep, Rate, Traffic

positive = st.floats(min_value=1e-3, max_value=1e12)
rates = st.one_of(
    st.builds(Rate, positive, st.sampled_from(["pps", "bps"])),
    st.builds(Rate, st.floats(0.1, 100), st.just("percent"), positive),
    st.just(Rate(0.0, "max")),
)
frame = st.integers(64, 2048)
mixes = st.one_of(
    st.builds(Constant, frame),
    st.builds(WeightedSizes, st.lists(st.tuples(frame, positive), min_size=1).map(tuple), st.text()),
    st.builds(PoissonSizes, frame, frame, positive),
)
flows = st.builds(
    Flows,
    st.integers(1, 10**6),
    st.sampled_from(["udp", "tcp"]),
    st.sampled_from([4, 6]),
    st.sampled_from(["advance", "random"]),
    st.integers(0, 2**32),
)
traffics = st.builds(
    Traffic,
    rates,
    mixes,
    flows,
    st.sampled_from(["constant", "poisson"]),
    st.lists(
        st.builds(LoadStep, positive, st.none() | rates, st.none() | st.integers(1, 10**6)), max_size=4
    ).map(tuple),
    positive,
    positive,
    st.integers(0, 2**32),
    st.none() | st.integers(1, 10**9),
)


def even(positions: list[int]) -> RuleSetup:
    return RuleSetup.mixed(tuple((n, 1 / len(positions)) for n in positions))


setups = st.one_of(
    st.builds(RuleSetup, st.integers(0, 10**6), st.booleans()),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=16, unique=True).map(sorted).map(even),
)
specs = st.builds(TrialSpec, traffics, setups, st.text(), st.booleans())


@given(specs)
def test_a_spec_survives_the_way_through_json(spec: TrialSpec) -> None:
    assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))) == spec


def test_the_form_is_what_people_expect_to_read() -> None:
    spec = TrialSpec(Traffic(Rate(0.0, "max"), SIMPLE_IMIX), RuleSetup(400), "load 0.5")
    value = spec_to_json(spec)
    assert value["rules"] == {"position": 400, "stateful": False}
    assert value["traffic"]["rate"] == {"unit": "max"}
    assert value["traffic"]["sizes"]["parts"] == [[64, 7.0], [594, 4.0], [1518, 1.0]]


def test_specs_of_before_places_cross_traffic_and_position_steps_are_read() -> None:
    traffic = Traffic(Rate(1000.0), steps=(LoadStep(1.0, Rate(2000.0)),))
    value = spec_to_json(TrialSpec(traffic, RuleSetup(7, stateful=True), "old"))
    del value["cross_traffic"], value["traffic"]["bin_ns"], value["traffic"]["steps"][0]["position"]
    assert spec_from_json(value) == TrialSpec(traffic, RuleSetup(7, stateful=True), "old")


def test_places_that_cannot_be_are_damage() -> None:
    value = spec_to_json(TrialSpec(Traffic(Rate(1.0)), RuleSetup(7)))
    value["rules"]["places"] = [[7, 0.1]]
    with pytest.raises(StoreError, match="not the specification of a trial"):
        spec_from_json(value)


@pytest.mark.parametrize("damage", [{}, {"rules": {}}, {"label": "", "rules": None, "traffic": {}}, []])
def test_anything_else_is_refused_in_one_message(damage: object) -> None:
    with pytest.raises(StoreError, match="not the specification of a trial"):
        spec_from_json(damage)  # type: ignore[arg-type]


def test_an_unknown_kind_of_sizes_is_named() -> None:
    value = spec_to_json(TrialSpec(Traffic(Rate(1.0))))
    value["traffic"]["sizes"] = {"kind": "pareto"}
    with pytest.raises(StoreError, match="pareto"):
        spec_from_json(value)
