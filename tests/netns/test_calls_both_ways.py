"""Calls through real devices: both directions pass, counters agree, and the device is seen from inside."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weirlab.base.errors import LabError
from weirlab.base.files import HOST_FILES
from weirlab.calls.capacity.trials.boxes import count
from weirlab.calls.capacity.trials.keeper import CallRecorder
from weirlab.calls.capacity.trials.rows import CAPACITY, INSIDE
from weirlab.calls.capacity.trials.search import CallTraffic
from weirlab.lab import dut
from weirlab.lab.base import WatchableBed
from weirlab.lab.netns import NetnsLab
from weirlab.measure import Hooks, TrialEntry, run_trial
from weirlab.measure.calls import CallAssessment, run_calls
from weirlab.measure.terms import SINGLE
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.store import Store
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls

pytestmark = pytest.mark.netns

ONCE = replace(SINGLE, max_attempts=1)

GENERATING = ["iptables-legacy", "iptables-nft", "nftables", "nftables-set", "nftables-vmap"]


def calls(**changes: Any) -> CallTraffic:
    ip = changes.pop("ip", 4)
    stateful = changes.pop("stateful", False)
    kind = CallClass(parse_codec("g711", ip))
    return CallTraffic(Calls(**{"classes": (kind,), "count": 1, **changes}), stateful)


def spec(position: int, setting: CallTraffic | None = None, trial_s: float = 0.2) -> TrialSpec:
    return (setting or calls()).spec(position, 20, trial_s=trial_s, warmup_s=0.06)


def one_trial(lab: NetnsLab, wanted: TrialSpec) -> TrialRecord:
    (record, *_) = run_calls(lab, wanted, TrialEntry("r"), CallAssessment(keep_packets=True), terms=ONCE)
    return record


def arrived(record: TrialRecord) -> tuple[bool, bool]:
    """Did anything arrive from the sender's side, and from the receiver's?"""
    assert record.result.packets is not None
    back = record.result.packets.call_flows.back
    flows = record.result.flows
    return bool(flows.received[~back].sum()), bool(flows.received[back].sum())


@pytest.mark.parametrize("name", ["forward", *GENERATING])
def test_both_directions_pass_at_every_position(name: str) -> None:
    driver = dut.make(name)
    if missing := driver.check():
        pytest.skip("; ".join(missing))
    with NetnsLab(driver) as lab:
        for position in (0,) if name == "forward" else (0, 1, 30):
            assert arrived(one_trial(lab, spec(position))) == (True, True), position


@pytest.mark.parametrize("name", ["iptables-legacy", "nftables", "nftables-vmap"])
def test_so_they_do_in_ipv6_and_with_connection_tracking(name: str) -> None:
    driver = dut.make(name)
    if missing := driver.check():
        pytest.skip("; ".join(missing))
    with NetnsLab(driver) as lab:
        assert arrived(one_trial(lab, spec(7, calls(ip=6)))) == (True, True)
        assert arrived(one_trial(lab, spec(7, calls(stateful=True)))) == (True, True)


def test_rules_for_one_way_let_nothing_back() -> None:
    with NetnsLab(dut.make("iptables")) as lab:
        wanted = spec(5)
        one_way = TrialSpec(wanted.traffic, RuleSetup(5))
        assert arrived(one_trial(lab, one_way)) == (True, False)


def test_the_users_own_rules_that_answer_nobody_are_named(tmp_path: Path) -> None:
    path = tmp_path / "one-way.nft"
    path.write_text(
        "table ip f {\n chain c {\n  type filter hook forward priority 0; policy drop;\n"
        "  ip saddr 198.18.0.0/16 accept\n }\n}\n"
    )
    with (
        NetnsLab(dut.make("ruleset", path, HOST_FILES)) as lab,
        Store(tmp_path / "store").create("capacity", {}, {}) as writer,
    ):
        keeper = CallRecorder(lab, writer)
        hooks = Hooks(completed=lambda record: keeper.complete(record, "sweep", 1))
        with pytest.raises(
            LabError, match=r"receiver's side \(in by out0\).*198\.18\.0\.0/15 in both directions"
        ):
            run_trial(lab, spec(0), TrialEntry(writer.run_id), terms=ONCE, hooks=hooks)


def test_the_devices_counters_agree_with_what_was_sent_and_received() -> None:
    with NetnsLab(dut.make("iptables")) as lab:
        assert lab.backend in ("xdp", "af_packet"), "loading the engine sends, too"
        record = one_trial(lab, spec(10))
        found = count(record.result, record.dut_counters)
        assert found is not None
        assert found.agree, found.disagreement
        assert found.sent == record.loss.sent + record.result.sent_warmup


def test_the_device_is_seen_from_inside_while_calls_stand(tmp_path: Path) -> None:
    with NetnsLab(dut.make("iptables")) as lab:
        assert isinstance(lab, WatchableBed)
        stateful = calls(stateful=True)
        with lab.watch_inside():
            record = one_trial(lab, spec(10, stateful, trial_s=0.5))
            seen = lab.seen_inside()
            assert seen is not None
            assert record.host.management_s is not None
            assert 4 <= seen.due <= 6
            assert 0 <= seen.taken <= seen.due
            if seen.taken > 1:
                assert sum(seen.cpu_share.values()) == pytest.approx(1)
                # One connection per call and kind of packets: both directions share it.
                assert seen.connections_max is not None
                assert 20 <= seen.connections_max <= 60
                assert {"in0", "out0"} <= seen.samples[-1].counters.keys()
        assert lab.seen_inside() is None
        assert one_trial(lab, spec(10)).host.management_s is None


def test_its_lines_are_in_the_run(tmp_path: Path) -> None:
    with (
        NetnsLab(dut.make("iptables")) as lab,
        Store(tmp_path / "store").create("capacity", {}, {}) as writer,
        lab.watch_inside(),
    ):
        lab.backend  # noqa: B018 - loads the engine, which sends
        keeper = CallRecorder(lab, writer)
        (record, *_) = run_trial(
            lab,
            spec(3, trial_s=0.3),
            TrialEntry(writer.run_id, role="calls"),
            terms=ONCE,
            hooks=Hooks(completed=lambda one: keeper.complete(one, "sweep", 1), on_record=writer.add),
        )
        assert record.result.packets is None
        assert len(record.result.flows.sent) == 2
        table = writer.run.table(CAPACITY)
        assert table["trial_id"].to_list() == [record.trial_id]
        assert table["counters_agree"].all()
        assert table["samples_due"].item() in (3, 4)
        assert np.isfinite(table["mos_min"].item())
        inside = writer.run.table(INSIDE)
        assert inside.height == table["samples_taken"].item() or inside.height >= 1
        assert (inside["late_s"] >= 0).all()


def test_nothing_is_left_of_a_look_inside(made: Any) -> None:
    with NetnsLab(dut.make("forward")) as lab, lab.watch_inside():
        assert lab._sampler is not None
        (program,) = lab._sampler._programs
        pid = program.pid
        assert Path(f"/proc/{pid}").exists()
        assert os.sched_getaffinity(pid) == {lab._cores.dut}
    assert not Path(f"/proc/{pid}").exists()
    assert made.left() == []
