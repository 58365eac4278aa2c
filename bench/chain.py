"""A plan for a chain compared with the chain itself: delays end to end, and the device that binds.

Each device is profiled by itself, and so are one and two forwarding devices, and at last the chain itself.
``weir plan path.yaml`` predicts what the chain does at three loads, without and with that profile, and trials
measure it. The device that binds is the one without which the chain carries most.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import versions
from weirlab.jobs.spoiled import REPETITIONS
from weirlab.records import JOINT

FRAME_BYTES = 256
RULES = 200
CHAIN = ("nftables", "forward", "nat")
ARRIVALS = "poisson"
SHARES = (0.3, 0.5, 0.7)
"""Loads as shares of what the chain carries by the plan; the profile of the chain has none of them."""
LEAST_PPS = 1000.0
QUANTILES = ("p50", "p99")
TRIALS = 7
WANTED = 0.15


class Store:
    """Runs of this benchmark."""

    def __init__(self, folder: Path, machine: str) -> None:
        self.folder, self.machine = folder, machine

    def weir(self, *words: str, store: str = "store") -> dict[str, Any]:
        """The JSON document of a command; exit codes of verdicts are results."""
        command = [sys.executable, "-m", "weirlab", "--store", str(self.folder / store), *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            sys.exit(f"weir {' '.join(words)} fails: {done.stderr.strip()[-500:]}")

    def profile(self, devices: tuple[str, ...], rules: int, *more: str) -> str:
        """The model file of a profile, of which plans can be made again, and without the store."""
        named = [word for device in devices for word in ("--dut", device)]
        words = ["profile", "--quick", *named, "--rules", str(rules), "--frame", str(FRAME_BYTES), *more]
        run = str(self.weir(*words, "--machine", self.machine)["run_id"])
        file = f"{'-'.join(devices)}.json"
        self.weir("fit", run, "--out", str(self.folder / file))
        print(f"profiled {JOINT.join(devices)}: {run}", flush=True)
        return file

    def plan(
        self, models: dict[str, str], bed: dict[str, str], rate_pps: float, *, in_row: bool
    ) -> dict[str, Any]:
        """The plan for the chain; only the store has the profile of the chain itself."""
        devices = [
            {"name": name, "model": models[name], "rules": RULES if name == "nftables" else 0, "cpu": "lab"}
            for name in CHAIN
        ]
        flow = {"name": "load", "frame": FRAME_BYTES, "rate": f"{rate_pps:.0f}pps"}
        found = {"path": "the chain", "devices": devices, "flows": [flow], "bed": bed, "arrivals": ARRIVALS}
        path = self.folder / "path.yaml"
        # JSON is YAML.
        path.write_text(json.dumps(found, indent=1))
        plan = self.weir("plan", str(path), "--extrapolate", store="store" if in_row else "none")
        if bool(plan["in_row"]) != in_row:
            sys.exit(f"the plan rests on {plan['in_row'] or 'single profiles'}")
        return plan

    def trials(self, devices: tuple[str, ...], *load: str) -> list[dict[str, Any]]:
        """Trials of a chain."""
        named = [word for device in devices for word in ("--dut", device)]
        rules = ["--rules", str(RULES)] if "nftables" in devices else []
        words = ["trial", *named, *rules, "--frame", str(FRAME_BYTES), *load]
        return [self.weir(*words) for _ in range(TRIALS)]

    def carried_pps(self, devices: tuple[str, ...]) -> float:
        """Packets per second that a chain forwards when more are sent."""
        return median(self.trials(devices, "--rate", "2Mpps"), "forwarding_pps")


def median(trials: list[dict[str, Any]], column: str) -> float:
    return statistics.median(float(trial[column]) for trial in trials)


def compared(plan: dict[str, Any], trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Both quantiles of a plan beside those of the trials."""
    row: dict[str, Any] = {"binding": plan["binding"]}
    flow = plan["flows"][0]
    for quantile in QUANTILES:
        name = f"delay_{quantile}_ns"
        found, ahead = median(trials, name), float(flow["predicted"][name])
        row |= {
            f"{quantile}_measured_ns": found,
            f"{quantile}_planned_ns": ahead,
            f"{quantile}_off": ahead / found - 1.0,
            f"{quantile}_low_ns": float(flow["low"][name]),
            f"{quantile}_high_ns": float(flow["high"][name]),
        }
    return row


def judged(rows: list[dict[str, Any]], measured_binding: str) -> dict[str, bool]:
    """What must hold for plans at all loads."""
    cells = [(row, quantile) for row in rows for quantile in QUANTILES]
    return {
        "within_15_percent": all(abs(row[f"{q}_off"]) <= WANTED for row, q in cells),
        "within_bounds": all(
            row[f"{q}_low_ns"] <= row[f"{q}_measured_ns"] <= row[f"{q}_high_ns"] for row, q in cells
        ),
        "binding_right": all(row["binding"] == measured_binding for row in rows),
    }


def main() -> None:
    """Profile, plan, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/chain"))
    parser.add_argument("--machine", choices=("usual", "noisy"), default="usual")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if (asked.out / "store").exists():
        sys.exit(f"{asked.out}/store has runs, and perhaps a profile of the chain: give another --out")
    store = Store(asked.out, asked.machine)
    begun = versions()
    bed = {"one": store.profile(("forward",), 0), "two": store.profile(("forward", "forward"), 0)}
    models = {
        name: bed["one"] if name == "forward" else store.profile((name,), RULES if name == "nftables" else 0)
        for name in CHAIN
    }
    without = {name: store.carried_pps(tuple(other for other in CHAIN if other != name)) for name in CHAIN}
    measured_binding = max(without, key=lambda name: without[name])
    composed = store.plan(models, bed, LEAST_PPS, in_row=False)
    store.profile(CHAIN, RULES, "--arrivals", ARRIVALS, "--repetitions", str(REPETITIONS))
    most = LEAST_PPS * float(store.plan(models, bed, LEAST_PPS, in_row=True)["headroom"])
    carried = [store.carried_pps(CHAIN)]
    rows: dict[str, list[dict[str, Any]]] = {"in_row": [], "composed": []}
    for share in SHARES:
        rate = share * most
        trials = store.trials(CHAIN, "--rate", f"{rate:.0f}pps", "--arrivals", ARRIVALS)
        for how, found in rows.items():
            plan = store.plan(models, bed, rate, in_row=how == "in_row")
            found.append({"load_pps": rate, "share": share} | compared(plan, trials))
            print(how, found[-1], flush=True)
    carried.append(store.carried_pps(CHAIN))
    verdicts = {how: judged(found, measured_binding) for how, found in rows.items()}
    summary = {
        "versions": begun,
        "chain": JOINT.join(CHAIN),
        "rules": RULES,
        "frame_bytes": FRAME_BYTES,
        "loads": rows,
        "carried_pps": {
            "planned_in_row": most,
            "planned_composed": [
                LEAST_PPS * float(composed[name]) for name in ("least_headroom", "headroom")
            ],
            "measured_before_and_after": carried,
            "measured_without": without,
        },
        "measured_binding": measured_binding,
        "verdicts": verdicts,
    }
    (asked.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps({"measured_binding": measured_binding, **verdicts}))


if __name__ == "__main__":
    main()
