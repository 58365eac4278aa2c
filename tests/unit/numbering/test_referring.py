"""Records that refer to another tree, endpoints that forward, and what proxies leave to callees."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.numbering.checking import check
from weirlab.numbering.checking.routes import planned
from weirlab.numbering.configs import configs, sipp
from weirlab.numbering.diff import differences
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork, wording
from weirlab.numbering.routing.calls import calls
from weirlab.numbering.zones import written, zones

from .plans import changed, network

SIP = "      - {order: 100, preference: 10, service: E2U+sip, uri: 'sip:+\\1@example.net'}\n"
PUBLIC = "  public: {suffix: e164.arpa, zone: 0.2.4.e164.arpa}\n"
INNER = PUBLIC + "  inner: {suffix: enum.example.net, visibility: private}\n"
ENTRY = "enum:\n"
REFERRED = """\
enum:
  - tree: inner
    number: "+420111000001"
    naptr: [{service: E2U+sip, uri: 'sip:+\\1@desk.example.net'}]
"""
REFER = "      - {order: 50, preference: 10, refer: inner}\n"
FORWARDS = ("codecs: [alaw]}\n  pbx", 'codecs: [alaw], forwards_to: "+420222000001"}\n  pbx')
NAPTR = 'number: "+420111000001"\n    naptr:\n' + SIP
PREFIX = 'prefix: "+420111000"\n    naptr:\n' + REFER
TO_GATEWAY = ('prefix: "+420222", to: [desk, gw]', 'prefix: "+420222", to: gw')


def referring(*more: tuple[str, str]) -> PlanNetwork:
    return network((PUBLIC, INNER), (ENTRY, REFERRED), (SIP, REFER + SIP), *more)


def test_a_record_that_refers_is_followed_to_the_entry_of_the_other_tree() -> None:
    net = referring()
    way = planned(net, "+420111000001")
    told = [wording.step(step) for step in way.steps]
    assert (
        "record 50 10 refers to tree inner: asks for NAPTR 1.0.0.0.0.0.1.1.1.0.2.4.enum.example.net." in told
    )
    assert (way.decided_by, way.engines) == ("inner", ("phone", "core", "desk"))
    assert [finding.code for finding in check(net)] == ["test"]  # which demands the public tree


def test_a_record_that_refers_has_no_flag_and_the_name_to_ask_next() -> None:
    text = next(written(zone) for zone in zones(referring()) if zone.origin == "0.2.4.e164.arpa")
    name = "1.0.0.0.0.0.1.1.1.0.2.4.enum.example.net."
    assert f'1.0.0.0.0.0.1.1.1 IN NAPTR 50 10 "" "" "" {name}\n' in text


def test_the_proxy_asks_for_the_name_that_the_record_gives() -> None:
    text = configs(referring(), "/x")["core/kamailio.cfg"]
    assert 'if (naptr_query("$var(refer)", "n") != 1) return;' in text
    assert 'if ($var(suffix) == "enum.example.net") $var(via) = "inner";' in text
    assert 'enum_query("$var(suffix).")' in text
    assert "REFER" not in configs(network(), "/x")["core/kamailio.cfg"]


def test_a_record_behind_one_that_can_be_used_is_not_followed() -> None:
    net = network((PUBLIC, INNER), (ENTRY, REFERRED), (SIP, SIP + REFER.replace("50", "150")))
    ways = [*calls(net, "+420111000001")]
    assert ways[0].decided_by == "public"
    assert not any(step.what == "referred" for way in ways for step in way.steps)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            'tree: inner\n    number: "+420111000001"',
            'tree: inner\n    number: "+420111000002"',
            "the record refers to tree inner, which has no entry for +420111000001",
        ),
        (
            "[{service: E2U+sip, uri: 'sip:+\\1@desk.example.net'}]",
            "[{refer: public}]",
            "the record refers to tree inner, whose entry for +420111000001 refers on: proxies follow only "
            "one such record",
        ),
    ],
)
def test_a_record_that_leads_nowhere_is_found(old: str, new: str, reason: str) -> None:
    text = changed((PUBLIC, INNER), (ENTRY, REFERRED), (SIP, REFER + SIP)).replace(old, new)
    assert reason in [
        finding.reason for finding in check(PlanNetwork(loads(text, "plan.yaml"), network().day))
    ]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (SIP, "      - {refer: public, uri: 'sip:x@y'}\n", "give either uri, regexp or refer"),
        (SIP, "      - {refer: public, service: E2U+sip}\n", "none with refer"),
        (SIP, "      - {uri: 'sip:x@y'}\n", "give a service such as E2U"),
        (SIP, "      - {refer: nowhere}\n", "there is no tree 'nowhere'"),
        (NAPTR, PREFIX, "refer is for the records of a number"),
        ("kind: proxy,", "kind: proxy, transport: tcp,", "are for endpoints"),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_line(old: str, new: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        loads(changed((old, new)).replace("refer: inner", "refer: public"), "plan.yaml")


def test_a_forwarded_call_is_decided_again_where_it_came_from() -> None:
    net = network(FORWARDS, TO_GATEWAY)
    way = planned(net, "+420111000001")
    assert way.engines == ("phone", "core", "gw", "gk", "pbx")
    assert "forwards the call to +420222000001 (302): core routes it again" in map(wording.step, way.steps)
    assert [finding.code for finding in check(net)] == ["test"]  # which demands desk


def test_endpoints_that_forward_to_each_other_are_a_loop() -> None:
    net = network((FORWARDS[0], FORWARDS[1].replace("+420222000001", "+420111000001")))
    assert next(calls(net, "+420111000001")).end.kind == "loop"
    assert "loop" in [finding.code for finding in check(net)]


def test_a_difference_shows_where_calls_are_forwarded() -> None:
    (change, *_) = differences(network(TO_GATEWAY), network(FORWARDS, TO_GATEWAY))
    assert "desk (302 to +420222000001)" in str(change.after)


def test_the_proxy_follows_a_forward_and_the_callee_sends_one() -> None:
    net = network(FORWARDS, TO_GATEWAY)
    assert 'if (t_check_status("302")) route(FORWARD);' in configs(net, "/x")["core/kamailio.cfg"]
    assert "FORWARD" not in configs(network(), "/x")["core/kamailio.cfg"].replace("t_check_status", "")
    text = sipp.callee(net, "desk")
    assert "SIP/2.0 302 Moved Temporarily" in text
    assert "Contact: <sip:+420222000001@[local_ip]:[local_port]>" in text


def test_a_callee_without_a_common_codec_gets_the_call_and_refuses_it() -> None:
    net = network(("host: desk.example.net, codecs: [alaw]", "host: desk.example.net, codecs: [g722]"))
    way = planned(net, "+420111000001")
    first = next(calls(net, "+420111000001"))
    assert (first.engines, first.answer, first.end.engine) == (("phone", "core", "desk"), 488, "desk")
    assert way.engines[-1] == "pbx"
    assert "m=audio [0-9]+ RTP/AVP[0-9 ]* (9)[^0-9]" in sipp.callee(net, "desk")


def test_a_refusal_that_a_test_demands_is_no_mistake() -> None:
    old = ("host: desk.example.net, codecs: [alaw]", "host: desk.example.net, codecs: [g722]")
    route = ("to: [desk, gw]", "to: desk")
    test = (
        '  - {number: "+420111000001", via: public, ends_at: desk}',
        '  - {number: "+420222000001", answer: 488}',
    )
    assert "no codec" in [finding.code for finding in check(network(old, route))]
    assert "no codec" not in [finding.code for finding in check(network(old, route, test))]


def test_speech_before_the_answer_and_tcp_reach_the_scenarios() -> None:
    net = network(("  desk: {kind: endpoint,", "  desk: {kind: endpoint, early_media: true, transport: tcp,"))
    text = sipp.callee(net, "desk")
    assert text.index("183 Session Progress") < text.index("SIP/2.0 200 OK")
    assert "180 Ringing" not in text
    assert "[local_port];transport=tcp>" in text
    files = configs(net, "/x")
    assert "sip\\:192.0.2.5\\:5060;transport=tcp" in files["core/db/mtree_plan"]
    assert "listen=tcp:192.0.2.2:5060" in files["core/kamailio.cfg"]
    assert "listen=tcp" not in configs(network(), "/x")["core/kamailio.cfg"]


def test_a_service_point_over_the_wrong_transport_is_found() -> None:
    net = network(("  desk: {kind: endpoint,", "  desk: {kind: endpoint, transport: tcp,"))
    assert "_sip._udp.example.net leads to desk.example.net, which takes SIP over TCP" in [
        finding.reason for finding in check(net)
    ]


def test_secondaries_transfer_what_the_primary_allows_them() -> None:
    net = network(
        (
            "primary: ns.example.net,",
            "primary: ns.example.net, secondaries: [ns2.example.net, ns.elsewhere.example],",
        ),
        ("{ns.example.net: 192.0.2.53}", "{ns.example.net: 192.0.2.53, ns2.example.net: 192.0.2.54}"),
    )
    files = configs(net, "/x")
    assert "allow-transfer { 192.0.2.54; };" in files["named/named.conf"]
    second = files["named-2/named.conf"]
    assert "listen-on port 53 { 192.0.2.54; };" in second
    assert 'zone "example.net" { type slave; masters { 192.0.2.53; };' in second
    assert "named-3/named.conf" not in files
