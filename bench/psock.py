"""Parallel sockets at full speed over two veth pairs, compared with one TCP connection and multipath TCP.

    make bench-psock
    make bench-psock ARGS=--cost        # what weir psock run costs a program (psock_costs.py)
    .venv/bin/python bench/psock.py --seconds 5 --repeats 3 --out build/bench

Only the CPUs limit the paths. All methods take turns, in random order, with both ends on one CPU and, if
there are two, with one end on each. Goodput is what the receiver read; CPU time is that of both ends.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

import psock_costs
import streams
from machine import versions
from namespaces import namespaces
from summary import Summary
from summary import about as called
from summary import parser as options
from weirlab.transfers.parallel.namespaces import missing

NAMES: Final = ("weir-bench-psock-a", "weir-bench-psock-b")
METHODS: Final = ("tcp", "mptcp", "poll-all", "earliest")
HEADINGS: Final[tuple[str, ...]] = (
    *("CPUs", "method", "Gbit/s", "range", "CPU s/GB", "sender", "receiver"),
    *("goodput is", "CPU is", "reorder memory"),
)
LEGEND: Final = (
    "Medians of runs that took turns; 'is' compares with one TCP connection on as many CPUs. tcp uses one "
    "path, the others use both. Reorder memory is the maximum of all runs; the kernel does not report it for "
    "multipath TCP."
)
_ENDS_S: Final = 60.0
"""Time that both ends may need in addition to the run."""


@dataclass(frozen=True)
class Run:
    """One transfer: what the receiver read, and the CPU time of each end."""

    method: str
    cpus: int
    repeat: int
    bytes: int
    seconds: float
    sender_cpu_s: float
    receiver_cpu_s: float
    reorder_bytes: int | None

    @property
    def gbps(self) -> float:
        return self.bytes * 8 / self.seconds / 1e9

    def per_gb(self, cpu_s: float) -> float:
        return cpu_s / (self.bytes / 1e9)

    @property
    def cpu_per_gb(self) -> float:
        return self.per_gb(self.sender_cpu_s + self.receiver_cpu_s)


@contextmanager
def two_hosts() -> Iterator[None]:
    """Two namespaces with two pairs between them."""
    commands: list[str] = []
    for path, (here, there) in enumerate(zip(streams.HERE, streams.THERE, strict=True)):
        commands += [
            f"link add a{path} netns {NAMES[0]} type veth peer name b{path} netns {NAMES[1]}",
            f"-n {NAMES[0]} addr add {here}/30 dev a{path}",
            f"-n {NAMES[1]} addr add {there}/30 dev b{path}",
            f"-n {NAMES[0]} link set a{path} up",
            f"-n {NAMES[1]} link set b{path} up",
        ]
    with namespaces(NAMES, commands):
        yield


def _end(namespace: str, cpu: int, *arguments: str) -> subprocess.Popen[str]:
    program = (sys.executable, str(Path(streams.__file__)), *arguments)
    command = ("ip", "netns", "exec", namespace, "taskset", "--cpu-list", str(cpu), *program)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measured(method: str, cpus: Sequence[int], seconds: float, repeat: int) -> Run:
    """A transfer with the sender on the first and the receiver on the last of ``cpus``."""
    with _end(NAMES[1], cpus[-1], "receive", method, f"{seconds:g}") as receiver:
        assert receiver.stdout is not None
        try:
            if streams.READY not in receiver.stdout.readline():
                raise SystemExit(f"The receiver of {method} does not start.")
            with _end(NAMES[0], cpus[0], "send", method, f"{seconds:g}") as sender:
                try:
                    sent = json.loads(sender.communicate(timeout=seconds + _ENDS_S)[0])
                finally:
                    sender.kill()
            got = json.loads(receiver.communicate(timeout=_ENDS_S)[0])
        finally:
            receiver.kill()
    if got["bytes"] != sent["bytes"]:
        raise SystemExit(f"{method}: {sent['bytes']} bytes sent, {got['bytes']} received.")
    return Run(
        *(method, len(set(cpus)), repeat, got["bytes"], got["seconds"], sent["cpu_s"], got["cpu_s"]),
        got.get("reorder_bytes"),
    )


def rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Rows for :data:`HEADINGS`."""
    found: list[tuple[str, ...]] = []
    for cpus in sorted({run.cpus for run in runs}):
        of = {name: [run for run in runs if (run.method, run.cpus) == (name, cpus)] for name in METHODS}
        speed = {name: statistics.median(run.gbps for run in each) for name, each in of.items() if each}
        cost = {name: statistics.median(run.cpu_per_gb for run in each) for name, each in of.items() if each}
        for name in speed:
            each = of[name]
            peaks = [run.reorder_bytes for run in each if run.reorder_bytes is not None]
            found.append(
                (
                    *(str(cpus), name, f"{speed[name]:.2f}"),
                    f"{min(run.gbps for run in each):.2f} - {max(run.gbps for run in each):.2f}",
                    f"{cost[name]:.3f}",
                    f"{statistics.median(run.per_gb(run.sender_cpu_s) for run in each):.3f}",
                    f"{statistics.median(run.per_gb(run.receiver_cpu_s) for run in each):.3f}",
                    *(f"{speed[name] / speed['tcp']:.2f} x", f"{cost[name] / cost['tcp']:.2f} x"),
                    f"{max(peaks) / 1e6:.2f} MB" if peaks else "-",
                )
            )
    return found


def main() -> int:
    parser = options("psock", __doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each transfer (default 5)")
    parser.add_argument("--repeats", type=int, default=7, help="runs of every case (default 7)")
    parser.add_argument(
        "--cost", action="store_true", help="instead, the times of small exchanges of a program"
    )
    asked = parser.parse_args()
    if asked.repeats < 1 or asked.seconds < 1:
        parser.error("--repeats and --seconds must be 1 or more")
    console = Console()
    about = {**called("psock"), "versions": versions()}
    if asked.cost:
        exchanges = psock_costs.measure(asked.repeats, lambda line: console.print(f"[dim]{line}[/]"))
        costs = {psock_costs.HEADINGS: psock_costs.rows(exchanges)}
        facts = {
            **about["versions"],
            "load average after": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        }
        Summary("What psock run costs", about, facts, costs, psock_costs.LEGEND).publish(
            asked.out, {"runs": exchanges}, console
        )
        return 0
    lacking = missing()
    cases = [
        (method, cpus)
        for cpus in {tuple(sorted(os.sched_getaffinity(0))[:count]) for count in (1, 2)}
        for method in METHODS
        if method != "mptcp" or not lacking
    ]
    runs: list[Run] = []
    with two_hosts():
        for repeat in range(asked.repeats):
            console.print(f"[dim]Repeat {repeat + 1} of {asked.repeats}[/]")
            random.shuffle(cases)
            runs += [measured(method, cpus, asked.seconds, repeat) for method, cpus in cases]
    remarks = [f"multipath TCP: {lacking}"] if lacking else []
    tables = {HEADINGS: rows(runs)}
    Summary("Parallel sockets at full speed", about, about["versions"], tables, LEGEND, remarks).publish(
        asked.out, {"runs": [asdict(run) for run in runs]}, console
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
