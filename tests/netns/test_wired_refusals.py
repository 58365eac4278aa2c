"""Ports and devices with which a wired test stops, each with its message, and the ports as they were."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.netns.wired_hosts import WiredHost, ip, wired_host

from weirlab.base.errors import LabError
from weirlab.lab.dut.blackbox import BlackBox
from weirlab.lab.linux import bpf
from weirlab.lab.linux.interface import index_of
from weirlab.lab.linux.namespace import write_sysctls
from weirlab.lab.wired import bed as bed_module
from weirlab.lab.wired import features, ports
from weirlab.lab.wired.bed import WiredBed
from weirlab.lab.wired.ends import WiredSetting, wired_ends
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

pytestmark = pytest.mark.netns

Obstacle = Callable[[WiredHost, ExitStack], None]


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
    program = bpf.load(2)
    undo.callback(os.close, program)
    undo.callback(os.close, bpf.attach_native(program, index))


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
    monkeypatch.setattr(features, "xdp_features", lambda: None)
    assert {port.backend for port in ports.survey()} == {"auto"}


TRAFFIC = Traffic(Rate(2_000.0), Constant(128), warmup_s=0.0, duration_s=1.0)


def test_a_trial_during_which_the_link_went_down_is_repeated_once(host: WiredHost) -> None:
    with WiredBed(setting(host), BlackBox()) as bed:
        cut = threading.Timer(0.4, lambda: [host.inside(f"link set out0 {to}") for to in ("down", "up")])
        cut.start()
        result = bed.run(TRAFFIC)
        cut.join()
        assert result.received > 0
        assert result.lost == 0


def test_a_link_that_goes_down_again_and_again_ends_the_run(host: WiredHost) -> None:
    before = host.state()
    over = threading.Event()

    def flap() -> None:
        while not over.wait(0.3):
            for to in ("down", "up"):
                host.inside(f"link set out0 {to}")

    with WiredBed(setting(host), BlackBox()) as bed:
        flapping = threading.Thread(target=flap)
        flapping.start()
        try:
            with pytest.raises(LabError, match=r"went down during the trial, twice|has no carrier"):
                bed.run(replace(TRAFFIC, duration_s=2.0))
        finally:
            over.set()
            flapping.join()
    assert host.state() == before


def test_ctrl_c_stops_the_traffic_and_puts_the_ports_back(host: WiredHost, tmp_path: Any) -> None:
    before = host.state()
    command = [
        *(sys.executable, "-m", "weirlab", "trial", "--between", *host.ports, "--yes", "--shared"),
        *("--rate", "1kpps", "--duration", "60", "--store", str(tmp_path)),
    ]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while _received(host) < 1_000 and time.monotonic() < end:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    assert host.state() == before


def _received(host: WiredHost) -> int:
    path = "/sys/class/net/in0/statistics/rx_packets"
    command = ["ip", "netns", "exec", host.device.name, "cat", path]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)
