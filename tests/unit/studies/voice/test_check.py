from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pytest

from weirlab.errors import InputError
from weirlab.studies.voice.checking import Finding, check
from weirlab.studies.voice.configs import configs
from weirlab.studies.voice.plan import loads
from weirlab.studies.voice.routing import Network
from weirlab.studies.voice.routing.calls import calls
from weirlab.studies.voice.zones import zones

from .plans import BASE, DAY, changed, ready_network

PUBLIC = "  public: {suffix: e164.arpa, zone: 0.2.4.e164.arpa}\n"
ROUTE = '  - {at: core, prefix: "+420222", to: [desk, gw]}\n'
RANGE = '  - {prefix: "+420222", owner: two, digits: 12}\n'
SIP = "      - {order: 100, preference: 10, service: E2U+sip, uri: 'sip:\\1@example.net'}\n"
H323 = "      - {order: 100, preference: 20, service: E2U+h323, uri: 'h323:\\1@gk.example.net'}\n"
SRV = "target: desk.example.net"
TO_PBX = '  - {at: gk, prefix: "+420", to: pbx}\n'


@dataclass(frozen=True)
class Planted:
    """A mistake: what is replaced in the plan, and the finding; its line has ``mark`` in it."""

    code: str
    old: str
    new: str
    mark: str
    reason: str
    severity: str = "error"


PLANTED = [
    Planted(
        "loop",
        TO_PBX,
        '  - {at: gk, prefix: "+420", to: gw}\n  - {at: gw, arriving: h323, prefix: "+", to: core}\n',
        'at: core, prefix: "+420222"',
        "a call to +420222500000 at core goes round in a loop: core, gw, gk, gw, core",
    ),
    Planted(
        "duplicate",
        ROUTE,
        ROUTE + '  - {at: core, prefix: "+420222", to: gw}\n',
        'prefix: "+420222", to: gw}',
        "+420222 at core is routed in line 30 already: this route is never used",
    ),
    Planted(
        "duplicate",
        "to: [desk, gw]",
        "to: [desk, desk]",
        "to: [desk, desk]",
        "desk stands twice under to: it would be tried again after it failed",
    ),
    Planted(
        "shadowed",
        ROUTE,
        ROUTE + "".join(f'  - {{at: core, prefix: "+420222{d}", to: gw}}\n' for d in range(10)),
        "to: [desk, gw]",
        "+420222 at core is never used: longer prefixes cover every number that continues it",
    ),
    Planted(
        "overlapping",
        ROUTE,
        ROUTE + '  - {at: core, prefix: "+4202225", to: [desk, gw]}\n',
        "+4202225",
        "+4202225 at core changes nothing: +420222 in line 30 leads to desk and gw as well",
        "warning",
    ),
    Planted(
        "hides trees",
        'prefix: "+420222", to: [desk, gw]',
        'prefix: "+", to: [desk, gw]',
        'at: core, prefix: "+"',
        'the route for "+" takes every number, so core never asks public',
    ),
    Planted(
        "hides trees",
        'at: core, prefix: "+420222", to: [desk, gw]',
        'at: core, arriving: sip, prefix: "+", to: [desk, gw]',
        "at: core, arriving: sip",
        'the route for "+" takes every number, so core never asks public',
    ),
    Planted(
        "hidden",
        ROUTE,
        ROUTE + '  - {at: core, prefix: "+4201112", to: desk}\n',
        "tree: public\n    prefix",
        "no engine asks tree public for +4201112: the route for +4201112 at core (line 31) goes before it",
        "warning",
    ),
    Planted(
        "misplaced",
        ROUTE,
        ROUTE + '  - {at: desk, prefix: "+420222", to: gw}\n',
        "- {at: desk",
        "desk is an endpoint, and endpoints do not route",
    ),
    Planted(
        "misplaced",
        "at: gw, arriving: sip",
        "at: gw, arriving: mgcp",
        "arriving: mgcp",
        "arriving: mgcp, and gw speaks SIP and H.323",
    ),
    Planted(
        "no protocol",
        "to: [desk, gw]",
        "to: [desk, pbx]",
        "to: [desk, pbx]",
        "a call to +420222500000 at core: core cannot send the call to pbx: it would leave as SIP, and pbx "
        "speaks H.323",
    ),
    Planted(
        "no codec",
        "codecs: [ulaw]}",
        "codecs: [g722]}",
        TO_PBX.strip(),
        "a call to +420222500000 at core: pbx has none of the codecs offered (alaw, ulaw): it has g722",
    ),
    Planted(
        "dead end",
        '{at: gk, prefix: "+420", to: pbx}',
        '{at: gk, prefix: "+421", to: pbx}',
        "to: [desk, gw]",
        "a call to +420222500000 at core: gk has no route for it",
    ),
    Planted(
        "unreachable",
        ROUTE,
        '  - {at: core, prefix: "+420222", to: gw}\n',
        "  spare:",
        "no route and no entry of a tree leads to spare",
        "warning",
    ),
    Planted(
        "no address",
        "address: 192.0.2.6, ",
        "",
        "  pbx:",
        "pbx has no address: no engine can send a call there",
    ),
    Planted(
        "same address",
        "address: 192.0.2.5",
        "address: 192.0.2.3",
        "  desk:",
        "desk and gw both listen at 192.0.2.3, port 5060",
    ),
    Planted(
        "hand over",
        "hand_over: {h323: gw}",
        "hand_over: {h323: desk}",
        "hand_over",
        "desk is to take calls for H.323, and is an endpoint that speaks SIP",
    ),
    Planted(
        "unusable",
        "service: E2U+sip, uri: 'sip:\\1@example.net'}]",
        "service: E2U+email, uri: 'sip:\\1@example.net'}]",
        "tree: public\n    prefix",
        "no engine that asks tree public can use a record of prefix +4201112",
    ),
    Planted("no home", ", home: core", "", "caller: phone", "phone is to call, and has no home"),
    Planted(
        "bad regexp",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, regexp: "
        "'!^\\+(\\d*)$!h323:\\1@gk.example.net!'}\n",
        "\\d*",
        "!^\\+(\\d*)$!h323:\\1@gk.example.net! is no substitution expression: character 5: \\d is not POSIX; "
        "write [0-9]",
    ),
    Planted(
        "bad regexp",
        "  core: {kind: proxy,",
        "  core: {kind: proxy, rewrite: [{match: '^00(.*', replace: '+\\1'}],",
        "  core:",
        "^00(.* to +\\1 is no rule: character 7: a ( without its )",
    ),
    Planted(
        "no match",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, regexp: "
        "'!^(420.*)$!h323:\\1@gk.example.net!'}\n",
        "^(420.*)$",
        "the pattern ^(420.*)$ does not match +420111000001: no engine can use the record",
    ),
    Planted(
        "bad rewrite",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, uri: 'sip:\\1@gk.example.net'}\n",
        "uri: 'sip:\\1@gk",
        "E2U+h323 promises a h323 URI, and +420111000001 becomes sip:420111000001@gk.example.net",
    ),
    Planted(
        "bad rewrite",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, uri: 'h323:\\\\1@gk.example.net'}\n",
        "\\\\1",
        "+420111000001 becomes h323:\\1@gk.example.net, with a backslash in it",
    ),
    Planted(
        "changes number",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, regexp: "
        "'!^\\+420(.*)$!h323:\\1@gk.example.net!'}\n",
        "^\\+420(.*)$",
        "+420111000001 becomes h323:111000001@gk.example.net: the URI does not hold the number that was "
        "asked for",
        "warning",
    ),
    Planted(
        "not anchored",
        H323,
        "      - {order: 100, preference: 20, service: E2U+h323, regexp: "
        "'!([0-9]+)!h323:\\1@gk.example.net!'}\n",
        "([0-9]+)",
        "the pattern ([0-9]+) may match in the middle of a number; what it leaves out is lost",
        "warning",
    ),
    Planted(
        "bad service",
        "service: E2U+h323",
        "service: h323+E2U",
        "h323+E2U",
        "h323+E2U is no service of ENUM (RFC 6116, 3.4.3)",
    ),
    Planted(
        "tie",
        H323,
        "      - {order: 100, preference: 10, service: E2U+sip, uri: 'sip:\\1@desk.example.net'}\n",
        "@desk.example.net",
        "two records of number +420111000001 for E2U+sip have order 100 and preference 10: which "
        "comes first is left to chance",
    ),
    Planted(
        "order",
        H323,
        "      - {order: 200, preference: 10, service: E2U+sip, uri: 'sip:\\1@desk.example.net'}\n",
        "order: 200",
        "E2U+sip of number +420111000001 has order 100 and 200: a client that keeps to RFC 3403 takes "
        "order 100 and never looks at 200",
        "warning",
    ),
    Planted(
        "duplicate",
        'prefix: "+4201112"',
        'number: "+420111000001"',
        "tree: public\n    number",
        "number +420111000001 of tree public has an entry in line 21 already: this one is never used",
    ),
    Planted(
        "zone",
        'prefix: "+4201112"',
        'prefix: "+4211112"',
        '"+4211112"',
        "+4211112 does not lie in zone 0.2.4.e164.arpa, which begins with +420",
    ),
    Planted(
        "wildcard hole",
        'prefix: "+4201112"\n',
        'prefix: "+42011"\n',
        "tree: public\n    number",
        "number +420111000001 hides the wildcard of +42011 (line 26) in tree public: other numbers that "
        "continue +420111, +4201110 and +42011100 and 3 more get no answer (RFC 4592)",
    ),
    Planted(
        "no address",
        SRV,
        "target: voip.example.net",
        "services:",
        "_sip._udp.example.net leads to voip.example.net, which has no A record",
    ),
    Planted(
        "wrong port",
        "port: 5060",
        "port: 5070",
        "services:",
        "_sip._udp.example.net leads to port 5070 of desk.example.net, which listens for SIP at port 5060",
    ),
    Planted(
        "no address",
        "\n    services: [{service: sip, transport: udp, priority: 10, weight: 5, port: 5060, "
        "target: desk.example.net}]",
        "",
        SIP.strip() + "\n      - {order: 100, preference: 20",
        "sip URIs lead to example.net, which has neither an SRV record nor an address",
    ),
    Planted(
        "no address",
        "    hosts: {ns.example.net: 192.0.2.53}\n",
        "",
        "dns:",
        "the name server ns.example.net has no A record in the zone example.net",
    ),
    Planted(
        "outside",
        "h323:\\1@gk.example.net",
        "h323:\\1@gk.exmaple.net",
        "gk.exmaple.net",
        "h323 URIs lead to gk.exmaple.net, a host outside the plan",
        "warning",
    ),
    Planted(
        "no dns",
        "dns: {primary: ns.example.net, contact: hostmaster@example.net}\n",
        "",
        "trees:\n",
        "there are zones, and no dns section says who serves them",
    ),
    Planted(
        "too long",
        'number: "+420111000001"\n',
        'number: "+4201110000012345"\n',
        "+4201110000012345",
        "+4201110000012345 has 16 digits, and an international number has at most 15 (E.164)",
    ),
    Planted(
        "wrong length",
        'number: "+420111000001"\n',
        'number: "+42011100000"\n',
        'number: "+42011100000"',
        "the number +42011100000 has 11 digits, and numbers of the range +420111 have 12",
    ),
    Planted(
        "owners",
        RANGE,
        RANGE + '  - {prefix: "+420222", owner: one}\n',
        "owner: one}",
        "range +420222 belongs to one here, and to two in line 10",
    ),
    Planted(
        "owners",
        RANGE,
        RANGE + '  - {prefix: "+4202225", owner: one}\n',
        "+4202225",
        "range +4202225 of one lies within +420222 of two (line 10), which did not delegate it",
    ),
    Planted(
        "owners",
        RANGE,
        RANGE + '  - {prefix: "+4202225", owner: one, delegated_by: one}\n',
        "+4202225",
        "range +4202225 is said to be delegated by one, but +420222 around it belongs to two",
    ),
    Planted(
        "owners",
        'prefix: "+4201112"\n',
        'prefix: "+4201112"\n    owner: two\n',
        "tree: public\n    prefix",
        "+4201112 is an entry of two, and the number belongs to one",
    ),
    Planted(
        "expired",
        "owner: two, digits: 12}",
        "owner: two, digits: 12, valid_until: 2026-01-31}",
        "valid_until",
        "the range expired on 2026-01-31: its numbers have no owner any more",
    ),
    Planted(
        "validity",
        "to: [desk, gw]}",
        "to: [desk, gw], valid_from: 2027-01-01, valid_until: 2026-12-31}",
        "valid_until",
        "the route holds from 2027-01-01 until 2026-12-31: on no day",
    ),
    Planted(
        "unowned",
        ROUTE,
        ROUTE + '  - {at: core, prefix: "+421", to: gw}\n',
        "+421",
        "+421 lies in no range: nobody owns it",
        "warning",
    ),
    Planted(
        "test",
        "via: public, ends_at: desk",
        "via: static, ends_at: pbx, answer: 404",
        "via: static",
        "a call to +420111000001 gets 200 (desk answers), not 404, is decided by public, not static and "
        "ends at desk, not pbx",
    ),
    Planted(
        "same name",
        "host: gk.example.net",
        "host: desk.example.net",
        "  gk:",
        "desk.example.net is 192.0.2.4 here, and 192.0.2.5 elsewhere in the plan",
    ),
    Planted(
        "zone",
        "host: gk.example.net",
        "host: gk.example.com",
        "  gk:",
        "gk.example.com lies in no zone of the plan: no A record is written for it",
        "warning",
    ),
    Planted(
        "zone",
        "ns.example.net: 192.0.2.53",
        "ns.example.net: 192.0.2.53, www.example.com: 192.0.2.80",
        "www.example.com",
        "www.example.com does not lie in the zone example.net",
    ),
    Planted(
        "zone",
        PUBLIC,
        PUBLIC + "  second: {suffix: e164.arpa, zone: 0.2.4.e164.arpa}\n",
        "  second:",
        "zone 0.2.4.e164.arpa is written in line 19 already",
    ),
    Planted(
        "never asked",
        PUBLIC,
        PUBLIC + "  inner: {suffix: enum.example.net, visibility: private}\n",
        "  inner:",
        "tree inner is private, and no engine asks it",
        "warning",
    ),
    Planted(
        "matches some",
        "uri: 'sip:\\1@example.net'}]",
        "regexp: '!^\\+(42011123.*)$!sip:\\1@example.net!'}]",
        "42011123.*",
        "the pattern ^\\+(42011123.*)$ does not treat all numbers that continue +4201112 alike: the next "
        "digit matters (3)",
        "warning",
    ),
    Planted(
        "unknown service",
        "service: E2U+h323",
        "service: E2U+email",
        "E2U+email",
        "no engine here understands E2U+email",
        "warning",
    ),
    Planted(
        "no srv",
        "services: [{service: sip, transport",
        "services: [{service: h323cs, transport",
        SIP.strip() + "\n      - {order: 100, preference: 20",
        "sip URIs lead to example.net, which has an address and no SRV record: there is one target and no "
        "fall-back",
        "warning",
    ),
    Planted(
        "bad rewrite",
        "  core: {kind: proxy,",
        "  core: {kind: proxy, rewrite: [{match: '^00(.*)$', replace: '00\\1'}],",
        "  core:",
        "00\\1 is what comes out, and no international number begins like that",
    ),
    Planted(
        "too long",
        "owner: two, digits: 12}",
        "owner: two, digits: 16}",
        "digits: 16",
        "numbers of 16 digits, and an international number has at most 15 (E.164)",
    ),
    Planted(
        "no number",
        "to: [desk, gw]}",
        "to: [desk, gw], strip: 15}",
        "to: [desk, gw]",
        "a call to +420222500000 at core: gw gets no international number, and can do nothing with it",
    ),
]


def found(text: str) -> list[Finding]:
    return check(Network(loads(text, "plan.yaml"), DAY))


def planted(mistake: Planted) -> str:
    text = changed((mistake.old, mistake.new))
    if mistake.code == "wildcard hole":
        text = text.replace(PUBLIC, PUBLIC.replace("}", ", fill_holes: false}"))
    if mistake.code == "no srv":
        text = text.replace("192.0.2.53}", "192.0.2.53, example.net: 192.0.2.5}")
    if mistake.code == "unreachable":
        text = text.replace(
            "trees:\n", "  spare: {kind: endpoint, protocols: [sip], address: 192.0.2.9}\ntrees:\n", 1
        )
    return text


def line_of(text: str, mark: str) -> int:
    """The line with ``mark``; of a mark of two lines, the first."""
    if "\n" in mark.rstrip("\n"):
        lines = text.splitlines()
        first, second = mark.split("\n")
        return next(
            n for n in range(len(lines) - 1, 0, -1) if first in lines[n - 1] and lines[n].startswith(second)
        )
    return text[: text.rindex(mark.rstrip("\n"))].count("\n") + 1


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda each: f"{each.code}: {each.reason[:40]}")
def test_a_planted_mistake_is_found_with_its_sentence_and_its_line(mistake: Planted) -> None:
    text = planted(mistake)
    expected = (mistake.severity, mistake.code, f"plan.yaml:{line_of(text, mistake.mark)}", mistake.reason)
    findings = found(text)
    assert expected in [(f.severity, f.code, f.place, f.reason) for f in findings], "\n".join(
        map(str, findings)
    )
    assert all(finding.proposal for finding in findings)


def test_at_least_twenty_kinds_of_mistakes_are_planted() -> None:
    assert len({mistake.code for mistake in PLANTED}) >= 20


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert found(BASE) == []


@pytest.mark.parametrize("name", ["cesnet", "federation"])
def test_nothing_is_found_in_the_plans_that_come_with_weir(name: str) -> None:
    assert check(ready_network(name)) == []


def test_many_findings_of_one_kind_are_counted_and_a_few_told() -> None:
    more = "".join(f'  - {{at: core, prefix: "+420222{n}", to: [desk, gw]}}\n' for n in range(100, 150))
    overlapping = [f for f in found(BASE.replace(ROUTE, ROUTE + more)) if f.code == "overlapping"]
    assert len(overlapping) == 20
    assert sum("(and 30 more like this)" in finding.reason for finding in overlapping) == 1


def test_a_route_that_holds_later_is_no_duplicate() -> None:
    two = (
        ROUTE.replace("}", ", valid_until: 2026-12-31}")
        + '  - {at: core, prefix: "+420222", to: gw, valid_from: 2027-01-01}\n'
    )
    assert [finding.code for finding in found(BASE.replace(ROUTE, two))] == []


def test_what_is_made_of_a_wrong_plan_is_made_or_refused_in_words() -> None:
    for mistake in PLANTED:
        network = Network(loads(planted(mistake), "plan.yaml"), DAY)
        for make in (zones, lambda network: configs(network, "/etc/voice"), lambda n: [*calls(n, "+420222")]):
            with suppress(InputError):
                make(network)
