"""``weir simulate --cluster``: the same points as here, whoever dies meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import LabError
from weirlab.base.files import HOST_FILES
from weirlab.devices.simulation import points as simulators
from weirlab.devices.simulation import study
from weirlab.devices.simulation.points import PointResult, SweepDevice, _simulated, worker
from weirlab.devices.simulation.section import SimulationScenario, SweepPoint
from weirlab.jobs import cluster as clusters
from weirlab.jobs import status
from weirlab.store import Store
from weirlab.store.manifest import versions

from ...campaigns.conftest import LocalCluster
from ...conftest import Weir
from .conftest import swept

MANY = ("--over", "rules=0,50,100", "--over", "rate=100kpps..800kpps:8", "--duration", "0.05")
"""Three batches of points."""


def test_a_cluster_simulates_what_this_machine_does(
    weir: Weir,
    model: Path,
    cluster: LocalCluster,
) -> None:
    alone = swept(weir, "--as", model, *MANY)
    for _ in range(2):
        cluster.worker()
    cluster.worker("--testbed")
    cluster.wait_for(3)
    assert swept(weir, "--as", model, *MANY, "--cluster", cluster.url) == alone
    runs = weir("runs", "--json").json["runs"]
    assert {(run["kind"], run["status"], run["simulated"]) for run in runs} == {
        ("simulation", "complete", True)
    }


def test_a_sweep_outlives_its_workers_and_goes_on_after_an_interruption(
    weir: Weir,
    model: Path,
    cluster: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = swept(weir, "--as", model, *MANY, "--repetitions", "2")
    first = cluster.worker()
    cluster.wait_for(1)
    rows, kept, told = study._row, 0, list[status.WorkStatus | None]()
    monkeypatch.setattr(status, "_EVERY_S", 0.0)

    def row(*arguments: Any) -> Any:
        nonlocal kept
        kept += 1
        if kept == 9:
            first.kill()
            cluster.worker()
        elif kept == 33:
            told.append(status.status_of(Store(tmp_path / "store").open("last")))
            raise KeyboardInterrupt
        return rows(*arguments)

    monkeypatch.setattr(study, "_row", row)
    command = ("--as", model, *MANY, "--repetitions", "2", "--cluster", cluster.url)
    stopped = weir("simulate", *command)
    assert stopped.code == 130, stopped.err
    begun = Store(tmp_path / "store").open("last")
    stored = begun.table("simulations").height
    assert (begun.manifest.status, 8 <= stored <= 32) == ("interrupted", True)
    (known,) = told
    assert known is not None
    assert (known.items, known.failed, known.done + known.underway + known.waiting) == ("simulation", 0, 48)
    made = {int(one.name.rpartition("-")[2]): one.steps for one in known.workers}
    assert made[first.pid] in (8, 16)
    # The second worker may not have been looked at yet.
    assert made[first.pid] <= sum(made.values()) <= known.done
    resumed = weir("simulate", "--resume", begun.run_id, "--cluster", cluster.url, "--json")
    assert resumed.code == 0, resumed.err
    points = [{k: v for k, v in one.items() if k != "wall_s"} for one in resumed.json["simulations"]]
    assert points == alone
    assert kept == 33 + 48 - stored


def test_a_worker_keeps_its_simulator_for_the_points_of_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    made, told = list[str](), list[dict[str, Any]]()

    class Counted(simulators.WeirSimulator):
        def __init__(self, device: SweepDevice) -> None:
            made.append(device.name)
            super().__init__(device)

        def run(self, point: SweepPoint) -> PointResult:
            told.append(worker.report())
            return super().run(point)

    def failing(self: simulators.WeirSimulator, point: SweepPoint) -> PointResult:
        raise LabError("no room")

    monkeypatch.setattr(simulators, "WeirSimulator", Counted)
    monkeypatch.setattr(worker.STATE, "name", "bench-7")
    asked = SimulationScenario.model_validate(
        {"name": "s", "simulation": {"rates": ["200kpps"], "trial_s": 0.01, "repetitions": 2}}
    )
    device, here = SweepDevice.of(asked, HOST_FILES), versions()["weirlab"]
    points = asked.points()
    found = [_simulated(here, device, [point], "run")[0] for point in points]
    assert [(one.point, one.worker) for one in found] == [(point, "bench-7") for point in points]
    assert [(one["run_id"], one["place"], one["total"]) for one in told] == [
        ("run", "from no rules, 64 B, 200 kpps", 1)
    ] * 2
    assert "place" not in worker.report()
    assert found[0].result != found[1].result
    assert made == ["simulated"]
    with pytest.raises(LabError, match="bench-7 has Weir"):
        _simulated("0.0", device, points, "run")
    monkeypatch.setattr(Counted, "run", failing)
    with pytest.raises(LabError, match="on the worker bench-7: no room"):
        _simulated(here, device, points, "run")


def test_what_a_cluster_cannot_do_leaves_no_run(
    weir: Weir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "FIRST_PATIENCE_S", 0.0)
    nobody = weir("simulate", *MANY, "--cluster", "tcp://127.0.0.1:1")
    assert (nobody.code, "no scheduler answers at tcp://127.0.0.1:1" in nobody.err) == (4, True)
    assert weir("simulate", *MANY, "--plain").code == 2
    mixed = weir("simulate", *MANY, "--resume", "last")
    assert (mixed.code, "no SCENARIO and no sweep" in mixed.err) == (2, True)
    assert weir("simulate", "--resume", "last").code == 6
    assert not (tmp_path / "store").exists()
