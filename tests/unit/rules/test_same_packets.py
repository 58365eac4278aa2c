"""Packets that two rulesets are sent alike."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.dut.aiming import candidates, same_packets
from weirlab.rules import iptables_path
from weirlab.traffic.spec import Flows

DROPS = "".join(f"-A FORWARD -s 198.18.{i}.0/24 -j DROP\n" for i in range(1, 4))
FILTER = "*filter\n:FORWARD DROP [0:0]\n{}COMMIT\n"
WEB = "{}-A FORWARD -p tcp -m tcp --dport 443 -j ACCEPT\n"
VOICE = "{}-A FORWARD -p udp -m udp --dport 5060 -j ACCEPT\n"


def test_packets_that_one_ruleset_accepts_meet_their_rule_of_another() -> None:
    """Without counters, the other one would be sent TCP to its first rule."""
    before = next(
        candidates(
            iptables_path(FILTER.format(WEB.format("") + VOICE.format("[9:9] "))), "before", None, Flows()
        )
    )
    rules = FILTER.format(WEB.format("") + WEB.format("").replace("443", "80") + VOICE.format(""))
    after = same_packets(iptables_path(rules), "after", before)
    assert (after.rule, after.compared, before.rule, before.compared) == (
        "FORWARD rule 3",
        3,
        "FORWARD rule 2",
        2,
    )
    assert after.sends_as(before)


def test_packets_that_another_ruleset_drops_in_part_are_narrowed_for_both() -> None:
    path = iptables_path(FILTER.format(VOICE.format("[9:9] ")))
    before = next(candidates(path, "before", None, Flows()))
    after = same_packets(iptables_path(FILTER.format(DROPS + VOICE.format(""))), "after", before)
    assert not after.sends_as(before)
    assert after.compared == 4
    assert same_packets(path, "before", after).sends_as(after)


def test_packets_that_another_ruleset_drops_are_refused() -> None:
    before = next(candidates(iptables_path(FILTER.format(VOICE.format("[9:9] "))), "before", None, Flows()))
    with pytest.raises(InputError, match=r"after: packets that the other rules accept .* policy of FORWARD"):
        same_packets(iptables_path(FILTER.format(WEB.format(""))), "after", before)


def test_further_packets_of_known_flows_meet_the_rule_for_these_on_both_sides() -> None:
    known = "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
    flows = Flows(10, answered=True)
    path = iptables_path(FILTER.format(known + VOICE.format("")))
    before = next(candidates(path, "before", None, flows))
    after = same_packets(iptables_path(FILTER.format(DROPS + VOICE.format("") + known)), "after", before)
    assert (before.rule, before.answered) == ("FORWARD rule 1", True)
    assert (after.rule, after.answered) == ("FORWARD rule 4", True)
    assert (before.unmet, after.unmet) == ("", "FORWARD rule 5")
    with pytest.raises(InputError, match="after: answers would end at"):
        same_packets(iptables_path(FILTER.format(VOICE.format(""))), "after", before)
