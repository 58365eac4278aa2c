"""``weir simulate``: every combination, in any number of threads, as a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.devices.simulation.command import values_of
from weirlab.devices.simulation.points import (
    JOBS,
    PointResult,
    SweepDevice,
    ThreadCarrier,
    WeirSimulator,
    simulator,
)
from weirlab.devices.simulation.section import SimulationScenario, SweepPoint
from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.store import Store
from weirlab.testing import queue

from ...conftest import Weir
from .conftest import swept

LOADS = ("--over", "rules=0..100:2", "--over", "rate=100kpps,300kpps,900kpps", "--duration", "0.05")


def test_every_combination_is_simulated_as_the_model_predicts(weir: Weir, model: Path) -> None:
    points = swept(weir, "--as", model, *LOADS)
    assert [(point["rules"], point["rate_pps"]) for point in points] == [
        (rules, rate) for rules in (0, 100) for rate in (1e5, 3e5, 9e5)
    ]
    for point in points:
        assert point["loss_ratio"] == pytest.approx(point["predicted_loss_ratio"], abs=0.01)
        assert point["delay_mean_ns"] == pytest.approx(point["predicted_mean_ns"], rel=0.15)
    assert points[-1]["loss_ratio"] > 0.1


def test_the_results_do_not_depend_on_how_many_run_at_once(
    weir: Weir, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JOBS, "1")
    alone = swept(weir, "--as", model, *LOADS, "--repetitions", "2")
    monkeypatch.setenv(JOBS, "7")
    assert swept(weir, "--as", model, *LOADS, "--repetitions", "2") == alone
    first, second = alone[:2]
    assert first["number"] == second["number"]
    assert first["delay_mean_ns"] != second["delay_mean_ns"]


def test_an_interrupted_sweep_goes_on_where_it_was(
    weir: Weir, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[SweepPoint] = []
    usual = WeirSimulator.run

    def run(self: WeirSimulator, point: SweepPoint) -> PointResult:
        asked.append(point)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return usual(self, point)

    monkeypatch.setenv(JOBS, "1")
    whole = swept(weir, "--as", model, *LOADS)
    monkeypatch.setattr(WeirSimulator, "run", run)
    stopped = weir("simulate", "--as", model, *LOADS)
    assert stopped.code == 130
    assert "simulations kept in run" in stopped.err or "1 simulation kept in run" in stopped.err
    store = Store(tmp_path / "store")
    left = store.open("last")
    assert left.manifest.status == "interrupted"
    assert 1 <= left.table("simulations").height < 6
    resumed = weir("run", "--resume", "last", "--json")
    assert resumed.code == 0, resumed.err
    points = [{k: v for k, v in one.items() if k != "wall_s"} for one in resumed.json["simulations"]]
    assert points == whole
    assert len({(point.number, point.repetition) for point in asked}) == 6


def test_a_sweep_says_how_far_it_is_while_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOBS, "2")
    asked = SimulationScenario.model_validate(
        {"name": "s", "simulation": {"rates": ["200kpps"], "trial_s": 0.01, "repetitions": 9}}
    )
    device, points, ended = SweepDevice.of(asked, HOST_FILES), asked.points(), 0
    with simulator(device) as made:
        carrier = ThreadCarrier(device, made)
        for found in carrier.results(points, "run"):
            (here,) = carrier.workers()
            ended += len(found)
            assert {one.worker for one in found} <= {here.name}
            assert 0 <= carrier.underway <= min(4, len(points) - ended)
            assert (here.run_id, here.doing) == ("run", "2 simulations at once" if carrier.underway else "")
    assert (ended, carrier.underway) == (9, 0)


def test_a_sweep_is_a_run_with_a_page_and_answers_questions(weir: Weir, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    done = weir("simulate", "--as", model, *LOADS, "--out", page)
    assert done.code == 0
    assert "Simulated, not measured." in done.out
    assert "99th percentile of the delay" in page.read_text()
    most = weir("ask", "select max(loss_ratio) as most from simulations where rules = 100", "--json")
    assert most.json["rows"][0]["most"] > 0.1
    assert "6 simulations in Weir's simulator" in weir("show", "last").out


def test_a_file_says_the_same_and_options_override_it(weir: Weir, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        f"name: sweep\nlab: {{kind: sim, model: {model}}}\n"
        "simulation: {rates: [100kpps, 300kpps, 900kpps], rules: [0, 50], trial_s: 0.05}\n"
    )
    assert swept(weir, file, "--over", "rules=0,100") == swept(weir, "--as", model, *LOADS)


def test_a_campaign_ranks_measured_devices_by_their_sweeps(weir: Weir, model: Path, tmp_path: Path) -> None:
    models = {"edge": model, "slow": tmp_path / "slow.model.json"}
    trials = queue.profile(queue.QueueDevice(fixed_ns=2000.0), (0, 100, 400), (64.0, 512.0), packets=500)
    save_devices([DeviceModels("slow", fit_all(trials, calibrate=False), {})], models["slow"])
    sweep = {
        "lab": {"kind": "sim"},
        "simulation": {"rates": ["300kpps", "900kpps"], "rules": [0, 100], "trial_s": 0.03},
    }
    devices = {name: {"lab": {"model": str(path)}} for name, path in models.items()}
    campaign = {"scenarios": {"sweep": sweep}, "devices": devices, "repetitions": 3}
    file = tmp_path / "devices.yaml"
    file.write_text(yaml.safe_dump({"name": "which", "campaign": campaign}))
    answer = weir("campaign", file, "--json")
    assert answer.code == 0, answer.err
    ranked = answer.json["ranking"]
    assert {row["measure"] for row in ranked} == {
        f"{what}, {where}, 64 B, {rate}"
        for what in ("loss", "median delay", "p99 delay")
        for where in ("no rules", "100 rules")
        for rate in ("300 kpps", "900 kpps")
    }
    first = {row["measure"]: row["device"] for row in ranked if row["rank"] == 1}
    assert first["p99 delay, no rules, 64 B, 900 kpps"] == "edge"
    assert first["loss, 100 rules, 64 B, 900 kpps"] == "edge"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no load is given"),
        (("--over", "rate=max"), "max is no steady load"),
        (("--over", "rate=10pps"), "less than 100 packets count"),
        (("--over", "colour=1"), "give rules=, rate= or frame="),
        (("--over", "rate=1kpps", "--over", "rate=2kpps"), "rate is given twice"),
        (("--over", "rate=100kpps", "--in", "ns3"), "name its model"),
        (("--over", "rate=100kpps", "--over", "frame=10"), "greater than or equal to 64"),
    ],
)
def test_what_cannot_be_simulated_is_refused(weir: Weir, words: tuple[str, ...], message: str) -> None:
    refused = weir("simulate", *words, "--json")
    assert refused.code == 2
    assert message in json.loads(refused.out)["error"]["message"]
    assert "no runs" in weir("runs").out.lower()


def test_ranges_are_divided_evenly() -> None:
    assert values_of("rules", "0..1000") == [0, 250, 500, 750, 1000]
    assert values_of("rules", "0..3:9") == [0, 1, 2, 3]
    assert values_of("rate", "50kpps..100kpps:3") == ["50000pps", "75000pps", "100000pps"]
    assert values_of("frame", "64,1518") == [64, 1518]
    for text in ("0..x", "a", "0..1:1"):
        with pytest.raises(InputError):
            values_of("rules", text)
