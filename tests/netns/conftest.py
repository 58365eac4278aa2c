"""Plain sockets in a lab's namespaces, to see what its device lets through without the engine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
from pyroute2 import IPRoute

from weirlab._engine import ParallelProxy
from weirlab.lab import clean
from weirlab.lab.linux import scheduling
from weirlab.lab.linux.interface import add_address
from weirlab.lab.linux.namespace import DIRECTORY, Namespace
from weirlab.lab.netns import NetnsLab

ALONE = {
    "test_failover", "test_monitor", "test_pair", "test_parallel", "test_partition", "test_planted",
    "test_redundant", "test_scheduling", "test_search", "test_tcp_study",
}  # fmt: skip
"""Files that ask how long something takes, or what there is on this machine."""

KILLING = "test_whatever_ends_the_owner"
"""Begins the names of tests that kill a lab's owner and clean up after it: nobody else may do that first."""

VOICE = {
    "test_voice", "test_voice_agreement", "test_voice_gateways", "test_voice_mistakes", "test_voice_numbers",
}  # fmt: skip
"""Files of voice networks of their own, which wait for most of their time: they run beside all others."""

BESIDE = {
    "test_emulated_device", "test_emulator", "test_equivalence", "test_full_page", "test_full_store",
    "test_netem", "test_psock", "test_psock_run", "test_psock_run_ends", "test_psock_run_networks",
    "test_record", "test_tap", "test_tcp", "test_tcp_between", "test_tcp_events", "test_tcp_samples",
    "test_trace_real", "test_voice_through", "test_web_rights",
}  # fmt: skip
"""Files without a test bed, which would claim the measuring CPUs. They run beside those with one, but one
after another, since some look at every tap and emulated link of this machine, or clean up after them."""

DEADLINE_S = 60.0
"""How long something that is sure to happen may take on a busy machine."""

SENDER = {4: "198.18.1.1", 6: "2001:2:0:1::101"}
RECEIVER = {4: "198.19.1.1", 6: "2001:2:0:2::101"}
STRANGER = "192.0.2.1"
"""Sends what is no test traffic."""
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
PORT = 7


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Three workers: one for the test beds, two for what runs beside them."""
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class Sides(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = Path(nodeid.partition("::")[0])
            if path.parent.name != "netns":
                return str(path)
            if path.stem in VOICE:
                return "voice"
            return "beside" if path.stem in BESIDE else "beds"

    return Sides(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        if item.path.stem in ALONE or item.name.startswith(KILLING):
            item.add_marker(pytest.mark.alone)


class PlainTraffic:
    """Sends test traffic through ``lab`` with ordinary sockets."""

    def __init__(self, lab: NetnsLab) -> None:
        self.lab = lab
        self._tx = Namespace(lab.namespaces["tx"])
        self._rx = Namespace(lab.namespaces["rx"])
        self._dut = Namespace(lab.namespaces["dut"])
        self._tx.call(lambda: _add_addresses(*SENDER.values(), STRANGER))
        self._rx.call(lambda: _add_addresses(*RECEIVER.values()))

    def arrives(self, ip: int = 4, l4: str = "udp") -> bool:
        """Whether test traffic reaches the receiver; waits for it, so use it where it should.

        Sends again every second: links that were wired a moment ago may lose a first datagram,
        which says nothing of the device's rules.
        """
        kind = socket.SOCK_RAW if l4 == "tcp" else socket.SOCK_DGRAM
        protocol = socket.IPPROTO_TCP if l4 == "tcp" else 0
        with self._rx.call(lambda: socket.socket(FAMILY[ip], kind, protocol)) as receiver:
            receiver.bind((RECEIVER[ip], 0 if l4 == "tcp" else PORT))
            receiver.settimeout(1.0)
            end = time.monotonic() + DEADLINE_S
            while time.monotonic() < end:
                with self._socket(ip, l4, SENDER[ip]) as sender:
                    self._send(sender, ip, l4)
                    try:
                        return bool(receiver.recv(2048))
                    except TimeoutError:
                        continue
            return False

    def is_dropped(self, source: str = SENDER[4], arrivals: Sequence[str] = ("ip_received",)) -> bool:
        """Whether the device takes UDP from ``source`` in and lets none of it out.

        ``arrivals`` are counters of packets that the device has taken in.
        """

        def came(counters: Mapping[str, int]) -> int:
            return sum(counters[name] for name in arrivals)

        before, count, noise = self.lab.counters(), 20, 8
        with self._socket(4, "udp", source) as sender:
            for _ in range(count):
                self._send(sender, 4, "udp")
        # The device works in order: when the last have come in, the fate of the first is settled.
        wait_until(lambda: came(self.lab.counters()) >= came(before) + count)
        return self.lab.counters()["out_tx_packets"] - before["out_tx_packets"] < noise

    def add_sender(self, address: str) -> None:
        """Give the sender another address."""
        self._tx.call(lambda: _add_addresses(address))

    def source_on_arrival(self) -> str:
        """The source address of a datagram of test traffic when it arrives."""
        with self._rx.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as receiver:
            receiver.bind((RECEIVER[4], PORT))
            receiver.settimeout(DEADLINE_S)
            with self._socket(4, "udp", SENDER[4]) as sender:
                self._send(sender, 4, "udp")
                return str(receiver.recvfrom(2048)[1][0])

    def tracked_connections(self) -> int:
        path = Path("/proc/sys/net/netfilter/nf_conntrack_count")
        return self._dut.call(lambda: int(path.read_text())) if path.exists() else 0

    def rules(self) -> dict[str, str]:
        """What every tool says of the device's rules, without counters and dates."""
        commands = ["iptables-legacy-save", "ip6tables-legacy-save", "nft --stateless list ruleset"]
        return {command: self._dut.call(lambda c=command: _dump(c.split())) for command in commands}

    def _socket(self, ip: int, l4: str, source: str) -> socket.socket:
        kind = socket.SOCK_STREAM if l4 == "tcp" else socket.SOCK_DGRAM
        sender = self._tx.call(lambda: socket.socket(FAMILY[ip], kind))
        sender.setblocking(False)
        sender.bind((source, 0))
        return sender

    def _send(self, sender: socket.socket, ip: int, l4: str) -> None:
        if l4 == "tcp":
            sender.connect_ex((RECEIVER[ip], PORT))
        else:
            sender.sendto(b"probe", (RECEIVER[ip], PORT))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what is sure to come."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {DEADLINE_S} s")
        time.sleep(0.005)


def _add_addresses(*addresses: str) -> None:
    with IPRoute() as netlink:
        loopback = netlink.link_lookup(ifname="lo")[0]
        for address in addresses:
            add_address(netlink, loopback, address, 128 if ":" in address else 32)


def _dump(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    kept = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return "\n".join(line.split(" [")[0] if line.startswith(":") else line for line in kept)


@contextmanager
def tcpdump(
    netns: Namespace, interface: str, path: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Record what passes ``interface`` while the block runs; yields the program and its standard error."""
    command = [
        "tcpdump", "-n", "-i", interface, "-w", str(path), "-U", "--immediate-mode",
        "--time-stamp-precision", "nano", *options,
    ]  # fmt: skip
    process = netns.call(lambda: subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    assert process.stderr is not None
    try:
        told = process.stderr.readline()
        while "listening on" not in told:
            assert told, f"tcpdump ended with {process.wait()}"
            told = process.stderr.readline()
        yield process, process.stderr
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        process.wait()
    assert "0 packets dropped by kernel" in rest


@pytest.fixture
def plain_traffic() -> Callable[[NetnsLab], PlainTraffic]:
    return PlainTraffic


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    return wait_until


@dataclass
class Made:
    """What the labs of one test were made of."""

    identifiers: list[str] = field(default_factory=list)
    napi_threads: list[int] = field(default_factory=list)

    def left(self) -> list[str]:
        """What of it still exists."""
        found = [
            str(path)
            for identifier in self.identifiers
            for path in (*DIRECTORY.glob(f"weir-{identifier}-*"), *clean.LOCKS.glob(f"{identifier}.*"))
        ]
        threads = scheduling.threads("in0") | scheduling.threads("out0") | scheduling.threads("rx0")
        return found + [f"kernel thread {thread}" for thread in self.napi_threads if thread in threads]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Notes what labs are made of; labs of other processes on this machine do not count."""
    record = Made()
    claim, pin = clean.LabOwnership, scheduling.pin

    class NotedClaim(claim):
        def __init__(self, directory: Path = clean.LOCKS) -> None:
            super().__init__(directory)
            record.identifiers.append(self.identifier)

    def noted_pin(interface_name: str, before: set[int], cpu: int) -> int:
        thread = pin(interface_name, before, cpu)
        record.napi_threads.append(thread)
        return thread

    monkeypatch.setattr(clean, "LabOwnership", NotedClaim)
    monkeypatch.setattr(scheduling, "pin", noted_pin)
    return record


@pytest.fixture(scope="module")
def proxy() -> Iterator[ParallelProxy]:
    """A proxy of parallel sockets on the far one of two hosts."""
    from .psock_hosts import hosts_with_proxy

    with hosts_with_proxy() as running:
        yield running


@pytest.fixture
def hosts() -> Iterator[tuple[Namespace, Namespace]]:
    """A client's namespace and a server's, joined by a veth pair."""
    names = [f"weir-test-tcp-{os.getpid()}-{end}" for end in "ab"]
    client, server = map(Namespace, names)
    try:
        for end in (client, server):
            end.create()
        _run_ip(f"link add a0 netns {names[0]} type veth peer name b0 netns {names[1]}")
        for name, link, last in zip(names, ("a0", "b0"), (1, 2), strict=True):
            _run_ip(f"-n {name} addr add 198.18.0.{last}/30 dev {link}")
            _run_ip(f"-n {name} addr add 2001:2::{last}/64 dev {link} nodad")
            _run_ip(f"-n {name} link set {link} up")
        yield client, server
    finally:
        client.remove()
        server.remove()


def _run_ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)
