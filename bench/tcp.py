"""Bulk transfers compared with iperf3 on the same veth pair, and what watching connections costs.

    make bench-tcp
    make bench-tcp ARGS="--only watch --seconds 5 --repeats 10"
    make bench-tcp ARGS="--only many --seconds 10 --repeats 5"
    .venv/bin/python bench/tcp.py --seconds 5 --repeats 1 --out build/bench

Two network namespaces are joined by a veth pair. iperf3 and Weir take turns with the same congestion control,
block size and time. Throughput is what the receiver counted; CPU time is what the kernel reports for both
processes when they exit. Weir's CPU time is also given without the cost of starting its two processes, which
a transfer of 1 kB measures. The cost of watching is the ratio of a watched transfer to the unwatched ones of
the same repeat; the transfers of a repeat are in random order. Many connections are watched in a transfer at
a low rate in small blocks, so that each of them is always active.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from rich.console import Console

from machine import versions
from namespaces import namespaces
from summary import Summary, Tables
from summary import about as called
from summary import parser as options

NAMES = ("weir-bench-tcp-a", "weir-bench-tcp-b")
ADDRESS = "198.18.0.2"
CONTROL = "cubic"
BLOCK = 131_072
UNWATCHED = "unwatched"
WATCHED = 50
EVENTS = "event"
BPF = "bpf"
WATCHES = ("100ms", "10ms", "1ms", f"1ms {BPF}", f"100us {BPF}", EVENTS)
"""How connections are watched: by events, or sampled at a period, by INET_DIAG unless BPF is named."""
COMPARED = ("1ms", f"1ms {BPF}")
"""The ways that ``--only watch`` measures by default."""
MANIES = ("10ms", f"10ms {BPF}")
"""The ways to watch many connections at once."""
SLOW = ("--rate", "50Mbit/s", "--block", "1KiB")
"""Options of such a transfer: a block on each of 50 connections every 8 ms."""
SAMPLES = "samples.parquet"
_CPUCLOCK_SCHED = 2
SPEED = ("tool", "connections", "Gbit/s", "range", "CPU s / Gbit", "without start", "throughput is", "CPU is")
COUNTED = ("samples", "missed", "missed %", "idle", "late p99 us", "late max us")
COST = (
    "watched every",
    "Gbit/s",
    "range",
    "throughput is",
    "standard error",
    "from - to",
    "CPU % of watch",
    *COUNTED,
)
MANY = ("connections", "watched every", "due", *COUNTED)
LEGEND = (
    "Medians of runs that took turns. Throughput and CPU of transfers are ratios to iperf3 with as many "
    "connections. Throughput of a watched transfer is its ratio to those of the same repeat that nobody "
    "watched: mean, standard error, and range. CPU of the watch is that of its process during the transfer, "
    "of one CPU. Samples are by INET_DIAG unless BPF is named. By INET_DIAG a sample is missed when it is "
    "late by a period or more; by BPF a sample, as an event, when it finds no room. By BPF a sample is idle "
    "when it is due and nothing happens to the connection. Due is a sample per period of each "
    "connection from its first sample to its last, by the times in the file of samples. By BPF, a connection "
    "that rests is sampled now and then as well, when no sample is due."
)


@dataclass(frozen=True)
class Run:
    """One transfer: bit/s at the receiver, and CPU time of sender and receiver together."""

    case: str
    connections: int
    repeat: int
    bps: float
    seconds: float
    cpu_s: float
    watch: dict[str, Any] | None = None
    watch_cpu: float | None = None
    """Share of one CPU that the watching process used."""

    @property
    def cpu_s_per_gbit(self) -> float:
        return self.cpu_s / max(self.bps * self.seconds / 1e9, 1e-9)


def within(namespace: str, *command: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", namespace, *command)


def weir(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "weirlab", "tcp", *arguments)


@contextmanager
def two_hosts() -> Iterator[None]:
    """The two namespaces and the pair."""
    commands = [
        f"link add a0 netns {NAMES[0]} type veth peer name b0 netns {NAMES[1]}",
        f"-n {NAMES[0]} addr add 198.18.0.1/30 dev a0",
        f"-n {NAMES[1]} addr add {ADDRESS}/30 dev b0",
        *(f"-n {name} link set {link} up" for name, link in zip(NAMES, ("a0", "b0"), strict=True)),
    ]
    with namespaces(NAMES, commands):
        yield


@contextmanager
def serving(command: Sequence[str], ready: str, cpu_s: list[float]) -> Iterator[None]:
    """Run a server that ends by itself after one transfer; its CPU time goes into ``cpu_s``."""
    process = subprocess.Popen(
        within(NAMES[1], *command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    said = []
    while ready not in (line := process.stdout.readline()):
        said.append(line)
        if not line:
            raise SystemExit(f"{' '.join(command)} does not start: {''.join(said)}")
    try:
        yield
        process.stdout.read()
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        cpu_s.append(used.ru_utime + used.ru_stime)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def measured(command: Sequence[str], cpu_s: list[float], each: Callable[[], None] = lambda: None) -> str:
    """Standard output of ``command``, run at the sender's end; ``each`` is called after each line."""
    process = subprocess.Popen(within(NAMES[0], *command), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    out = ""
    for line in process.stdout:
        out += line
        each()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {process.returncode}: {out[-500:]}")
    cpu_s.append(used.ru_utime + used.ru_stime)
    return out


def by_iperf3(connections: int, seconds: float, repeat: int) -> Run:
    cpu_s: list[float] = []
    with serving(("iperf3", "--server", "--one-off", "--forceflush"), "listening", cpu_s):
        out = measured(
            (
                *("iperf3", "--client", ADDRESS, "--json", "--time", f"{seconds:g}"),
                *("--parallel", str(connections), "--congestion", CONTROL, "--length", str(BLOCK)),
            ),
            cpu_s,
        )
    end = json.loads(out)["end"]["sum_received"]
    return Run("iperf3", connections, repeat, end["bits_per_second"], end["seconds"], sum(cpu_s))


def by_weir(connections: int, wanted: Sequence[str], repeat: int, case: str = "weir", every: str = "") -> Run:
    """A transfer by Weir; if ``every`` is not empty, watched in that one of the :data:`WATCHES`."""
    with TemporaryDirectory(prefix="weir-bench-") as scratch:
        return _by_weir(connections, wanted, repeat, case, every, Path(scratch))


def _by_weir(
    connections: int, wanted: Sequence[str], repeat: int, case: str, every: str, scratch: Path
) -> Run:
    cpu_s: list[float] = []
    watch: subprocess.Popen[str] | None = None
    spent: list[tuple[float, float]] = []

    def note() -> None:
        if watch is not None and watch.poll() is None:
            spent.append((time.monotonic(), used_s(watch.pid)))

    with serving(
        weir("serve", "--bind", ADDRESS, "--token", "a token of tests", "--transfers", "1"),
        "listening",
        cpu_s,
    ):
        if every:
            # The control connection is watched as well.
            kept = ("--fields", "all", "--out", str(scratch / SAMPLES), "--json")
            watch = subprocess.Popen(
                within(NAMES[0], *weir("watch", ADDRESS, "--wait", *_how(every), *kept)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert watch.stderr is not None
            watch.stderr.readline()
        out = measured(
            weir(
                *(
                    "send",
                    ADDRESS,
                    "--token",
                    "a token of tests",
                    "--json",
                    "--connections",
                    str(connections),
                ),
                *("--congestion", CONTROL, "--block", str(BLOCK), *wanted),
            ),
            cpu_s,
            note,
        )
    told = None
    if watch is not None:
        found = json.loads(watch.communicate()[0].splitlines()[-1])
        told = {name: found[name] for name in ("samples", "missed", "idle", "lateness")}
        told["due"] = due(scratch / SAMPLES, found["period_ns"])
    (direction,) = json.loads(out.splitlines()[-1])["directions"]
    bps, lasted_s = direction["throughput_bps"], direction["seconds"]
    return Run(case, connections, repeat, bps, lasted_s, sum(cpu_s), told, rate(spent))


def due(samples: Path, period_ns: int | None) -> int | None:
    """How many samples are due by the clock, independent of the watch's own report; None for events."""
    if period_ns is None:
        return None
    with samples.open("rb") as file:
        times = pl.read_parquet(file, columns=["connection", "time_ns"]).group_by("connection")
    lasted = times.agg(pl.col("time_ns").max() - pl.col("time_ns").min())["time_ns"]
    return int((lasted.cast(pl.Float64) / period_ns).round().sum()) + lasted.len()


def used_s(pid: int) -> float:
    """CPU time that a process has used, including threads that have ended."""
    # clock_getcpuclockid(3), which Python lacks.
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def rate(spent: Sequence[tuple[float, float]]) -> float | None:
    """CPU time per wall time, from the first line of a transfer to that of its last interval.

    None if there are too few lines.
    """
    if len(spent) < 3:
        return None
    (began, before), (ended, after) = spent[0], spent[-2]
    return (after - before) / (ended - began)


def _how(watched: str) -> tuple[str, ...]:
    if watched == EVENTS:
        return ("--events",)
    every, *way = watched.split()
    return ("--every", every, "--by", *(way or ["inet-diag"]))


def run_watches(watches: Sequence[str], seconds: float, repeat: int) -> list[Run]:
    """Watched transfers, and an unwatched one for every two of them, in random order."""
    lasts = ("--duration", f"{seconds:g}s")
    cases = [*watches, *[UNWATCHED] * math.ceil(len(watches) / 2)]
    random.Random(repeat).shuffle(cases)
    return [
        by_weir(1, lasts, repeat, UNWATCHED)
        if case == UNWATCHED
        else by_weir(1, lasts, repeat, f"watched {case}", case)
        for case in cases
    ]


def run_many(seconds: float, repeat: int) -> list[Run]:
    """Transfers over many connections at once, watched in each way."""
    wanted = ("--duration", f"{seconds:g}s", *SLOW)
    return [by_weir(WATCHED, wanted, repeat, f"many {every}", every) for every in MANIES]


def run_repeat(watches: Sequence[str], seconds: float, repeat: int) -> list[Run]:
    """All cases, in turns."""
    lasts = ("--duration", f"{seconds:g}s")
    runs = [by_weir(1, ("--bytes", "1kB"), repeat, "start")]
    for connections in (1, 4):
        runs.append(by_iperf3(connections, seconds, repeat))
        runs.append(by_weir(connections, lasts, repeat))
    runs += run_watches(watches, seconds, repeat)
    return runs + run_many(seconds, repeat)


def _gbps(found: Sequence[Run]) -> float:
    return statistics.median(run.bps for run in found) / 1e9


def _spread(found: Sequence[Run]) -> str:
    return f"{min(run.bps for run in found) / 1e9:.2f} - {max(run.bps for run in found) / 1e9:.2f}"


def _late(found: Sequence[Run]) -> tuple[str, ...]:
    told = [run.watch for run in found if run.watch]
    samples, missed = (sum(each[what] for each in told) for what in ("samples", "missed"))
    idle = [each["idle"] for each in told if each["idle"] is not None]
    counted = (f"{samples:,}", f"{missed:,}", f"{100 * missed / max(samples + missed, 1):.2f}")
    # Events are never late: they are not due at a certain time.
    lateness = [each["lateness"] for each in told if each["lateness"]]
    if not lateness:
        return (*counted, "-", "-", "-")
    return (
        *counted,
        f"{sum(idle):,}",
        f"{statistics.median(each['p99_ns'] for each in lateness) / 1e3:,.0f}",
        f"{max(each['max_ns'] for each in lateness) / 1e3:,.0f}",
    )


def tables(runs: Sequence[Run]) -> Tables:
    """Rows for :data:`SPEED` and the other headings."""
    start_s = statistics.median(run.cpu_s for run in runs if run.case == "start")

    def of(case: str, connections: int = 1) -> list[Run]:
        return [run for run in runs if (run.case, run.connections) == (case, connections)]

    def cpu(found: Sequence[Run], start_s: float = 0.0) -> float:
        return statistics.median(
            run.cpu_s_per_gbit * max(run.cpu_s - start_s, 0.0) / max(run.cpu_s, 1e-9) for run in found
        )

    speed: list[tuple[str, ...]] = []
    for connections in (1, 4):
        peer, ours = of("iperf3", connections), of("weir", connections)
        for name, found in (("iperf3", peer), ("weir", ours)):
            net = cpu(found, start_s) if name == "weir" else cpu(found)
            speed.append(
                (
                    *(name, str(connections), f"{_gbps(found):.2f}", _spread(found)),
                    *(f"{cpu(found):.4f}", f"{net:.4f}"),
                    *(f"{_gbps(found) / _gbps(peer):.3f} x", f"{net / max(cpu(peer), 1e-9):.3f} x"),
                )
            )
    return {SPEED: speed, COST: watch_rows(runs), MANY: many_rows(runs)}


def many_rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Rows for :data:`MANY`."""
    rows: list[tuple[str, ...]] = []
    for every in MANIES:
        if found := [run for run in runs if run.case == f"many {every}"]:
            asked_for = sum(run.watch["due"] for run in found if run.watch)
            rows.append((str(WATCHED), every, f"{asked_for:,}", *_late(found)))
    return rows


def _place(case: str) -> int:
    return WATCHES.index(case.removeprefix("watched "))


def watch_rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Rows for :data:`COST`."""
    alone = [run for run in runs if run.case == UNWATCHED]
    none = ["-"] * (len(COST) - 4)
    rows: list[tuple[str, ...]] = [("not", f"{_gbps(alone):.2f}", _spread(alone), "1.000 x", *none)]
    for case in sorted({run.case for run in runs if run.case.startswith("watched ")}, key=_place):
        found = [run for run in runs if run.case == case]
        ratios = [
            run.bps / statistics.mean(other.bps for other in alone if other.repeat == run.repeat)
            for run in found
        ]
        error = statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else None
        spent = [run.watch_cpu for run in found if run.watch_cpu is not None]
        rows.append(
            (
                *(case.removeprefix("watched "), f"{_gbps(found):.2f}", _spread(found)),
                *(f"{statistics.mean(ratios):.3f} x", "-" if error is None else f"{error:.3f}"),
                f"{min(ratios):.3f} - {max(ratios):.3f}",
                f"{100 * statistics.mean(spent):.2f}" if spent else "-",
                *_late(found),
            )
        )
    return rows


def summary(runs: Sequence[Run], about: Mapping[str, Any], only: str | None = None) -> Summary:
    """The summary of all runs, or of those selected by ``only``, as the option does."""
    title, shown = "TCP: bulk transfers and watching", dict[tuple[str, ...], Sequence[tuple[str, ...]]]()
    match only:
        case "watch":
            title, shown = "TCP: what watching costs", {COST: watch_rows(runs)}
        case "many":
            title, shown = "TCP: many connections watched", {MANY: many_rows(runs)}
        case _:
            shown = dict(tables(runs))
    return Summary(title, about, about["versions"], shown, LEGEND)


def main() -> int:
    parser = options("tcp", __doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each transfer (default 10)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of every case (default 5)")
    parser.add_argument(
        "--only",
        choices=("watch", "many"),
        help="measure only what watching costs, or whether samples of many connections are missed",
    )
    parser.add_argument(
        "--watches",
        nargs="+",
        choices=WATCHES,
        help=f"ways to watch (default: all; with --only watch: {', '.join(COMPARED)})",
    )
    asked = parser.parse_args()
    if asked.repeats < 1 or asked.seconds < 1:
        parser.error("--repeats and --seconds must be 1 or more")
    console = Console()
    about = {**called("tcp"), "versions": versions()}
    watches = asked.watches or (COMPARED if asked.only else WATCHES)
    runs: list[Run] = []
    with two_hosts():
        for repeat in range(asked.repeats):
            console.print(f"[dim]Repeat {repeat + 1} of {asked.repeats}[/]")
            if asked.only == "many":
                runs += run_many(asked.seconds, repeat)
                continue
            work = run_watches if asked.only else run_repeat
            runs += work(watches, asked.seconds, repeat)
    summary(runs, about, asked.only).publish(asked.out, {"runs": [asdict(run) for run in runs]}, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
