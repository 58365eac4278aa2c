"""What opening a large capture in `weir web` costs: upload, analysis, graphs, diagnosis, and zooming.

The service is the real one, without a socket: the upload is written as it arrives, and child processes read
it within the service's own limits on memory and time. A zoom is a request for the graphs of a part of the
largest connection, at random places and depths, timed until the answer is there.

    make bench-opening ARGS="--packets 9000000"
    .venv/bin/python bench/opening.py capture.pcap
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from fastapi.testclient import TestClient
from rich.console import Console
from rich.table import Table

import capture
from machine import versions
from weirlab.store import Store
from weirlab.trace.facts import Connection, busier, link_bytes, start_ns
from weirlab.web.captures.service import CaptureService
from weirlab.web.children import ChildFailure
from weirlab.web.measurements.measurement import Measurement
from weirlab.web.service import service
from weirlab.web.settings import WebSettings

HERE = Path(__file__).resolve().parent
COLUMNS: Final = 1000
"""Columns of pixels that the page requests."""
DEPTHS: Final = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""Lengths of the parts that are requested, relative to the whole."""
LEGEND: Final = (
    "s: since the upload began. CPU s, peak MB: of the child processes (of 'received': of the service). The "
    "second table: how long the service took to answer for a part of the largest connection."
)
_PART_BYTES: Final = 1 << 16
"""Size of the parts of an upload, as they arrive by HTTP."""


@dataclass(frozen=True)
class Step:
    """The cost up to a step: time, the children's CPU time, and the peak memory of one of them.

    For work of the service itself, its own CPU time and memory.
    """

    name: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Zoom:
    """Times of the answers for parts of one depth, in s."""

    depth: float
    median_s: float
    worst_s: float
    median_cpu_s: float
    worst_cpu_s: float
    answer_bytes: int


class Clock:
    """Measures the time and the cost of steps."""

    def __init__(self, who: int) -> None:
        self._who = who
        self._begin, self._cpu = time.perf_counter(), self._used().ru_utime + self._used().ru_stime

    def step(self, name: str) -> Step:
        used = self._used()
        return Step(
            name,
            time.perf_counter() - self._begin,
            used.ru_utime + used.ru_stime - self._cpu,
            used.ru_maxrss * 1024,
        )

    def _used(self) -> resource.struct_rusage:
        return resource.getrusage(self._who)


async def chunks(file: Path) -> AsyncIterator[bytes]:
    """The upload, in parts."""
    with file.open("rb") as source:
        while part := source.read(_PART_BYTES):
            yield part


def opened(desk: CaptureService, one: Measurement) -> Connection:
    """The largest connection, as soon as it is analysed and its graphs can be drawn."""
    while (state := one.state).stage in ("queued", "working"):
        time.sleep(0.05)
    if state.stage != "ready":
        raise SystemExit(f"bench: the service says: {state.message}")
    first = max(desk.facts(one)["connections"], key=link_bytes)
    desk.arrays(one, first["id"], busier(first)).result()
    return first


def zooms(client: TestClient, one: Measurement, first: Connection, begin_ns: int, number: int) -> list[Zoom]:
    """Request ``number`` parts of each depth."""
    place = f"/api/captures/{one.data_id}/connections/{first['id']}/graphs"
    begin, end = ((at - begin_ns) / 1e9 for at in (first["first_ns"], first["last_ns"]))
    places, found = np.random.default_rng(1), []
    for depth in DEPTHS:
        took, used, size = [], [], 0
        for _ in range(number):
            start = begin + places.random() * (1 - depth) * (end - begin)
            part = {"from": start, "to": start + depth * (end - begin)}
            asked, cpu = time.perf_counter(), time.process_time()
            answer = client.get(place, params={"side": busier(first), "columns": COLUMNS, **part})
            took.append(time.perf_counter() - asked)
            used.append(time.process_time() - cpu)
            answer.raise_for_status()
            size = max(size, len(answer.content))
        medians = float(np.median(took)), float(np.median(used))
        found.append(Zoom(depth, medians[0], max(took), medians[1], max(used), size))
    return found


def measured(file: Path, store: Path, number: int) -> tuple[list[Step], list[Zoom]]:
    """Open ``file`` as an upload to a new store."""
    with service(WebSettings(), Store(store)) as made:
        desk = made.uploads
        clock = Clock(resource.RUSAGE_SELF)
        opening = Clock(resource.RUSAGE_CHILDREN)
        one = asyncio.run(desk.take(file.name, chunks(file), file.stat().st_size))
        steps = [clock.step("received")]
        first = opened(desk, one)
        steps.append(opening.step("analysed, first graphs made"))
        said = "said why no faster"
        try:
            desk.why(one, first["id"]).result()
        except ChildFailure as refused:
            said = f"refused to say why no faster: {refused}"
        steps.append(opening.step(said))
        client = TestClient(made.app, base_url=WebSettings().url)
        return steps, zooms(client, one, first, start_ns(desk.facts(one)), number)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?", help="capture (default: a generated one)")
    parser.add_argument(
        "--packets", type=int, default=1_000_000, help="at least, if generated (default 1,000,000)"
    )
    parser.add_argument("--connections", type=int, default=8, help="if generated (default 8)")
    parser.add_argument("--zooms", type=int, default=20, help="requests of each depth (default 20)")
    parser.add_argument("--out", type=Path, help="folder for the raw data (default bench/runs/DATE-opening)")
    options = parser.parse_args()
    now, console = datetime.now(UTC), Console()
    out: Path = options.out or HERE / "runs" / f"{now:%Y-%m-%d-%H%M}-opening"
    with TemporaryDirectory(prefix="weir-bench-") as folder:
        file, packets = options.file, None
        if file is None:
            file = Path(folder) / "made.pcap"
            with file.open("wb") as made:
                packets = capture.write(made, options.packets, options.connections)
        size = file.stat().st_size
        steps, looks = measured(file, Path(folder) / "store", options.zooms)
    number = f"{packets:,} packets, " if packets is not None else ""
    about = {
        "date": f"{now:%Y-%m-%d %H:%M} UTC",
        "command": " ".join(["bench/opening.py", *sys.argv[1:]]),
        "capture": f"{number}{size:,} bytes",
        "versions": versions(),
    }
    raw = {**about, "steps": [asdict(each) for each in steps], "zooms": [asdict(each) for each in looks]}
    out.mkdir(parents=True, exist_ok=True)
    (out / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
    console.print(f"{about['capture']}; raw data: {out}")
    lines = [f"# A large capture opened in weir web, {about['date']}", "", f"`{about['command']}`", ""]
    lines += [f"- {about['capture']}", *(f"- {name}: {value}" for name, value in versions().items())]
    for headings, rows in (
        (
            ("until", "s", "CPU s", "peak MB"),
            [
                (s.name, f"{s.seconds:.1f}", f"{s.cpu_seconds:.1f}", f"{s.peak_bytes / 1e6:.0f}")
                for s in steps
            ],
        ),
        (
            ("part of the whole", "median ms", "worst ms", "CPU median ms", "CPU worst ms", "answer kB"),
            [
                (
                    f"{z.depth:g}",
                    f"{z.median_s * 1e3:.1f}",
                    f"{z.worst_s * 1e3:.1f}",
                    f"{z.median_cpu_s * 1e3:.1f}",
                    f"{z.worst_cpu_s * 1e3:.1f}",
                    f"{z.answer_bytes / 1e3:.0f}",
                )
                for z in looks
            ],
        ),
    ):
        table = Table(*headings)
        lines += ["", "| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
        for row in rows:
            table.add_row(*row)
            lines.append("| " + " | ".join(row) + " |")
        console.print(table)
    (out / "README.md").write_text("\n".join([*lines, "", LEGEND, ""]))
    console.print(LEGEND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
