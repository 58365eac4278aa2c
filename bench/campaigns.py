"""What a campaign adds to its steps, and whether deaths change it: python bench/campaigns.py [--steps 200].

On this machine, with simulated devices: the campaign alone, and on a cluster of two test beds and a worker
for analysis, each of which is killed (kill -9) once, and the scheduler once. Then the same runs without a
campaign, for the overhead of a step, and the plan of 100,000 steps.

--ratio instead compares the time of three workers (two test beds) with that of one and with no cluster, for
trials of 2 s (--trial-s). It needs a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from operator import sub
from pathlib import Path
from typing import Any, Final

import distributed
import yaml

from weirlab.base import programs
from weirlab.base.files import HOST_FILES
from weirlab.campaigns import study
from weirlab.campaigns.section import CampaignScenario
from weirlab.campaigns.steps import FOLDER
from weirlab.jobs.progress import SilentProgress
from weirlab.store import Store
from weirlab.studies.registry import study_of
from weirlab.studies.runner import run_scenario

PORT: Final = 18787


def matrix(steps: int, trial_s: float = 0.002) -> dict[str, Any]:
    """A campaign of ``steps`` steps of one trial each, ten devices, twice."""
    setting = {"name": "overload", "rate": "max", "position": 100}
    series = {"trial_s": trial_s, "warmup_s": 0, "repetitions": 1, "settings": [setting]}
    devices = {f"d{n}": {"lab": {"device": {"service_per_rule_ns": 2 + n}}} for n in range(10)}
    queues = {f"q{n}": {"lab": {"device": {"queue_packets": 32 + n}}} for n in range(steps // 20)}
    section = {
        "scenarios": {"load": {"lab": {"kind": "sim"}, "series": series}},
        "devices": devices,
        "settings": {"queue": queues},
        "repetitions": 2,
    }
    return {"name": "bench", "report": None, "campaign": section}


def started(command: list[str]) -> subprocess.Popen[bytes]:
    null = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=null, stdout=null, stderr=null)


def weir(*arguments: str) -> subprocess.Popen[bytes]:
    return started(programs.own("weirlab", *arguments))


def scheduler() -> subprocess.Popen[bytes]:
    dask = str(Path(sys.executable).parent / "dask")
    return started([dask, "scheduler", "--host", "127.0.0.1", "--port", str(PORT), "--no-dashboard"])


def wait_for(url: str, workers: int) -> None:
    """Until so many work."""
    client: Any = distributed.Client
    with client(url, timeout=60, set_as_default=False) as one:
        one.wait_for_workers(workers, timeout=60)


def elapsed_s(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def values(store: Path) -> list[tuple[Any, ...]]:
    found = study.stored(Store(store).open("last", kind="campaign"))
    return [(row.step, row.measure, row.value) for row in found.measures]


def kept(store: Path) -> int:
    return sum(1 for _ in store.glob(f"*/{FOLDER}/*.json"))


THREE: Final = {"bed 1": ("--testbed",), "bed 2": ("--testbed",), "analysis": ()}
ONE: Final = {"bed 1": ("--testbed",)}


def children_s() -> float:
    """CPU time of the processes that have ended, in s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def undisturbed_s(file: Path, store: Path, roles: Mapping[str, tuple[str, ...]]) -> float:
    """Time of the campaign on a cluster that is ready, in s."""
    url = f"tcp://127.0.0.1:{PORT}"
    processes = [scheduler(), *(weir("worker", url, *options) for options in roles.values())]
    try:
        wait_for(url, len(roles))
        return elapsed_s(lambda: weir("--store", str(store), "campaign", str(file), "--cluster", url).wait())
    finally:
        for process in processes:
            process.kill()
            process.wait()


def ratio(steps: int, trial_s: float, folder: Path) -> dict[str, Any]:
    """What three workers take beside one, and beside no cluster."""
    file, stores = folder / "campaign.yaml", [folder / name for name in ("alone", "one", "three")]
    file.write_text(yaml.safe_dump(matrix(steps, trial_s)))
    cpu_s = [children_s()]
    alone_s = elapsed_s(lambda: weir("--store", str(stores[0]), "campaign", str(file)).wait())
    cpu_s.append(children_s())
    one_s = undisturbed_s(file, stores[1], ONE)
    cpu_s.append(children_s())
    three_s = undisturbed_s(file, stores[2], THREE)
    cpu_s.append(children_s())
    return {
        "steps": steps,
        "trial_s": trial_s,
        "cpu_s": dict(
            zip(("alone", "one worker", "three workers"), map(sub, cpu_s[1:], cpu_s), strict=False)
        ),
        "alone_s": alone_s,
        "one_worker_s": one_s,
        "three_workers_s": three_s,
        "ratio_to_one_worker": three_s / one_s,
        "ratio_to_alone": three_s / alone_s,
        "equal": values(stores[0]) == values(stores[1]) == values(stores[2]),
    }


def killed(file: Path, store: Path, steps: int) -> dict[str, Any]:
    """The campaign on a cluster, of which everything is killed once at fixed shares of the steps."""
    url, roles = f"tcp://127.0.0.1:{PORT}", THREE
    alive = {name: weir("worker", url, *options) for name, options in roles.items()}
    alive["scheduler"] = scheduler()
    try:
        campaign = weir("--store", str(store), "campaign", str(file), "--cluster", url)
        for number, name in enumerate(alive, 1):
            while campaign.poll() is None and kept(store) < steps * number / 6:
                time.sleep(0.05)
            alive[name].kill()
            alive[name].wait()
            alive[name] = scheduler() if name == "scheduler" else weir("worker", url, *roles[name])
        return {"exit_code": campaign.wait()}
    finally:
        for process in alive.values():
            process.kill()
            process.wait()


def plain_s(asked: CampaignScenario, folder: Path) -> float:
    """Time of the same runs without a campaign, each in a store of its own, in s."""

    def work() -> None:
        for step in asked.steps():
            root = asked.root(step, HOST_FILES)
            run = run_scenario(Store(folder / str(step.number)), root, SilentProgress()).run
            study_of(run).measures(run)

    return elapsed_s(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="a multiple of 20")
    parser.add_argument("--no-kills", action="store_true", help="only the overhead and the plan")
    parser.add_argument("--trial-s", type=float, default=2.0, help="with --ratio")
    parser.add_argument("--ratio", action="store_true", help="only the time of three workers beside one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.ratio:
            return print(json.dumps(ratio(asked.steps, asked.trial_s, folder), indent=2))
        file = folder / "campaign.yaml"
        file.write_text(yaml.safe_dump(matrix(asked.steps)))
        result: dict[str, Any] = {"steps": asked.steps}
        alone = folder / "alone"
        command = ("--store", str(alone), "campaign", str(file))
        result["alone_s"] = elapsed_s(lambda: weir(*command).wait())
        scenario = CampaignScenario.model_validate(matrix(asked.steps))
        result["plain_s"] = plain_s(scenario, folder / "plain")
        result["overhead_ms_per_step"] = (result["alone_s"] - result["plain_s"]) / asked.steps * 1e3
        if not asked.no_kills:
            store = folder / "killed"
            result["killed_s"] = elapsed_s(lambda: result.update(killed(file, store, asked.steps)))
            result["equal"] = values(store) == values(alone)
            result["records"], result["runs"] = kept(store), len(list(store.glob(f"*/{FOLDER}/2*")))
        large = {**matrix(100_000), "name": "plan"}
        large["campaign"]["settings"] = {
            "a": {f"a{n}": {"lab": {"device": {"queue_packets": 32 + n}}} for n in range(100)},
            "b": {f"b{n}": {"traffic": {"seed": n}} for n in range(50)},
        }
        file.write_text(yaml.safe_dump(large))
        result["plan_100000_s"] = elapsed_s(lambda: weir("campaign", str(file), "--plan").wait())
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
