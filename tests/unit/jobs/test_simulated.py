"""The simulated lab as a measured device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weirlab.base.errors import InputError, ModelError
from weirlab.base.files import HOST_FILES
from weirlab.jobs import testbeds
from weirlab.jobs.models import model_file
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.simulated import simulated_model
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.model import PiecewiseModel, QueueingModel, save
from weirlab.model.process import Fate, ReferenceDevice
from weirlab.model.queueing.disturbance import DisturbanceLaw
from weirlab.records import RuleSetup
from weirlab.scenario import Dut, Lab, from_plain
from weirlab.store import Store
from weirlab.testing.queue import QueueDevice, profile
from weirlab.traffic.sizes import Constant, parse_sizes
from weirlab.traffic.spec import LoadStep, Rate, Traffic


@pytest.fixture(scope="module")
def model() -> QueueingModel:
    device = QueueDevice(per_byte_ns=0.3, wake_ns=4000.0)
    return QueueingModel.fit(profile(device, (0, 100, 400, 1000), (64.0, 1518.0), packets=1500))


@pytest.fixture(scope="module")
def model_path(model: QueueingModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("simulated") / "firewall.model.json"
    save({"queueing": model}, path)
    return path


@pytest.mark.parametrize("share", [0.2, 0.8, 1.5])
def test_a_trial_has_the_delays_and_losses_of_the_reference(
    share: float, model: QueueingModel, model_path: Path
) -> None:
    rate = share * float(model.threshold_pps(400, 64))
    lab = SimLab(model=simulated_model(model_path))
    lab.set_rules(RuleSetup(400))
    found = lab.run(Traffic(Rate(rate), Constant(64), duration_s=0.2, warmup_s=0.05))
    device = ReferenceDevice(model, 1)
    at_ns = np.arange(int(0.25 * rate)) * 1e9 / rate
    passages = [device.arrive(at, 64.0, 400.0) for at in at_ns.tolist()]
    recorded = [(p, at) for p, at in zip(passages, at_ns, strict=True) if at >= 0.05e9]
    delays = np.array([p.leaves_ns - at for p, at in recorded if p.fate is Fate.FORWARDED])
    lost = 1 - len(delays) / len(recorded)
    assert found.lost / found.sent == pytest.approx(lost, abs=2e-3)
    assert found.delay_mean_ns == pytest.approx(delays.mean(), rel=0.02)


def test_the_sizes_of_a_mix_have_their_own_service_times(model: QueueingModel, model_path: Path) -> None:
    lab = SimLab(model=simulated_model(model_path))
    lab.set_rules(RuleSetup(100))
    found = lab.run(Traffic(Rate(3e6), parse_sizes("imix"), duration_s=0.1))
    mean = (7 * 64 + 4 * 594 + 1518) / 12
    expected = 1 - float(model.threshold_pps(100, mean)) / 3e6
    assert found.lost / found.sent == pytest.approx(expected, abs=0.01)


def test_a_rate_step_fills_the_queue_of_the_measured_device(model: QueueingModel, model_path: Path) -> None:
    threshold = float(model.threshold_pps(0, 64))
    steps = (LoadStep(0.05, Rate(2 * threshold)),)
    lab = SimLab(model=simulated_model(model_path))
    found = lab.run(Traffic(Rate(0.5 * threshold), Constant(64), steps=steps, duration_s=0.1, warmup_s=0.0))
    # Half of what the second half sends is lost once the queue is full.
    assert found.lost == pytest.approx(0.05 * threshold - model.queue_packets, rel=0.03)


@pytest.mark.parametrize("shares", [(1.4, 0.6), (0.9, 0.3)])
def test_a_step_down_has_the_delays_of_the_reference(
    shares: tuple[float, float], model: QueueingModel, model_path: Path
) -> None:
    first, second = (share * float(model.threshold_pps(400, 64)) for share in shares)
    lab = SimLab(model=simulated_model(model_path))
    lab.set_rules(RuleSetup(400))
    steps = (LoadStep(0.05, Rate(second)),)
    found = lab.run(Traffic(Rate(first), Constant(64), steps=steps, duration_s=0.06, warmup_s=0.0))
    device = ReferenceDevice(model, 1)
    before = np.arange(int(0.05 * first)) * 1e9 / first
    at_ns = np.concatenate([before, 0.05e9 + np.arange(int(0.01 * second)) * 1e9 / second])
    passages = [(device.arrive(at, 64.0, 400.0), at) for at in at_ns.tolist()]
    delays = [p.leaves_ns - at for p, at in passages if p.fate is Fate.FORWARDED]
    assert found.received == pytest.approx(len(delays), rel=0.002)
    assert found.delay_mean_ns == pytest.approx(np.mean(delays), rel=0.02)


def test_the_same_seed_repeats_a_measured_device(model: QueueingModel, tmp_path: Path) -> None:
    host = DisturbanceLaw(share=0.02, scale_ns=30_000.0, tail=2.0)
    save({"queueing": replace(model, host=host)}, tmp_path / "disturbed.json")
    measured = simulated_model(tmp_path / "disturbed.json")
    traffic = Traffic(Rate(2e5), Constant(64), duration_s=0.05)
    first, again, other = (
        SimLab(SimDevice(seed=seed), measured).run(traffic).delay_mean_ns for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_a_bed_of_a_model_says_which_device_it_is(model_path: Path) -> None:
    lab = Lab(kind="sim", model=model_path)
    with testbeds.open_bed(lab, Dut(), SilentProgress(), inputs=HOST_FILES) as bed:
        assert (bed.lab, bed.facts["device_model"]) == ("sim", "firewall")


def test_a_model_is_simulated_with_root_as_well_but_not_in_namespaces(model_path: Path) -> None:
    assert testbeds.choose(Lab(model=model_path), Dut(), SilentProgress()) == "sim"
    with pytest.raises(InputError, match="can only be simulated"):
        testbeds.choose(Lab(kind="netns", model=model_path), Dut(), SilentProgress())


def test_a_file_without_a_queueing_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    save({"piecewise": PiecewiseModel.fit(profile(QueueDevice(), packets=500))}, path)
    with pytest.raises(ModelError, match="holds no queueing model"):
        simulated_model(path)


def test_a_run_without_models_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.create("profile", {}, {}) as writer:
        pass
    with pytest.raises(ModelError, match="has no models"):
        model_file(store, writer.run_id)


def test_a_scenario_finds_its_model_beside_its_file(tmp_path: Path) -> None:
    scenario = from_plain(
        {"name": "a", "lab": {"kind": "sim", "model": "f.json"}, "profile": {"positions": [0]}}, "test"
    )
    assert scenario.beside(tmp_path).lab.model == tmp_path / "f.json"
