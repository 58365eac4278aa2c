"""Calls that aim at rules: each kind of their packets needs one."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.dut.aiming import candidates
from weirlab.rules import iptables_path
from weirlab.traffic.calls.spec import parse_calls
from weirlab.traffic.spec import Flows

STATEFUL_VOICE = """\
*filter
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -s 10.20.0.0/16 -d 10.30.0.0/24 -p udp -m udp --dport 10000:30000 -j ACCEPT
{sip}COMMIT
"""


def test_calls_need_a_rule_for_each_kind_of_their_packets_and_a_way_back() -> None:
    calls = parse_calls("10", "g711", "rtp", 4)
    whole = STATEFUL_VOICE.format(sip="-A FORWARD -s 10.20.0.0/16 -p udp -m udp --dport 5060 -j ACCEPT\n")
    found = next(candidates(iptables_path(whole), "voice.save", None, Flows(), calls))
    assert found.rule == "FORWARD rule 2"
    assert found.endpoints is not None
    assert found.endpoints.source[0].startswith("10.20.")
    with pytest.raises(InputError, match="SIP from the callers would end at the policy of FORWARD"):
        next(candidates(iptables_path(STATEFUL_VOICE.format(sip="")), "voice.save", None, Flows(), calls))
    stateless = whole.replace("-m conntrack --ctstate RELATED,ESTABLISHED", "-s 192.0.2.1/32")
    with pytest.raises(InputError, match="RTP from those called would end at the policy of FORWARD"):
        next(candidates(iptables_path(stateless), "voice.save", "2", Flows(), calls))
