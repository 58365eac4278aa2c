"""A device with several CPUs: the model of one, extended, against formulas and simulated devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.base.errors import ModelError
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.model import QueueingModel
from weirlab.model.base import Band
from weirlab.model.distributions import mixture_quantiles
from weirlab.model.servers import SeveralServers
from weirlab.records import EngineResult
from weirlab.testing import queue
from weirlab.traffic import flows
from weirlab.traffic.flows import queues, shares
from weirlab.traffic.spec import Flows, Rate, Traffic

pytest.importorskip("weirlab._engine", reason="the engine is not built")

DEVICE = SimDevice(
    service_fixed_ns=2000.0, service_per_byte_ns=0.0, noise="exponential", base_delay_ns=5000.0
)
THRESHOLD_PPS = 500_000.0
FLOWS = 1000


@pytest.fixture(scope="module")
def one() -> QueueingModel:
    """The model of the same device with one CPU, under constant and random gaps."""
    device = queue.QueueDevice(fixed_ns=2000.0)
    return QueueingModel.fit([*queue.profile(device), *queue.profile(device, poisson=True)])


def trial(cpus: int, rate_pps: float, count: int = FLOWS) -> EngineResult:
    traffic = Traffic(
        Rate(rate_pps), flows=Flows(count), arrivals="poisson", warmup_s=0.02, duration_s=60_000 / rate_pps
    )
    with SimLab(DEVICE, cpus=cpus) as lab:
        return lab.run(traffic)


def shares_of(cpus: int, count: int = FLOWS) -> tuple[float, ...]:
    return shares(flows.table(Flows(count)), 4, cpus)


def test_with_one_cpu_nothing_changes(one: QueueingModel) -> None:
    rates = np.array([50_000.0, 400_000.0, 900_000.0])
    alone, several = (model.predict(rates, 64.0, 0.0, 1.0) for model in (one, SeveralServers(one, (1.0,))))
    for name in ("threshold_pps", "loss_ratio", "delay_mean_ns", "delay_p99_ns", "jitter_ns"):
        np.testing.assert_allclose(getattr(several, name), getattr(alone, name))


def test_the_busiest_cpu_sets_the_threshold(one: QueueingModel) -> None:
    found = SeveralServers(one, (0.5, 0.3, 0.2))
    assert found.threshold_pps(0, 64) == pytest.approx(one.threshold_pps(0, 64) / 0.5)
    above = found.predict(1.2 * found.threshold_pps(0, 64), 64.0, 0.0, 1.0)
    # Half of the packets meet a CPU that gets 1.2 times what it can serve.
    assert above.loss_ratio == pytest.approx(0.5 * (1 - 1 / 1.2), abs=0.01)


@pytest.mark.parametrize("cpus", [2, 4, 8])
def test_simulated_devices_lose_where_the_model_says(cpus: int, one: QueueingModel) -> None:
    extended = SeveralServers(one, shares_of(cpus))
    threshold = float(extended.threshold_pps(0, 64))
    for share in (0.8, 1.3):
        predicted = float(extended.predict(share * threshold, 64.0, 0.0, 1.0).loss_ratio)
        assert trial(cpus, share * threshold).loss_ratio == pytest.approx(predicted, abs=0.02)


@pytest.mark.parametrize("count", [3, 7, 16])
def test_a_few_flows_load_the_cpus_unequally(count: int) -> None:
    """With three flows, four CPUs carry less than four times as much as one."""
    found = shares_of(4, count)
    rate = 0.95 * THRESHOLD_PPS / max(found)
    assert trial(4, rate, count).loss_ratio < 0.02
    lost = trial(4, 1.4 * rate, count)
    per_flow = lost.flows.lost / lost.flows.sent
    busiest = np.array(found).argmax()
    hit = queues(flows.table(Flows(count)), 4, 4) == busiest
    assert per_flow[hit].min() > 0.1
    expected = sum(max(share - THRESHOLD_PPS / (1.4 * rate), 0.0) for share in found)
    assert lost.loss_ratio == pytest.approx(expected, abs=0.02)


def test_one_flow_keeps_one_cpu_busy(one: QueueingModel) -> None:
    assert trial(8, 1.5 * THRESHOLD_PPS, 1).loss_ratio == pytest.approx(1 - 1 / 1.5, abs=0.03)
    assert max(shares_of(8, 1)) == 1.0


def test_p99_is_that_of_all_packets_together() -> None:
    """Of two exponential delays that half of the packets have each, by the formula of the mixture."""

    def exponential(mean_ns: float) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
        quantiles = {"delay_p50_ns": 0.5, "delay_p90_ns": 0.9, "delay_p99_ns": 0.99, "delay_p999_ns": 0.999}
        return {name: np.asarray(-np.log(1 - q) * mean_ns) for name, q in quantiles.items()} | {
            "delay_mean_ns": np.asarray(mean_ns)
        }

    half = np.asarray(0.5)
    found = mixture_quantiles([exponential(1000.0), exponential(9000.0)], [half, half])
    at = float(found["delay_p99_ns"])
    assert 0.5 * np.exp(-at / 1000.0) + 0.5 * np.exp(-at / 9000.0) == pytest.approx(0.01, rel=0.03)


def test_intervals_and_reasons_of_the_cpus_are_joined(one: QueueingModel) -> None:
    class Bounded:
        """The model with intervals of ten percent."""

        profiled = one.profiled
        threshold_pps = one.threshold_pps

        def predict(self, *setting: object) -> object:
            found = one.predict(*setting)  # type: ignore[arg-type]
            names = ("delay_p99_ns", "threshold_pps", "loss_ratio")
            bands = {
                name: {90: Band(0.9 * getattr(found, name), 1.1 * getattr(found, name))} for name in names
            }
            return replace(found, intervals=bands)

    found = SeveralServers(Bounded(), (0.6, 0.4)).predict(500_000.0, 64.0, 0.0, 0.0)  # type: ignore[arg-type]
    band = found.intervals["delay_p99_ns"][90]
    assert band.low < found.delay_p99_ns < band.high
    assert found.intervals["threshold_pps"][90].high == pytest.approx(1.1 * float(found.threshold_pps))
    other_size = SeveralServers(one, (0.6, 0.4)).predict(500_000.0, 900.0, 0.0, 0.0)
    assert other_size.extrapolated
    assert any("frame size" in reason for reason in other_size.why)


def test_a_model_without_a_profiled_range_is_refused(one: QueueingModel) -> None:
    with pytest.raises(ModelError, match="profiled range"):
        SeveralServers(SeveralServers(one, (1.0,)), (0.5, 0.5))
