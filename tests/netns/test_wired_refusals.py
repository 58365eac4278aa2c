"""Ports and devices with which a wired test stops, each with its message, and the ports as they were."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address, ip_network
from typing import Any, Self

import pytest
from tests.netns.wired_hosts import WiredHost, ip, wired_host

from weirlab.base.errors import LabError
from weirlab.lab.dut.rules import BlackBox
from weirlab.lab.linux import syscalls
from weirlab.lab.linux.interface import index_of
from weirlab.lab.linux.namespace import write_sysctls
from weirlab.lab.wired import bed as bed_module
from weirlab.lab.wired import ports
from weirlab.lab.wired.bed import WiredBed
from weirlab.lab.wired.ends import WiredSetting, wired_ends
from weirlab.measure.validity import sift
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

from .conftest import wait_until

pytestmark = pytest.mark.netns

Obstacle = Callable[[WiredHost, ExitStack], None]

_SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_ETH_P_ALL = 3


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[WiredHost]:
    for name in ("_CARRIER_S", "_ANSWER_S", "_SWAPPED_S"):
        monkeypatch.setattr(bed_module, name, 0.3)
    with wired_host() as made:
        yield made


def setting(host: WiredHost, **more: Any) -> WiredSetting:
    return WiredSetting(wired_ends(host.ports), **{"listen_s": 0.5, **more})


def in_a_bridge(host: WiredHost, undo: ExitStack) -> None:
    name = f"wtbr{os.getpid() % 10_000}"
    ip(f"link add {name} type bridge")
    undo.callback(ip, f"link delete {name}")
    ip(f"link set {host.ports[0]} master {name}")


def below_a_vlan(host: WiredHost, undo: ExitStack) -> None:
    name = f"wtv{os.getpid() % 10_000}"
    ip(f"link add link {host.ports[1]} name {name} type macvlan")
    undo.callback(ip, f"link delete {name}")


def with_a_route(host: WiredHost, undo: ExitStack) -> None:
    ip(f"route add 203.0.113.0/24 dev {host.ports[0]}")


def with_a_connection(host: WiredHost, undo: ExitStack) -> None:
    ip(f"addr add 203.0.113.9/28 dev {host.ports[0]}")
    host.inside("addr add 203.0.113.1/28 dev in0")
    server = host.device.call(lambda: socket.create_server(("203.0.113.1", 22)))
    undo.enter_context(server)
    undo.enter_context(socket.create_connection(("203.0.113.1", 22), 30))


def with_an_xdp_program(host: WiredHost, undo: ExitStack) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        index = index_of(netlink, host.ports[0])
    program = syscalls.load_xdp(2)
    undo.callback(os.close, program)
    undo.callback(os.close, syscalls.attach_native(program, index))


def without_carrier(host: WiredHost, undo: ExitStack) -> None:
    host.inside("link set out0 down")


def without_an_address(host: WiredHost, undo: ExitStack) -> None:
    host.device.call(lambda: write_sysctls({"net/ipv4/conf/all/arp_ignore": 1}))
    host.inside("addr flush dev in0")


def with_both_addresses_at_the_other_port(host: WiredHost, undo: ExitStack) -> None:
    host.device.call(lambda: write_sysctls({"net/ipv4/conf/all/arp_ignore": 1}))
    host.inside("addr flush dev in0")
    host.inside("addr add 198.19.0.1/24 dev in0")


def without_forwarding(host: WiredHost, undo: ExitStack) -> None:
    host.device.call(lambda: write_sysctls({"net/ipv4/ip_forward": 0}))


def nft(host: WiredHost, rule: str) -> None:
    """Add a rule to those that forwarded packets meet."""
    rules = f"table inet f {{ chain c {{ type filter hook forward priority 0; {rule}; }}; }}"
    host.device.call(lambda: subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True))


def that_drops_all(host: WiredHost, undo: ExitStack) -> None:
    nft(host, "drop")


def that_rewrites_payloads(host: WiredHost, undo: ExitStack) -> None:
    nft(host, "udp dport 7 @th,64,16 set 0x1234")


def that_copies(host: WiredHost, undo: ExitStack) -> None:
    mirror = "protocol ip u32 match u32 0 0 action mirred egress mirror dev out0"
    for command in ("qdisc add dev in0 ingress", f"filter add dev in0 parent ffff: {mirror}"):
        subprocess.run(["tc", "-n", host.device.name, *command.split()], check=True)


@contextmanager
def frames_from(host: WiredHost, *frames: bytes) -> Iterator[None]:
    """The device's side sends these frames all the time."""
    raw = host.device.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
    raw.bind(("in0", 0))
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.05):
            for frame in frames:
                # There is no room while the link comes up.
                with suppress(OSError):
                    raw.send(frame.ljust(60, b"\0"))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()
        raw.close()


def beside_a_switch(host: WiredHost, undo: ExitStack) -> None:
    bpdu = bytes.fromhex("0180c2000000 020000000001 0026 424203")
    undo.enter_context(frames_from(host, bpdu))


def beside_other_hosts(host: WiredHost, undo: ExitStack) -> None:
    frames = [bytes.fromhex(f"ffffffffffff 02000000000{n} 88b5") for n in (1, 2, 3)]
    undo.enter_context(frames_from(host, *frames))


OBSTACLES: list[tuple[Obstacle, str]] = [
    (in_a_bridge, "it belongs to wtbr"),
    (below_a_vlan, "is on top of it"),
    (with_a_route, "a route to 203.0.113.0/24 leads through it"),
    (with_a_connection, "a TCP connection with 203.0.113.1 goes over it"),
    (with_an_xdp_program, "it has an XDP program already"),
    (without_carrier, "has no carrier"),
    (without_an_address, "does not answer at wta.*: nobody there has the address 198.18.0.1"),
    (with_both_addresses_at_the_other_port, "198.19.0.1 answers at wta.*: are the cables swapped"),
    (without_forwarding, "none of .* frames .* arrived at wtb.*: the device answers on both sides"),
    (that_drops_all, "none of .* frames .* arrived at wtb.*: .* no filter drops UDP to port 7"),
    (
        that_rewrites_payloads,
        r"none of .* frames .* arrived at wtb.*: \d+ other frames did, so the device changes",
    ),
    (that_copies, "there is a loop behind the ports"),
    (beside_a_switch, r"a switch is connected to it \(spanning tree\)"),
    (beside_other_hosts, "3 hosts are connected to it|4 hosts are connected to it"),
]


@pytest.mark.parametrize(
    ("obstacle", "message"), OBSTACLES, ids=[obstacle.__name__ for obstacle, _ in OBSTACLES]
)
def test_a_wired_test_stops_and_the_ports_are_as_they_were(
    host: WiredHost, obstacle: Obstacle, message: str
) -> None:
    with ExitStack() as undo:
        obstacle(host, undo)
        before = host.state()
        with pytest.raises(LabError, match=message):
            WiredBed(setting(host, take=True), BlackBox())
        assert host.state() == before


def test_switches_and_hosts_are_accepted_where_the_ports_may_be_shared(host: WiredHost) -> None:
    with ExitStack() as undo:
        beside_a_switch(host, undo)
        with WiredBed(setting(host, shared=True), BlackBox()) as bed:
            assert bed.run(Traffic(Rate(500.0), Constant(128), warmup_s=0.0, duration_s=0.1)).lost == 0


def test_ports_are_listed_with_what_speaks_against_them(
    host: WiredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_a_route(host, ExitStack())
    found = {port.name: port for port in ports.survey()}
    first, second = (found[name] for name in host.ports)
    assert (first.usable, first.driver, first.carrier) == (False, "veth", True)
    assert "203.0.113.0/24" in first.objections[0]
    assert (second.usable, second.backend) == (True, "xdp")
    # Linux before 6.3 does not tell what a driver can.
    monkeypatch.setattr(ports, "xdp_features", lambda: None)
    assert {port.backend for port in ports.survey()} == {"auto"}


def test_frames_that_the_device_changes_are_no_loss_without_a_reason(host: WiredHost) -> None:
    with WiredBed(setting(host), BlackBox()) as bed:
        that_rewrites_payloads(host, ExitStack())
        result = bed.run(Traffic(Rate(500.0), Constant(128), warmup_s=0.0, duration_s=0.1))
        assert result.received == 0
        (reason, *_) = sift(result, bed.host(), 500.0).invalid
        assert "the device changes" in reason


def test_a_device_that_limits_icmp_still_answers(host: WiredHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours of IPv6 are found by ICMPv6."""
    monkeypatch.setattr(bed_module, "_ANSWER_S", 5.0)
    rules = "table inet f { chain c { type filter hook input priority 0; %s; }; }"
    limited = rules % "icmpv6 type nd-neighbor-solicit limit rate over 1/second burst 1 packets drop"
    host.device.call(lambda: subprocess.run(["nft", "-f", "-"], input=limited, text=True, check=True))
    with WiredBed(setting(host), BlackBox(), version=6) as bed:
        flows = Flows(ip=6)
        result = bed.run(Traffic(Rate(500.0), Constant(128), flows, warmup_s=0.0, duration_s=1.0))
        assert (result.received > 0, result.lost) == (True, 0)


def test_nothing_leaves_to_networks_that_are_not_for_tests(host: WiredHost) -> None:
    allowed = [ip_network(net) for net in ("198.18.0.0/15", "2001:2::/48", "fe80::/10", "ff02::/16")]
    # Before its first address, a host asks for it by ARP and ND without one.
    allowed += [ip_network("0.0.0.0/32"), ip_network("::/128")]
    raws = [host.device.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)) for _ in range(2)]
    for raw, port in zip(raws, ("in0", "out0"), strict=True):
        raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 23)
        raw.bind((port, _ETH_P_ALL))
        raw.setblocking(False)
    for version in (4, 6):
        with WiredBed(setting(host), BlackBox(), version=version) as bed:
            traffic = Traffic(Rate(500.0), Constant(128), Flows(50, ip=version), warmup_s=0.0, duration_s=0.1)
            assert bed.run(traffic).lost == 0
    seen = 0
    for raw in raws:
        with suppress(BlockingIOError):
            while True:
                frame, (_, _, kind, _, _) = raw.recvfrom(256)
                if kind != socket.PACKET_OUTGOING:
                    seen += 1
                    assert all(any(address in net for net in allowed) for address in addresses_of(frame))
        raw.close()
    assert seen > 100


def addresses_of(frame: bytes) -> list[Any]:
    """Sender's and receiver's IP addresses of a frame, of ARP as well."""
    kind, packet = frame[12:14].hex(), frame[14:]
    spans = {"0800": [(12, 16), (16, 20)], "0806": [(14, 18), (24, 28)], "86dd": [(8, 24), (24, 40)]}
    return [ip_address(packet[begin:end]) for begin, end in spans[kind]]


TRAFFIC = Traffic(Rate(2_000.0), Constant(128), warmup_s=0.0, duration_s=1.0)


def cut_during(trials: int, bed: WiredBed, host: WiredHost, patch: pytest.MonkeyPatch) -> list[list[int]]:
    """Let the link go down during the next ``trials`` trials, however late that is; what the bed counts."""
    count, cuts, counts = bed._flaps, list[threading.Timer](), list[list[int]]()

    def flaps() -> list[int]:
        if len(counts) % 2 and cuts:
            # The trial is over for the bed when the link has been down.
            cuts[-1].join()
        counts.append(count())
        if len(counts) % 2 and len(cuts) < trials:
            cuts.append(
                threading.Timer(0.4, lambda: [host.inside(f"link set out0 {to}") for to in ("down", "up")])
            )
            cuts[-1].start()
        return counts[-1]

    patch.setattr(bed, "_flaps", flaps)
    return counts


def test_a_trial_during_which_the_link_went_down_is_repeated_once(
    host: WiredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WiredBed(setting(host), BlackBox()) as bed:
        # Lower loads come before.
        bed.prepare(bed.compiled(TRAFFIC))
        counts = cut_during(1, bed, host, monkeypatch)
        result = bed.run(TRAFFIC)
        assert (result.received > 0, result.lost) == (True, 0)
    before, after, *again = counts
    assert before != after
    assert again == [after, after]


def test_a_link_that_goes_down_again_and_again_ends_the_run(
    host: WiredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = host.state()
    with WiredBed(setting(host), BlackBox()) as bed:
        bed.prepare(bed.compiled(TRAFFIC))
        cut_during(2, bed, host, monkeypatch)
        with pytest.raises(LabError, match="went down during the trial, twice"):
            bed.run(TRAFFIC)
    assert host.state() == before


class FrameClock:
    """When the last IPv4 frame came to the device, by the kernel's clock."""

    def __init__(self, host: WiredHost) -> None:
        self.frames, self.last_ns = 0, 0
        self._raw = host.device.call(
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        )
        self._raw.bind(("in0", 0x0800))
        self._raw.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._raw.settimeout(0.05)
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._reader.join()
        self._raw.close()

    def _read(self) -> None:
        while not self._over.is_set():
            with suppress(TimeoutError):
                _, ((_, _, stamp),), _, _ = self._raw.recvmsg(64, 64)
                seconds, rest_ns = struct.unpack("qq", stamp)
                self.frames, self.last_ns = self.frames + 1, seconds * 10**9 + rest_ns


@pytest.mark.alone
@pytest.mark.parametrize("backend", ["xdp", "af_packet"])
@pytest.mark.parametrize("rate", ["15pps", "1kpps"])
def test_ctrl_c_stops_the_traffic_at_once_and_puts_the_ports_back(
    rate: str, backend: str, host: WiredHost, tmp_path: Any
) -> None:
    """Within 20 ms if the CPUs are free, which they are not always during tests."""
    before = host.state()
    command = [
        *(sys.executable, "-m", "weirlab", "trial", "--between", *host.ports, "--yes", "--shared"),
        *("--rate", rate, "--duration", "60", "--backend", backend, "--store", str(tmp_path)),
    ]
    with FrameClock(host) as clock:
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # More than those that prove the path.
        wait_until(lambda: clock.frames >= 30)
        stopped_ns = time.time_ns()
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        time.sleep(0.1)
        assert clock.last_ns - stopped_ns < 100e6
    assert host.state() == before
