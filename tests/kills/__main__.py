"""Kill every long command, at random moments and aimed, and look at what is left.

    make kills ARGS="--kills 200 --seed 1"
    make kills ARGS="--commands trial,profile --signals KILL --aims teardown"

A signal strikes at a random moment of the time that the command takes, or when something is seen from
outside: that its run appears (``creation``), its first trial is written (``writing``), its test bed goes or
its run is complete (``teardown``). SIGINT and SIGTERM must leave nothing and tell the truth; after SIGKILL
the next command cleans up; a resumed run counts nothing twice; ``weir runs`` can read every run. No thread
keeps a real-time priority, nothing else on the machine other CPUs than before, and no setting changes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from commands import COMMANDS, Command, Place
from state import State, changes
from traces import MARK, Traces, is_loaded, scratch

from weirlab.store import Store

SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT}
AIMS = ("random", "creation", "writing", "teardown")
_PATIENCE_S = 120.0
_LOOK_S = 0.001
_STARTING_S = 0.5
_KEPT = re.compile(r"(\d+) valid attempts? kept in run (\S+?)(;|$)")
_COMPLETE = re.compile(r"run (\S+) is complete and kept")


@dataclass
class Outcome:
    """One kill: how the command ended, and what was wrong."""

    command: str
    signal: str
    aim: str
    at_s: float
    code: int
    struck: bool
    said: str
    wrong: list[str] = field(default_factory=list)


class Course:
    """Kills one after the other, in folders of their own below ``root``."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance = root, random.Random(seed)
        self.lasts_s: dict[str, float] = {}
        self.indices: dict[str, set[int]] = {}
        self.prepared: dict[tuple[str, ...], Path] = {}
        self.number = 0

    def kill(self, name: str, by: str, aim: str) -> Outcome:
        """Start the command ``name``, kill it, and look at what is left."""
        command = COMMANDS[name]
        self._measure(name, command)
        place, before = self._place(command)
        try:
            with Links(place):
                return self._kill(name, command, place, before, by, aim)
        finally:
            shutil.rmtree(place.folder, ignore_errors=True)

    def _kill(
        self, name: str, command: Command, place: Place, before: set[str], by: str, aim: str
    ) -> Outcome:
        traces = Traces(f"{os.getpid()}-{self.number}")
        machine = State.now()
        delay_s = self.chance.uniform(0.0, 1.02 * self.lasts_s[name])
        process = start(command.arguments(place), place, traces.mark)
        reached = _aim("random" if command.service else aim, place, before, traces, delay_s)
        begun_s = time.monotonic()
        while process.poll() is None and not reached(time.monotonic() - begun_s):
            traces.look(process.pid)
            time.sleep(_LOOK_S)
        at_s = time.monotonic() - begun_s
        if struck := process.poll() is None:
            process.send_signal(SIGNALS[by])
        while process.poll() is None:
            traces.look(process.pid)
            if time.monotonic() - begun_s > at_s + _PATIENCE_S:
                process.kill()
                process.wait()
                return Outcome(name, by, aim, at_s, process.returncode, struck, "", ["does not end"])
            time.sleep(_LOOK_S)
        said = process.stderr.read().decode(errors="replace") if process.stderr else ""
        outcome = Outcome(name, by, aim, at_s, process.returncode, struck, said)
        new = Store(place.store).runs()
        runs = [run.run_id for run in new if run.run_id not in before]
        if by == "KILL":
            self._check_next_command(outcome, place, traces, command)
        else:
            outcome.wrong += traces.left() + scratch(place.folder)
            self._check_words(outcome, command, place, runs)
        outcome.wrong += changes(machine, traces.labs)
        self._check_runs(outcome, place)
        if command.resume and runs and struck:
            self._check_resume(outcome, name, command, place, runs[0])
        return outcome

    def _check_words(self, outcome: Outcome, command: Command, place: Place, runs: list[str]) -> None:
        wrong, said, code = outcome.wrong, outcome.said, outcome.code
        number = SIGNALS[outcome.signal]
        # Python itself was being started, and no line of Weir had run.
        is_python = code == -number or ("KeyboardInterrupt" in said and "weirlab" not in said)
        if outcome.struck and is_python and outcome.at_s < _STARTING_S:
            return
        if "Traceback" in said or "Exception ignored" in said:
            wrong.append("traceback")
        stops = command.link or command.service
        regular = (0,) if stops or not outcome.struck or _done(outcome, place, runs) else ()
        if code not in (128 + number, *regular):
            wrong.append(f"exit code {code}")
        if kept := _KEPT.search(said):
            trials = Store(place.store).open(kept[2]).trials()
            valid = trials.filter(trials["valid"])["index"].n_unique() if trials.height else 0
            if valid != int(kept[1]):
                wrong.append(f"{kept[1]} valid attempts told, {valid} in the run")
        elif done := _COMPLETE.search(said):
            if Store(place.store).open(done[1]).manifest.status != "complete":
                wrong.append("told complete, and is not")
        elif code != 0 and "interrupted" in said and runs and command.resume[:1] != ("verify",):
            wrong.append(f"run {runs[0]} is there, and not told")

    def _check_next_command(self, outcome: Outcome, place: Place, traces: Traces, command: Command) -> None:
        end_s = time.monotonic() + 10.0
        # What hung on a pipe of the killed process ends by itself.
        while list(traces.processes()) and time.monotonic() < end_s:
            time.sleep(0.05)
        if command.root:
            done = weir(("lab", "clean"), place)
            if done.returncode != 0:
                outcome.wrong.append(f"lab clean: {done.stderr}")
        if command.makes and command.before:
            weir(command.arguments(place), place)
        with Store(place.store).create("trial", {}, {}):
            pass
        outcome.wrong += traces.left()
        left = [name for name in scratch(place.folder) if not name.startswith("store/2")]
        outcome.wrong += left

    def _check_runs(self, outcome: Outcome, place: Place) -> None:
        done = weir(("runs", "--json"), place)
        if done.returncode != 0:
            outcome.wrong.append(f"weir runs: {done.returncode} {done.stderr}")
            return
        for run in json.loads(done.stdout)["runs"]:
            if run["status"] not in ("complete", "interrupted", "failed"):
                outcome.wrong.append(f"{run['run_id']} is {run['status']}: {run['problem']}")
                continue
            found = Store(place.store).open(run["run_id"]).trials()
            if run["trials"] is not None and run["trials"] != found.height:
                outcome.wrong.append(f"{run['run_id']} holds {found.height} of {run['trials']}")

    def _check_resume(self, outcome: Outcome, name: str, command: Command, place: Place, run_id: str) -> None:
        done = weir((*command.resume, run_id), place)
        if done.returncode not in (0, 5, 7):
            outcome.wrong.append(f"resume: {done.returncode} {done.stderr[-300:]}")
            return
        trials = Store(place.store).open(run_id).trials()
        if trials.select("index", "attempt").is_duplicated().any():
            outcome.wrong.append("an attempt is there twice")
        if trials["trial_id"].is_duplicated().any():
            outcome.wrong.append("a trial ID is there twice")
        valid = trials.filter(trials["valid"])["index"]
        if valid.is_duplicated().any():
            outcome.wrong.append("a trial with a valid attempt was made again")
        if name in self.indices and set(valid.to_list()) != self.indices[name]:
            outcome.wrong.append("the resumed run lacks trials, or has more")

    def _measure(self, name: str, command: Command) -> None:
        """How long the command takes, and which trials a whole run has."""
        if name in self.lasts_s:
            return
        place, before = self._place(command)
        with Links(place):
            begun_s = time.monotonic()
            done = (stopped if command.service else weir)(command.arguments(place), place)
            self.lasts_s[name] = time.monotonic() - begun_s
        if done.returncode not in (0, 5, 7):
            raise SystemExit(f"{name} does not work here: {done.stderr}")
        runs = [run for run in Store(place.store).runs() if run.run_id not in before]
        if runs and "sim" in json.dumps(Store(place.store).open(runs[0].run_id).manifest.facts):
            trials = Store(place.store).open(runs[0].run_id).trials()
            if command.resume and name != "adaptive":
                self.indices[name] = set(trials.filter(trials["valid"])["index"].to_list())
        shutil.rmtree(place.folder, ignore_errors=True)

    def _place(self, command: Command) -> tuple[Place, set[str]]:
        self.number += 1
        netns = f"kills-{os.getpid()}-{self.number}" if command.link else ""
        place = Place(self.root / f"{self.number:04d}", netns)
        source = self._prepare(command.before)
        shutil.copytree(source, place.folder)
        return place, {run.run_id for run in Store(place.store).runs()}

    def _prepare(self, before: tuple[str, ...]) -> Path:
        if before not in self.prepared:
            place = Place(self.root / f"before-{'-'.join(before)}")
            for folder in ("store", "work", "temporary"):
                (place.folder / folder).mkdir(parents=True)
            for name in before:
                done = weir(COMMANDS[name].arguments(place), place)
                if done.returncode != 0:
                    raise SystemExit(f"{name} does not work here: {done.stderr}")
            self.prepared[before] = place.folder
        return self.prepared[before]


class Links:
    """A pair of veths to tap, in a namespace of its own; nothing where nobody taps."""

    def __init__(self, place: Place) -> None:
        self._name = place.netns

    def __enter__(self) -> None:
        if self._name:
            _ip("netns", "add", self._name)
            for end in ("a", "b"):
                _ip(
                    "-n", self._name, "link", "add", "name", end, "type", "veth", "peer", "name", f"far-{end}"
                )
                _ip("-n", self._name, "link", "set", f"far-{end}", "up")

    def __exit__(self, *_: object) -> None:
        if self._name:
            _ip("netns", "del", self._name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _done(outcome: Outcome, place: Place, runs: list[str]) -> bool:
    """Had the command done its work when the signal came?"""
    whole = all(Store(place.store).open(run).manifest.status == "complete" for run in runs)
    return outcome.code == 0 and whole and "interrupted" not in outcome.said


def _aim(aim: str, place: Place, before: set[str], traces: Traces, delay_s: float) -> Callable[[float], bool]:
    """When to strike, asked again and again with the time since the start."""
    hidden = {f".{run}" for run in before} | before

    def runs() -> list[str]:
        with suppress(OSError):
            return [n for n in os.listdir(place.store) if n not in hidden and n[:1] in ".2"]
        return []

    def written() -> bool:
        for run in runs():
            with suppress(OSError):
                if any(os.scandir(place.store / run / "parts")):
                    return True
        return (traces.writes and not runs()) or _made(place)

    def going() -> bool:
        if traces.most_namespaces and len(traces.namespaces()) < traces.most_namespaces:
            return True
        if traces.programs and not all(map(is_loaded, traces.programs)):
            return True
        for run in runs():
            with suppress(OSError):
                if '"status": "complete"' in (place.store / run / "manifest.json").read_text():
                    return True
        return _made(place)

    return {
        "random": lambda elapsed_s: elapsed_s >= delay_s,
        "creation": lambda elapsed_s: bool(
            runs() or traces.labs or traces.links or traces.writes or _made(place)
        ),
        "writing": lambda elapsed_s: written(),
        "teardown": lambda elapsed_s: going(),
    }[aim]


def _made(place: Place) -> bool:
    """Is something being written that was not there?"""
    known = {"calls.pcap"}
    return any(name not in known for name in os.listdir(place.folder / "work"))


def environment(place: Place) -> dict[str, str]:
    return {
        **os.environ,
        "WEIR_STORE": str(place.store),
        "TMPDIR": str(place.folder / "temporary"),
        "COLUMNS": "200",
    }


def start(arguments: Sequence[str], place: Place, mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "weirlab", *arguments],
        cwd=place.folder / "work",
        env={**environment(place), MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def weir(arguments: Sequence[str], place: Place) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weirlab", *arguments],
        cwd=place.folder / "work",
        env=environment(place),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def stopped(arguments: Sequence[str], place: Place) -> subprocess.CompletedProcess[str]:
    """What a service says that is interrupted once it is at work."""
    with start(arguments, place, "") as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said += process.stderr.read()
    return subprocess.CompletedProcess(arguments, process.returncode, "", said.decode(errors="replace"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make kills ARGS=...", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="in all (default: 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commands", default=",".join(COMMANDS), help=f"some of {', '.join(COMMANDS)}")
    parser.add_argument("--signals", default=",".join(SIGNALS))
    parser.add_argument("--aims", default=",".join(AIMS))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/weir-kills"))
    wanted = parser.parse_args()
    shutil.rmtree(wanted.folder, ignore_errors=True)
    wanted.folder.mkdir(parents=True)
    course = Course(wanted.folder, wanted.seed)
    names = [name for name in wanted.commands.split(",") if os.geteuid() == 0 or not COMMANDS[name].root]
    cells = [
        (name, by, aim)
        for by in wanted.signals.split(",")
        for aim in wanted.aims.split(",")
        for name in names
    ]
    # Every combination once before any comes twice, in an order of chance.
    order: list[tuple[str, str, str]] = []
    while len(order) < wanted.kills:
        course.chance.shuffle(cells)
        order += cells
    counts: Counter[tuple[str, str]] = Counter()
    failed: list[Outcome] = []
    late = 0
    for name, by, aim in order[: wanted.kills]:
        outcome = course.kill(name, by, aim)
        counts[name, by] += 1
        late += not outcome.struck
        word = "; ".join(outcome.wrong) or ("ok" if outcome.struck else "ok (had ended)")
        last = (outcome.said.strip().splitlines() or [""])[-1]
        print(
            f"{name:14} {by:4} {aim:8} {outcome.at_s:6.2f} s {outcome.code:4}  {word}  | {last}", flush=True
        )
        if outcome.wrong:
            print(outcome.said, flush=True)
            failed.append(outcome)
    shutil.rmtree(wanted.folder)
    print(f"\n{'':14} " + " ".join(f"{by:>5}" for by in SIGNALS))
    for name in names:
        print(f"{name:14} " + " ".join(f"{counts[name, by]:5}" for by in SIGNALS))
    print(f"{sum(counts.values())} kills, {late} after the command had ended, {len(failed)} with faults")
    for outcome in failed:
        print(
            f"\n{outcome.command} {outcome.signal} {outcome.aim}: {'; '.join(outcome.wrong)}\n{outcome.said}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
