"""A plan for a chain compared with the chain itself: delays end to end, and the device that binds.

Each device is profiled by itself, and so are one and two forwarding devices. ``weir plan path.yaml`` predicts
what the chain does at three loads, and trials measure it. The device that binds is the one without which the
chain carries most.
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
from weirlab.records import JOINT

FRAME_BYTES = 256
RULES = 200
CHAIN = ("nftables", "forward", "nat")
SHARES = (0.3, 0.5, 0.7)
"""Loads as shares of what the chain carries by the plan."""
TRIALS = 7
WANTED = 0.15


class Store:
    """Runs of this benchmark."""

    def __init__(self, folder: Path, machine: str) -> None:
        self.folder, self.machine = folder, machine

    def weir(self, *words: str) -> dict[str, Any]:
        """The JSON document of a command; exit codes of verdicts are results."""
        command = [sys.executable, "-m", "weirlab", "--store", str(self.folder / "store"), *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            sys.exit(f"weir {' '.join(words)} fails: {done.stderr.strip()[-500:]}")

    def profile(self, devices: tuple[str, ...], rules: int) -> str:
        """ID of a run with fitted models, which are also kept in a file: plans can be made of them again."""
        named = [word for device in devices for word in ("--dut", device)]
        words = ["profile", "--quick", *named, "--rules", str(rules), "--frame", str(FRAME_BYTES)]
        run = str(self.weir(*words, "--machine", self.machine)["run_id"])
        self.weir("fit", run, "--out", str(self.folder / f"{'-'.join(devices)}.json"))
        print(f"profiled {JOINT.join(devices)}: {run}", flush=True)
        return run


def path_text(models: dict[str, str], bed: dict[str, str], rate_pps: float) -> str:
    """The file for ``weir plan``; JSON is YAML."""
    devices = [
        {"name": name, "model": models[name], "rules": RULES if name == "nftables" else 0, "cpu": "lab"}
        for name in CHAIN
    ]
    flow = {"name": "load", "frame": FRAME_BYTES, "rate": f"{rate_pps:.0f}pps"}
    found = {"path": "the chain", "devices": devices, "flows": [flow], "bed": bed, "arrivals": "poisson"}
    return json.dumps(found, indent=1)


def carried(store: Store, devices: tuple[str, ...]) -> float:
    """Packets per second that a chain forwards when more are sent; the median of trials."""
    named = [word for device in devices for word in ("--dut", device)]
    rules = ["--rules", str(RULES)] if "nftables" in devices else []
    load = ["--frame", str(FRAME_BYTES), "--rate", "2Mpps"]
    trials = (store.weir("trial", *named, *rules, *load) for _ in range(TRIALS))
    return statistics.median(float(trial["forwarding_pps"]) for trial in trials)


def main() -> None:
    """Profile, plan, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/chain"))
    parser.add_argument("--machine", choices=("usual", "noisy"), default="usual")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    store = Store(asked.out, asked.machine)
    begun = versions()
    bed = {"one": store.profile(("forward",), 0), "two": store.profile(("forward", "forward"), 0)}
    models = {
        name: bed["one"] if name == "forward" else store.profile((name,), RULES if name == "nftables" else 0)
        for name in CHAIN
    }
    without = {name: carried(store, tuple(other for other in CHAIN if other != name)) for name in CHAIN}
    measured_binding = max(without, key=lambda name: without[name])
    path = asked.out / "path.yaml"
    path.write_text(path_text(models, bed, 1000.0))
    most = 1000.0 * float(store.weir("plan", str(path), "--extrapolate")["headroom"])
    rows = []
    for share in SHARES:
        path.write_text(path_text(models, bed, share * most))
        plan = store.weir("plan", str(path), "--extrapolate")
        predicted = plan["flows"][0]["predicted"]
        named = [word for device in CHAIN for word in ("--dut", device)]
        load = ["--rate", f"{share * most:.0f}pps", "--arrivals", "poisson"]
        trials = [
            store.weir("trial", *named, "--rules", str(RULES), "--frame", str(FRAME_BYTES), *load)
            for _ in range(TRIALS)
        ]
        row: dict[str, Any] = {"load_pps": share * most, "share": share, "binding": plan["binding"]}
        for quantile in ("p50", "p99"):
            found = statistics.median(float(trial[f"delay_{quantile}_ns"]) for trial in trials)
            ahead = float(predicted[f"delay_{quantile}_ns"])
            row |= {f"{quantile}_measured_ns": found, f"{quantile}_planned_ns": ahead}
            row[f"{quantile}_off"] = ahead / found - 1.0
            low, high = (float(plan["flows"][0][side][f"delay_{quantile}_ns"]) for side in ("low", "high"))
            row[f"{quantile}_within_bounds"] = low <= found <= high
        rows.append(row)
        print(row, flush=True)
    summary = {
        "versions": begun,
        "chain": JOINT.join(CHAIN),
        "rules": RULES,
        "frame_bytes": FRAME_BYTES,
        "loads": rows,
        "carried_pps_without": without,
        "measured_binding": measured_binding,
        "within_bounds": all(row[f"{q}_within_bounds"] for row in rows for q in ("p50", "p99")),
        "within_15_percent": all(abs(row[f"{q}_off"]) <= WANTED for row in rows for q in ("p50", "p99")),
        "binding_right": all(row["binding"] == measured_binding for row in rows),
    }
    (asked.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(
        json.dumps({key: summary[key] for key in ("within_15_percent", "binding_right", "measured_binding")})
    )


if __name__ == "__main__":
    main()
