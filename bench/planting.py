"""Runs the cases of `causes.py`: namespaces, an emulated link, two applications, and their observers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from cases import Case
from weirlab._engine import TcpWatcher
from weirlab.diagnosis import kernel
from weirlab.emulation.account import EmulationCounters
from weirlab.emulation.reading import read_path
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.link import bindings
from weirlab.link.settings import RecorderSettings
from weirlab.links.emulator.running import LinkEnd, emulated_link

HERE = Path(__file__).resolve().parent
PORT = 5001
ADDRESS = ("198.18.0.1", "198.18.0.2")
PERIOD_NS = 2_000_000
SNAP_BYTES = 128
LONG = 1_000
"""Bytes of an IP packet that carries data."""
PLACES = ("sender", "receiver")


@dataclass(frozen=True)
class Planted:
    """A case that was run: reports of the applications, the link's account, samples, captures by place."""

    talk: Mapping[str, Any]
    account: EmulationCounters
    watched: Watched
    files: Mapping[str, Path]
    whole: bool
    """Both captures have all packets."""


class Bench:
    """Two namespaces and one for the link."""

    def __init__(self) -> None:
        self.names = [f"weir-planted-{os.getpid()}-{end}" for end in ("x", "y", "l")]

    def __enter__(self) -> Bench:
        for name in self.names:
            Namespace(name).create()
        x, y, link = self.names
        for name in (x, y):
            # The kernel must not remember path metrics from one case to the next.
            self._set(name, {"net/ipv4/tcp_no_metrics_save": 1})
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
            # If a handshake waits for ARP, it does not show where it was captured.
            other, last = (ADDRESS[1], "2") if name == x else (ADDRESS[0], "1")
            _ip(f"-n {name} neigh add {other} lladdr 02:00:00:00:97:0{last} dev {far}")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            Namespace(name).remove()

    def run(self, case: Case, folder: Path) -> Planted:
        """Run a case; keep captures, samples and the reports of the applications in `folder`."""
        x, y, link = self.names
        before = [self._set(name, values) for name, values in zip((x, y), case.sysctls, strict=True)]
        try:
            up, down = (read_path(dict(words)) for words in case.path)
            with emulated_link(LinkEnd("la", link), LinkEnd("lb", link), up, down) as emulated:
                files = {name: folder / f"{name}.pcapng" for name in PLACES}
                lost: list[int] = []
                with (
                    _recorded(x, "x0", files["sender"], lost),
                    _recorded(y, "y0", files["receiver"], lost),
                    _ruled(y, case),
                    _settings(x, link, case),
                ):
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
        return Planted(talk, account, watched, files, not any(lost))

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
        for each in (sender, receiver):
            each.wait()
        return sampler.watched(), told


@dataclass(frozen=True)
class Watched:
    """Samples at both ends."""

    sender: pl.DataFrame
    receiver: kernel.Receiver


class Sampler:
    """Samples both ends of the connection, and the receiving process' waits for a CPU, during a block."""

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
def _settings(sender: str, link: str, case: Case) -> Iterator[None]:
    """The shaper at the sender, and the MTU of the path."""
    with contextlib.ExitStack() as stack:
        if case.mtu:
            _ip(f"-n {link} link set la mtu {case.mtu}")
            stack.callback(_ip, f"-n {link} link set la mtu 1500")
        if case.shaper:
            _tc(sender, f"add dev x0 root {case.shaper}")
            stack.callback(_tc, sender, "del dev x0 root")
        yield


@contextlib.contextmanager
def _ruled(namespace: str, case: Case) -> Iterator[None]:
    """Let the host drop or change packets that arrive there, after they were captured."""
    rule = case.rule
    if case.drops:
        rule = f"tcp dport {PORT} ip length > {LONG} numgen inc mod {case.drops} == {case.drops - 1} drop"
    if not rule:
        yield
        return
    _nft(namespace, "add table ip planted")
    try:
        _nft(namespace, "add chain ip planted in { type filter hook input priority -150 ; }")
        _nft(namespace, f"add rule ip planted in {rule}")
        yield
    finally:
        _nft(namespace, "delete table ip planted")


def _nft(namespace: str, command: str) -> None:
    subprocess.run(["ip", "netns", "exec", namespace, "nft", command], check=True)


def _tc(namespace: str, command: str) -> None:
    subprocess.run(["tc", "-n", namespace, "qdisc", *command.split()], check=True)


@contextlib.contextmanager
def _recorded(namespace: str, interface: str, path: Path, lost: list[int]) -> Iterator[None]:
    recorder = bindings.open_recorder(
        RecorderSettings(path, snap_bytes=SNAP_BYTES),
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
        counts = recorder.stop()["interfaces"]
        lost.extend(each["lost"] + each["not_written"] for each in counts)


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
