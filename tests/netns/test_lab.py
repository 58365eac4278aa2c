"""Labs in namespaces: built as promised, several at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.lab import dut, wiring
from weirlab.lab.cores import Cores, choose
from weirlab.lab.linux.namespace import DIRECTORY, Namespace
from weirlab.lab.namespaces import BackendChoice, PlainPair
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup
from weirlab.traffic.spec import Flows, Rate, Traffic

pytestmark = pytest.mark.netns


def test_namespaces_carry_the_labs_identifier(made: Any) -> None:
    with NetnsLab(dut.make("forward")) as lab:
        (identifier,) = made.identifiers
        assert dict(lab.namespaces) == {part: f"weir-{identifier}-{part}" for part in ("tx", "dut", "rx")}
        assert all((DIRECTORY / name).exists() for name in lab.namespaces.values())


def test_receive_work_of_the_device_is_bound_to_its_cpu(made: Any) -> None:
    sender, device = choose().dut, choose().sender
    with NetnsLab(dut.make("forward"), cores=Cores(sender=sender, dut=device)):
        assert len(made.napi_threads) == 2
        assert all(os.sched_getaffinity(thread) == {device} for thread in made.napi_threads)


def test_labs_side_by_side_do_not_meddle(made: Any, plain_traffic: Callable[..., Any]) -> None:
    here, there = choose(), Cores(sender=choose().dut, dut=choose().sender)
    with (
        NetnsLab(dut.make("nftables"), cores=here) as first,
        NetnsLab(dut.make("nftables"), cores=there) as second,
    ):
        assert len(set(made.napi_threads)) == 4
        assert [os.sched_getaffinity(thread) for thread in made.napi_threads] == [{here.dut}] * 2 + [
            {there.dut}
        ] * 2
        first.set_rules(RuleSetup(5))
        assert "10.0.0.0/28" not in str(plain_traffic(second).rules())
        second.close()
        assert plain_traffic(first).arrives()


def test_links_have_the_promised_shape() -> None:
    from pyroute2 import IPRoute

    def describe() -> dict[str, tuple[int, str]]:
        with IPRoute() as netlink:
            links = {link.get_attr("IFLA_IFNAME"): link for link in netlink.get_links()}
            return {
                name: (link.get_attr("IFLA_MTU"), link.get_attr("IFLA_ADDRESS"))
                for name, link in links.items()
                if name != "lo"
            }

    with NetnsLab(dut.make("forward")) as lab:
        seen = {part: Namespace(name).call(describe) for part, name in lab.namespaces.items()}
    assert seen == {
        "tx": {"tx0": (2048, wiring.TX0.mac)},
        "dut": {"in0": (2048, wiring.IN0.mac), "out0": (2048, wiring.OUT0.mac)},
        "rx": {"rx0": (2048, wiring.RX0.mac)},
    }


def test_counters_tell_what_went_through(plain_traffic: Callable[..., Any]) -> None:
    with NetnsLab(dut.make("forward")) as lab:
        traffic = plain_traffic(lab)
        before = lab.counters()
        assert traffic.arrives()
        after = lab.counters()
    for counter in ("tx_tx_packets", "in_rx_packets", "ip_received", "out_tx_packets", "rx_rx_packets"):
        assert after[counter] > before[counter], counter
    assert after["in_rx_dropped"] == 0


def test_plain_pair_is_a_cable_without_a_device(made: Any) -> None:
    with PlainPair() as pair:
        assert (pair.lab, pair.dut) == ("netns", "none")
        assert set(pair.namespaces) == {"tx", "rx"}
        assert not made.napi_threads
        pair.set_rules(RuleSetup())
        with pytest.raises(InputError, match="no device"):
            pair.set_rules(RuleSetup(1))


def test_plain_pair_can_receive_on_the_cpu_of_the_device(made: Any) -> None:
    with PlainPair(apart=True):
        assert [os.sched_getaffinity(thread) for thread in made.napi_threads] == [{choose().dut}]


def test_driver_that_cannot_work_here_is_refused_before_anything_is_built(made: Any) -> None:
    driver = dut.make("nftables")
    driver.check = lambda: ["nft is not installed: apt install nftables"]  # type: ignore[method-assign]
    with pytest.raises(MissingCapability, match="device nftables: nft is not installed"):
        NetnsLab(driver)
    assert made.identifiers == []


def test_more_flows_than_the_connection_table_holds_are_refused() -> None:
    room = int(Path("/proc/sys/net/netfilter/nf_conntrack_max").read_text())
    with NetnsLab(dut.make("nftables")) as lab:
        lab.set_rules(RuleSetup(1, stateful=True))
        with pytest.raises(LabError, match="nf_conntrack_max"):
            lab.run(Traffic(Rate(1000), flows=Flows(count=room + 1)))


@pytest.mark.parametrize("kind", ["netns", "pair"])
@pytest.mark.parametrize("backend", ["xdp", "af_packet"])
def test_engine_sends_through_the_lab(backend: BackendChoice, kind: str, eventually: Any) -> None:
    pytest.importorskip("weirlab._engine", reason="the engine is not built")
    with PlainPair(backend) if kind == "pair" else NetnsLab(dut.make("nftables"), backend) as bed:
        before, results = bed.counters(), []

        def some_arrived() -> bool:
            results.append(bed.run(Traffic(Rate(1000), warmup_s=0.1, duration_s=0.2)))
            return bool(results[-1].received)

        # A machine busy enough can keep a sender waiting for longer than a trial lasts.
        eventually(some_arrived)
        after = bed.counters()
        assert bed.backend == results[-1].backend == backend
    arrived = sum(result.received for result in results)
    assert after["rx_rx_packets"] - before["rx_rx_packets"] >= arrived


def test_without_privileges_the_missing_ones_are_named_and_nothing_is_made() -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs the command setpriv (Debian package util-linux)")
    program = textwrap.dedent("""
        from weirlab.base.errors import MissingCapability
        from weirlab.lab import clean, doctor, dut
        from weirlab.lab.namespaces import PlainPair
        from weirlab.lab.netns import NetnsLab

        made, claim = [], clean.LabOwnership
        clean.LabOwnership = lambda: made.append(claim()) or made[-1]
        labs = [lambda name=name: NetnsLab(dut.make(name)) for name in ("forward", "nftables")]
        for build in (*labs, PlainPair):
            try:
                build()
            except MissingCapability as error:
                print(error)
        print(doctor.missing_for_namespaces())
        left = [claim.identifier for claim in made if (clean.LOCKS / f"{claim.identifier}.lock").exists()]
        print("left", left)
    """)
    done = subprocess.run(
        ["setpriv", "--bounding-set=-all", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    plain, driver, pair, missing, left = done.stdout.splitlines()
    for message in (plain, driver, pair):
        assert "run as root" in message or "root lacks a privilege here; weir doctor says which" in message
    assert missing.startswith("privileges: missing CAP_NET_ADMIN")
    assert left == "left []"
