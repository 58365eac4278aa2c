"""Devices in series: convolution, shared CPUs, the device that binds, and the test bed's own part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.base.errors import ModelError
from weirlab.model import QueueingModel
from weirlab.model.base import Band, Prediction
from weirlab.model.distributions import sum_quantiles
from weirlab.model.series import (
    SeriesBed,
    SeriesDevice,
    SeriesStage,
    binding,
    idle_ns,
    in_series,
    stages,
)
from weirlab.testing import queue

QUICK, SLOW = queue.QueueDevice(fixed_ns=2000.0), queue.QueueDevice(fixed_ns=8000.0)


@pytest.fixture(scope="module")
def models() -> dict[str, QueueingModel]:
    return {
        name: QueueingModel.fit(queue.profile(device, packets=1500))
        for name, device in (("quick", QUICK), ("slow", SLOW))
    }


def exponential(mean_ns: float) -> Prediction:
    """Of a delay that is exponentially distributed."""

    def at(q: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.asarray(-np.log(1.0 - q) * mean_ns)

    nothing = np.asarray(0.0)
    return Prediction(
        nothing, nothing, np.asarray(mean_ns), at(0.5), at(0.9), at(0.99), at(0.999), nothing, nothing > 1, []
    )


def test_the_sum_of_two_exponential_delays_is_an_erlang_delay() -> None:
    found = sum_quantiles([vars(exponential(1000.0)), vars(exponential(1000.0))])
    # Quantiles of the Erlang distribution with two stages.
    assert found["delay_p50_ns"] == pytest.approx(1678.3, rel=0.01)
    assert found["delay_p90_ns"] == pytest.approx(3889.7, rel=0.01)
    assert found["delay_p99_ns"] == pytest.approx(6638.4, rel=0.01)
    assert found["delay_p999_ns"] == pytest.approx(9233.4, rel=0.02)


def test_a_constant_delay_moves_every_quantile_by_itself() -> None:
    nothing = np.asarray(0.0)
    constant = np.asarray(5e6)
    fixed = Prediction(nothing, nothing, *[constant] * 5, nothing, nothing > 1, [])
    found = sum_quantiles([vars(exponential(1000.0)), vars(fixed)])
    assert found["delay_p50_ns"] == pytest.approx(5e6 + 693.1, rel=1e-4)
    assert found["delay_p99_ns"] == pytest.approx(5e6 + 4605.2, rel=1e-4)


def test_quantiles_of_a_sum_are_less_than_the_sum_of_quantiles(models: dict[str, QueueingModel]) -> None:
    part = models["slow"].predict(60_000.0, 64.0, 0.0, 1.0)
    found = sum_quantiles([vars(part), vars(part)])
    assert float(part.delay_p99_ns) < found["delay_p99_ns"] < 2 * float(part.delay_p99_ns)


def test_devices_on_one_cpu_carry_what_their_service_times_together_allow(
    models: dict[str, QueueingModel],
) -> None:
    devices = [SeriesDevice(name, models[name], 40_000.0, 64.0, cpu="shared") for name in ("quick", "slow")]
    (stage,) = stages(devices, 0.0, None)
    assert stage.utilisation == pytest.approx(40_000.0 * 10_000e-9, rel=0.03)
    assert 1e9 / float(stage.prediction.threshold_pps) == pytest.approx(10_000.0, rel=0.03)
    apart = stages([replace(device, cpu="") for device in devices], 0.0, None)
    assert [found.utilisation for found in apart] == pytest.approx([0.08, 0.32], rel=0.03)


def test_the_device_that_binds_is_the_busiest_whatever_the_load(models: dict[str, QueueingModel]) -> None:
    for rate in (20_000.0, 60_000.0, 110_000.0):
        devices = [SeriesDevice(name, models[name], rate, 64.0) for name in ("quick", "slow")]
        assert binding(stages(devices, 0.0, None)).name == "slow"
    uneven = [
        SeriesDevice("quick", models["quick"], 200_000.0, 64.0),
        SeriesDevice("slow", models["slow"], 20_000.0, 64.0),
    ]
    assert binding(stages(uneven, 0.0, None)).name == "quick"


def test_the_bed_counts_once(models: dict[str, QueueingModel]) -> None:
    one = models["slow"]
    # The second device adds a quarter of what a profile of one has.
    two = replace(one, service=replace(one.service, fixed_ns=one.service.fixed_ns * 1.25))
    bed = SeriesBed(one, two)
    devices = [SeriesDevice(name, one, 30_000.0, 64.0, cpu="shared") for name in ("a", "b")]
    (whole,), (once,) = stages(devices, 0.0, None), stages(devices, 0.0, bed)
    assert whole.utilisation == pytest.approx(0.48, rel=0.03)
    assert once.utilisation == pytest.approx(0.30, rel=0.05)
    assert float(once.prediction.delay_p50_ns) < float(whole.prediction.delay_p50_ns)


def test_devices_in_a_row_are_what_their_common_profile_says(models: dict[str, QueueingModel]) -> None:
    devices = [SeriesDevice(name, models["quick"], 40_000.0, 64.0, cpu="shared") for name in ("a", "b")]
    row = SeriesDevice("a + b", models["slow"], 40_000.0, 64.0, cpu="shared")
    (stage,) = stages(devices, 0.0, None, {"shared": row})
    assert stage.utilisation == pytest.approx(row.utilisation)
    assert stage.devices == tuple(devices)
    expected = models["slow"].predict(40_000.0, 64.0, 0.0)
    assert float(stage.prediction.delay_p99_ns) == float(expected.delay_p99_ns)


def test_losses_and_bounds_of_stages_are_joined() -> None:
    part = replace(exponential(1000.0), loss_ratio=np.asarray(0.1))
    bands = {"delay_p99_ns": {90: Band(part.delay_p99_ns - 300.0, part.delay_p99_ns + 400.0)}}
    found = in_series([SeriesStage((), 0.5, replace(part, intervals=bands))] * 2)
    assert found.values["loss_ratio"] == pytest.approx(0.19)
    assert found.high["delay_p99_ns"] - found.values["delay_p99_ns"] == pytest.approx(400 * 2**0.5)
    assert "delay_p50_ns" not in found.high


def test_an_idle_device_neither_waits_nor_serves(models: dict[str, QueueingModel]) -> None:
    idle = idle_ns(models["slow"], 0.0, 64.0)["delay_p50_ns"]
    assert 0 <= idle < 0.8 * float(models["slow"].predict(10_000.0, 64.0, 0.0).delay_p50_ns)


def test_a_shared_cpu_needs_queueing_models(models: dict[str, QueueingModel]) -> None:
    class Other:
        predict, threshold_pps = models["quick"].predict, models["quick"].threshold_pps

    devices = [
        SeriesDevice("slow", models["slow"], 1000.0, 64.0, cpu="x"),
        SeriesDevice("other", Other(), 1000.0, 64.0, cpu="x"),
    ]
    with pytest.raises(ModelError, match="other shares a CPU"):
        stages(devices, 0.0, None)
