"""Devices by their path of packets: a quick profile of each, and a chart of thresholds and delays."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from machine import versions
from weirlab.lab import dut

DEVICES = (
    "forward", "nftables", "bridge", "bridge-ebtables", "nat", "nat-static", "flowtable", "openvswitch",
    "tc-flower", "xdp-filter",
)  # fmt: skip
IN_MACHINES = {"flowtable": "vm:flowtable", "tc-flower": "vm:tc-flower"}
"""Where the kernel lacks a device: Debian's kernel in a virtual machine, whose speed counts only with KVM."""
POSITIONS = (0, 100)
FRAME_BYTES = 256
LOAD = 0.5
"""Share of the threshold at which delays are compared."""


def weir(store: Path, *words: str) -> dict[str, object]:
    """The JSON document of a command."""
    command = [sys.executable, "-m", "weirlab", "--store", str(store), *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        sys.exit(f"{' '.join(words)} fails: {done.stderr.strip()[-500:]}")


def profiled(store: Path, name: str, machine: str) -> list[dict[str, object]]:
    """A row for each position: threshold, and delays at half of it, as a fitted model has them."""
    positions = (0,) if name == "forward" else POSITIONS
    rules = ",".join(map(str, positions))
    words = ["profile", "--quick", "--dut", name, "--rules", rules, "--frame", str(FRAME_BYTES)]
    begun = time.time()
    run = weir(store, *words, "--machine", machine)
    weir(store, "fit", str(run["run_id"]))
    rows = []
    for position in positions:
        common = [str(run["run_id"]), "--rules", str(position), "--frame", str(FRAME_BYTES)]
        common += ["--certainty", "50%", "--extrapolate"]
        found = weir(store, "plan", *common, "--find", "rate", "--require", "loss<1%")
        threshold = dict(found["answers"][0]["outlook"]["predicted"])["threshold_pps"]  # type: ignore[index]
        rate = f"{LOAD * threshold:.0f}pps"
        look = weir(store, "plan", *common, "--find", "delay", "--rate", rate, "--require", "p99<1s")
        delays = dict(look["answers"][0]["outlook"]["predicted"])  # type: ignore[index]
        rows.append(
            {
                "device": name,
                "position": position,
                "threshold_pps": threshold,
                "delay_p50_ns": delays["delay_p50_ns"],
                "delay_p99_ns": delays["delay_p99_ns"],
                "seconds": round(time.time() - begun),
                "machine": dict(run.get("machine") or {}).get("verdict"),  # type: ignore[call-overload]
            }
        )
    return rows


def refused(names: Sequence[str]) -> dict[str, str]:
    """Why devices do not work here."""
    return {name: "; ".join(why) for name in names if (why := dut.make(name).check())}


def chart(rows: Sequence[dict[str, object]], path: Path) -> None:
    """Two panels: thresholds, and p50 and p99 delays at half of each."""
    import altair

    values = [
        {
            "device": f"{row['device']}, {row['position']}",
            "threshold": float(str(row["threshold_pps"])) / 1e3,
            "quantile": quantile,
            "delay": float(str(row[f"delay_{quantile}_ns"])) / 1e3,
        }
        for row in rows
        for quantile in ("p50", "p99")
    ]
    base = altair.Chart({"values": values}).properties(width=300)
    device = altair.Y("device:N", sort=None, title="device, matching position")
    first = base.transform_filter("datum.quantile == 'p50'").mark_bar()
    carried = first.encode(y=device, x=altair.X("threshold:Q", title="threshold in kpps"))
    late = base.mark_point(filled=True).encode(
        y=altair.Y("device:N", sort=None, title=None, axis=altair.Axis(labels=False)),
        x=altair.X("delay:Q", scale=altair.Scale(type="log"), title=f"delay in µs at {LOAD:.0%} of it"),
        color=altair.Color("quantile:N", title=None),
    )
    (carried | late).save(path)


def main() -> None:
    """Profile the devices in turn, and write the summary and the chart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/devices"))
    parser.add_argument("--machine", choices=("usual", "noisy"), default="usual")
    parser.add_argument("--only", nargs="+", choices=DEVICES, default=DEVICES, metavar="DEVICE")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    missing = refused(asked.only)
    rows = []
    for name in asked.only:
        if name in missing:
            print(f"{name}: not here: {missing[name][:150]}; see --dut {IN_MACHINES.get(name, 'vm')}")
            continue
        found = profiled(asked.out / "store", name, asked.machine)
        rows += found
        for row in found:
            kpps = float(str(row["threshold_pps"])) / 1e3
            print(f"{name}, {row['position']}: {kpps:.0f} kpps, {row['machine']}", flush=True)
    summary = {"versions": versions(), "frame_bytes": FRAME_BYTES, "devices": rows, "not here": missing}
    (asked.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    chart(rows, asked.out / "chart.svg")


if __name__ == "__main__":
    main()
