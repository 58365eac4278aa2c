from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.documents import plain
from weirlab.base.errors import InputError, ModelError
from weirlab.devices.prediction.tables import parameters
from weirlab.model import QueueingModel
from weirlab.model.base import DELAYS
from weirlab.model.wording import UNDETERMINED
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, profile, simulate

TRUE = QueueDevice()
MODEL = QueueingModel.fit(profile(TRUE, positions=(0, 400, 1000), poisson=True, packets=1000))


def by_name(model: QueueingModel) -> dict[str, float]:
    return {p.name: p.value for p in model.parameters()}


@pytest.mark.parametrize("arrivals", ["regular", "random"])
def test_physical_parameters_are_recovered_within_two_percent(
    arrivals: str, request: pytest.FixtureRequest
) -> None:
    found = by_name(QueueingModel.fit(request.getfixturevalue(arrivals)))
    assert found["service_fixed_ns"] == pytest.approx(TRUE.fixed_ns, rel=0.02)
    assert found["service_per_rule_ns"] == pytest.approx(TRUE.per_rule_ns, rel=0.02)
    assert found["queue_packets"] == pytest.approx(TRUE.queue_packets, rel=0.02)
    assert found["base_delay_ns"] == pytest.approx(TRUE.base_ns, rel=0.02)
    assert "io_service_ns" not in found


def test_parameters_per_byte_are_recovered() -> None:
    true = QueueDevice(per_byte_ns=0.4, base_per_byte_ns=1.5)
    found = by_name(QueueingModel.fit(profile(true, frames=(64, 594, 1518), packets=1500)))
    assert found["service_per_byte_ns"] == pytest.approx(0.4, rel=0.02)
    assert found["base_per_byte_ns"] == pytest.approx(1.5, rel=0.02)
    assert found["queue_packets"] == pytest.approx(256, rel=0.02)


def test_a_second_stage_is_recovered_and_told() -> None:
    model = QueueingModel.fit(profile(QueueDevice(fixed_ns=823, per_rule_ns=2.75, io_ns=1156)))
    found = by_name(model)
    assert found["io_service_ns"] == pytest.approx(1156, rel=0.02)
    assert found["service_per_rule_ns"] == pytest.approx(2.75, rel=0.02)
    assert any("Two stages in series" in sentence for sentence in model.in_words())


def test_what_trials_do_not_determine_has_no_number(fitted: QueueingModel) -> None:
    """Reported: ``0 ± 9,611`` as if it were known, and a sentence about it."""
    mean = fitted.delays["delay_mean_ns"]
    vague = replace(mean, service_scv=0.0, interruption_ns=0.0, stderr={**mean.stderr, "service_scv": 9611.0})
    model = replace(fitted, delays={**fitted.delays, "delay_mean_ns": vague}, queue_stderr=1e4)
    shown = {row[0]: row[1] for row in parameters({"queueing": model})[0].rows}
    assert shown["service_scv"] == shown["queue_packets"] == UNDETERMINED
    assert "±" in shown["service_per_rule_ns"]
    assert sum(UNDETERMINED in sentence for sentence in model.in_words()) == 2


def test_random_arrivals_are_no_variability_of_the_service(fitted: QueueingModel) -> None:
    assert by_name(fitted)["service_scv"] < 0.05


def test_a_profile_with_random_gaps_predicts_constant_ones(fitted: QueueingModel) -> None:
    seen = simulate(TRUE, 0.8e9 / TRUE.service_ns(100), 64, 100)
    found = fitted.predict(seen.rate_pps, 64, 100, gap_scv=0.0)
    assert float(found.delay_mean_ns) == pytest.approx(seen.delay_mean_ns, rel=0.03)
    assert float(found.delay_p99_ns) == pytest.approx(seen.delay_p99_ns, rel=0.06)


def test_regular_arrivals_hardly_wait(regular: list[Observation]) -> None:
    model = QueueingModel.fit(regular)
    assert by_name(model).get("service_scv", 0.0) < 0.02
    predicted = model.predict(0.9e9 / TRUE.service_ns(200), 64, 200)
    idle = TRUE.base_ns + TRUE.service_ns(200)
    assert float(predicted.delay_p99_ns) == pytest.approx(idle, rel=0.02)


@pytest.mark.parametrize("position", [200, 700])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.6, 0.8])
def test_held_out_positions_are_predicted_below_the_threshold(
    fitted: QueueingModel, position: int, share: float
) -> None:
    seen = simulate(TRUE, share * 1e9 / TRUE.service_ns(position), 64, position, True, 20_000, seed=99)
    found = fitted.predict(seen.rate_pps, 64, position, gap_scv=1.0)
    assert float(found.delay_mean_ns) == pytest.approx(seen.delay_mean_ns, rel=0.05)
    assert float(found.delay_p50_ns) == pytest.approx(seen.delay_p50_ns, rel=0.05)
    assert float(found.delay_p90_ns) == pytest.approx(seen.delay_p90_ns, rel=0.08)
    assert float(found.delay_p99_ns) == pytest.approx(seen.delay_p99_ns, rel=0.12)
    assert float(found.jitter_ns) == pytest.approx(seen.jitter_ns, rel=0.25)
    assert float(found.loss_ratio) == 0.0


@pytest.mark.parametrize("position", [200, 700])
@pytest.mark.parametrize("share", [1.2, 1.5])
def test_held_out_positions_are_predicted_in_overload(
    fitted: QueueingModel, position: int, share: float
) -> None:
    seen = simulate(TRUE, share * 1e9 / TRUE.service_ns(position), 64, position, True, 5000, seed=99)
    found = fitted.predict(seen.rate_pps, 64, position, gap_scv=1.0)
    assert float(found.threshold_pps) == pytest.approx(seen.forwarding_pps, rel=0.02)
    assert float(found.loss_ratio) == pytest.approx(seen.loss_ratio, abs=0.015)
    for name in DELAYS:
        assert float(getattr(found, name)) == pytest.approx(getattr(seen, name), rel=0.03)
    assert float(found.jitter_ns) == pytest.approx(seen.jitter_ns, rel=0.25)


def test_an_idle_device_that_must_wake_up_is_slower_than_a_busy_one() -> None:
    true = QueueDevice(wake_ns=40_000, wake_pps=20_000)
    model = QueueingModel.fit(profile(true, loads=(0.002, 0.01, 0.03, 0.1, 0.3, 0.6, 0.85, 1.2, 1.5)))
    assert by_name(model)["wake_ns"] == pytest.approx(40_000, rel=0.05)
    for share in (0.005, 0.05, 0.5):
        seen = simulate(true, share * 1e9 / true.service_ns(200), 64, 200)
        found = model.predict(seen.rate_pps, 64, 200)
        assert float(found.delay_mean_ns) == pytest.approx(seen.delay_mean_ns, rel=0.05)
    assert any("wake up" in sentence for sentence in model.in_words())


def disturbed(observations: list[Observation], seed: int = 1) -> list[Observation]:
    """As on a busy machine: 4 % scatter of delays, and one trial in eight with stolen CPU time."""
    rng = np.random.default_rng(seed)
    result = []
    for o in observations:
        factor = float(np.exp(rng.normal(0, 0.04)))
        stolen = rng.random() < 0.125
        loss = max(o.loss_ratio, 0.012) if stolen else o.loss_ratio
        changed = {name: getattr(o, name) * factor for name in DELAYS}
        if stolen:
            changed["delay_mean_ns"] *= 3
            changed["delay_p99_ns"] *= 5
        result.append(replace(o, loss_ratio=loss, forwarding_pps=o.rate_pps * (1 - loss), **changed))
    return result


def test_trials_disturbed_by_the_host_do_not_spoil_the_model() -> None:
    clean = [o for seed in range(3) for o in profile(TRUE, poisson=True, packets=1500)[seed % 2 :]]
    model = QueueingModel.fit(disturbed(clean))
    found = by_name(model)
    assert found["service_fixed_ns"] == pytest.approx(TRUE.fixed_ns, rel=0.05)
    assert found["service_per_rule_ns"] == pytest.approx(TRUE.per_rule_ns, rel=0.05)
    assert found["queue_packets"] == pytest.approx(TRUE.queue_packets, rel=0.05)
    seen = simulate(TRUE, 0.5e9 / TRUE.service_ns(200), 64, 200, True, 20_000)
    predicted = model.predict(seen.rate_pps, 64, 200, gap_scv=1.0)
    assert float(predicted.delay_mean_ns) == pytest.approx(seen.delay_mean_ns, rel=0.15)


@pytest.mark.parametrize("places", [4, 16, 4096])
def test_queues_of_any_length_are_recovered(places: int) -> None:
    true = QueueDevice(queue_packets=places)
    model = QueueingModel.fit(profile(true, positions=(0, 400, 1000), loads=(0.1, 0.3, 0.5, 0.8, 1.3, 1.6)))
    assert by_name(model)["queue_packets"] == pytest.approx(places, rel=0.02, abs=0.5)
    seen = simulate(true, 1.4e9 / true.service_ns(100), 64, 100)
    found = model.predict(seen.rate_pps, 64, 100)
    assert float(found.delay_p50_ns) == pytest.approx(seen.delay_p50_ns, rel=0.03)


def test_one_position_is_enough_for_predictions_there(random: list[Observation]) -> None:
    model = QueueingModel.fit([o for o in random if o.position == 400])
    inside, outside = model.predict(1e5, 64, 400, 1.0), model.predict(1e5, 64, 500, 1.0)
    assert float(inside.threshold_pps) == pytest.approx(1e9 / TRUE.service_ns(400), rel=0.02)
    assert not inside.extrapolated
    assert outside.extrapolated


def test_without_overload_the_message_names_the_missing_loads(random: list[Observation]) -> None:
    with pytest.raises(ModelError) as caught:
        QueueingModel.fit([o for o in random if o.loss_ratio == 0 or o.position == 1000])
    message = str(caught.value)
    assert "overload" in message
    assert "pps at position 400" in message
    assert "pps at position 1000" not in message


def test_without_low_loads_the_message_says_so(random: list[Observation]) -> None:
    with pytest.raises(ModelError, match="3 different loads without loss, found 0: add loads below"):
        QueueingModel.fit([o for o in random if o.loss_ratio > 0.05])


def test_without_trials_the_message_says_what_to_measure() -> None:
    with pytest.raises(ModelError, match=r"no usable trials.*weir profile"):
        QueueingModel.fit([])


def test_trials_in_which_nothing_arrived_are_ignored(random: list[Observation]) -> None:
    nan = float("nan")
    dead = Observation(1e6, 64.0, 0.0, 0.0, 1.0, nan, nan, nan, nan, nan)
    assert plain(QueueingModel.fit([*random, dead])) == plain(QueueingModel.fit(random))


def test_jitter_that_was_not_measured_is_not_predicted(random: list[Observation]) -> None:
    model = QueueingModel.fit([replace(o, jitter_ns=float("nan")) for o in random])
    assert np.isnan(model.predict(1e5, 64, 0).jitter_ns)


@pytest.mark.parametrize(
    ("rate", "frame", "position", "reason"),
    [
        (100.0, 64, 100, "below the lowest profiled"),
        (5e6, 64, 100, "above the highest profiled"),
        (1.2e6, 64, 1000, "times the threshold"),
        (1e5, 1518, 100, "frame size 1518 B, but only 64 B was profiled"),
        (1e5, 64, 2000, "position 2000, but only 0 to 1000 was profiled"),
    ],
)
def test_settings_outside_the_profile_are_flagged_with_the_reason(
    fitted: QueueingModel, rate: float, frame: int, position: int, reason: str
) -> None:
    found = fitted.predict(rate, frame, position)
    assert found.extrapolated
    assert any(reason in why for why in found.why)


def test_settings_inside_the_profile_are_not_flagged(fitted: QueueingModel) -> None:
    found = fitted.predict([2e4, 2e5, 4e5], 64, [0, 200, 1000], 1.0)
    assert not found.extrapolated.any()
    assert found.why == []


def test_other_gaps_than_profiled_are_flagged(fitted: QueueingModel) -> None:
    found = fitted.predict(2e5, 64, 200, 0.0)
    assert found.extrapolated
    assert any("gaps between packets" in why for why in found.why)


@pytest.mark.parametrize(
    ("rate", "frame", "position", "named"),
    [
        (0.0, 64, 0, "rate_pps = 0"),
        (-5.0, 64, 0, "rate_pps = -5"),
        (float("nan"), 64, 0, "not a number"),
        (float("inf"), 64, 0, "rate_pps = inf"),
        (1e5, 0, 0, "frame_bytes = 0"),
        (1e5, 64, -1, "position = -1"),
    ],
)
def test_settings_without_meaning_are_refused(
    fitted: QueueingModel, rate: float, frame: float, position: float, named: str
) -> None:
    with pytest.raises(InputError, match=named):
        fitted.predict(rate, frame, position)


def test_arguments_broadcast(fitted: QueueingModel) -> None:
    found = fitted.predict(np.linspace(1e4, 1e6, 5)[:, None], 64, np.array([0, 100, 400]))
    assert found.delay_mean_ns.shape == found.extrapolated.shape == (5, 3)
    assert fitted.threshold_pps([0, 100], 64).shape == (2,)
    assert fitted.predict(1e5, 64, 0).loss_ratio.shape == ()


@given(st.floats(1e3, 5e6), st.floats(64, 1518), st.floats(0, 3000))
def test_predictions_keep_their_order_and_bounds(rate: float, frame: float, position: float) -> None:
    found = MODEL.predict(rate, frame, position)
    full = MODEL.queue_packets * 1e9 / float(found.threshold_pps)
    assert 0 <= found.loss_ratio <= max(0.02, 1 - float(found.threshold_pps) / rate + 0.02)
    assert 0 < found.delay_p50_ns <= found.delay_p90_ns <= found.delay_p99_ns
    assert found.delay_p99_ns < 1.1 * full + 20_000
    assert found.jitter_ns >= 0
    assert MODEL.threshold_pps(position + 1, frame) <= found.threshold_pps


def test_delay_rises_with_load_up_to_the_full_queue(fitted: QueueingModel) -> None:
    rate = np.linspace(1e4, 1.3e6, 400)
    found = fitted.predict(rate, 64, 100)
    assert (np.diff(found.delay_p50_ns) > -1).all()
    assert (np.diff(found.loss_ratio) >= 0).all()


def test_standard_errors_are_told_with_units(fitted: QueueingModel) -> None:
    for parameter in fitted.parameters():
        assert parameter.stderr >= 0
        assert parameter.unit
        assert parameter.meaning
    names = [p.name for p in fitted.parameters()]
    assert names[:3] == ["service_fixed_ns", "service_per_rule_ns", "queue_packets"]


def test_the_model_speaks(fitted: QueueingModel) -> None:
    said = " ".join(fitted.in_words())
    assert "Each rule before the match adds 2.6" in said
    assert "The queue holds 25" in said
    assert "kpps" in said


def test_three_low_loads_at_one_position_are_just_enough(regular: list[Observation]) -> None:
    rows = [o for o in regular if o.position == 0]
    model = QueueingModel.fit([o for o in rows if o.loss_ratio > 0.05][:1] + rows[1:4])
    idle = TRUE.base_ns + TRUE.service_ns(0)
    assert float(model.predict(2e5, 64, 0).delay_mean_ns) == pytest.approx(idle, rel=0.02)


def test_repetitions_of_one_low_load_are_not_different_loads(regular: list[Observation]) -> None:
    rows = [o for o in regular if o.position == 0]
    repeated = [replace(rows[2], rate_pps=rows[2].rate_pps * factor) for factor in (0.999, 1.0, 1.001)]
    with pytest.raises(ModelError, match="3 different loads without loss, found 1"):
        QueueingModel.fit([*(o for o in rows if o.loss_ratio > 0.05), *repeated])


def test_rules_that_leave_a_cache_bend_the_law_and_it_is_told() -> None:
    positions = (0, 25, 50, 100, 150, 250, 400, 600, 800, 1000)

    def service_ns(n: int) -> float:
        return 700 + n * (1.7 + 2.4 / (1 + (220 / max(n, 1)) ** 5))

    rows = []
    for n in positions:
        device = QueueDevice(fixed_ns=service_ns(n), per_rule_ns=0.0)
        rows += [replace(o, position=float(n)) for o in profile(device, positions=(0,), packets=1500)]
    model = QueueingModel.fit(rows)
    found = by_name(model)
    assert found["bend_position"] == pytest.approx(220, rel=0.2)
    assert found["service_late_per_rule_ns"] == pytest.approx(4.1, rel=0.05)
    assert any("beyond" in sentence for sentence in model.in_words())
    for n in (200, 300, 700):
        assert float(model.threshold_pps(n, 64)) == pytest.approx(1e9 / service_ns(n), rel=0.03)


def test_what_no_law_explains_is_learnt_from_the_trials() -> None:
    def bumped(o: Observation) -> Observation:
        slack_us = (1e9 / o.rate_pps - TRUE.service_ns(o.position)) / 1e3
        factor = 1 + 0.8 * np.exp(-((np.log(max(slack_us, 1e-3) / 3) / 0.5) ** 2))
        return replace(o, **{name: getattr(o, name) * factor for name in DELAYS})

    loads = (0.02, 0.08, 0.15, 0.22, 0.3, 0.37, 0.44, 0.51, 0.58, 0.65, 0.72, 0.79, 0.86, 0.92, 1.1, 1.4)
    rows = 3 * [bumped(o) for o in profile(TRUE, loads=loads, packets=1000)]
    model = QueueingModel.fit(rows)
    assert model.leftover.below.fields["delay_mean_ns"].amplitude > 0
    for share in (0.25, 0.4, 0.55):
        seen = bumped(simulate(TRUE, share * 1e9 / TRUE.service_ns(200), 64, 200))
        found = model.predict(seen.rate_pps, 64, 200)
        assert float(found.delay_mean_ns) == pytest.approx(seen.delay_mean_ns, rel=0.06)


def test_a_fit_like_another_predicts_the_same(regular: list[Observation]) -> None:
    first = QueueingModel.fit(regular)
    again = QueueingModel.fit(regular, like=first)
    for name in DELAYS:
        at = (
            first.predict([5e4, 2e5, 9e5], 64, [0, 400, 200]),
            again.predict([5e4, 2e5, 9e5], 64, [0, 400, 200]),
        )
        assert getattr(at[0], name) == pytest.approx(getattr(at[1], name), rel=0.01)


def test_the_spread_is_that_of_the_trials(random: list[Observation]) -> None:
    rng = np.random.default_rng(5)
    noisy = [
        replace(o, **{name: getattr(o, name) * factor for name in DELAYS})
        for o in random * 4
        for factor in [float(np.exp(rng.normal(0, 0.08)))]
    ]
    found = QueueingModel.fit(noisy).predict(3e5, 64, 200, 1.0)
    assert float(found.spread["delay_mean_ns"]) == pytest.approx(0.08, rel=0.3)
