"""Measured devices in ns-3, in INET, in Weir's simulated lab and as predictions: how far they are apart.

Models are fitted to the profiles of a published benchmark (``bench/runs/model-…``); that of WireGuard comes
with Weir (``weir library``). The time that ns-3 takes is compared with that of its own bridge. Needs make,
g++ and libns3-dev; the part ``inet`` also OMNeT++ 6 and INET, both in the environment.

    make bench-simulators
    .venv/bin/python bench/simulators.py --settings 60 --packets 400000
    .venv/bin/python bench/simulators.py --parts speed
    .venv/bin/python bench/simulators.py --parts inet --packets 50000
"""

from __future__ import annotations

import argparse
import csv
import io
import resource
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

import machine
import observed
import omnet
from weirlab.lab.sim import Axis, SimLab, SimulatedModel
from weirlab.library import ProfileLibrary, named
from weirlab.library.places import SHIPPED
from weirlab.model import DeviceModels, Prediction, QueueingModel, compare, fit_all
from weirlab.model.base import F64, Predictor
from weirlab.model.process import LEVELS, BehaviourGrid, SteadyStates
from weirlab.model.score import deviations
from weirlab.records import RuleSetup
from weirlab.simulators import write_module
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

RUNS = Path(__file__).parent / "runs" / "model-20261128-1"
DEVICES = ("iptables-legacy", "nftables", "nftables-set", "wireguard-go")
FASTEST = "nftables-set"
"""Carries the 500 kpps whose wall time is taken."""
TUNNEL = "wireguard-go"
"""Profiled without rules."""
ROUNDS = 3
"""In which it is taken."""
Part = Literal["ns3", "inet"]
NAMES: Mapping[Part, str] = {"ns3": "ns-3", "inet": "INET"}
PARTS = ("ns3", "model", "trials", "speed")
"""All but ``inet``, which needs what no package registry has."""
WARMUP = 0.2
"""Share of a simulation that is not counted, as in weir-example."""
LONGEST_S, MOST_PACKETS = 4000.0, 4e7
"""Of the simulation that is compared with the model."""
LONG_SEED = 3
INSIDE_S = 0.1
"""No packet is longer inside."""
TRIAL_PACKETS = 200_000
"""Of a simulated trial beside measured ones."""
SIMULATED = "simulated"
"""Name of :class:`SimulatedTrials` among models."""
COMPARED = (
    "threshold",
    "delay_mean_below",
    "delay_p99_below",
    "delay_mean_near",
    "delay_mean_overload",
    "loss",
)


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


class _SeededLab(SimLab):
    """Trials with random numbers that are known."""

    seed = 2
    """That of ns-3: its seed and the number of its run, 1 each."""

    def _next_seed(self, traffic: Traffic) -> int:
        return self.seed


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


def in_inet(module: Path, setting: Setting, rate: float, seconds: float) -> Found:
    """One run between INET's queueing elements; counted are packets that arrive after the warm-up."""
    network = omnet.NETWORK
    rows = omnet.passages(
        module,
        {
            # A packet that arrives in time may leave later.
            "sim-time-limit": f"{seconds + INSIDE_S:.12f}s",
            f"{network}.left.productionInterval": f"{1 / rate:.12f}s",
            f"{network}.firewall.frameBytes": f"{setting.frame_bytes}B",
            f"{network}.firewall.position": f"{setting.position}",
        },
    )
    kept = (rows[:, 0] >= WARMUP * seconds * 1e9) & (rows[:, 0] < seconds * 1e9)
    inside = np.sort(rows[kept & (rows[:, 1] >= 0), 1])
    threshold = rate / setting.share
    return Found(
        threshold,
        inside.mean(),
        inside[len(inside) * 99 // 100],
        float(np.mean(rows[kept, 1] < 0)),
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


def simulated_model(device: str, model: QueueingModel) -> SimulatedModel:
    """What the simulated lab simulates."""

    def behaviour(positions: Axis, frames: Axis) -> dict[str, object]:
        return BehaviourGrid.of(model, positions, frames).plain()

    return SimulatedModel(device, behaviour)


def enough_seconds(model: QueueingModel, setting: Setting, rate: float) -> float:
    """How long a simulation has to last for standard errors of 0.4 % of the mean and 1.25 % of p99.

    Packets that wait behind the same interruption count as one. Interruptions of the last stream alone are
    longer than p99, and in WireGuard a few of them make a second.
    """
    prediction = model.predict([rate], setting.frame_bytes, setting.position)
    slopes = SteadyStates.of(prediction, [rate], model.queue_packets).slopes_ns[0]
    levels = np.array([*LEVELS[:-2], 0.0])
    lengths = np.cumsum(-np.diff(levels) * slopes)
    per_ns = np.divide(1.0, slopes, out=np.zeros_like(slopes), where=slopes > 0)
    per_ns[:-1] -= per_ns[1:]
    of_mean = np.sum(per_ns * (lengths**2 / 2) ** 2) / (0.004 * float(prediction.delay_mean_ns[0])) ** 2
    of_p99 = slopes[-1] * (0.01 * slopes[-1] / (0.0125 * float(prediction.delay_p99_ns[0]))) ** 2
    return float(min(max(of_mean, of_p99) / 1e9, LONGEST_S, MOST_PACKETS / rate))


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


@dataclass(frozen=True)
class SimulatedTrials:
    """Predicts by simulating a trial of a model; the intervals are the model's."""

    model: QueueingModel
    lab: SimLab

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        """A trial for each setting; gaps are constant."""
        expected = self.model.predict(rate_pps, frame_bytes, position, gap_scv)
        found = [
            in_lab(self.lab, self.model, Setting(int(place), int(frame), 0.0), rate, TRIAL_PACKETS / rate)
            for rate, frame, place in np.broadcast(rate_pps, frame_bytes, position)
        ]
        unknown = np.full(len(found), np.nan)
        loss_ratio = np.array([each.loss_ratio for each in found])
        # As measured: what is forwarded in overload.
        forwarded_pps = np.asarray(rate_pps) * (1 - loss_ratio)
        return replace(
            expected,
            threshold_pps=np.where(
                np.asarray(rate_pps) > expected.threshold_pps, forwarded_pps, expected.threshold_pps
            ),
            loss_ratio=loss_ratio,
            delay_mean_ns=np.array([each.mean_ns for each in found]),
            delay_p99_ns=np.array([each.p99_ns for each in found]),
            delay_p50_ns=unknown,
            delay_p90_ns=unknown,
            delay_p999_ns=unknown,
            jitter_ns=unknown,
        )

    def threshold_pps(self, position: ArrayLike, frame_bytes: ArrayLike) -> F64:
        """That of the model."""
        return self.model.threshold_pps(position, frame_bytes)


def beside_measured(device: str) -> None:
    """Simulated trials beside real ones that the fit has not seen, scored as by weir verify."""
    for path in sorted(RUNS.glob(f"{device}-[0-9].parquet")):
        trials = observed.read(path)
        model = fit_all(trials["profile"])[QueueingModel.name]
        assert isinstance(model, QueueingModel)
        simulated = SimulatedTrials(model, SimLab(model=simulated_model(device, model)))
        models: dict[str, Predictor] = {model.name: model, SIMULATED: simulated}
        rows = compare(models, trials["verify"])
        scores = {
            (row.model, row.quantity): row for row in rows if row.per == "trial" and not row.extrapolated
        }
        print(f"  held-out trials of {path.stem}: errors of prediction and simulation; in the 90 % interval")
        for each in deviations(models, trials["verify"]):
            if each.model != SIMULATED or each.extrapolated or each.quantity not in COMPARED:
                continue
            errors = [scores[name, each.quantity] for name in models]
            shown = [
                row.absolute.mean_absolute if row.relative is None else row.mape_percent for row in errors
            ]
            band = each.bands[90]
            inside = 100 * np.mean((band.low <= each.predicted) & (each.predicted <= band.high))
            unit = "points" if errors[0].relative is None else "%"
            print(
                f"    {each.quantity:20} {errors[0].n:4} trials {shown[0]:6.2f} {shown[1]:6.2f} {unit:6} "
                f"measured {errors[0].coverage_percent[90]:5.1f} %, simulated {inside:5.1f} %",
                flush=True,
            )


def speed() -> None:
    """Wall and CPU time of 10 s of 500 kpps through the device, and through ns-3's bridge with a queue."""
    taken: dict[str, list[tuple[float, float]]] = {"bridge": [], "device": []}
    with TemporaryDirectory() as folder:
        module = Path(folder) / "ns3"
        build_ns3(FASTEST, fitted(FASTEST), module, "weir-benchmark")
        for _ in range(ROUNDS):
            for what, times in taken.items():
                began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(
                    [module / "weir-benchmark", f"--Through={what}"],
                    cwd=module,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times.append((time.monotonic() - began, after.ru_utime - used.ru_utime))
    for i, clock in enumerate(("wall", "CPU")):
        bridge, device = (np.median([each[i] for each in times]) for times in taken.values())
        print(
            f"10 s of 500 kpps, {clock} time, median of {ROUNDS}: bridge {bridge:.1f} s, "
            f"measured device {device:.1f} s, ratio {device / bridge:.2f}"
        )


def build_ns3(device: str, model: QueueingModel, module: Path, program: str = "weir-example") -> None:
    """Write the module of a device, and build one of its programs."""
    write_module(DeviceModels(device, {"queueing": model}), "ns3", module)
    subprocess.run(["make", "-C", module, program], stdout=subprocess.DEVNULL, check=True)


def beside_the_lab(part: Part, device: str, chosen: Sequence[Setting], packets: int) -> None:
    """Simulations of every setting, with the same random numbers as in the lab."""
    model = fitted(device)
    lab = _SeededLab(model=simulated_model(device, model))
    pairs = []
    with TemporaryDirectory() as folder:
        module = Path(folder) / part
        if part == "inet":
            omnet.build(device, model, module)
        else:
            build_ns3(device, model, module)
        run = in_inet if part == "inet" else in_ns3
        for setting in chosen:
            rate = setting.share * float(model.threshold_pps(setting.position, setting.frame_bytes))
            seconds = packets / rate
            simulated = run(module, setting, rate, seconds)
            pairs.append((simulated, in_lab(lab, model, setting, rate, seconds)))
    print(f"  {NAMES[part]} and simulated lab, {packets} packets   {apart(pairs)}", flush=True)


def beside_the_model(device: str, chosen: Sequence[Setting]) -> None:
    """The lab, for long enough, beside the prediction of every setting."""
    model = fitted(device)
    lab = _SeededLab(model=simulated_model(device, model))
    lab.seed = LONG_SEED
    pairs = []
    for setting in chosen:
        rate = setting.share * float(model.threshold_pps(setting.position, setting.frame_bytes))
        found = in_lab(lab, model, setting, rate, enough_seconds(model, setting, rate))
        pairs.append((found, predicted(model, setting, rate)))
    print(f"  simulated lab and model, long enough   {apart(pairs)}", flush=True)


def main() -> None:
    """Print how far the ways are apart, for each device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--settings", type=int, default=60, help="settings of each device")
    parser.add_argument("--packets", type=int, default=400_000, help="packets of each setting")
    parser.add_argument("--seed", type=int, default=1, help="seed of the settings")
    parser.add_argument("--devices", nargs="+", default=DEVICES, choices=DEVICES, metavar="DEVICE")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=("inet", *PARTS), metavar="PART")
    options = parser.parse_args()
    for name, value in machine.versions().items():
        print(f"{name}: {value}")
    if "speed" in options.parts:
        speed()
    if options.parts == ["speed"]:
        return
    print("differences: median and largest of threshold %, mean %, p99 %, loss in points")
    for device in options.devices:
        print(f"{device}: {options.settings} settings", flush=True)
        chosen = list(settings(options.settings, np.random.default_rng(options.seed), device))
        for part in options.parts:
            if part in NAMES:
                beside_the_lab(part, device, chosen, options.packets)
        if "model" in options.parts:
            beside_the_model(device, chosen)
        if "trials" in options.parts and device != TUNNEL:
            beside_measured(device)


if __name__ == "__main__":
    main()
