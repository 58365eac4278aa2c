"""The lab between two ports of this machine: what passes a device of the user's, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.netns.wired_hosts import WiredHost, ip, tap_ports, wired_host

from weirlab.base.errors import InputError, LabError
from weirlab.lab import clean
from weirlab.lab.dut.blackbox import BlackBox
from weirlab.lab.linux.inventory import look
from weirlab.lab.linux.namespace import DIRECTORY
from weirlab.lab.wired.bed import WiredBed
from weirlab.lab.wired.ends import WiredSetting, wired_ends
from weirlab.records import RuleSetup
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

pytestmark = pytest.mark.netns

TRAFFIC = Traffic(Rate(500.0), Constant(128), warmup_s=0.0, duration_s=0.2)


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


OWNER = textwrap.dedent("""
    import sys, time
    from weirlab.lab.dut.blackbox import BlackBox
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
