"""The lab between two ports of this machine: what passes a device of the user's, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.netns.wired_hosts import WiredHost, ip, tap_ports, wired_host

from weirlab.base.errors import InputError, LabError
from weirlab.lab import clean
from weirlab.lab.cores import choose
from weirlab.lab.dut.rules import BlackBox
from weirlab.lab.linux.inventory import look
from weirlab.lab.linux.namespace import DIRECTORY
from weirlab.lab.wired.bed import WiredBed
from weirlab.lab.wired.ends import WiredSetting, wired_ends
from weirlab.records import REFUSED, RuleSetup
from weirlab.store import Store
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

pytestmark = pytest.mark.netns

TRAFFIC = Traffic(Rate(500.0), Constant(128), warmup_s=0.0, duration_s=1.0)


@pytest.fixture
def host() -> Iterator[WiredHost]:
    with wired_host() as made:
        yield made


def setting(host: WiredHost, **more: Any) -> WiredSetting:
    return WiredSetting(wired_ends(host.ports), **{"listen_s": 0.1, **more})


@pytest.mark.parametrize("backend", ["xdp", "af_packet"])
@pytest.mark.parametrize("flows", [Flows(), Flows(100), Flows(ip=6)], ids=["v4", "many", "v6"])
def test_every_frame_passes_a_router_whose_hosts_the_tester_plays(
    host: WiredHost, backend: Any, flows: Flows
) -> None:
    before = host.state()
    with WiredBed(setting(host), BlackBox(), backend, version=flows.ip) as bed:
        result = bed.run(replace(TRAFFIC, flows=flows))
        assert (bed.backend, result.received > 0, result.lost) == (backend, True, 0)
        assert bed.facts["between"] == list(host.ports)
    assert host.state() == before


def test_two_senders_share_the_flows_and_every_frame_is_counted(host: WiredHost) -> None:
    """The second one has the receiver's CPU, since there may be no third."""
    found = choose()
    with WiredBed(setting(host), BlackBox(), "xdp", replace(found, further=(found.dut,))) as bed:
        assert bed.facts["sender_cpus"] == [found.sender, found.dut]
        result = bed.run(replace(TRAFFIC, flows=Flows(7)))
        assert (result.lost, result.duplicated, result.reordered) == (0, 0, 0)
        assert (result.flows.received == result.flows.sent).all()
        # One sender has three flows for every other frame, the other one four; each may be kept from its CPU.
        assert 0 < result.flows.sent[:3].sum() <= 252
        assert 0 < result.flows.sent[3:].sum() <= 252


@pytest.mark.parametrize("backend", ["xdp", "af_packet"])
def test_every_frame_passes_a_bridge(backend: Any) -> None:
    with wired_host("bridge") as host, WiredBed(setting(host, mode="bridge"), BlackBox(), backend) as bed:
        assert bed.run(TRAFFIC).lost == 0


def test_without_a_device_the_ports_are_the_ends_of_a_cable() -> None:
    name = f"wtc{os.getpid() % 10_000}"
    ip(f"link add {name} type veth peer name {name}x")
    try:
        for end in (name, f"{name}x"):
            subprocess.run(["ethtool", "-K", end, "gro", "on"], check=True)
        with WiredBed(WiredSetting(wired_ends((name, f"{name}x"))), None) as bed:
            assert (bed.dut, bed.run(TRAFFIC).lost) == ("none", 0)
    finally:
        ip(f"link delete {name}")


def test_a_program_between_two_tap_interfaces_is_a_device() -> None:
    with tap_ports() as names:
        ends = WiredSetting(wired_ends(names), mode="bridge", listen_s=0.1)
        with WiredBed(ends, BlackBox()) as bed:
            result = bed.run(TRAFFIC)
            assert result.received > 0
            assert result.lost == 0
        assert all(look()[name].up for name in names)


def test_frames_that_a_full_port_refuses_are_counted() -> None:
    flowing = threading.Event()
    flowing.set()
    with tap_ports(flowing) as names:
        ends = WiredSetting(wired_ends(names), mode="bridge", listen_s=0.1)
        with WiredBed(ends, BlackBox(), "xdp") as bed:
            assert bed.run(TRAFFIC).lost == 0
            flowing.clear()
            before = bed.counters()[REFUSED]
            result = bed.run(Traffic(Rate(20_000.0), Constant(128), warmup_s=0.0, duration_s=0.2))
            refused = bed.counters()[REFUSED] - before
            flowing.set()
            assert result.received == 0
            # Those that wait in the port have not left either.
            assert refused > result.sent / 4


def test_packet_sockets_are_used_where_frames_sent_by_xdp_do_not_arrive() -> None:
    with wired_host() as host:
        host.device.call(lambda: subprocess.run(["ethtool", "-K", "in0", "gro", "off"], check=True))
        with WiredBed(setting(host), BlackBox()) as bed:
            assert bed.backend == "af_packet"
            assert "XDP" in str(bed.facts["fallback_reason"])
            assert bed.run(TRAFFIC).lost == 0


@pytest.mark.parametrize("up", ["up", "down"])
def test_ports_come_back_with_addresses_routes_and_settings(host: WiredHost, up: str) -> None:
    first, second = host.ports
    ip(f"link set {second} {up} mtu 1400")
    ip(f"addr add 203.0.113.9/28 dev {first}")
    ip(f"addr add 203.0.113.20/28 dev {second}")
    subprocess.run(["sysctl", "-qw", f"net.ipv4.conf.{first}.rp_filter=2"], check=True)
    before = host.state()
    with pytest.raises(LabError, match="--take"):
        WiredBed(setting(host), BlackBox())
    assert host.state() == before
    with WiredBed(setting(host, take=True), BlackBox()) as bed:
        assert bed.run(TRAFFIC).lost == 0
    assert host.state() == before


_SHORT = ("--frame", "128", "--max-rate", "20kpps", "--width", "20%")


@pytest.mark.parametrize(
    "command",
    [
        ("search", *_SHORT, "--loss", "0.5%", "--duration", "0.05", "--duration-sum", "0.1"),
        ("rfc2544", *_SHORT, "--tests", "throughput,latency", "--repetitions", "1", "--duration", "0.05"),
        ("calls", "--calls", "5", "--send", "--duration", "0.5"),
        (
            *("capacity", "--first", "5", "--last", "10", "--step", "5", "--no-search", "--no-inside"),
            *("--repetitions", "1", "--duration", "0.5"),
        ),
    ],
    ids=lambda command: str(command[0]),
)
def test_every_kind_of_measurement_is_made_between_two_ports(
    command: tuple[str, ...], host: WiredHost, tmp_path: Path
) -> None:
    """A busy machine may spoil every trial, which is told."""
    before = host.state()
    between = ("--between", *host.ports, "--yes", "--shared", "--store", str(tmp_path))
    words = [sys.executable, "-m", "weirlab", *command, *between, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 5), done.stderr
    run = Store(tmp_path).open("last")
    assert (run.manifest.facts["lab"], run.manifest.facts["between"]) == ("wired", list(host.ports))
    assert run.trials()["received"].sum() > 0
    assert host.state() == before


OWNER = textwrap.dedent("""
    import sys, time
    from weirlab.lab.dut.rules import BlackBox
    from weirlab.lab.wired.bed import WiredBed
    from weirlab.lab.wired.ends import WiredSetting, wired_ends
    with WiredBed(WiredSetting(wired_ends(sys.argv[1:])), BlackBox()) as bed:
        print(bed.namespaces["tx"], flush=True)
        time.sleep(600)
""")


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_the_owner_the_next_command_puts_the_ports_back(
    host: WiredHost, fatal: signal.Signals
) -> None:
    before = host.state()
    owner = subprocess.Popen([sys.executable, "-c", OWNER, *host.ports], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    name = owner.stdout.readline().strip()
    assert (DIRECTORY / name).exists()
    with pytest.raises(LabError, match=f"in use by another run of weir .process {owner.pid}"):
        WiredBed(setting(host), BlackBox())
    owner.send_signal(fatal)
    owner.wait()
    owner.stdout.close()
    clean.clean()
    assert host.state() == before
    assert not (DIRECTORY / name).exists()


def test_a_port_that_cannot_be_put_back_keeps_its_namespace(
    host: WiredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is taken meanwhile: a veth would be deleted with its namespace."""
    before = host.state()
    first = host.ports[0]
    bed = WiredBed(setting(host), BlackBox())
    ip(f"link add {first} type bridge")
    with pytest.raises(LabError, match=f"{first} is still in the namespace {bed.namespaces['tx']}"):
        bed.close()
    assert (DIRECTORY / bed.namespaces["tx"]).exists()
    ip(f"link delete {first}")
    clean.clean()
    assert host.state() == before
    assert not (DIRECTORY / bed.namespaces["tx"]).exists()


def test_a_black_box_has_no_rules_to_set(host: WiredHost) -> None:
    with (
        WiredBed(setting(host), BlackBox()) as bed,
        pytest.raises(InputError, match="only matching position 0"),
    ):
        bed.set_rules(RuleSetup(3))
