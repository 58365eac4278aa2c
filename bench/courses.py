"""A measured device while its load or its rules change: the same course in simulators and on the device.

A step of the rate, a step of the matching position, and a second direction that joins for a while. Needs
make, g++ and libns3-dev. ``--measured`` needs root: it profiles the device on this machine, so that the
model is one of this machine, and then sends it the packets that the simulators get. Without it, the model is
that of a published benchmark. ``--inet`` needs OMNeT++ 6 and INET, both in the environment.

    .venv/bin/python bench/courses.py --inet --out bench/runs/courses-20260131-1
    .venv/bin/python bench/courses.py --measured --out bench/runs/courses-20260131-1
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

import course_bed
import machine
import omnet
import simulators
from weirlab.lab import dut
from weirlab.lab.netns import NetnsLab
from weirlab.model import DeviceModels, QueueingModel
from weirlab.model.base import F64
from weirlab.model.process import Fate, ReferenceDevice
from weirlab.simulators import write_module

FRAME_BYTES = 64
WARMUP_S, SHOWN_S, SPARE_S = 0.1, 0.9, 0.1
"""Not shown are the warm-up and the end, which a sender that is late does not reach."""
STEPS_S = (0.0, WARMUP_S + 0.3, WARMUP_S + 0.6, WARMUP_S + SHOWN_S + SPARE_S)
"""Where the parts of a course begin and end."""
DEVICE = "nftables"
POSITION, FURTHER = 500, 1000
REPLAY = Path(__file__).with_suffix("") / "replay.cc"
LIBRARIES = ("network", "traffic-control", "stats", "core")
BIN_S = 0.01
BINS = round(SHOWN_S / BIN_S)
AROUND_S = 0.05
"""After a step, delays are those of a queue that fills or drains."""
SEED = 2
"""Of ns-3: its seed and the number of its run, 1 each."""
MEASURED = "measured"


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

    calm, brisk = (Part(gap(share, POSITION), 0, POSITION) for share in (0.6, 0.8))
    return {
        "rate": (calm, Part(gap(1.4, POSITION), 0, POSITION), calm),
        "position": (brisk, Part(brisk.left_ns, 0, FURTHER), brisk),
        "two directions": (calm, Part(calm.left_ns, gap(0.6, POSITION), POSITION), calm),
    }


def arrivals(parts: tuple[Part, Part, Part]) -> Arrivals:
    """The packets of a course: a source draws its next gap when it sends, as the sources of simulators do."""

    def side(number: int) -> Iterator[tuple[int, int, int]]:
        at = number
        for part, end in zip(parts, STEPS_S[1:], strict=True):
            gap, end_ns = (part.left_ns, part.right_ns)[number], round(end * 1e9)
            while gap and at < end_ns:
                yield at, number, part.position
                at += gap
            # A source that sends nothing yet.
            at = at if gap else max(at, end_ns + number)

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


def in_inet(module: Path, parts: tuple[Part, Part, Part], load: Arrivals) -> F64:
    """The same from OMNeT++: sources of INET whose gaps change, and a scenario that changes the position."""
    first_ns, second_ns = (round(at * 1e9) for at in STEPS_S[1:3])

    def gaps(number: int) -> str:
        before, between, after = ((part.left_ns, part.right_ns)[number] for part in parts)
        never = round(omnet.NEVER_S * 1e9)
        # A source that is to be silent then has no packet left to send.
        last_ns = second_ns if after else second_ns - between
        return (
            f"simTime() < {first_ns}ns ? {before or never}ns : "
            f"simTime() < {last_ns}ns ? {between or never}ns : {after or never}ns"
        )

    steps = "".join(
        f"<set-param t='{at}ns' module='firewall' par='position' value='{part.position}'/>"
        for at, part in zip((first_ns, second_ns), parts[1:], strict=True)
    )
    network = omnet.NETWORK
    settings = {
        "sim-time-limit": f"{STEPS_S[-1] + simulators.INSIDE_S}s",
        f"{network}.scenario.script": f'xml("<scenario>{steps}</scenario>")',
        f"{network}.left.productionInterval": gaps(0),
        f"{network}.right.productionInterval": gaps(1),
        f"{network}.firewall.position": f"{parts[0].position}",
    }
    if parts[1].right_ns:
        settings[f"{network}.right.initialProductionOffset"] = f"{first_ns + 1}ns"
    rows = omnet.passages(module, settings)
    return by_arrival(load, rows[rows[:, 0] < STEPS_S[-1] * 1e9])


def by_arrival(load: Arrivals, rows: F64) -> F64:
    """Times inside in the order of arrivals, from rows of arrival and time inside (-1: lost)."""
    if len(rows) != len(load.at_ns):
        raise ValueError(f"{len(load.at_ns)} packets arrived, but a simulator told of {len(rows)}")
    found = rows[np.argsort(rows[:, 0], kind="stable"), 1]
    return np.where(found < 0, np.nan, found)


def course(load: Arrivals, inside_ns: F64) -> pl.DataFrame:
    """Mean time inside in us and loss in percent, by when packets arrived."""
    bins = (load.at_ns / (BIN_S * 1e9)).astype(np.int64) - round(WARMUP_S / BIN_S)
    shown = (bins >= 0) & (bins < BINS)
    rows = pl.DataFrame({"time_s": bins[shown] * BIN_S, "inside": inside_ns[shown]})
    rows = rows.with_columns(pl.col("inside").fill_nan(None))
    mean_us = pl.col("inside").mean() / 1e3
    loss = 100 * pl.col("inside").null_count() / pl.len()
    return rows.group_by("time_s").agg(mean_us.alias("mean_us"), loss.alias("loss_percent")).sort("time_s")


def measured(load: Arrivals, repetitions: int) -> pl.DataFrame:
    """The same from the device: of each bin the median of the repetitions that count."""
    made, rules = course_bed.plan(load.at_ns, load.side, load.position, FRAME_BYTES, WARMUP_S, BIN_S)
    frames, good = [], []
    with NetnsLab(dut.make(DEVICE)) as lab:
        lab.set_rules(rules)
        for _ in range(repetitions):
            inside, late = course_bed.passages(lab.play(made), made, load.at_ns)
            frames.append(course(load, inside))
            good.append(course_bed.steady(load.at_ns, late, WARMUP_S, BIN_S, BINS))
    return course_bed.median(frames, good)


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
    """A panel for each course: the mean time inside, everywhere."""
    import altair

    line = altair.Chart(rows).mark_line().properties(width=520, height=150)
    line.encode(
        x=altair.X("time_s:Q", title="time in s"),
        y=altair.Y("mean_us:Q", title="mean time inside in µs", scale=altair.Scale(type="log")),
        color=altair.Color("where:N", title=None),
        strokeDash=altair.StrokeDash("where:N", title=None),
        row=altair.Row("course:N", title=None, sort=None),
    ).save(path)


def apart(a: pl.DataFrame, b: pl.DataFrame) -> str:
    """How far bins are from those of ``b``: mean and largest difference, and without those behind a step."""
    mean, other = (rows["mean_us"].to_numpy() for rows in (a, b))
    points = np.abs(a["loss_percent"].to_numpy() - b["loss_percent"].to_numpy())
    percent = 100 * np.abs(mean / other - 1)
    time_s = a["time_s"].to_numpy() + BIN_S / 2
    steady = np.all(
        [np.abs(time_s - at + WARMUP_S - AROUND_S / 2) > AROUND_S / 2 for at in STEPS_S[1:3]], axis=0
    )
    shown = f"{np.nanmean(percent):.4f} %, at most {np.nanmax(percent):.4f} %"
    shown += f" ({np.nanmax(percent[steady]):.4f} % later than {1e3 * AROUND_S:.0f} ms after a step)"
    return f"{shown}; loss {np.nanmean(points):.4f} points, at most {np.nanmax(points):.4f}"


def main() -> None:
    """Run every course, print the differences per 10 ms, and write bins and chart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("build/courses"))
    parser.add_argument("--inet", action="store_true", help="also in OMNeT++ between elements of INET")
    parser.add_argument("--measured", action="store_true", help="also on the device itself (root)")
    parser.add_argument("--repetitions", type=int, default=15, help="of each measured course")
    options = parser.parse_args()
    for name, value in machine.versions().items():
        print(f"{name}: {value}")
    frames = []
    with TemporaryDirectory() as folder:
        model = simulators.fitted(DEVICE)
        if options.measured:
            model = course_bed.profiled(DEVICE, (POSITION, FURTHER), FRAME_BYTES, Path(folder) / "store")
        module = Path(folder) / "ns3"
        build(model, module)
        if options.inet:
            omnet.build(DEVICE, model, Path(folder) / "omnetpp")
        for name, parts in courses(model).items():
            load = arrivals(parts)
            python = in_python(model, load)
            others = {"ns-3": in_ns3(module, load)}
            if options.inet:
                others["INET"] = in_inet(Path(folder) / "omnetpp", parts, load)
            found = {"Python": course(load, python)}
            print(f"{name}: {len(python)} packets, {np.isnan(python).sum()} lost in Python")
            for where, inside in others.items():
                found[where] = course(load, inside)
                print(f"  {where} and Python: {apart(found[where], found['Python'])}")
                most_ns = np.nanmax(np.abs(inside - python))
                print(f"    {np.isnan(inside).sum()} lost; a packet at most {most_ns:.2f} ns", flush=True)
            if options.measured:
                found[MEASURED] = measured(load, options.repetitions)
                print(f"  Python and measured: {apart(found['Python'], found[MEASURED])}", flush=True)
            frames += [
                rows.with_columns(course=pl.lit(name), where=pl.lit(where)) for where, rows in found.items()
            ]
    options.out.mkdir(parents=True, exist_ok=True)
    rows = pl.concat(frames, how="diagonal").select("course", "where", "time_s", "mean_us", "loss_percent")
    rows = rows.with_columns(pl.col(pl.Float64).round(4).fill_nan(None))
    rows.write_csv(options.out / "courses.csv")
    chart(rows, options.out / "chart.svg")


if __name__ == "__main__":
    main()
