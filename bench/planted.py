"""Causes of slow transfers, planted, and what is named: from the sender's kernel, from captures at both ends.

    make bench-planted
    .venv/bin/python bench/planted.py --only random_loss --keep build/planted

Two namespaces are joined by an emulated link (`weir link`), and two applications talk over it
(`talkers.py`). In each case one thing is wrong. The truth is what the application or the emulator itself
counted, or arithmetic where neither can count. Beside it: the cause that was named first, the share of
the time of the planted cause, and what the kernel's own counters say. Root; some two minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from causes import CASES, Case, Truth
from machine import versions
from weirlab import trace
from weirlab._engine import TcpWatcher, emulate_path
from weirlab.diagnosis import kernel, tracing
from weirlab.diagnosis.diagnosing import diagnose
from weirlab.diagnosis.finding import Diagnosis
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.link import bindings
from weirlab.link.settings import Recording
from weirlab.studies.emulator.account import Account, complaints
from weirlab.studies.emulator.reading import read_path
from weirlab.studies.emulator.running import End, emulated_link

HERE = Path(__file__).resolve().parent
PORT = 5001
ADDRESS = ("198.18.0.1", "198.18.0.2")
PERIOD_NS = 2_000_000
SNAP_BYTES = 128
FRAME = 1514
NEAR = 0.05
SOURCES = ("kernel", "sender", "receiver")


@dataclass(frozen=True)
class Row:
    """What was found of a case from one place."""

    case: str
    source: str
    planted: str
    named: str
    truth: float
    said: float | None
    sentence: str
    counters: Mapping[str, float] | None
    complaints: Sequence[str] = ()

    @property
    def right(self) -> bool:
        return self.named == self.planted and self.said is not None and abs(self.said - self.truth) <= NEAR


class Bench:
    """Two namespaces and the link's own."""

    def __init__(self) -> None:
        self.names = [f"weir-planted-{os.getpid()}-{end}" for end in ("x", "y", "l")]

    def __enter__(self) -> Bench:
        for name in self.names:
            Namespace(name).create()
        x, y, link = self.names
        for name, far, near, address, mac in (
            (x, "x0", "la", ADDRESS[0], "1"),
            (y, "y0", "lb", ADDRESS[1], "2"),
        ):
            _ip(
                f"link add {far} netns {name} address 02:00:00:00:97:0{mac} type veth "
                f"peer name {near} netns {link}"
            )
            _ip(f"-n {name} addr add {address}/24 dev {far}")
            _ip(f"-n {name} link set {far} up")
            # A handshake that waits for ARP says nothing of where it was captured.
            other, last = (ADDRESS[1], "2") if name == x else (ADDRESS[0], "1")
            _ip(f"-n {name} neigh add {other} lladdr 02:00:00:00:97:0{last} dev {far}")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            Namespace(name).remove()

    def run(self, case: Case, folder: Path) -> list[Row]:
        """Carry a case out, and diagnose it from everywhere."""
        x, y, link = self.names
        before = [self._set(name, values) for name, values in zip((x, y), case.sysctls, strict=True)]
        try:
            up, down = (read_path(dict(words)) for words in case.path)
            with emulated_link(End("la", link), End("lb", link), up, down) as emulated:
                files = {name: folder / f"{name}.pcapng" for name in ("sender", "receiver")}
                with _recorded(x, "x0", files["sender"]), _recorded(y, "y0", files["receiver"]):
                    watched, talk = self._talk(case)
                account = emulated.stop()
        finally:
            for name, values in zip((x, y), before, strict=True):
                self._set(name, values)
        with (folder / "samples.parquet").open("wb") as file:
            watched.sender.write_parquet(file)
        with (folder / "receiver.parquet").open("wb") as file:
            pl.DataFrame(vars(watched.receiver)).write_parquet(file)
        with (folder / "truth.json").open("w") as file:
            json.dump({**talk, "link": account.up.document()}, file, default=str)
        return _rows(case, talk, account, watched, files)

    def _set(self, name: str, values: Mapping[str, int]) -> dict[str, int]:
        def work() -> dict[str, int]:
            before = {key: int(Path(f"/proc/sys/{key}").read_text()) for key in values}
            write_sysctls(values)
            return before

        return Namespace(name).call(work)

    def _talk(self, case: Case) -> tuple[Watched, dict[str, Any]]:
        x, y, _ = self.names
        seconds = {"seconds": case.seconds}
        receiver = _started(y, "receive", {"port": PORT, **seconds, **case.receive})
        sampler = Sampler((x, y), int(_line(receiver)["pid"]))
        options = {"TCP_CONGESTION": "cubic", **case.send.get("options", {})}
        order = {"host": ADDRESS[1], "port": PORT, **seconds, **case.send, "options": options}
        sender = _started(x, "send", order)
        with sampler:
            _line(sender)
            told = {"sender": _line(sender), "receiver": _line(receiver)}
        told["sender"]["foreign_s"] = case.seconds * case.send.get("share", 0.0)
        for each in (sender, receiver):
            each.wait()
        return sampler.watched(), told


@dataclass(frozen=True)
class Watched:
    """Samples at both ends."""

    sender: pl.DataFrame
    receiver: kernel.Receiver


class Sampler:
    """Both ends of the connection, and how the receiving process fares, while a block lasts."""

    def __init__(self, namespaces: Sequence[str], pid: int) -> None:
        self._pid = pid
        self._parts: tuple[list[pl.DataFrame], list[pl.DataFrame]] = ([], [])
        self._waits: list[tuple[int, float]] = []
        self._over = threading.Event()
        self._watchers = [Namespace(name).call(_watcher) for name in namespaces]
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def watched(self) -> Watched:
        sender, receiver = (pl.concat(parts).sort("time_ns") for parts in self._parts)
        times = np.array([at for at, _ in self._waits], dtype=np.float64)
        waited = np.array([wait for _, wait in self._waits])
        ratio = kernel.starvation(times, waited)
        at = receiver["time_ns"].to_numpy().astype(np.float64)
        place = np.minimum(np.searchsorted(times, at), len(times) - 1)
        unread = receiver["rqueue_bytes"].to_numpy().astype(np.float64)
        return Watched(sender, kernel.Receiver(at, unread, ratio[place]))

    def _work(self) -> None:
        while True:
            last = self._over.wait(0.05)
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{self._pid}/schedstat").read_text().split()
                self._waits.append((time.time_ns(), float(words[1])))
            for watcher, parts in zip(self._watchers, self._parts, strict=True):
                if last:
                    watcher.stop()
                parts.append(_frame(watcher.take()))
            if last:
                return


def _watcher() -> TcpWatcher:
    return TcpWatcher(
        ends=[(None, PORT), (None, 0)],
        pid=None,
        program=None,
        period_ns=PERIOD_NS,
        wait=True,
        fields=[*kernel.NEEDED, *kernel.USEFUL],
    )


def _frame(taken: Mapping[str, Any]) -> pl.DataFrame:
    columns = {name: np.where(there, values, np.nan) for name, (values, there) in taken["fields"].items()}
    return pl.DataFrame({"time_ns": taken["time_ns"], **columns})


@contextlib.contextmanager
def _recorded(namespace: str, interface: str, path: Path) -> Iterator[None]:
    recorder = bindings.open_recorder(
        Recording(path, snap_bytes=SNAP_BYTES),
        path=str(path),
        ring_fds=[],
        interface=interface,
        netns=namespace,
        comment="",
    )
    recorder.start()
    try:
        yield
    finally:
        recorder.stop()


def _rows(
    case: Case, talk: Mapping[str, Any], account: Account, watched: Watched, files: Mapping[str, Path]
) -> list[Row]:
    found: dict[str, Diagnosis | None] = {}
    frame = watched.sender
    columns = {name: frame[name].to_numpy() for name in frame.columns if name != "time_ns"}
    samples = kernel.read(frame["time_ns"].to_numpy(), columns, watched.receiver)
    found["kernel"] = None if samples is None else diagnose(*samples)
    first_hit_s = 0.0
    for name, path in files.items():
        with trace.read(path, series=True) as read:
            one = max(read.facts["connections"], key=lambda each: each["a"]["data_bytes"])
            found[name] = tracing.read(read, one, "a")
            if name == "sender":
                times = read.segments.filter(pl.col("from_side") == "a")["time_ns"]
                hit = _first_hit(case.path[0])
                first_hit_s = 0.0 if hit is None else (times[min(hit, len(times) - 1)] - times[0]) / 1e9
    said = found["sender"]
    seconds = said.summary.seconds if said is not None else case.seconds
    truth = case.truth(Truth(seconds, talk["sender"], talk["receiver"], account, first_hit_s))
    told = tuple(complaints(account))
    return [_row(case, source, truth, found[source], told) for source in SOURCES]


def _first_hit(words: Mapping[str, str]) -> int | None:
    """The first frame, from 0, that is lost or held back: the link decides by the number of a frame."""
    many = 10_000
    apart = np.arange(many, dtype=np.uint64) * 100_000_000
    left = emulate_path(read_path(dict(words)).plain(), apart, np.full(many, FRAME, dtype=np.uint32))
    held = np.flatnonzero(left["due_ns"] - apart[left["frame"]] > left["due_ns"][0] - apart[left["frame"][0]])
    lost = np.setdiff1d(np.arange(many), left["frame"])
    hit = np.concatenate([left["frame"][held], lost])
    return int(hit.min()) if len(hit) else None


def _row(case: Case, source: str, truth: float, found: Diagnosis | None, told: Sequence[str]) -> Row:
    if found is None:
        return Row(case.name, source, case.causes[0], "", truth, None, "", None, told)
    named = found.main.key
    planted = named if named in case.causes else case.causes[0]
    said = sum(found.share(key) for key in case.causes)
    return Row(case.name, source, planted, named, truth, said, found.sentence, found.counters, told)


def _started(namespace: str, what: str, order: Mapping[str, Any]) -> subprocess.Popen[str]:
    command = [
        "ip",
        "netns",
        "exec",
        namespace,
        sys.executable,
        str(HERE / "talkers.py"),
        what,
        json.dumps(order),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _line(program: subprocess.Popen[str]) -> dict[str, Any]:
    out: IO[str] | None = program.stdout
    assert out is not None
    line = out.readline()
    if not line:
        raise SystemExit(f"{program.args!r} ended with {program.wait()}")
    return dict(json.loads(line))


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def _shown(rows: Sequence[Row]) -> Table:
    table = Table(
        title="Planted causes", caption="named: the cause with the largest share. * within 5 points."
    )
    for heading in ("planted", "truth", "from", *SOURCES, "counters: app/receiver/buffer/network"):
        table.add_column(heading)
    says = {case.name: case.says for case in CASES}
    for name in dict.fromkeys(row.case for row in rows):
        mine = {row.source: row for row in rows if row.case == name}
        kernels = mine["kernel"].counters or {}
        table.add_row(
            name,
            _percent(mine["kernel"].truth),
            says[name],
            *(f"{mine[s].named} {_percent(mine[s].said)}{'*' if mine[s].right else ''}" for s in SOURCES),
            " / ".join(
                _percent(kernels.get(k)) for k in ("application", "receiver", "send_buffer", "network")
            ),
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of cases, spaces as _")
    parser.add_argument("--keep", type=Path, help="keep captures and samples here")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench")
    chosen = parser.parse_args()
    cases = [case for case in CASES if not chosen.only or case.name.replace(" ", "_") in chosen.only]
    rows: list[Row] = []
    console = Console(width=200)
    with Bench() as bench, TemporaryDirectory() as scratch:
        for case in cases:
            folder = (chosen.keep or Path(scratch)) / case.name.replace(" ", "_")
            folder.mkdir(parents=True, exist_ok=True)
            found = bench.run(case, folder)
            rows += found
            for row in found:
                print(f"{row.case:22} {row.source:9} {_percent(row.truth):>5}  {row.sentence}", flush=True)
            for said in found[0].complaints:
                print(f"{case.name:22} emulator: {said}", flush=True)
    console.print(_shown(rows))
    right = sum(row.right for row in rows)
    console.print(
        f"{right} of {len(rows)} within {NEAR * 100:.0f} points of the truth, the planted cause first."
    )
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / f"planted-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps({"versions": versions(), "rows": [asdict(row) for row in rows]}, indent=1))
    console.print(f"raw: {path}")


if __name__ == "__main__":
    main()
