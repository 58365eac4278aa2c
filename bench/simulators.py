"""Measured devices in ns-3, in Weir's simulated lab and as predictions: how far they are apart.

Models are fitted to the profiles of a published benchmark (``bench/runs/model-…``); that of WireGuard comes
with Weir (``weir library``). The time that ns-3 takes is compared with that of its own bridge. Needs make,
g++ and libns3-dev.

    make bench-simulators
    .venv/bin/python bench/simulators.py --settings 60 --packets 400000
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import machine
import observed
from weirlab.lab.sim import Axis, SimLab, SimulatedModel
from weirlab.library import ProfileLibrary, named
from weirlab.library.places import SHIPPED
from weirlab.model import DeviceModels, QueueingModel
from weirlab.model.process import BehaviourGrid
from weirlab.records import RuleSetup
from weirlab.simulators import write_module
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

RUNS = Path(__file__).parent / "runs" / "model-20261128-1"
DEVICES = ("iptables-legacy", "nftables", "nftables-set", "wireguard-go")
TUNNEL = "wireguard-go"
"""Profiled without rules."""
WARMUP = 0.2
"""Share of a simulation that is not counted, as in weir-example."""


@dataclass(frozen=True)
class Setting:
    """A steady load."""

    position: int
    frame_bytes: int
    share: float
    """Load over the threshold."""


@dataclass(frozen=True)
class Found:
    """What one of the ways to look at a device says of a setting; ns, packets per second, and a ratio."""

    threshold_pps: float
    mean_ns: float
    p99_ns: float
    loss_ratio: float


class _SameSeed(SimLab):
    """Trials with the random numbers of ns-3: its seed and the number of its run, 1 each."""

    def _next_seed(self, traffic: Traffic) -> int:
        return 2


def settings(n: int, rng: np.random.Generator, device: str) -> Iterator[Setting]:
    """Loads below the threshold and beyond it, at positions that were not profiled."""
    for i in range(n):
        share = rng.uniform(1.05, 2.0) if i % 4 == 3 else rng.uniform(0.05, 0.95)
        position = 0 if device == TUNNEL else int(rng.integers(1, 1000))
        frame = int(rng.choice([64, 256, 594, 1400 if device == TUNNEL else 1518]))
        yield Setting(position, frame, float(share))


def fitted(device: str) -> QueueingModel:
    """The model of a device."""
    if device != TUNNEL:
        return QueueingModel.fit(observed.read(RUNS / f"{device}-1.parquet")["profile"])
    model = named(device, [ProfileLibrary(str(SHIPPED))]).bundle.device.models[QueueingModel.name]
    assert isinstance(model, QueueingModel)
    return model


def in_ns3(module: Path, setting: Setting, rate: float, seconds: float) -> Found:
    """One run of the module's example."""
    words = {
        "Position": setting.position,
        "FrameBytes": setting.frame_bytes,
        "Rate": rate,
        "Seconds": seconds,
    }
    command = ["./weir-example", *(f"--{name}={value!r}" for name, value in words.items())]
    shown = subprocess.run(command, cwd=module, capture_output=True, text=True, check=True).stdout
    (row,) = csv.DictReader(io.StringIO(shown))
    value = {name: float(text) for name, text in row.items()}
    return Found(
        value["rate_pps"] / value["load"],
        1e3 * value["delay_mean_us"],
        1e3 * value["delay_p99_us"],
        value["loss_ratio"],
    )


def in_lab(lab: SimLab, model: QueueingModel, setting: Setting, rate: float, seconds: float) -> Found:
    """One trial of the simulated lab."""
    lab.set_rules(RuleSetup(setting.position))
    found = lab.run(
        Traffic(
            Rate(rate),
            Constant(setting.frame_bytes),
            warmup_s=WARMUP * seconds,
            duration_s=(1 - WARMUP) * seconds,
        )
    )
    threshold = float(model.threshold_pps(setting.position, setting.frame_bytes))
    return Found(threshold, found.delay_mean_ns, found.histogram.quantile_ns(0.99), found.lost / found.sent)


def predicted(model: QueueingModel, setting: Setting, rate: float) -> Found:
    """The model itself."""
    found = model.predict(rate, setting.frame_bytes, setting.position)
    return Found(
        float(found.threshold_pps),
        float(found.delay_mean_ns),
        float(found.delay_p99_ns),
        float(found.loss_ratio),
    )


def apart(pairs: list[tuple[Found, Found]]) -> str:
    """Median and largest differences of two ways, in percent and points."""

    def relative(name: str) -> str:
        values = [100 * abs(getattr(a, name) / getattr(b, name) - 1) for a, b in pairs]
        return f"{np.median(values):6.2f} {max(values):6.2f}"

    points = [100 * abs(a.loss_ratio - b.loss_ratio) for a, b in pairs]
    columns = [relative(name) for name in ("threshold_pps", "mean_ns", "p99_ns")]
    return "   ".join([*columns, f"{np.median(points):6.3f} {max(points):6.3f}"])


def main() -> None:
    """Build the module of every device, run the settings, and print how far the ways are apart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--settings", type=int, default=60, help="settings of each device")
    parser.add_argument("--packets", type=int, default=400_000, help="packets of each setting")
    parser.add_argument("--seed", type=int, default=1, help="seed of the settings")
    parser.add_argument("--devices", nargs="+", default=DEVICES, choices=DEVICES, metavar="DEVICE")
    options = parser.parse_args()
    for name, value in machine.versions().items():
        print(f"{name}: {value}")
    print("differences: median and largest of threshold %, mean %, p99 %, loss in points")
    for device in options.devices:
        model = fitted(device)

        def behaviour(positions: Axis, frames: Axis, model: QueueingModel = model) -> dict[str, object]:
            return BehaviourGrid.of(model, positions, frames).plain()

        with TemporaryDirectory() as folder:
            module = Path(folder) / "ns3"
            write_module(DeviceModels(device, {"queueing": model}), "ns3", module)
            subprocess.run(["make", "-C", module, "weir-example"], stdout=subprocess.DEVNULL, check=True)
            lab = _SameSeed(model=SimulatedModel(device, behaviour))
            ns3_lab, ns3_model, lab_model = [], [], []
            for setting in settings(options.settings, np.random.default_rng(options.seed), device):
                rate = setting.share * float(model.threshold_pps(setting.position, setting.frame_bytes))
                seconds = options.packets / rate
                a = in_ns3(module, setting, rate, seconds)
                b = in_lab(lab, model, setting, rate, seconds)
                c = predicted(model, setting, rate)
                ns3_lab.append((a, b))
                ns3_model.append((a, c))
                lab_model.append((b, c))
            print(f"{device}: {options.settings} settings of {options.packets} packets")
            print(f"  ns-3 and simulated lab    {apart(ns3_lab)}")
            print(f"  ns-3 and model            {apart(ns3_model)}")
            print(f"  simulated lab and model   {apart(lab_model)}")
            if device == options.devices[-1]:
                speed(module)


def speed(module: Path) -> None:
    """Wall time of 10 s of 500 kpps through the device, and through ns-3's bridge with a queue."""
    subprocess.run(["make", "-C", module, "weir-benchmark"], stdout=subprocess.DEVNULL, check=True)
    taken = {}
    for what in ("bridge", "device"):
        began = time.monotonic()
        subprocess.run([module / "weir-benchmark", f"--Through={what}"], cwd=module, check=True)
        taken[what] = time.monotonic() - began
    print(
        f"10 s of 500 kpps: bridge {taken['bridge']:.1f} s, measured device {taken['device']:.1f} s, "
        f"ratio {taken['device'] / taken['bridge']:.2f}"
    )


if __name__ == "__main__":
    main()
