"""A profile that the host spoiled must not pass for a poor device, nor the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from weirlab.model import QueueingModel
from weirlab.model.base import DELAYS, LEVELS, Band, Prediction
from weirlab.model.intervals.cross_validation import calibrate
from weirlab.model.planning.judge import Judge, OperatingPoints
from weirlab.model.planning.planner import OfferedLoad, PlanningQuestion, answer
from weirlab.model.planning.requirements import Requirement, limits, parse_limit
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, profile

from .conftest import Textbook

DEVICE = QueueDevice()
CALLS = limits((Requirement("calls", (parse_limit("p99<7ms"), parse_limit("loss<0.1%"))),))


def repeated(truth: Observation, rng: np.random.Generator, stalls: float) -> Iterator[Observation]:
    """Three trials of a setting, some of which a host stalls: packets wait long, and some are lost."""
    for _ in range(3):
        stalled = rng.random() < stalls
        factor = np.exp(abs(rng.normal(0, 2.5)) if stalled else rng.normal(0, 0.02))
        lost = 1 - (1 - truth.loss_ratio) * (1 - stalled * rng.uniform(0.002, 0.15))
        yield replace(
            truth,
            **{name: getattr(truth, name) * factor for name in (*DELAYS, "jitter_ns")},
            loss_ratio=lost,
            forwarding_pps=truth.rate_pps * (1 - lost),
        )


@pytest.fixture(scope="module")
def seen() -> Mapping[str, list[Observation]]:
    truths, rng = profile(DEVICE, packets=800), np.random.default_rng(1)
    return {
        name: [one for truth in truths for one in repeated(truth, rng, stalls)]
        for name, stalls in {"quiet": 0.0, "noisy": 0.25}.items()
    }


@pytest.fixture(scope="module")
def fitted(seen: Mapping[str, list[Observation]]) -> Mapping[str, QueueingModel]:
    return {
        name: (model := QueueingModel.fit(rows)).with_calibration(calibrate(QueueingModel, rows, model))
        for name, rows in seen.items()
    }


def asked(rate_pps: float, certainty: float = 0.95) -> PlanningQuestion:
    return PlanningQuestion("device", CALLS, OfferedLoad(rate_pps), 64.0, 400.0, certainty)


def test_a_load_far_below_the_threshold_is_undecided_where_only_the_host_lost_packets(
    fitted: Mapping[str, QueueingModel],
) -> None:
    found = answer("d", fitted["noisy"], asked(30_000))
    assert found.verdict == "undecided"
    assert not found.met
    assert found.outlook is not None
    assert found.outlook.predicted["loss_ratio"] < 1e-3 < found.outlook.bounds["loss_ratio"]
    assert answer("d", fitted["quiet"], asked(30_000)).verdict == "meets"


def test_a_load_that_the_prediction_misses_is_not_met_however_noisy_the_profile(
    fitted: Mapping[str, QueueingModel],
) -> None:
    for model in fitted.values():
        assert answer("d", model, asked(600_000)).verdict == "misses"


@pytest.mark.parametrize(("room", "verdict"), [(1.105, "undecided"), (1.09, "misses")])
def test_what_the_prediction_meets_with_a_tenth_to_spare_is_undecided(
    fitted: Mapping[str, QueueingModel], room: float, verdict: str
) -> None:
    """Reported: a tunnel with 33.3 kpps by the prediction did not meet 30 kpps."""
    capacity = answer("d", fitted["noisy"], asked(30_000)).headroom
    assert capacity is not None
    assert answer("d", fitted["noisy"], asked(capacity.foreseen_pps / room)).verdict == verdict


def test_without_certainty_nothing_is_undecided(fitted: Mapping[str, QueueingModel]) -> None:
    for model in fitted.values():
        for rate_pps in (30_000, 300_000, 600_000):
            assert answer("d", model, asked(rate_pps, 0.5)).verdict in ("meets", "misses")


@given(
    share=st.floats(0.05, 1.5),
    position=st.floats(0, 1000),
    p99_us=st.floats(50, 2000),
    lost=st.sampled_from([1e-6, 1e-3, 1e-2]),
    certainty=st.sampled_from([0.75, 0.95, 0.99]),
)
@settings(deadline=None, max_examples=50)
def test_of_a_quiet_profile_every_verdict_is_what_it_was_without_a_third_one(
    fitted: Mapping[str, QueueingModel],
    share: float,
    position: float,
    p99_us: float,
    lost: float,
    certainty: float,
) -> None:
    wanted = (parse_limit(f"p99<{p99_us:.3f}us"), replace(parse_limit("loss=0"), at_most=lost))
    judge = Judge(fitted["quiet"], wanted, certainty)
    setting = OperatingPoints(share * 1e9 / DEVICE.service_ns(position), 64.0, position)
    assert judge.decide(setting) == ("meets" if judge.at(setting).met else "misses")


@dataclass(frozen=True)
class NoisyWhenIdle(Textbook):
    """A device whose trials below 20 kpps a host disturbed: there, bounds are ``times`` as wide."""

    times: float = 100.0
    slow: float = 1.0
    """Factor of the predicted delays there."""

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        found = super().predict(rate_pps, frame_bytes, position, gap_scv)
        idle = np.asarray(rate_pps, float) < 20e3
        slow, wide = np.where(idle, self.slow, 1.0), np.where(idle, self.times, 1.0)
        delays: dict[str, Any] = {name: getattr(found, name) * slow for name in DELAYS}
        bands = {
            name: {
                level: Band(band.low, band.high * (wide if name in DELAYS else 1.0))
                for level, band in of.items()
            }
            for name, of in found.intervals.items()
        }
        return replace(found, **delays, intervals=bands)


def test_no_load_is_judged_better_than_a_lighter_one() -> None:
    wanted = (parse_limit("p99<1ms"),)
    light, heavy, lone = (
        answer(
            "d",
            model,
            PlanningQuestion("device", wanted, OfferedLoad(rate_pps), 64.0, 100.0),
        )
        for model, rate_pps in (
            (NoisyWhenIdle(), 10e3), (NoisyWhenIdle(), 40e3), (NoisyWhenIdle(times=1.0), 40e3)
        )
    )  # fmt: skip
    assert light.verdict == heavy.verdict == "undecided"
    assert lone.verdict == "meets"
    assert light.headroom is not None
    assert light.headroom.lighter is None
    assert heavy.headroom is not None
    assert heavy.headroom.lighter is not None
    assert heavy.headroom.lighter.rate_pps == heavy.headroom.reach.lowest
    assert heavy.headroom.lighter.bounds["delay_p99_ns"] > 1e6
    assert heavy.outlook is not None
    assert heavy.outlook.bounds["delay_p99_ns"] < 1e6
    assert lone.headroom is not None
    assert lone.headroom.lighter is None
    slow = answer(
        "d",
        NoisyWhenIdle(slow=100.0),
        PlanningQuestion("device", wanted, OfferedLoad(40e3), 64.0, 100.0, certainty=0.5),
    )
    assert slow.verdict == "misses"


def test_a_limit_that_the_prediction_misses_binds_before_one_that_only_its_bound_misses(
    fitted: Mapping[str, QueueingModel],
) -> None:
    wanted = (parse_limit("p99<1us"), replace(parse_limit("loss=0"), at_most=1e-6))
    found = answer("d", fitted["noisy"], replace(asked(30_000), limits=wanted)).outlook
    assert found is not None
    assert found.bounds["loss_ratio"] / 1e-6 > found.bounds["delay_p99_ns"] / 1e3, "the bound alone misleads"
    assert found.predicted["loss_ratio"] < 1e-6
    assert found.binding.quantity == "delay_p99_ns"
    assert found.used == found.bounds["delay_p99_ns"] / 1e3


def test_a_search_tells_how_far_the_prediction_reaches_beside_what_is_sure(
    fitted: Mapping[str, QueueingModel],
) -> None:
    found = answer("d", fitted["noisy"], PlanningQuestion("rate", CALLS, frame_bytes=64.0, position=400.0))
    assert found.verdict == "undecided"
    assert found.foreseen is not None
    assert found.foreseen.value == pytest.approx(1e9 / DEVICE.service_ns(400), rel=0.05)


def test_no_delay_is_foreseen_far_beyond_a_full_queue_and_the_longest_stall_of_the_profile(
    seen: Mapping[str, list[Observation]], fitted: Mapping[str, QueueingModel]
) -> None:
    rates, places = np.meshgrid(np.geomspace(5e3, 1e6, 30), [0.0, 100.0, 1000.0])
    found = fitted["noisy"].predict(rates, 64.0, places)
    for name in DELAYS:
        measured = np.array([getattr(one, name) for one in seen["noisy"]])
        for level in LEVELS:
            band = found.intervals[name][level]
            predicted = getattr(found, name)
            assert (band.low >= np.minimum(measured.min(), predicted) / 2 * (1 - 1e-9)).all()
            full = np.max([one.delay_p999_ns * one.forwarding_pps for one in seen["noisy"]])
            longest = np.maximum(np.maximum(measured.max(), full / found.threshold_pps), predicted)
            assert (band.high <= 2 * longest * (1 + 1e-9)).all()


@dataclass(frozen=True)
class WideBelow(Textbook):
    """A device whose trials scatter far below the predicted delays, too."""

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        found = super().predict(rate_pps, frame_bytes, position, gap_scv)
        bands = {
            name: {level: Band(band.low / 100 if name in DELAYS else band.low, band.high)
                   for level, band in of.items()}
            for name, of in found.intervals.items()
        }  # fmt: skip
        return replace(found, intervals=bands)


def test_a_missed_limit_that_lies_between_the_bounds_is_undecided() -> None:
    predicted = Textbook().predict(10e3, 64.0, 100.0).delay_p99_ns
    limit = parse_limit(f"p99<{float(predicted) / 10:.0f}ns")
    setting = OperatingPoints(10e3, 64.0, 100.0)
    assert Judge(Textbook(), (limit,)).decide(setting) == "misses"
    assert Judge(WideBelow(), (limit,)).decide(setting) == "undecided"
    close = parse_limit(f"p99<{float(predicted) / 1000:.4g}ns")
    assert Judge(WideBelow(), (close, limit)).decisions(setting) == ("misses", "undecided")


def test_a_verdict_that_a_load_just_below_the_threshold_has_stays_at_every_heavier_one(
    fitted: Mapping[str, QueueingModel],
) -> None:
    """Reported: 300 calls would not do, 600 were undecided."""
    order = ("meets", "undecided", "misses")
    for disturbed in (False, True):
        found = [
            order.index(answer("d", fitted["noisy"], asked(rate), disturbed=disturbed).verdict)
            for rate in np.geomspace(30_000, 900_000, 12)
        ]
        assert found == sorted(found)


def test_a_disturbed_profile_cannot_tell_what_only_waits_too_long(
    fitted: Mapping[str, QueueingModel],
) -> None:
    near = answer("d", fitted["noisy"], asked(30_000)).headroom
    assert near is not None
    load = asked(near.foreseen_pps / 1.05)
    assert answer("d", fitted["noisy"], load).verdict == "misses"
    assert answer("d", fitted["noisy"], load, disturbed=True).verdict == "undecided"
