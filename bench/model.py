"""The errors of the models on trials that they have not seen, on real and simulated devices.

Every run of a device is independent: a profile, fits of both models with intervals, and
trials at positions and loads that were not profiled and are drawn again each time. The runs
of the devices take turns, so that a drift of the machine does not favour one of them.
Simulated devices, whose truth is known, show whether the parameters are recovered and the
intervals have their nominal coverage.

    make bench-model
    make bench-model ARGS="--devices nftables --runs 1 --adaptive"
    .venv/bin/python bench/model.py --resume bench/runs/model-20260131-1

After an interruption it keeps what it has. --resume continues; what was already measured
is only fitted and scored again.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import held_out
import machine
import observed
import pages
from held_out import SIMULATED, Job
from scoring import RunScores, score_run
from simulated import Recovery, recover
from weirlab.base.documents import plain
from weirlab.base.errors import InputError, MissingCapability, WeirError
from weirlab.cli import quantities
from weirlab.cli.progress import Reporter, reporter
from weirlab.jobs import profiles, testbeds
from weirlab.measure.progress import OVERHEAD_S
from weirlab.store import Store

RUNS = Path(__file__).resolve().parent / "runs"
DEVICES = ("iptables-legacy", "nftables", "nftables-set")
STATE = "bench.json"
COLUMNS = 120
"""Width of tables if stdout is not a terminal."""
SPOILED_SHARE = 0.3
"""Share of trials that are expected to be repeated, until trials were measured."""


@dataclass(frozen=True)
class Settings:
    """What is measured; saved, so that a resumed bench continues with the same settings."""

    lab: str
    devices: tuple[str, ...]
    runs: int
    seed: int
    minutes: float
    """Time for one device."""
    simulated: int
    profile: dict[str, Any]
    command: str
    begun: str
    versions: dict[str, str]


@dataclass
class Clock:
    """How long trials take on this machine, from the trials so far."""

    each_s: float
    trials: int = 0
    spent_s: dict[str, float] = field(default_factory=dict)

    def add(self, device: str, trials: int, seconds: float) -> None:
        self.each_s = (self.each_s * self.trials + seconds) / (self.trials + trials)
        self.trials += trials
        self.spent_s[device] = self.spent_s.get(device, 0.0) + seconds


def main() -> int:
    options = _options().parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=COLUMNS)
    try:
        out, settings = _settings(options)
    except WeirError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / STATE).write_text(json.dumps(asdict(settings), indent=1) + "\n")
        # The complete runs, with histograms, are only needed to resume: they are not published.
        (out / ".gitignore").write_text("store/\n*.part\n")
        progress = reporter(sys.stderr)
        try:
            notes = measure_all(settings, out, progress)
            recovery = _recover(settings, progress)
        finally:
            progress.close()
        return conclude(settings, out, notes, recovery, console)
    except WeirError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"bench: interrupted; resume with: bench/model.py --resume {out}", file=sys.stderr)
        return 130


def measure_all(settings: Settings, out: Path, progress: Reporter) -> list[str]:
    """Measure what is missing; returns a note for each run that could not be measured."""
    testbeds.tell_if_busy(settings.lab, progress)
    store = Store(out / "store")
    turns = [(device, number) for number in range(1, settings.runs + 1) for device in settings.devices]
    clock = Clock(_trial_s(settings) * (1 + SPOILED_SHARE))
    notes: list[str] = []
    unusable: set[str] = set()
    for turn, (device, number) in enumerate(turns):
        kept = out / f"{device}-{number}.parquet"
        if kept.exists() or device in unusable:
            continue
        job = _job(settings, device, number, clock)
        left = _left_s(settings, turns[turn:], clock)
        progress.stage(f"run {turn + 1} of {len(turns)}: {job.name}; about {quantities.clock(left)} left")
        begun_s = time.monotonic()
        try:
            run = held_out.measure(store, job, progress, settings.command)
        except InputError:
            raise
        except WeirError as error:
            notes.append(f"{job.name}: {error}")
            progress.note(notes[-1])
            if isinstance(error, MissingCapability):
                unusable.add(device)
            continue
        observed.write(run, kept)
        clock.add(device, run.trials()["index"].n_unique(), time.monotonic() - begun_s)
    return notes


def conclude(
    settings: Settings, out: Path, notes: list[str], recovery: Recovery | None, console: Console
) -> int:
    """Fit and score everything that was measured, and write and show the results."""
    tables: list[pages.Table] = []
    raw: dict[str, Any] = {"settings": asdict(settings), "devices": {}}
    for device in settings.devices:
        runs: list[RunScores] = []
        for number in range(1, settings.runs + 1):
            path = out / f"{device}-{number}.parquet"
            try:
                if path.exists():
                    runs.append(score_run(path.stem, device, settings.seed + number, observed.read(path)))
            except WeirError as error:
                notes.append(f"{path.stem}: {error}")
        if runs:
            tables += pages.of_device(device, runs)
            raw["devices"][device] = [run.to_json() for run in runs]
    if recovery is not None:
        tables += pages.of_recovery(recovery)
        raw["simulated"] = asdict(recovery)
    raw["tables"] = [asdict(table) for table in tables]
    raw["left_out"] = notes
    facts = {
        "command": f"`{settings.command}`",
        "profile": json.dumps(settings.profile) if settings.profile else "the default",
        "seeds of the held-out settings": f"{settings.seed + 1} to {settings.seed + settings.runs}",
        **settings.versions,
    }
    page = pages.markdown(f"Predictions on held-out trials, {settings.begun} UTC", facts, tables, notes)
    (out / "README.md").write_text(page)
    (out / "summary.json").write_text(json.dumps(plain(raw), indent=1, allow_nan=False) + "\n")
    for table in tables:
        shown = Table(*table.columns, title=table.title, title_justify="left")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    console.print(pages.LEGEND)
    for note in notes:
        console.print(f"Left out: {note}")
    _tell_verdicts(tables, console)
    console.print(f"Raw data and summary: {out}")
    return 1 if notes else 0


def _tell_verdicts(tables: Sequence[pages.Table], console: Console) -> None:
    rows = [(table.title, *row) for table in tables if table.columns == pages.VERDICTS for row in table.rows]
    missed = [row for row in rows if row[-1] != "met"]
    console.print(f"{len(rows) - len(missed)} of {len(rows)} targets met.")
    for title, what, found, wanted, verdict in missed:
        console.print(f"  {title.partition(':')[0]}: {what}: {found}, wanted {wanted}: {verdict}")


def _job(settings: Settings, device: str, number: int, clock: Clock) -> Job:
    """A job with as many repetitions of the profile as the time for its device allows."""
    job = Job(device, number, settings.seed + number, settings.profile)
    scenario = job.scenario()
    wanted = scenario.profile.repetitions
    each, rest = held_out.trials(scenario)
    if scenario.profile.adaptive is not None or not each:
        return job
    left_s = 60 * settings.minutes - clock.spent_s.get(device, 0.0)
    possible = (left_s / (settings.runs - number + 1) / clock.each_s - rest) / each
    repetitions = min(wanted, max(1, math.floor(possible)))
    return Job(device, number, job.seed, {**settings.profile, "repetitions": repetitions})


def _left_s(settings: Settings, turns: Sequence[tuple[str, int]], clock: Clock) -> float:
    total = 0
    for device, number in turns:
        scenario = _job(settings, device, number, clock).scenario()
        each, rest = held_out.trials(scenario)
        total += each * scenario.profile.repetitions + rest
    return total * clock.each_s


def _trial_s(settings: Settings) -> float:
    what = Job(SIMULATED, 1, settings.seed, settings.profile).scenario().profile
    return what.trial_s + what.warmup_s + OVERHEAD_S


def _recover(settings: Settings, progress: Reporter) -> Recovery | None:
    if not settings.simulated:
        return None
    progress.stage(f"{settings.simulated} simulated devices")
    scenario = Job(SIMULATED, 0, settings.seed, {**settings.profile, "adaptive": None}).scenario()
    seeds = range(settings.seed + 1, settings.seed + 1 + settings.simulated)
    return recover(
        profiles.to_measure(scenario), seeds, lambda done: progress.advance(done, settings.simulated)
    )


def _settings(options: argparse.Namespace) -> tuple[Path, Settings]:
    """Where to write and what to measure: new settings, or those of the bench to resume."""
    if options.resume is not None:
        try:
            kept = json.loads((options.resume / STATE).read_text())
        except OSError as error:
            raise InputError(f"{options.resume} is not a bench that can be resumed: {error}") from error
        return options.resume, Settings(**{**kept, "devices": tuple(kept["devices"])})
    if min(options.runs, options.minutes) <= 0 or options.seeds < 0:
        raise InputError("--runs and --minutes must be above 0, --seeds 0 or more")
    now = datetime.now(UTC)
    profile: dict[str, Any] = {
        "adaptive": {} if options.adaptive else None,
        "positions": _numbers(options.positions, "--positions"),
        "sizes": _numbers(options.sizes, "--sizes"),
        "repetitions": options.repetitions,
        "trial_s": options.trial_s,
    }
    settings = Settings(
        lab=options.lab,
        devices=(SIMULATED,) if options.lab == "sim" else tuple(options.devices.split(",")),
        runs=options.runs,
        # Every bench draws different held-out settings; the same seed draws the same ones again.
        seed=int(now.timestamp()) if options.seed is None else options.seed,
        minutes=options.minutes,
        simulated=options.seeds,
        profile={name: value for name, value in profile.items() if value is not None},
        command=" ".join(["bench/model.py", *sys.argv[1:]]),
        begun=f"{now:%Y-%m-%d %H:%M}",
        versions=machine.versions(),
    )
    for device in settings.devices:
        # Refuse what cannot be measured before writing anything.
        profiles.refuse_impossible(Job(device, 1, settings.seed, settings.profile).scenario())
    return options.out or _new_folder(now), settings


def _new_folder(now: datetime) -> Path:
    number = 1
    while (found := RUNS / f"model-{now:%Y%m%d}-{number}").exists():
        number += 1
    return found


def _numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option}: {text!r} is not a list of whole numbers, such as 0,100,1000") from None


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lab", choices=("netns", "sim"), default="netns", help="sim: a simulated device, without root"
    )
    parser.add_argument(
        "--devices", default=",".join(DEVICES), help=f"drivers to measure (default {','.join(DEVICES)})"
    )
    parser.add_argument("--runs", type=int, default=3, help="independent runs per device (default 3)")
    parser.add_argument("--adaptive", action="store_true", help="profile where the model is least certain")
    parser.add_argument(
        "--minutes",
        type=float,
        default=12.5,
        help="time for one device; the profile has fewer repetitions if need be (default 12.5)",
    )
    parser.add_argument(
        "--seeds", type=int, default=20, help="simulated devices with known truth (default 20; 0: none)"
    )
    parser.add_argument("--seed", type=int, help="seed of the settings that are held out (default: the time)")
    parser.add_argument("--positions", help="profiled matching positions, e.g. 0,100,1000")
    parser.add_argument("--sizes", help="profiled frame sizes, e.g. 64,1518")
    parser.add_argument("--repetitions", type=int, help="trials per profiled setting")
    parser.add_argument("--trial-s", type=float, help="recorded seconds per trial")
    parser.add_argument("--out", type=Path, help="folder for results (default bench/runs/model-DATE-N)")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="resume the bench in this folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
