"""What ``check`` and ``route`` advise is accepted where they say, and helps."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
import yaml

from weirlab.numbering.checking import PlanFinding, check
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork, wording
from weirlab.numbering.routing.calls import calls

from .mistakes import PLANTED, Planted
from .plans import BASE, DAY, changed
from .test_check import planted

RULE: Final = {"match": "^(112)$", "replace": "+420\\1"}
KEYS: Final[dict[str, tuple[str, str, Any]]] = {
    r"add a rewrite rule to ([\w-]+)": ("engines", "rewrite", [RULE]),
    r"add the protocol to ([\w-]+)": ("engines", "protocols", ["sip", "h323", "mgcp"]),
    r"may_call of ([\w-]+)": ("organisations", "may_call", ["+420112"]),
    r"set admits: \[.*\] at ([\w-]+)": ("engines", "admits", ["one"]),
    r"fill_holes: true to tree ([\w-]+)": ("trees", "fill_holes", True),
}
"""Advice that names a key: where it is, and a value."""

HALL = (
    "protocols: [sip], address: 192.0.2.1, codecs: [alaw], organisation: one, home: core}",
    "protocols: [h323], address: 192.0.2.1, codecs: [ulaw], organisation: one, home: gk}",
)
EMERGENCY = ("tests:\n", "emergency: ['112']\ntests:\n")
GATEWAY = ('{at: gw, arriving: sip, prefix: "+", to: gk}', '{at: gw, prefix: "+420112", to: desk}')
"""A telephone at a gatekeeper whose route for all numbers leads to a gateway."""


def found(text: str, code: str = "") -> list[PlanFinding]:
    return [each for each in check(PlanNetwork(loads(text, "plan.yaml"), DAY)) if code in ("", each.code)]


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda each: f"{each.code}: {each.reason[:40]}")
def test_a_key_that_advice_names_is_accepted_there(mistake: Planted) -> None:
    text = planted(mistake)
    for finding in found(text):
        for pattern, (part, key, value) in KEYS.items():
            if (match := re.search(pattern, finding.proposal)) is not None:
                plan = yaml.safe_load(text)
                plan[part][match[1]][key] = value
                loads(yaml.safe_dump(plan), "plan.yaml")


def test_a_rewrite_rule_makes_an_emergency_number_dialled() -> None:
    (finding,) = found(changed(EMERGENCY), "cannot dial")
    assert finding.proposal == "add a rewrite rule to core"
    rule = "core: {kind: proxy, rewrite: [{match: '^(112)$', replace: '+420\\1'}],"
    route = '  - {at: core, prefix: "+420112", to: desk}\n'
    rewriting = (("core: {kind: proxy,", rule), ("domains:\n", f"{route}domains:\n"))
    (without,) = found(changed(EMERGENCY, rewriting[0]), "cannot dial")
    assert without.proposal == 'add a route for "+420112" at core'
    assert found(changed(EMERGENCY, *rewriting), "cannot dial") == []


def test_a_telephone_at_a_gatekeeper_needs_a_route_for_all_numbers_to_a_gateway_that_rewrites() -> None:
    (finding,) = found(changed(EMERGENCY, HALL), "cannot dial")
    assert finding.proposal == 'add a route for "+" at gk to a gateway with a rewrite rule for 112'
    onward = ("  - {at: gk,", '  - {at: gk, prefix: "+", to: gw}\n  - {at: gk,')
    (onto,) = found(changed(EMERGENCY, HALL, onward, GATEWAY), "cannot dial")
    assert onto.proposal == 'add a route for "+112" at gw'
    rule = ("alaw, ulaw]}", "alaw, ulaw], rewrite: [{match: ^112$, replace: '+420112'}]}")
    assert found(changed(EMERGENCY, HALL, onward, GATEWAY, rule), "cannot dial") == []


def test_route_advises_no_rule_where_the_uri_lost_the_plus() -> None:
    text = changed(("uri: 'sip:+\\1@example.net'}]", "uri: 'sip:\\1@192.0.2.2'}]"))
    net = PlanNetwork(loads(text), DAY)
    proposed = wording.proposal(net, "+420111234567", [*calls(net, "+420111234567")])
    assert proposed == r"write a + before the number in the URI: sip:+\1@192.0.2.2"


def test_a_refusal_that_a_test_requires_is_no_warning() -> None:
    refused = "tests:\n  - {number: '112', answer: 484}\n"
    assert found(BASE.replace("tests:\n", f"emergency: ['112']\n{refused}"), "cannot dial") == []


RELAY = (
    ("core: {kind: proxy,", "core: {kind: proxy, organisation: one,"),
    ("trees:\n  public", "  side: {kind: proxy, address: 192.0.2.8, organisation: two}\n"
     "  guest: {kind: endpoint, protocols: [sip], address: 192.0.2.9, organisation: two, home: side}\n"
     "trees:\n  public"),
    ("address: 192.0.2.5, host", "address: 192.0.2.5, organisation: three, host"),
    ("  two: {title: Two}", "  two: {title: Two}\n  three: {title: A carrier}"),
    ("domains:\n", '  - {at: side, prefix: "+420111", to: core}\ndomains:\n'),
)  # fmt: skip


@pytest.mark.parametrize("by", ["route", "tree", "stranger", "carrier at home"])
def test_a_proxy_that_leads_to_a_carrier_and_takes_calls_from_any_address_is_an_open_relay(by: str) -> None:
    text = changed(*RELAY)
    if by == "tree":
        tree = "  back: {suffix: enum.example.net, visibility: private}\nenum:\n"
        entry = (
            "  - {tree: back, prefix: '+', naptr: [{service: E2U+sip, uri: 'sip:+\\1@desk.example.net'}]}\n"
        )
        text = text.replace("enum:\n", tree + entry, 1).replace("trees: [public]", "trees: [public, back]")
    else:
        text = text.replace("to: gk}", 'to: gk}\n  - {at: core, prefix: "+49", to: desk}')
    if by == "stranger":
        text = text.replace("organisation: three, host", "host").replace("home: side}", "home: core}")
    if by == "carrier at home":
        # Calls come from the carrier, too.
        text = text.replace("organisation: three, host", "organisation: three, home: side, host")
    (finding,) = found(text, "open relay")
    assert (finding.severity, "core: {" in text.splitlines()[int(finding.place.split(":")[1]) - 1]) == (
        "warning",
        True,
    )
    assert finding.reason.startswith("core takes calls from any address, and sends those to +")
    assert finding.reason.endswith(" on to desk")
    assert "set admits: [two] at core" in finding.proposal
    closed = text.replace("core: {kind: proxy,", "core: {kind: proxy, admits: [two],")
    assert found(closed, "open relay") == []


def test_an_organisation_is_not_admitted_to_a_carrier_without_need() -> None:
    text = changed(*RELAY, ("to: gk}", 'to: gk}\n  - {at: core, prefix: "+49", to: desk}'))
    text = text.replace(
        "  one: {title: One}", "  one: {title: One, admits: [two, four]}\n  four: {title: Four}"
    )
    assert found(text, "open relay") == []
    engine = "  far: {kind: proxy, address: 192.0.2.10, organisation: four}\ntrees:\n  public"
    (finding,) = found(text.replace("trees:\n  public", engine, 1), "open relay")
    assert finding.reason.startswith("core admits engines of four, which send it no calls in this plan")


BARS = (
    ("  one: {title: One}", '  one: {title: One, barred: ["+42090"]}'),
    ('{at: gk, prefix: "+420", to: pbx}', '{at: gk, prefix: "+420", to: pbx}\n'
     '  - {at: gk, prefix: "+", to: gw}\n  - {at: gw, arriving: h323, prefix: "+", to: desk}'),
    ("codecs: [alaw, ulaw]}", "codecs: [alaw, ulaw], rewrite: [{match: ^00(.*)$, replace: '+\\1'}]}"),
)  # fmt: skip


def test_a_barred_number_that_can_be_dialled_in_another_form_is_a_warning_until_that_is_barred() -> None:
    text = changed(HALL, *BARS)
    (finding,) = found(text, "bar passed")
    assert "phone can dial 004209" in finding.reason
    assert "gw makes +42090" in finding.reason
    assert finding.proposal == 'bar "+0042090", too'
    assert found(text.replace('["+42090"]', '["+42090", "+0042090"]'), "bar passed") == []


def test_a_barred_number_behind_digits_that_a_route_strips_is_a_warning() -> None:
    bar = ("  one: {title: One}", '  one: {title: One, barred: ["+42090"]}')
    strip = ("to: gk}", 'to: gk}\n  - {at: core, prefix: "+8", to: desk, strip: 1}')
    assert [each.proposal for each in found(changed(bar, strip), "bar passed")] == ['bar "+842090", too']


def test_a_bar_that_the_home_of_the_caller_applies_after_rewriting_is_not_passed() -> None:
    rule = ("core: {kind: proxy,", "core: {kind: proxy, rewrite: [{match: ^00(.*)$, replace: '+\\1'}],")
    carrier = ("to: gk}", 'to: gk}\n  - {at: core, prefix: "+420", to: desk}')
    assert found(changed(BARS[0], rule, carrier), "bar passed") == []


def test_emergency_numbers_are_a_line_each_and_of_own_telephones() -> None:
    other = "  guest: {kind: endpoint, protocols: [sip], address: 192.0.2.9, organisation: two, home: core}\n"
    text = changed(
        ("tests:\n", "emergency: ['112', '150']\ntests:\n"), ("trees:\n  public", f"{other}trees:\n  public")
    )
    assert [each.reason.split(":")[0] for each in found(text, "cannot dial")] == [
        f"{number} cannot be dialled from phone" for number in ("112", "150")
    ]
    dialled = text.replace("tests:\n", "tests:\n  - {number: '150', caller: guest}\n")
    (last,) = (each for each in found(dialled, "cannot dial") if each.reason.startswith("150"))
    assert "guest" in last.reason


def test_forwarding_past_a_barred_number_is_a_warning_until_an_announcement_answers() -> None:
    pairs = (
        ("  one: {title: One}", '  one: {title: One, barred: ["+420900"]}'),
        ("address: 192.0.2.5,", "address: 192.0.2.5, organisation: two, forwards_to: '+420900000001',"),
        ("core: {kind: proxy,", "core: {kind: proxy, organisation: one,"),
        ("to: [desk, gw]}", 'to: [desk, gw]}\n  - {at: core, prefix: "+420900", to: gw}'),
    )
    (finding,) = found(changed(*pairs), "forwards past")
    assert "which callers of one may not call" in finding.reason
    home = ("address: 192.0.2.6,", "address: 192.0.2.6, organisation: one,")
    assert found(changed(*pairs, home), "forwards past") == []


def test_a_barred_own_range_is_found_and_its_proposal_keeps_other_numbers() -> None:
    def barring(rules: str) -> PlanNetwork:
        text = changed(("  one: {title: One}", f"  one: {{title: One, {rules}}}"))
        return PlanNetwork(loads(text, "plan.yaml"), DAY)

    (finding,) = [each for each in check(barring('barred: ["+420"]')) if each.code == "barred"]
    assert 'may_call: ["+", "+420111"]' in finding.proposal
    cured = barring('barred: ["+420"], may_call: ["+", "+420111"]')
    assert [each.code for each in check(cured) if each.code == "barred"] == []
    assert cured.may_call("one", "49123")
