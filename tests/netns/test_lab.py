"""Labs in namespaces: built as promised, several at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weirlab.errors import InputError, LabError, MissingCapability
from weirlab.lab import dut, wiring
from weirlab.lab.cores import Cores, choose
from weirlab.lab.isolation import partition
from weirlab.lab.linux.namespace import DIRECTORY, Namespace
from weirlab.lab.namespaces import BackendChoice
from weirlab.lab.netns import NetnsLab, PlainPair
from weirlab.measure import windows
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


def policies_during(lab: NetnsLab, threads: Iterable[int], seconds: float) -> set[int]:
    """Scheduling policies that the threads have while a trial of so many seconds lasts."""
    trial = Traffic(Rate(200), warmup_s=0.0, duration_s=seconds)
    running = threading.Thread(target=lab.run, args=(trial,))
    seen: set[int] = set()
    running.start()
    while running.is_alive():
        seen |= {os.sched_getscheduler(thread) for thread in threads}
    running.join()
    return seen


def test_the_device_is_real_time_during_a_short_trial_only(made: Any) -> None:
    with NetnsLab(dut.make("forward"), "xdp") as lab:
        threads = made.napi_threads
        assert lab.backend == "xdp"
        assert policies_during(lab, threads, 0.3) == {os.SCHED_OTHER, os.SCHED_FIFO}
        assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_OTHER}
        assert policies_during(lab, threads, 1.0) == {os.SCHED_OTHER}, "the kernel would stop it"
        assert "real_time_refused" not in lab.facts


needs_btf = pytest.mark.skipif(
    not Path("/sys/kernel/btf/vmlinux").exists(),
    reason="this kernel does not tell where its structs have what",
)


@needs_btf
def test_the_sender_sees_what_the_scheduler_counts() -> None:
    with NetnsLab(dut.make("forward"), "xdp") as lab:
        result = lab.run(Traffic(Rate(20_000), warmup_s=0.02, duration_s=0.1))
    found = result.windows
    assert found is not None
    looks = found.looks
    assert looks is not None
    assert looks.ran_ns.shape == looks.waited_ns.shape == (52, 2)
    seen = looks.at_ns > 0
    at_ns = looks.at_ns[seen].astype(np.int64)
    assert (np.diff(at_ns) > 0).all()
    assert at_ns[0] < result.record_start_ns < at_ns[-1]
    for counted in (looks.ran_ns, looks.waited_ns):
        assert (np.diff(counted[seen].astype(np.int64), axis=0) >= 0).all()
    ran_ns = np.ptp(looks.ran_ns[seen].astype(np.int64), axis=0)
    assert 0 < ran_ns.sum() < at_ns[-1] - at_ns[0]
    # Every arrival is in the histogram of the bin that it departed in.
    of_bin = np.diff(found.end.astype(np.int64), prepend=0)
    counts = np.add.reduceat(found.count, np.cumsum(of_bin[of_bin > 0]) - of_bin[of_bin > 0])
    assert counts.tolist() == result.series.received[result.series.received > 0].tolist()
    assert counts.sum() == result.histogram.count.sum() == result.received


@needs_btf
def test_while_other_work_has_the_devices_cpu_no_bin_counts() -> None:
    cpu = choose().dut
    with NetnsLab(dut.make("forward"), "xdp") as lab:
        lab.run(Traffic(Rate(20_000), warmup_s=0.0, duration_s=0.01))
        if refused := lab.facts.get("real_time_refused"):
            pytest.skip(f"nothing can take the CPU for itself: {refused}")
        had_ns: list[int] = []

        def meddle() -> None:
            """Take the device's CPU for 10 ms, with more right to it, when a thousand packets have passed."""
            passed = lab.counters()["in_rx_packets"]
            started.set()
            while lab.counters()["in_rx_packets"] < passed + 1000:
                pass
            os.sched_setaffinity(0, {cpu})
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
            had_ns.append(time.monotonic_ns())
            while time.monotonic_ns() - had_ns[0] < 10_000_000:
                pass
            had_ns.append(time.monotonic_ns())

        started = threading.Event()
        meddler = threading.Thread(target=partition.measuring(meddle))
        meddler.start()
        started.wait()
        result = lab.run(Traffic(Rate(20_000), warmup_s=0.0, duration_s=0.5))
        meddler.join()
    kept = windows.kept_bins(result, windows.left_out(result, windows.disturbances(result)))
    begin, end = ((at_ns - result.record_start_ns) // result.series.bin_ns for at_ns in had_ns)
    assert 0 < begin < end < len(kept)
    # The device waits from its next packet on, and until it was its turn again.
    assert not kept[begin + 1 : end].any()


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
        from weirlab.errors import MissingCapability
        from weirlab.lab import clean, doctor, dut
        from weirlab.lab.netns import NetnsLab, PlainPair

        made, claim = [], clean.Claim
        clean.Claim = lambda: made.append(claim()) or made[-1]
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
