"""The stored runs, captures and models: made by simulated devices, and one real TCP transfer."""

from __future__ import annotations

import gzip
import os
import secrets
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from answers import ADDED, CAMPAIGN, CAMPAIGN_STEPS, INPUTS, PROFILE, RUNS, SLOWER, archive_of
from scenarios import (
    CAPACITY_SCENARIO,
    ENDPOINTS_SCENARIO,
    ESP_SCENARIO,
    FAILOVER_SCENARIO,
    FIREWALL,
    HELD_OUT,
    MATRIX_SCENARIO,
    MONITOR_SCENARIO,
    PARALLEL_SCENARIO,
    SERIES_SCENARIO,
    VOICE_LOAD_SCENARIO,
    VOICE_SCENARIO,
)
from typer.testing import CliRunner

from weirlab.calls.failover.fakes import FakePair, SwitchBehaviour, instant
from weirlab.calls.failover.section import FailoverScenario
from weirlab.calls.failover.study import FailoverStudy
from weirlab.calls.failover.switches.event import SwitchClocks
from weirlab.calls.failover.switches.plan import PairSpec
from weirlab.calls.ipsec.cost import EspCostScenario
from weirlab.calls.ipsec.cost_study import EspCostStudy, FormulaTimer
from weirlab.calls.ipsec.endpoints.fakes import FakeEndpointBed as FakeEndpoints
from weirlab.calls.ipsec.endpoints.fakes import opener as open_endpoints
from weirlab.calls.ipsec.endpoints.plan import EndpointScenario
from weirlab.calls.ipsec.endpoints.study import EndpointsStudy
from weirlab.campaigns import steps
from weirlab.cli.program.app import app
from weirlab.jobs import testbeds
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.lab.linux.namespace import Namespace
from weirlab.links.monitor.fakes import FakeLink
from weirlab.links.monitor.plan import MonitorSettings
from weirlab.links.monitor.section import MonitorScenario
from weirlab.links.monitor.study import MonitorStudy
from weirlab.numbering.fakes import FakeLab, FakeLoadLab
from weirlab.numbering.load.study import VoiceLoadStudy
from weirlab.numbering.proof.study import VoiceStudy
from weirlab.numbering.section import LoadScenario, VoiceScenario
from weirlab.scenario.load import from_plain
from weirlab.store import RunWriter, Store, catalogue
from weirlab.studies import runner
from weirlab.studies.contract import Study
from weirlab.testing import FakeBed, FakeClock, FakeDevice
from weirlab.transfers.parallel.fakes import FakeParallelBed as FakePaths
from weirlab.transfers.parallel.fakes import opener
from weirlab.transfers.parallel.section import ParallelScenario
from weirlab.transfers.parallel.study import ParallelStudy

TRANSFER_BYTES = 200_000
SENDER, RECEIVER, PORT = "198.18.7.1", "198.18.7.2", 5001


def make(name: str) -> None:
    """Make the archive ``name`` anew, with the runs that ``ADDED`` has under it.

    ``inputs`` has everything else, and needs root, for the transfer.
    """
    if name == "inputs":
        _make_inputs()
        return
    runs = (*ADDED[name], *(CAMPAIGN_STEPS if CAMPAIGN in ADDED[name] else ()))
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        with _elsewhere(folder), _as_example(runs):
            _MAKERS[name](folder)
        _pack(archive_of(name), folder, ("store",))


def _make_inputs() -> None:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        with _elsewhere(folder), _as_example(RUNS):
            _runs(folder)
            _weir("fit", PROFILE)
            _weir("fit", PROFILE, SLOWER, "--out", "devices.json", "--name", "old", "--name", "new")
            spoiled = ("--loss", "2%", "--loss-burst", "2", "--jitter", "5ms", "--seed", "3")
            _weir(
                "calls", "--calls", "2", "--duration", "2", "--warmup", "0", "--write", "calls.pcap", *spoiled
            )
            _transfer(folder / "transfer.pcap")
        for name in ("calls.pcap", "transfer.pcap"):
            (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes(), 9, mtime=0))
        _pack(INPUTS, folder, ("calls.pcap.gz", "devices.json", "store", "transfer.pcap.gz"))


def _later(folder: Path) -> None:
    store = Store(folder / "store")
    parallel = ParallelStudy(opener(FakePaths()))
    _run(parallel, store, from_plain(PARALLEL_SCENARIO, "here", ParallelScenario))
    load = VoiceLoadStudy(lambda network, talk_s: FakeLoadLab(network, folder))
    _run(load, store, from_plain(VOICE_LOAD_SCENARIO, "here", LoadScenario))


def _latest(folder: Path) -> None:
    endpoints = EndpointsStudy(open_endpoints(FakeEndpoints()))
    scenario = from_plain(ENDPOINTS_SCENARIO, "here", EndpointScenario)
    _run(endpoints, Store(folder / "store"), scenario)


def _newest(folder: Path) -> None:
    compared = ("compare", "--measure", "iptables", "nftables", "--lab", "sim", "--pairs", "8")
    _weir(*compared, "--frame", "64")
    _weir("reproduce", "cesnet-routing-2007")


def _costs(folder: Path) -> None:
    scenario = from_plain(ESP_SCENARIO, "here", EspCostScenario)
    _run(EspCostStudy(FormulaTimer()), Store(folder / "store"), scenario)


def _listed(folder: Path) -> None:
    (folder / "series.yaml").write_text(SERIES_SCENARIO)
    _weir("run", "series.yaml")


def _swept(folder: Path) -> None:
    loads = ("--over", "rules=0,100", "--over", "rate=200kpps,600kpps", "--duration", "0.02")
    _weir("simulate", *loads)


def _matrix(folder: Path) -> None:
    (folder / "series.yaml").write_text(SERIES_SCENARIO)
    (folder / "matrix.yaml").write_text(MATRIX_SCENARIO)
    with patch.object(steps, "host", lambda: "example"):
        _weir("campaign", "matrix.yaml")


_MAKERS: Final[Mapping[str, Callable[[Path], None]]] = {
    "later": _later, "latest": _latest, "newest": _newest, "costs": _costs, "listed": _listed,
    "swept": _swept, "matrix": _matrix,
}  # fmt: skip


def _pack(path: Path, folder: Path, names: Sequence[str]) -> None:
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name in names:
            archive.add(folder / name, name, filter=_nameless)


def _nameless(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Of nobody, and of no time; no locks."""
    if Path(member.name).name.startswith(".") or member.name.endswith(".lock"):
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _runs(folder: Path) -> None:
    for name, rule_ns, verify in (("firewall", 2.7, HELD_OUT), ("slower", 3.0, "verify: []\n")):
        (folder / f"{name}.yaml").write_text(FIREWALL.format(rule_ns=rule_ns, verify=verify))
        _weir("run", f"{name}.yaml")
    short = ("--lab", "sim", "--rate", "300kpps", "--duration", "0.05", "--warmup", "0.01")
    _weir("trial", *short, "--rules", "100", "--repetitions", "3")
    _weir("trial", *short, "--rules", "100", "--repetitions", "3", "--step", "0.02:900kpps")
    held_out = ("--rules", "150,300", "--frame", "64", "--loads", "30%,60%,90%,130%")
    _weir("fit", PROFILE)
    times = ("--duration", "0.01", "--warmup", "0.002", "--repetitions", "2")
    _weir("verify", PROFILE, *held_out, *times, "--lab", "sim", "--again")
    _calibrate()
    search = ("--lab", "sim", "--duration", "0.02", "--warmup", "0.005")
    _weir("search", *search, "--duration-sum", "0.04", "--rules", "0,400", "--frame", "64", "--width", "2%")
    _weir("rfc2544", *search, "--rules", "400", "--frame", "64,512", "--repetitions", "2")
    _weir("calls", "--calls", "5", "--duration", "0.5", "--warmup", "0.1", "--send", "--lab", "sim")
    (folder / "capacity.yaml").write_text(CAPACITY_SCENARIO)
    _weir("run", "capacity.yaml")
    clock = FakeClock()
    store = Store(folder / "store")

    def open_pair(pair: PairSpec) -> FakePair:
        manner = SwitchBehaviour(instant(pair.protocol).outage_s, shares_states=pair.sharing != "off")
        return FakePair(pair.protocol, manner, iter(()), clock)

    failover = FailoverStudy(open_pair, clocks=SwitchClocks(lambda: round(clock() * 1e9), clock.advance))
    _run(failover, store, from_plain(FAILOVER_SCENARIO, "here", FailoverScenario))

    def open_link(settings: MonitorSettings) -> FakeLink:
        return FakeLink(settings)

    monitor = MonitorStudy(open_link, clock=lambda: 0.0)
    _run(monitor, store, from_plain(MONITOR_SCENARIO, "here", MonitorScenario))
    routing = VoiceStudy(lambda network, talk_s: FakeLab(network, folder))
    _run(routing, store, from_plain(VOICE_SCENARIO, "here", VoiceScenario))


def _run(study: Study[Any, Any, Any], store: Store, scenario: Any) -> None:
    outcome = runner.run(study, scenario, Work(store, SilentProgress(), "weir run small.yaml"))
    assert outcome.problem() is None, outcome.problem()


def _calibrate() -> None:
    bed = FakeBed(FakeDevice(service_fixed_ns=100.0), lab="netns", dut="none", backend="xdp")
    with (
        patch.object(testbeds, "open_cable", lambda *_: bed),
        patch("weirlab.jobs.calibrations.choose", lambda *_: "netns"),
    ):
        _weir("calibrate", "--lab", "netns", "--duration", "0.05", "--repetitions", "2")


def _weir(*arguments: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    print(result.stdout.strip().splitlines()[-1])


@contextmanager
def _elsewhere(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ, WEIR_STORE=str(folder / "store"), COLUMNS="100"):
            yield
    finally:
        os.chdir(before)


@contextmanager
def _as_example(runs: Sequence[str]) -> Iterator[None]:
    """On a host that is nobody's, each run a minute after the last one, with the IDs that are known."""
    known = iter(runs)
    token, create = secrets.token_hex, Store.create

    def created(self: Store, kind: str, *arguments: Any, **options: Any) -> RunWriter:
        run = next(known)
        assert run.split("-")[2] == kind, (run, kind)
        begun = datetime.strptime(run[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        self._now = lambda: begun
        with patch.object(secrets, "token_hex", lambda n: run[-4:] if n == 2 else token(n)):
            return create(self, kind, *arguments, **options)

    with (
        patch.object(catalogue, "host", lambda: "example"),
        patch.object(catalogue, "kernel", lambda: "6.1.0-example"),
        patch.object(Store, "create", created),
    ):
        yield


def _transfer(path: Path) -> None:
    """A transfer of which some packets are lost behind the capture at the sender."""
    ends = [Namespace(f"weir-record-{os.getpid()}-{side}") for side in ("l", "r")]
    sender, receiver = ends
    try:
        for end in ends:
            end.create()
        _tool(
            "ip", "link", "add", "l0", "netns", sender.name, "type", "veth", "peer", "r0", "netns",
            receiver.name,
        )  # fmt: skip
        for end, link, address in ((sender, "l0", SENDER), (receiver, "r0", RECEIVER)):
            inside = ("ip", "netns", "exec", end.name)
            _tool(*inside, "ip", "addr", "add", f"{address}/24", "dev", link)
            _tool(*inside, "ip", "link", "set", link, "up")
            _tool(*inside, "ethtool", "-K", link, "tso", "off", "gso", "off", "gro", "off")
        rules = (
            "table ip loss { chain taken { type filter hook input priority 0; "
            f"tcp dport {PORT} meta length > 1000 numgen inc mod 50 == 30 drop; }}; }}"
        )
        _tool("ip", "netns", "exec", receiver.name, "nft", rules)
        command = ["tcpdump", "-n", "-i", "l0", "-w", str(path), "-U", "-s", "96", "--immediate-mode", "tcp"]
        dump = sender.call(lambda: subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        assert dump.stderr is not None
        assert any("listening on" in line for line in dump.stderr)
        _send(sender, receiver)
        time.sleep(1.0)
        dump.terminate()
        dump.communicate()
    finally:
        for end in ends:
            end.remove()


def _send(sender: Namespace, receiver: Namespace) -> None:
    listener = receiver.call(socket.socket)
    listener.bind((RECEIVER, PORT))
    listener.listen(1)
    with sender.call(socket.socket) as sending:
        sending.connect((RECEIVER, PORT))
        receiving, _ = listener.accept()
        with listener, receiving:
            reader = threading.Thread(target=_read_all, args=(receiving.recv,))
            reader.start()
            sending.sendall(bytes(TRANSFER_BYTES))
            sending.shutdown(socket.SHUT_WR)
            reader.join()


def _read_all(receive: Callable[[int], bytes]) -> None:
    while receive(1 << 16):
        pass


def _tool(*command: str) -> None:
    subprocess.run(command, check=True)
