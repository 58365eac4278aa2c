"""What a busy machine costs: the same trials when it is quiet and with other work running.

Runs a quick profile in both conditions (comparing the share of valid attempts, time, thresholds and mean
delays), and trials over a plain cable, in which every lost frame is a false loss.

    make bench-disturbed
    .venv/bin/python bench/disturbed.py --device nftables --cable-trials 200
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import load
import machine
from weirlab.base.errors import WeirError
from weirlab.cli.progress import reporter
from weirlab.jobs import profiles
from weirlab.lab.namespaces import PlainPair
from weirlab.measure.terms import SINGLE
from weirlab.measure.thresholds import thresholds, usable
from weirlab.measure.trial import TrialEntry, run_trial
from weirlab.records import RuleSetup, TrialSpec
from weirlab.scenario import QUICK, from_plain
from weirlab.store import Store
from weirlab.store.reasons import reason_counts
from weirlab.traffic.spec import Rate, Traffic

CONDITIONS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "quiet": contextlib.nullcontext,
    "beside two busy processes": load.beside,
}
CABLE_PPS = 100_000.0
CABLE_S = 0.1
ONCE = replace(SINGLE, max_attempts=1)
BELOW = 0.8
"""Share of the threshold up to which mean delays are compared; above it they depend too much on it."""


@dataclass(frozen=True)
class Profiled:
    """A quick profile under one condition."""

    seconds: float
    trials: pl.DataFrame

    @property
    def valid_ratio(self) -> float:
        return int(self.trials["valid"].sum()) / len(self.trials)

    @property
    def left_out_ratio(self) -> float:
        valid = self.trials.filter("valid")
        left_out_s, counted_s = (float(valid[name].to_numpy().sum()) for name in ("left_out_s", "record_s"))
        return left_out_s / (left_out_s + counted_s)

    def reasons(self) -> str:
        counted = reason_counts(self.trials.filter(~pl.col("valid"))["invalid"])
        return ", ".join(f"{kind} {n}" for kind, n in list(counted.items())[:3]) or "none"


def profiled(device: str, store: Store) -> Profiled:
    plain = {
        "name": "busy machine",
        "lab": {"kind": "netns"},
        "dut": {"name": device},
        "profile": {**QUICK, "positions": (0, 200, 1000)},
    }
    begun_s = time.monotonic()
    with contextlib.closing(reporter(sys.stderr)) as progress:
        outcome = profiles.profile(store, from_plain(plain, "the bench"), progress)
    return Profiled(time.monotonic() - begun_s, outcome.run.trials().filter(pl.col("role") == "profile"))


def apart(quiet: Profiled, disturbed: Profiled) -> dict[str, tuple[float, float]]:
    """Median and largest relative difference of thresholds, and of mean delays at the same share of them."""
    setup = ["position", "frame_bytes"]

    def measured(one: Profiled) -> tuple[pl.DataFrame, pl.DataFrame]:
        found = thresholds(usable(one.trials)).select(*setup, "threshold_pps")
        share = pl.col("achieved_pps") / pl.col("threshold_pps")
        below = (
            one.trials.filter("valid")
            .join(found, on=setup)
            .with_columns(share.alias("share"), pl.col("spec").str.contains("poisson").alias("random"))
            .filter(pl.col("share") <= BELOW)
            .group_by(*setup, "random", pl.col("share").round(1))
            .agg(pl.col("delay_mean_ns").median())
        )
        return found, below

    (limits, delays), (limits_too, delays_too) = measured(quiet), measured(disturbed)
    return {
        what: _relative(*(joined[name] for name in (column, f"{column}_right")))
        for what, column, joined in (
            ("threshold", "threshold_pps", limits.join(limits_too, on=setup)),
            ("mean delay", "delay_mean_ns", delays.join(delays_too, on=[*setup, "random", "share"])),
        )
    }


def _relative(a: pl.Series, b: pl.Series) -> tuple[float, float]:
    off = (b / a - 1).abs().to_numpy()
    return (float(np.median(off)), float(off.max())) if len(off) else (math.nan, math.nan)


def cable(trials: int) -> dict[str, Any]:
    """Run trials over a plain cable: how many are valid, and how many of these lost a frame."""
    spec = TrialSpec(Traffic(Rate(CABLE_PPS), warmup_s=0.02, duration_s=CABLE_S), RuleSetup())
    valid = false = frames = 0
    left_out_s = 0.0
    with PlainPair() as bed:
        for index in range(trials):
            (record,) = run_trial(bed, spec, TrialEntry("cable", index), terms=ONCE, set_rules=index == 0)
            if record.valid:
                valid += 1
                false += record.result.lost > 0
                frames += record.result.lost
                left_out_s += record.result.left_out_s
    return {
        "trials": trials,
        "valid": valid,
        "valid trials with loss": false,
        "frames lost in them": frames,
        "left out": left_out_s / max(valid * CABLE_S, 1e-9),
    }


def steal_s() -> float:
    """Stolen time of all CPUs so far."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / 100


def conditions() -> Iterator[tuple[str, AbstractContextManager[None]]]:
    for name, condition in CONDITIONS.items():
        yield name, condition()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--device", default="nftables")
    arguments.add_argument("--cable-trials", type=int, default=1000)
    arguments.add_argument("--out", type=Path, help="write the results to this file, as JSON")
    asked = arguments.parse_args()
    console = Console()
    table = Table("", *CONDITIONS)
    found: dict[str, Any] = {"versions": machine.versions()}
    profiles_of: dict[str, Profiled] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, condition in conditions():
            stolen = steal_s()
            with condition:
                profiles_of[name] = profiled(asked.device, Store(Path(folder) / name.replace(" ", "-")))
                on_cable = cable(asked.cable_trials)
            one = profiles_of[name]
            found[name] = {
                "attempts": len(one.trials),
                "valid": int(one.trials["valid"].sum()),
                "valid share": one.valid_ratio,
                "left out of valid trials": one.left_out_ratio,
                "settings without a valid trial": int(
                    one.trials.group_by("index").agg(pl.col("valid").any())["valid"].not_().sum()
                ),
                "reasons": one.reasons(),
                "seconds": one.seconds,
                "cable": on_cable,
                "stolen s": steal_s() - stolen,
            }
    first, second = profiles_of.values()
    found["apart (median, max)"] = apart(first, second)
    for what in found[next(iter(CONDITIONS))]:
        table.add_row(what, *(str(found[name][what]) for name in CONDITIONS))
    console.print(table)
    console.print(found["apart (median, max)"])
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WeirError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
