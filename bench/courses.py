"""A measured device while its load or its rules change: the same course in Python and in ns-3.

A step of the rate, a step of the matching position, and a second direction that joins for a while. Needs
make, g++ and libns3-dev.

    .venv/bin/python bench/courses.py --out bench/runs/courses-20260131-1
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

import machine
import simulators
from weirlab.model import DeviceModels, QueueingModel
from weirlab.model.base import F64
from weirlab.model.process import Fate, ReferenceDevice
from weirlab.simulators import write_module

FRAME_BYTES = 64
STEPS_S = (0.0, 0.3, 0.6, 0.9)
"""Where the parts of a course begin and end."""
DEVICE = "nftables"
REPLAY = Path(__file__).with_suffix("") / "replay.cc"
LIBRARIES = ("network", "traffic-control", "stats", "core")
BIN_S = 0.01
SEED = 2
"""Of ns-3: its seed and the number of its run, 1 each."""


@dataclass(frozen=True)
class Part:
    """A part of a course; gaps in ns between packets from the left and from the right, 0: none."""

    left_ns: int
    right_ns: int
    position: int


@dataclass(frozen=True)
class Arrivals:
    """Packets in the order of their times, in ns; side 0 is left."""

    at_ns: F64
    side: F64
    position: F64


def courses(model: QueueingModel) -> Mapping[str, tuple[Part, Part, Part]]:
    """Each has a part in the middle that overloads the device."""

    def gap(share: float, position: int) -> int:
        return round(1e9 / (share * float(model.threshold_pps(position, FRAME_BYTES))))

    calm = Part(gap(0.6, 500), 0, 500)
    return {
        "rate": (calm, Part(gap(1.4, 500), 0, 500), calm),
        "position": (calm, Part(calm.left_ns, 0, 1000), calm),
        "two directions": (calm, Part(calm.left_ns, gap(0.6, 500), 500), calm),
    }


def arrivals(parts: tuple[Part, Part, Part]) -> Arrivals:
    """The packets of a course: a source draws its next gap when it sends, as the sources of simulators do."""

    def side(number: int) -> Iterator[tuple[int, int, int]]:
        for part, (begin, end) in zip(parts, pairwise(STEPS_S), strict=True):
            gap = (part.left_ns, part.right_ns)[number]
            for at in range(round(begin * 1e9) + number, round(end * 1e9), gap) if gap else ():
                yield at, number, part.position

    rows = np.array(sorted([*side(0), *side(1)]), np.float64)
    return Arrivals(*rows.T)


def in_python(model: QueueingModel, load: Arrivals) -> F64:
    """Times inside in ns, by arrival; NaN if lost."""
    device = ReferenceDevice(model, SEED)
    found = np.full(len(load.at_ns), np.nan)
    for i, (at, position) in enumerate(zip(load.at_ns, load.position, strict=True)):
        passage = device.arrive(float(at), FRAME_BYTES, float(position))
        if passage.fate is Fate.FORWARDED:
            found[i] = passage.leaves_ns - at
    return found


def in_ns3(module: Path, load: Arrivals) -> F64:
    """The same from ns-3."""
    lines = "".join(
        f"{at:.0f} {side:.0f} {position:.0f}\n"
        for at, side, position in zip(load.at_ns, load.side, load.position, strict=True)
    )
    shown = subprocess.run(
        [module / "replay"], cwd=module, input=lines, capture_output=True, text=True, check=True
    ).stdout
    return by_arrival(load, np.array(shown.split(), np.float64).reshape(-1, 2))


def by_arrival(load: Arrivals, rows: F64) -> F64:
    """Times inside in the order of arrivals, from rows of arrival and time inside (-1: lost)."""
    if len(rows) != len(load.at_ns):
        raise ValueError(f"{len(load.at_ns)} packets arrived, but a simulator told of {len(rows)}")
    found = rows[np.argsort(rows[:, 0], kind="stable"), 1]
    return np.where(found < 0, np.nan, found)


def course(load: Arrivals, inside_ns: F64) -> pl.DataFrame:
    """Mean time inside in us and loss in percent, by when packets arrived."""
    bins = (load.at_ns / (BIN_S * 1e9)).astype(np.int64)
    rows = pl.DataFrame({"time_s": bins * BIN_S, "inside": inside_ns}).with_columns(
        pl.col("inside").fill_nan(None)
    )
    mean_us = pl.col("inside").mean() / 1e3
    loss = 100 * pl.col("inside").null_count() / pl.len()
    return rows.group_by("time_s").agg(mean_us.alias("mean_us"), loss.alias("loss_percent")).sort("time_s")


def build(model: QueueingModel, module: Path) -> None:
    """The program that replays arrivals, with the module of the model."""
    write_module(DeviceModels(DEVICE, {"queueing": model}), "ns3", module)
    shutil.copy(REPLAY, module)
    parts = ["model/weir-net-device", "helper/weir-helper"]
    subprocess.run(
        ["make", *(f"{part}.o" for part in parts)], cwd=module, stdout=subprocess.DEVNULL, check=True
    )
    words = ["c++", "-std=c++17", "-O2", "-Imodel", "-Ihelper", "replay.cc", *(f"{part}.o" for part in parts)]
    subprocess.run([*words, "-o", "replay", *(f"-lns3-{name}" for name in LIBRARIES)], cwd=module, check=True)


def chart(rows: pl.DataFrame, path: Path) -> None:
    """A panel for each course: the mean time inside in both."""
    import altair

    line = altair.Chart(rows).mark_line().properties(width=520, height=150)
    line.encode(
        x=altair.X("time_s:Q", title="time in s"),
        y=altair.Y("mean_us:Q", title="mean time inside in µs", scale=altair.Scale(type="log")),
        color=altair.Color("simulator:N", title=None),
        strokeDash=altair.StrokeDash("simulator:N", title=None),
        row=altair.Row("course:N", title=None, sort=None),
    ).save(path)


def main() -> None:
    """Run every course, print the largest differences, and write bins and chart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("build/courses"))
    options = parser.parse_args()
    for name, value in machine.versions().items():
        print(f"{name}: {value}")
    model = simulators.fitted(DEVICE)
    frames = []
    with TemporaryDirectory() as folder:
        module = Path(folder) / "ns3"
        build(model, module)
        for name, parts in courses(model).items():
            load = arrivals(parts)
            python, ns3 = in_python(model, load), in_ns3(module, load)
            both = {"Python": course(load, python), "ns-3": course(load, ns3)}
            frames += [
                rows.with_columns(course=pl.lit(name), simulator=pl.lit(simulator))
                for simulator, rows in both.items()
            ]
            mean, other = (rows["mean_us"].to_numpy() for rows in both.values())
            lost, others = (rows["loss_percent"].to_numpy() for rows in both.values())
            apart, points = 100 * np.abs(other / mean - 1).max(), np.abs(others - lost).max()
            print(f"{name}: {len(python)} packets, {np.isnan(python).sum()} and {np.isnan(ns3).sum()} lost")
            print(f"  per 10 ms at most {apart:.4f} % and {points:.4f} points of loss apart")
            print(f"  a packet at most {np.nanmax(np.abs(ns3 - python)):.2f} ns", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = pl.concat(frames).select("course", "simulator", "time_s", "mean_us", "loss_percent")
    rows.with_columns(pl.col(pl.Float64).round(4)).write_csv(options.out / "courses.csv")
    chart(rows, options.out / "chart.svg")


if __name__ == "__main__":
    main()
