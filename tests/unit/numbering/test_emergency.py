"""Emergency calls count towards no limit of calls, at any engine."""

from __future__ import annotations

import json

import pytest

from weirlab.numbering.configs import configs
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls

from .plans import DAY

PLAN = """\
plan: limited
caller: phone
organisations: {op: {title: Operator, most_calls: 1}}
ranges: [{prefix: "+421", owner: op, digits: 12}, {prefix: "+421112", owner: op, digits: 6}]
engines:
  core: {kind: proxy, address: 192.0.2.1, organisation: op, rewrite: [{match: ^112$, replace: "+421112"}]}
  gate: {kind: gateway, protocols: [sip, h323], address: 192.0.2.2, organisation: op, codecs: [alaw],
    rewrite: [{match: ^112$, replace: "+421112"}]}
  keeper: {kind: gatekeeper, address: 192.0.2.3, organisation: op}
  phone: {kind: endpoint, protocols: [sip], address: 192.0.2.4, organisation: op, codecs: [alaw], home: core}
  desk: {kind: endpoint, protocols: [sip], address: 192.0.2.5, organisation: op, codecs: [alaw], home: gate}
  old: {kind: endpoint, protocols: [h323], address: 192.0.2.6, organisation: op, codecs: [alaw], home: keeper}
  help: {kind: endpoint, protocols: [sip], address: 192.0.2.7, organisation: op, codecs: [alaw]}
routes:
  - {at: core, prefix: "+421", to: help}
  - {at: gate, prefix: "+421", to: help}
  - {at: keeper, prefix: "+112", to: gate}
  - {at: keeper, prefix: "+421", to: gate}
"""


def network() -> PlanNetwork:
    return PlanNetwork(loads(PLAN, "plan.yaml"), DAY)


@pytest.mark.parametrize("caller", ["phone", "desk", "old"])
def test_a_limit_refuses_other_calls_only(caller: str) -> None:
    ends = {
        number: next(calls(network(), number, caller, meanwhile=1)).end.kind
        for number in ("112", "421112000000" if caller == "old" else "+421112000000")
    }
    assert [*ends.values()] == ["answered", "too many calls"]


def test_engines_count_no_emergency_calls() -> None:
    files = configs(network(), "/etc/voice")
    counting = files["core/kamailio.cfg"].partition("route[COUNT] {\n")[2]
    assert counting.startswith('  if ($rU =~ "^\\+(421112)$") return;')
    rules = files["gate/extensions.conf"].partition("[rules-sip-of-op]\n")[2].partition("\n[")[0]
    emergency, others = rules.split("exten => _+X!,1,")
    assert emergency.startswith("exten => +421112,1,GotoIf(")
    assert "GROUP" not in emergency
    assert "GROUP_COUNT(op@calls)" in others
    callers = json.loads(files["keeper/gatekeeper.json"])["callers"]
    assert callers["192.0.2.6"]["emergency"] == ["112", "911"]
