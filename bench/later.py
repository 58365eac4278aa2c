"""What prediction intervals promise: one quick profile, and later runs at drawn positions and loads.

Each later run measures settings that the profile left out, at another time, quiet or (every other one) beside
busy processes, and with them some profiled settings again: what these differ by is the host's doing. A result
that is there is not measured again, so the command goes on after an interruption.

    make bench-later ARGS="--runs 8 --minutes-apart 20"
    .venv/bin/python bench/later.py --device iptables-legacy --out bench/runs/later-20260131-1

With --among, nothing is measured: in a folder of ``bench/model.py`` with independent runs of one device, the
profile of each run predicts the held-out trials of every run after it.

    .venv/bin/python bench/later.py --among bench/runs/model-20260131-1
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

import load
import machine
import observed
import pages
from weirlab.base.documents import typed
from weirlab.base.errors import WeirError
from weirlab.cli.progress import Reporter, reporter
from weirlab.devices.prediction import modelling, verification
from weirlab.jobs import profiles
from weirlab.jobs.work import Work
from weirlab.measure import verify as measuring
from weirlab.model import QueueingModel, fit_all
from weirlab.model.drift import Shift
from weirlab.model.score import deviations
from weirlab.scenario import QUICK, Lab, from_plain
from weirlab.store import Run, Store
from weirlab.store.files import write_json

POSITIONS = (0, 100, 400, 1000)
LEVEL = 90
QUANTITIES = ("threshold", "delay_mean_below")
"""As in :mod:`weirlab.model.score`."""
UNUSABLE = "not usable"
"""The verdict on a machine with which `weir verify` does not judge models."""
USABLE = "machine usable"
RESULTS = "later.json"
CONDITIONS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "as it is": contextlib.nullcontext,
    "beside two busy processes": load.beside,
}
LEGEND = (
    "Trials of later runs at positions between the profiled ones and at drawn loads; covered: those within "
    "the 90 % interval of a new trial. Error: mean absolute error of the queueing model. Every later run "
    "measures some profiled settings again: by what they differ, the host has changed, and drift's share is "
    "the part of the error that goes away with it."
)
LEGEND_AMONG = (
    "Independent quick profiles of one device while other work came and went, each with trials at settings "
    "that it left out. Covered: trials of later runs within the 90 % interval of a new trial. Error: mean "
    "absolute error of the queueing model. Files are named after the hour at which the run began."
)
RUNS = Path(__file__).resolve().parent / "runs"


@dataclass(frozen=True)
class Promise:
    """How the predictions of one quantity were kept by the trials of one later run."""

    quantity: str
    trials: int
    covered: int
    """Trials within the interval of a new trial."""
    error_percent: float
    """Mean absolute error of the predictions."""
    change: Shift | None
    """How the host has changed since the profile; None if that cannot be told."""


@dataclass(frozen=True)
class LaterRun:
    """A run of held-out trials, some time after the profile."""

    begun: str
    hours_later: float
    load_average: float
    condition: str
    seed: int
    machine: str
    """The verdict on the machine."""
    promises: tuple[Promise, ...]


def kept(profile: Run, run: Run, shifts: Sequence[Shift]) -> tuple[Promise, ...]:
    """How the trials of ``run`` kept what the queueing model of ``profile`` promised."""
    models = {QueueingModel.name: modelling.models_of(profile)[QueueingModel.name]}
    held_out, _ = measuring.parted(run.observations("verify"))
    changes = {shift.quantity: shift for shift in shifts}
    found = []
    for one in deviations(models, held_out):
        if one.model == QueueingModel.name and one.quantity in QUANTITIES and not one.extrapolated:
            band = one.bands[LEVEL]
            covered = (one.measured >= band.low) & (one.measured <= band.high)
            error = 100 * float(np.abs(one.relative).mean())
            found.append(
                Promise(one.quantity, len(covered), int(covered.sum()), error, changes.get(one.quantity))
            )
    return tuple(found)


def profiled(store: Store, device: str, progress: Reporter) -> Run:
    """The profile in ``store``, which is measured if there is none."""
    for run in store.runs():
        if run.kind == "profile" and run.status == "complete":
            return store.open(run.run_id)
    scenario = from_plain(
        {
            "name": f"quick profile of {device}",
            "lab": {"kind": "netns"},
            "dut": {"name": device},
            "profile": {**QUICK, "positions": POSITIONS},
            # A quick profile must also end beside other work, which spoils trials.
            "time_budget": "10min",
        },
        "the bench",
    )
    return profiles.profile(store, scenario, progress).run


def verified(store: Store, profile: Run, condition: str, seed: int, progress: Reporter) -> LaterRun:
    """A later run."""
    load_average = os.getloadavg()[0]
    work = Work(store, progress, " ".join(sys.argv))
    with CONDITIONS[condition]():
        outcome = verification.verify(
            work, profile.run_id, held_out={"seed": seed}, again=True, lab=Lab(), dut=None
        )
    begun, first = (datetime.fromisoformat(run.manifest.created) for run in (outcome.run, profile))
    return LaterRun(
        f"{begun:%Y-%m-%d %H:%M}",
        (begun - first).total_seconds() / 3600,
        load_average,
        condition,
        seed,
        "" if outcome.verdict is None else outcome.verdict.word,
        kept(profile, outcome.run, outcome.shifts),
    )


def tables(runs: Sequence[LaterRun]) -> list[pages.Table]:
    """What was covered, and how much of the errors is a change of the host."""
    per_run, total = [], []
    for quantity in QUANTITIES:
        own = [(run, each) for run in runs for each in run.promises if each.quantity == quantity]
        per_run += [
            (
                quantity,
                run.begun,
                f"{run.hours_later:.1f}",
                f"{run.load_average:.1f}",
                run.condition,
                run.machine,
                f"{each.covered} of {each.trials}",
                f"{each.error_percent:.1f}",
                "-" if each.change is None else f"{100 * each.change.change:+.1f}",
                "-" if each.change is None else f"{each.change.without_percent[QueueingModel.name]:.1f}",
            )
            for run, each in own
        ]
        for condition in ("all", USABLE, *CONDITIONS):
            some = [
                each
                for run, each in own
                if condition in ("all", run.condition) or (condition == USABLE and run.machine != UNUSABLE)
            ]
            trials = sum(each.trials for each in some)
            if not trials:
                continue
            known = [(each.error_percent, each.change) for each in some if each.change is not None]
            error = float(np.mean([each.error_percent for each in some]))
            rest = [change.without_percent[QueueingModel.name] for _, change in known]
            whole = sum(each for each, _ in known)
            share = f"{100 * (1 - sum(rest) / whole):.0f}" if whole else "-"
            covered = 100 * sum(each.covered for each in some) / trials
            row = (quantity, condition, str(len(some)), str(trials), f"{covered:.1f}", f"{error:.1f}", share)
            total.append(row)
    return [
        pages.Table(
            "Coverage of 90 % intervals",
            ("quantity", "condition", "later runs", "trials", "covered, %", "error, %", "drift's share, %"),
            total,
        ),
        pages.Table(
            "Each later run",
            (
                "quantity",
                "begun",
                "hours later",
                "load average",
                "condition",
                "machine",
                "covered",
                "error, %",
                "host changed by, %",
                "error without, %",
            ),
            per_run,
        ),
    ]


def among(folder: Path) -> list[pages.Table]:
    """How well the profile of each run in ``folder`` predicts the held-out trials of every later one.

    Files of runs are named DEVICE-HHMM.parquet, after the time at which they began.
    """
    paths = sorted(folder.glob("*-[0-9][0-9][0-9][0-9].parquet"))
    runs = {path.stem: observed.read(path) for path in paths}
    per_run: list[tuple[str, ...]] = []
    sums = {quantity: np.zeros(3) for quantity in QUANTITIES}
    for name, trials in runs.items():
        profile = trials["profile"]
        models = fit_all(profile, later=modelling.host_drift(profile))
        others = [run["verify"] for later, run in runs.items() if later > name]
        found = [one for held_out in others for one in deviations(models, held_out)]
        cells = [name, str(len(profile)), str(len(trials["verify"])), str(len(others))]
        for quantity, total in sums.items():
            own = [
                one for one in found if (one.model, one.quantity) == (QueueingModel.name, quantity)
                and not one.extrapolated and LEVEL in one.bands
            ]  # fmt: skip
            inside = sum(
                int(((o.bands[LEVEL].low <= o.measured) & (o.measured <= o.bands[LEVEL].high)).sum())
                for o in own
            )
            sum_of = np.array(
                [sum(len(o.measured) for o in own), inside, sum(float(np.abs(o.relative).sum()) for o in own)]
            )
            total += sum_of
            cells += _covered(sum_of)
        per_run.append(tuple(cells))
    columns = [
        f"{quantity}: {what}" for quantity in QUANTITIES for what in ("trials", "covered, %", "error, %")
    ]
    whole = [cell for total in sums.values() for cell in _covered(total)]
    return [
        pages.Table(
            "Each run's profile, and the held-out trials of all later runs",
            ("run", "profiled", "held out", "later runs", *columns),
            [*per_run, ("all", "", "", "", *whole)],
        )
    ]


def _covered(total: npt.NDArray[np.float64]) -> list[str]:
    """Trials, how many of them are covered, and their mean error, from the sums."""
    trials, inside, error = total
    return [f"{trials:.0f}", *(f"{100 * each / trials:.1f}" if trials else "-" for each in (inside, error))]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="nftables")
    parser.add_argument("--runs", type=int, default=8, help="later runs (default 8)")
    parser.add_argument("--minutes-apart", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=101, help="of the first later run's settings")
    parser.add_argument("--out", type=Path, help="folder for results (default bench/runs/later-DATE-1)")
    parser.add_argument("--among", type=Path, metavar="DIR", help="judge these runs by each other")
    options = parser.parse_args()
    if options.among:
        found = pages.markdown(
            "Profiles of one device at different hours",
            machine.versions(),
            among(options.among),
            (),
            LEGEND_AMONG,
        )
        (options.among / "README.md").write_text(found)
        print(found)
        return 0
    out = options.out or RUNS / f"later-{datetime.now(UTC):%Y%m%d}-1"
    out.mkdir(parents=True, exist_ok=True)
    # The complete runs are only needed to go on: they are not published.
    (out / ".gitignore").write_text("store/\n")
    store = Store(out / "store")
    results = out / RESULTS
    runs = list(typed(tuple[LaterRun, ...], json.loads(results.read_text()))) if results.exists() else []
    facts = machine.versions()
    with contextlib.closing(reporter(sys.stderr)) as progress:
        profile = profiled(store, options.device, progress)
        if not modelling.models_of(profile):
            modelling.fit_run(profile, progress)
        for number in range(len(runs), options.runs):
            time.sleep(60 * options.minutes_apart)
            condition = tuple(CONDITIONS)[number % len(CONDITIONS)]
            try:
                runs.append(verified(store, profile, condition, options.seed + number, progress))
            except WeirError as error:
                progress.note(str(error))
                continue
            write_json(results, runs)
            title = f"Predictions of a quick profile of {options.device}, verified later"
            legend = {"profile": f"{profile.manifest.created} UTC", **facts}
            (out / "README.md").write_text(pages.markdown(title, legend, tables(runs), (), LEGEND))
    print((out / "README.md").read_text())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WeirError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
