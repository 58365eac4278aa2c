"""Weir's trace analysis compared with tcptrace and tshark, on one capture, in one run.

Every program reads the same file, which is in memory, on the same core. The programs take turns, so that a
slow minute of the machine affects all of them. Whole processes are timed, including their start; for Weir
also the analysis itself. Packets per second are the packets of the file divided by that time.

With ``--times N`` the file is repeated N times, each time later and between other ports, so that the start of
a program weighs less.

    make bench-trace ARGS=capture.pcap
    .venv/bin/python bench/trace.py capture.pcap.zst --times 8 --repeats 5 --out build/bench
    .venv/bin/python bench/trace.py --packets 9000000      # a generated capture
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

import capture
from machine import versions
from summary import Summary, Tables
from summary import about as called
from summary import parser as options

WEIR = Path(sys.executable).with_name("weir")
HEADINGS = ("program", "does", "s", "range", "M packets/s", "MB", "weir is")
LEGEND = (
    "s: median of the whole process, start included (of 'analysis': without). MB: most memory resident. "
    "weir is: how many times as fast Weir's whole process is as this one, at the same task."
)


@dataclass(frozen=True)
class Case:
    """A program and its task. ``{file}`` and ``{out}`` in the command are filled in."""

    program: str
    task: str
    command: tuple[str, ...]
    repeats: int | None = None
    """Fewer repeats than requested, if a single one takes long."""


@dataclass(frozen=True)
class Sample:
    """The time and memory of one process."""

    program: str
    task: str
    seconds: float
    peak_bytes: int
    analysis_seconds: float | None


LAUNCHER = """
import json, os, sys, time
cpu, printed, *command = sys.argv[1:]
os.sched_setaffinity(0, {int(cpu)})
begin = time.perf_counter()
child = os.fork()
if child == 0:
    os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.execvp(command[0], command)
_, status, usage = os.wait4(child, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), time.perf_counter() - begin, usage.ru_maxrss]))
"""
"""Starts a program from a small process: the memory of the process that forks counts as the program's."""

START = "start"
SUMMARY = "summary"
DIAGNOSIS = "diagnosis"
SERIES = "all series"


def cases() -> tuple[Case, ...]:
    return (
        Case("weir", START, (str(WEIR), "trace", "--help")),
        Case("python", START, (sys.executable, "-c", "pass")),
        Case("weir", SUMMARY, (str(WEIR), "trace", "{file}", "--json", "--no-diagnosis")),
        Case("weir", DIAGNOSIS, (str(WEIR), "trace", "{file}", "--json")),
        Case("tcptrace -l", SUMMARY, ("tcptrace", "-l", "{file}")),
        Case("tcptrace -lrW", SUMMARY, ("tcptrace", "-lrW", "{file}")),
        Case(
            "tshark tcp.analysis",
            SUMMARY,
            ("tshark", "-n", "-q", "-r", "{file}", "-z", "io,stat,0,tcp.analysis.retransmission"),
            repeats=1,
        ),
        Case(
            "weir",
            SERIES,
            (str(WEIR), "trace", "{file}", "--json", "--no-diagnosis", "--series", "{out}/series"),
        ),
        Case("tcptrace -G", SERIES, ("tcptrace", "-G", "--output_dir={out}", "{file}"), repeats=2),
    )


def sample(case: Case, file: Path, cpu: int) -> Sample:
    """Run one process on one core; its output goes to a file in memory, as a pipe could block it."""
    with TemporaryDirectory(prefix="weir-bench-", dir=_memory()) as out:
        command = [part.format(file=file, out=out) for part in case.command]
        printed = Path(out) / "printed"
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(cpu), str(printed), *command]
        done = subprocess.run(launcher, capture_output=True, text=True, check=True)
        code, seconds, peak_kib = json.loads(done.stdout)
        if code != 0:
            raise SystemExit(f"bench: {' '.join(command)} ended with exit code {code}")
        analysis = None
        if case.program == "weir" and case.task != START:
            analysis = json.loads(printed.read_text())["elapsed_ns"] / 1e9
    return Sample(case.program, case.task, seconds, peak_kib * 1024, analysis)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def unpacked(file: Path, folder: Path) -> Path:
    """An uncompressed copy in memory, which tcptrace needs, read once to cache it."""
    bare = folder / "capture.pcap"
    if file.suffix == ".zst":
        subprocess.run(["zstd", "-dqf", str(file), "-o", str(bare)], check=True)
    else:
        shutil.copy(file, bare)
    bare.read_bytes()
    return bare


def made(packets: int, folder: Path) -> Path:
    """A generated capture of bulk transfers, in memory."""
    file = folder / "capture.pcap"
    with file.open("wb") as out:
        capture.write(out, packets, 8)
    return file


def longer(file: Path, times: int) -> None:
    """Repeat a pcap file of TCP over IPv4 over Ethernet: each time later, from other ports.

    The changed ports are those of the side that sent the SYN. Checksums stay as they are, as no program
    checks them if packets are cut.
    """
    whole = np.fromfile(file, dtype=np.uint8)
    if whole[:4].tobytes() not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        raise SystemExit("bench: --times needs a little-endian pcap file")
    raw, starts, at = whole.tobytes(), [], 24
    while at + 16 <= len(raw):
        starts.append(at)
        at += 16 + int.from_bytes(raw[at + 8 : at + 12], "little")
    first = np.array(starts)
    seconds = whole[first[:, None] + np.arange(4)].copy().view("<u4").ravel()
    step = int(seconds.max() - seconds.min()) + 90
    port_at = first[:, None] + 16 + 34 + np.arange(4)
    ports = whole[port_at].copy().view(">u2")
    syn = whole[first + 16 + 47] & 0x12 == 0x02
    clients = np.unique(ports[syn, 0])
    with file.open("ab") as out:
        for turn in range(1, times):
            copy = whole.copy()
            moved = np.where(np.isin(ports, clients), ports + turn * clients.size * 7, ports).astype(">u2")
            copy[port_at] = moved.view(np.uint8).reshape(-1, 4)
            later = (seconds + turn * step).astype("<u4")
            copy[first[:, None] + np.arange(4)] = later.view(np.uint8).reshape(-1, 4)
            out.write(copy[24:].tobytes())


def packets_in(file: Path) -> int:
    from weirlab import _engine

    return int(_engine.analyse([str(file)])["capture"]["packets"])


def rows(samples: Sequence[Sample], packets: int) -> list[tuple[str, ...]]:
    """Rows for ``HEADINGS``."""
    weir = {
        task: statistics.median(s.seconds for s in samples if (s.program, s.task) == ("weir", task))
        for task in (START, SUMMARY, DIAGNOSIS, SERIES)
    }
    shown: list[tuple[str, ...]] = []
    for program, task in dict.fromkeys((s.program, s.task) for s in samples):
        own = [s for s in samples if (s.program, s.task) == (program, task)]
        times = {program: [s.seconds for s in own]}
        if program == "weir" and task != START:
            times["weir, analysis"] = [s.analysis_seconds for s in own if s.analysis_seconds is not None]
        for name, seconds in times.items():
            median = statistics.median(seconds)
            shown.append(
                (
                    name,
                    task,
                    f"{median:.3f}",
                    f"{min(seconds):.3f}-{max(seconds):.3f}",
                    f"{packets / median / 1e6:.2f}",
                    f"{max(s.peak_bytes for s in own) / 1e6:.0f}",
                    f"{median / weir[task]:.1f} x",
                )
            )
    return shown


def main() -> int:
    parser = options("trace", __doc__)
    parser.add_argument("file", type=Path, nargs="?", help="capture: pcap, also in zstd")
    parser.add_argument("--packets", type=int, default=1_000_000, help="of a generated capture")
    parser.add_argument("--times", type=int, default=1, help="repetitions of the file (default 1)")
    parser.add_argument("--repeats", type=int, default=7, help="turns (default 7)")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="the core for all")
    asked = parser.parse_args()
    name = asked.file.name if asked.file else "a generated capture"
    console = Console()
    samples: list[Sample] = []
    about = called("trace")
    with TemporaryDirectory(prefix="weir-bench-", dir=_memory()) as folder:
        file = unpacked(asked.file, Path(folder)) if asked.file else made(asked.packets, Path(folder))
        if asked.times > 1:
            longer(file, asked.times)
        packets, file_bytes = packets_in(file), file.stat().st_size
        here = [case for case in cases() if shutil.which(case.command[0])]
        for turn in range(asked.repeats):
            for case in here:
                if turn < (case.repeats or asked.repeats):
                    samples.append(sample(case, file, asked.cpu))
                    took = f"{samples[-1].seconds:.3f} s"
                    console.print(f"turn {turn + 1}: {case.program}, {case.task}: {took}")
    about["capture"] = f"{asked.times} x {name}: {packets:,} packets, {file_bytes:,} bytes"
    about["versions"] = versions()
    facts = {"capture": about["capture"], **about["versions"]}
    found: Tables = {HEADINGS: rows(samples, packets)}
    shown = Summary("Trace analysis side by side", about, facts, found, LEGEND)
    shown.publish(asked.out, {"samples": [asdict(each) for each in samples]}, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
