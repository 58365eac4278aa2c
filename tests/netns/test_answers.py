"""Answered test traffic: connection tracking knows its flows, by the counters of the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from weirlab.base.files import HOST_FILES
from weirlab.jobs import testbeds
from weirlab.jobs.progress import SilentProgress
from weirlab.lab import dut
from weirlab.lab.netns import NetnsLab
from weirlab.measure import TrialEntry, run_trial
from weirlab.records import ESTABLISHED, RuleSetup, TrialRecord, TrialSpec
from weirlab.scenario import Dut, Lab
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

pytestmark = [pytest.mark.netns, pytest.mark.alone]

LOAD = Rate(5_000.0)


def trial(bed: object, flows: Flows, position: int = 0) -> TrialRecord:
    traffic = Traffic(LOAD, Constant(96), flows, warmup_s=0.05, duration_s=0.2)
    return run_trial(bed, TrialSpec(traffic, RuleSetup(position)), TrialEntry("run"))[-1]  # type: ignore[arg-type]


def assert_known(record: TrialRecord, flows: Flows) -> None:
    """All answers came back, and the rule for known connections met known packets and answers."""
    answers = record.result.answers
    assert answers is not None
    # Answers are counted in bins that the host disturbed as well.
    new = round((record.disturbed or record.result).sent * flows.new_share)
    # On a busy machine flows may be opened while the trial is recorded, and answers depart after its end.
    assert 0.5 * new <= answers.sent <= new + 2 + 2 * flows.count
    assert answers.received == answers.sent
    assert answers.open_flows == answers.known_flows == (flows.count if flows.new_share < 1 else 0)
    assert record.result.lost == 0
    met, sent = record.dut_counters[ESTABLISHED], answers.established_sent
    if flows.new_share == 1:
        assert met == sent
    else:
        # On a busy machine the device may take in a flow's next packet before the first one's answer.
        assert 0.5 * sent < met <= sent


@pytest.mark.parametrize("device", ["iptables", "nftables"])
@pytest.mark.parametrize("l4", ["udp", "tcp"])
@pytest.mark.parametrize("new_share", [0.0, 0.25, 1.0])
def test_the_rule_for_known_connections_meets_known_packets_and_answers(
    device: str, l4: Literal["udp", "tcp"], new_share: float
) -> None:
    flows = Flows(20, l4=l4, answered=True, new_share=new_share)
    with NetnsLab(dut.make(device), answered=True) as bed:
        assert_known(trial(bed, flows, position=3), flows)


def test_flows_of_ipv6_are_answered() -> None:
    flows = Flows(20, ip=6, answered=True, new_share=0.25)
    with NetnsLab(dut.make("nftables"), answered=True) as bed:
        assert_known(trial(bed, flows, position=3), flows)


def test_each_trial_begins_without_connections() -> None:
    flows = Flows(5, answered=True, new_share=0.5)
    with NetnsLab(dut.make("iptables"), answered=True) as bed:
        for _ in range(2):
            assert_known(trial(bed, flows), flows)


RULES = """*filter
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -s 10.1.0.0/16 -p udp -m udp --dport 53 -m conntrack --ctstate NEW -j ACCEPT
COMMIT
"""


@pytest.mark.parametrize("match", ["1", "3", None])
def test_a_rule_for_known_connections_is_met_that_follows_one_for_new_ones(
    match: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "own.rules"
    path.write_text(RULES)
    flows = Flows(20, answered=True, new_share=0.25)
    device = Dut(name="ruleset", ruleset=path, match=match)
    with testbeds.open_bed(Lab(kind="netns"), device, SilentProgress(), flows, inputs=HOST_FILES) as bed:
        record = trial(bed, flows)
    assert_known(record, flows)
    assert record.rules_met is not None
    assert record.rules_met.contradiction == ""


@pytest.mark.parametrize("new_share", [0.5, 1.0])
def test_an_overloaded_device_carries_all_answers(new_share: float) -> None:
    flows = Flows(20, answered=True, new_share=new_share)
    load = Rate(unit="max") if new_share == 1 else Rate(2_000_000.0)
    with NetnsLab(dut.make("iptables"), answered=True) as bed:
        bed.set_rules(RuleSetup(200))
        result = bed.run(Traffic(load, Constant(96), flows, warmup_s=0.02, duration_s=0.05))
    assert result.answers is not None
    assert result.answers.sent > 0
    assert result.answers.received == result.answers.sent
