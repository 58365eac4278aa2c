"""What checks, routes and engines must agree on: whole numbers of lines, spirals, transports, fall-backs."""

from __future__ import annotations

from datetime import date

import pytest

from weirlab.numbering.checking import check
from weirlab.numbering.lab import VoiceLab, chroot, engines
from weirlab.numbering.plan import loads
from weirlab.numbering.proof.calling import made
from weirlab.numbering.proof.findings import AS_PLANNED
from weirlab.numbering.proof.ways import planned, spellings
from weirlab.numbering.routing import PlanNetwork

pytestmark = pytest.mark.netns

DAY = date(2026, 11, 28)
SPEECH_S = 0.5

FORGED = 1
"""A proof also sends the home of SIP callers a request of no call."""

SIP = """\
plan: agreement
caller: phone
dns: {primary: ns.lime.example, contact: hostmaster@lime.example}
organisations: {op: {title: Operator, most_calls: 1}}
ranges: [{prefix: "+421", owner: op}]
engines:
  phone: {kind: endpoint, protocols: [sip], address: 10.97.0.20, organisation: op, codecs: [ulaw], home: core}
  core: {kind: proxy, address: 10.97.0.10, host: core.lime.example, organisation: op, trees: [public],
    rewrite: [{match: '^112$', replace: '+421600000112'}]}
  branch: {kind: proxy, address: 10.97.0.11, organisation: op}
  desk: {kind: endpoint, protocols: [sip], address: 10.97.0.31, host: desk.lime.example, organisation: op,
    codecs: [ulaw]}
  bell: {kind: endpoint, protocols: [sip], address: 10.97.0.33, host: bell.lime.example, organisation: op,
    codecs: [ulaw], transport: tcp}
trees: {public: {suffix: e164.arpa, zone: 1.2.4.e164.arpa}}
enum:
  - {tree: public, number: "+421700000001", naptr: [{service: E2U+sip, uri: 'sip:\\1@lemon.example'}]}
  - tree: public
    number: "+421700000002"
    naptr: [{service: E2U+sip, uri: 'sip:\\1@lemon.example;transport=tcp'}]
  - tree: public
    number: "+421700000003"
    naptr: [{service: E2U+sip, regexp: '!^\\+(4|42)(1|17)(0*)(3)$!sip:\\1\\2\\3\\4@desk.lime.example!'}]
domains:
  lime.example: {hosts: {ns.lime.example: 10.97.0.53}}
  lemon.example:
    services:
      - {priority: 20, target: desk.lime.example}
      - {priority: 1, transport: tcp, target: bell.lime.example}
routes:
  - {at: core, prefix: "+421500", to: branch}
  - {at: branch, prefix: "+421500", strip: 6, prepend: "421600", to: core}
  - {at: core, prefix: "+421600", to: desk}
  - {at: core, prefix: "+421800", strip: 12, to: desk}
tests:
  - {number: "+421700000001", via: public, ends_at: desk}
  - {number: "+421700000002", via: public, ends_at: bell}
  - {number: "+421700000003", via: public, ends_at: desk}
  - {number: "+421500000004", via: static, ends_at: desk}
  - {number: "+421800000005", answer: 484}
  - {number: "+4218000000051", via: static, ends_at: desk}
  - {number: "+421600000006", meanwhile: 1, answer: 503}
  - {number: "112", meanwhile: 1, ends_at: desk, note: emergency calls count towards no limit}
"""

LINES = """\
plan: lines
caller: cell
organisations: {op: {title: Operator, barred: ["+421900", "+421300000007"], most_calls: 1}}
ranges: [{prefix: "+421", owner: op, digits: 12}, {prefix: "+421112", owner: op, digits: 6}]
engines:
  gate:
    kind: gateway
    protocols: [sip, mgcp]
    address: 10.97.1.41
    organisation: op
    codecs: [ulaw]
    rewrite: [{match: '^112(.*)$', replace: '+421112\\1'}]
  cell: {kind: endpoint, protocols: [mgcp], address: 10.97.1.60, organisation: op, codecs: [ulaw], home: gate}
  desk: {kind: endpoint, protocols: [sip], address: 10.97.1.31, organisation: op, codecs: [ulaw], home: gate}
  shop: {kind: endpoint, protocols: [sip], address: 10.97.1.32, organisation: op, codecs: [ulaw]}
routes:
  - {at: gate, prefix: "+4213", to: desk}
  - {at: gate, prefix: "+421300000009", to: shop}
  - {at: gate, prefix: "+421112", to: shop}
tests:
  - {number: "+421300000007", answer: 403, note: a whole number is barred}
  - {number: "+421300000007", caller: desk, answer: 403}
  - {number: "+421300000008", via: static, ends_at: desk}
  - {number: "+421300000009", via: static, ends_at: shop, note: a whole number has a route}
  - {number: "112", via: static, ends_at: shop, note: a rule rewrites a whole number}
  - {number: "+421300000009", caller: desk, meanwhile: 1, answer: 503}
  - {number: "112", caller: desk, meanwhile: 1, ends_at: shop, note: emergency calls count towards no limit}
"""

RETURNED = """\
plan: returned
caller: phone
organisations: {op: {title: Operator}}
ranges: [{prefix: "+421", owner: op, digits: 12}]
engines:
  core: {kind: proxy, address: 10.97.2.10, organisation: op}
  gate: {kind: gateway, protocols: [sip, h323], address: 10.97.2.41, organisation: op, codecs: [alaw]}
  keeper: {kind: gatekeeper, address: 10.97.2.50, organisation: op}
  phone: {kind: endpoint, protocols: [sip], address: 10.97.2.31, codecs: [alaw], home: core}
  desk: {kind: endpoint, protocols: [sip], address: 10.97.2.32, organisation: op, codecs: [alaw]}
  old: {kind: endpoint, protocols: [h323], address: 10.97.2.61, codecs: [alaw], home: keeper}
routes:
  - {at: core, prefix: "+421", to: gate}
  - {at: gate, arriving: sip, prefix: "+421", to: keeper}
  - {at: gate, arriving: h323, prefix: "+4215", to: desk}
  - {at: keeper, prefix: "+421", to: gate}
tests:
  - {number: "+421400000001", answer: 404, note: sent back; no route fits}
  - {number: "+421500000002", ends_at: desk, note: sent back; a route fits}
  - {number: "+421400000003", caller: old, answer: 404, note: no route fits a call by H.323}
"""


FALLING = """\
plan: falling
caller: phone
dns: {primary: ns.lime.example, contact: hostmaster@lime.example}
organisations: {op: {title: Operator}}
ranges: [{prefix: "+421", owner: op, digits: 12}]
engines:
  phone: {kind: endpoint, protocols: [sip], address: 10.97.3.20, organisation: op, codecs: [ulaw], home: core}
  core: {kind: proxy, address: 10.97.3.10, organisation: op, trees: [public], hand_over: {h323: gate}}
  gate: {kind: gateway, protocols: [sip, h323], address: 10.97.3.41, organisation: op, codecs: [ulaw]}
  old: {kind: endpoint, protocols: [h323], address: 10.97.3.60, host: old.lime.example, codecs: [ulaw],
    home: gate}
  peer: {kind: endpoint, protocols: [sip], address: 10.97.3.31, host: peer.lime.example, codecs: [ulaw]}
  trunk: {kind: endpoint, protocols: [sip], address: 10.97.3.32, organisation: op, codecs: [ulaw]}
trees: {public: {suffix: e164.arpa, zone: 1.2.4.e164.arpa}}
enum:
  - {tree: public, prefix: "+42170", naptr: [{service: E2U+sip, uri: 'sip:+\\1@peer.lime.example'}]}
  - {tree: public, number: "+421800000002", naptr: [{service: E2U+h323, uri: 'h323:\\1@old.lime.example'}]}
  - tree: public
    number: "+421800000003"
    naptr:
      - {preference: 1, service: E2U+h323, uri: 'h323:\\1@old.lime.example'}
      - {preference: 2, service: E2U+sip, uri: 'sip:+\\1@peer.lime.example'}
domains: {lime.example: {hosts: {ns.lime.example: 10.97.3.53}}}
routes:
  - {at: gate, prefix: "+421", to: old}
  - {at: core, prefix: "+421", strip: 3, prepend: "99", to: trunk, after_trees: true}
tests:
  - {number: "+421700000001", via: public, ends_at: peer}
  - {number: "+421800000002", via: public, ends_at: old}
  - {number: "+421800000003", via: public, ends_at: old, note: the record for H.323 comes first}
  - {number: "+421900000005", via: static, ends_at: trunk, note: no tree has it}
"""


def proved(text: str, *, fall_back: bool = False) -> list[tuple[str, str, str]]:
    """Number, verdict and reason of every call."""
    net = PlanNetwork(loads(text, "plan.yaml"), DAY)
    assert [each for each in check(net) if each.severity == "error"] == [], "the check finds nothing"
    with VoiceLab(net, SPEECH_S) as lab:
        rows = [made(lab, each)[0] for each in planned(net, fall_back=fall_back)]
    return [(row.number, row.verdict, row.why) for row in rows]


def test_spirals_transports_groups_and_stripped_digits_go_as_planned() -> None:
    if missing := engines.lacking([*engines.PACKAGES]):
        pytest.skip(missing)
    found = proved(SIP)
    assert [each for each in found if each[1:] != (AS_PLANNED, "")] == []
    assert len(found) == 8 + FORGED


def test_whole_numbers_that_a_line_dials_meet_their_own_bars_routes_and_rules() -> None:
    if missing := engines.lacking([*engines.PACKAGES]) or chroot.missing():
        pytest.skip(missing)
    found = proved(LINES)
    assert [each for each in found if each[1:] != (AS_PLANNED, "")] == []
    assert len(found) == 7 + len(spellings("+421300000007")) + FORGED


def test_calls_that_a_gatekeeper_sends_back_to_their_gateway_go_as_planned() -> None:
    if missing := engines.lacking([*engines.PACKAGES]) or chroot.missing():
        pytest.skip(missing)
    found = proved(RETURNED)
    assert [each for each in found if each[1:] != (AS_PLANNED, "")] == []
    assert len(found) == 3 + FORGED


def test_calls_whose_enum_records_fail_go_on_to_other_records_and_to_the_carrier() -> None:
    """Reported: if the ENUM peer was down, the call was lost."""
    if missing := engines.lacking([*engines.PACKAGES]) or chroot.missing():
        pytest.skip(missing)
    found = proved(FALLING, fall_back=True)
    assert [each for each in found if each[1:] != (AS_PLANNED, "")] == []
    assert len(found) == 9 + FORGED
