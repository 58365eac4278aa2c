from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.numbering.checking import check
from weirlab.numbering.checking.routes import planned
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork, wording
from weirlab.numbering.routing.calls import calls
from weirlab.numbering.routing.trees import Prefixes

from .plans import BASE, DAY, network, ready_network


@pytest.mark.parametrize(
    ("number", "by", "engines", "end"),
    [
        ("+420224355289", "public", "phone core cyrus", "answered"),
        ("00420220123456", "shared", "phone core cyrus", "answered"),
        ("+420333111222", "private", "phone core cyrus", "answered"),
        ("+420950053777", "static", "phone core cyrus", "answered"),
        ("+420950052123", "static", "phone core gw-a gk gw-b exchange", "answered"),
        ("+420950055001", "static", "phone core gw-a hotline", "answered"),
        ("+420950051123", "public", "phone core gw-a gk gw-b exchange", "answered"),
        ("+420777000000", None, "phone core", "no route"),
        ("+420900123456", None, "phone core", "barred"),
        ("+420950051777", "public", "phone core cyrus", "answered"),
        ("+420950051345", "public", "phone core cyrus", "answered"),
    ],
)
def test_calls_of_all_kinds_go_their_way(number: str, by: str | None, engines: str, end: str) -> None:
    way = planned(ready_network("federation"), number)
    assert (way.decided_by, " ".join(way.engines), way.end.kind) == (by, engines, end)


def test_nothing_is_claimed_about_numbers_outside_the_zone_of_a_tree() -> None:
    """Reported: no such name, although others may answer for it."""
    net = ready_network("campus")
    asked = {
        number: {
            s.facts["tree"]: s.facts.get("outside")
            for s in planned(net, number).steps
            if s.what == "no entry"
        }
        for number in ("+49301234567", "+420111777000")
    }
    assert asked["+49301234567"] == {"private": None, "public": "0.2.4.e164.arpa"}
    assert set(asked["+420111777000"].values()) == {None}


def test_the_example_of_the_report_has_its_two_records_in_their_order() -> None:
    ways = [*calls(ready_network("cesnet"), "+420224355289")]
    records = [[s.facts for s in way.steps if s.what == "record" and s.engine == "ser"] for way in ways]
    assert [(r["order"], r["preference"], r["service"], r["uri"]) for [r] in records] == [
        (100, 50, "E2U+sip", "sip:420224355289@cesnet.cz"),
        (100, 50, "E2U+sip", "sip:420224355289@cesnet.cz"),
        (200, 50, "E2U+h323", "h323:420224355289@gk1ext.cesnet.cz"),
    ][-len(records) :]
    asked = {str(s.facts["asked"]) for way in ways for s in way.steps if s.what == "tree"}
    assert asked == {"9.8.2.5.5.3.4.2.2.0.2.4.e164.arpa."}
    assert [way.engines[-1] for way in ways] == ["cyrus"] * (len(ways) - 1) + ["pbx"]


def test_each_step_is_told_with_the_line_that_decides() -> None:
    net = network()
    way = planned(net, "+420111000001")
    told = [(wording.step(s), wording.place(net.book, s.place)) for s in way.steps]
    number = "1.0.0.0.0.0.1.1.1.0.2.4.e164.arpa."
    assert told == [
        ("dials +420111000001; its calls go to core", "plan.yaml:12"),
        ("sends the call to core by SIP", "plan.yaml:12"),
        ("none of its routes fits", ""),
        (f"asks tree public for NAPTR {number}: number +420111000001 answers", "plan.yaml:21"),
        (
            "takes record 100 10 E2U+sip, first in order and preference that it can use: "
            "sip:+420111000001@example.net",
            "plan.yaml:24",
        ),
        ("example.net has an SRV record: desk.example.net:5060, 192.0.2.5", "plan.yaml:36"),
        ("sends the call to desk by SIP, codec alaw", "plan.yaml:24"),
    ]  # fmt: skip


def test_what_comes_next_is_the_next_target_and_the_next_record() -> None:
    net = network()
    assert [" ".join(way.engines) for way in calls(net, "+420222000000")] == [
        "phone core desk", "phone core gw gk pbx",
    ]  # fmt: skip
    assert [" ".join(way.engines) for way in calls(net, "+420111000001")] == [
        "phone core desk", "phone core gw gk pbx",
    ]  # fmt: skip


def test_a_gateway_translates_and_agrees_on_a_codec_per_leg() -> None:
    way = [*calls(network(), "+420222000000")][1]
    legs = [(s.engine, s.facts["protocol"], s.facts["codec"]) for s in way.steps if s.what == "leg"]
    assert legs == [
        ("phone", "sip", None),
        ("core", "sip", "alaw"),
        ("gw", "h323", None),
        ("gk", "h323", "ulaw"),
    ]
    assert [wording.step(s) for s in way.steps if s.what == "translated"] == ["translates SIP to H.323"]


def test_a_gateway_that_does_not_transcode_passes_the_offer_on() -> None:
    net = network(("codecs: [alaw, ulaw]}", "codecs: [alaw, ulaw], transcodes: false}"))
    way = [*calls(net, "+420222000000")][1]
    assert way.end.kind == "no codec"
    assert wording.end(way.end) == "pbx has none of the codecs offered (alaw): it has ulaw"


def test_a_prefix_of_a_tree_answers_for_numbers_that_continue_it_only() -> None:
    net = network()
    assert planned(net, "+42011123").end.kind == "answered"
    assert planned(net, "+4201112").end.kind == "no route"


def test_what_does_not_hold_on_the_day_is_not_there() -> None:
    late = BASE.replace("to: [desk, gw]}", "to: [desk, gw], valid_from: 2027-01-01}")
    assert planned(PlanNetwork(loads(late), DAY), "+420222000000").end.kind == "no route"
    assert planned(PlanNetwork(loads(late), DAY.replace(year=2027)), "+420222000000").end.good


def test_strip_and_prepend_change_the_number_that_leaves() -> None:
    net = network(
        ("to: [desk, gw]}", "to: gw, strip: 3, prepend: '421'}"), ('prefix: "+420", to', 'prefix: "+421", to')
    )
    way = planned(net, "+420222000000")
    assert way.end.kind == "answered"
    assert [s.facts["number"] for s in way.steps if s.what == "leg"][1:] == ["+421222000000"] * 3


def test_an_engine_admits_by_the_organisation_of_the_engine_before_it() -> None:
    two = (
        ("  two: {title: Two}", "  two: {title: Two, admits: []}"),
        (
            "gw: {kind: gateway,",
            "gw: {kind: gateway, organisation: two,",
        ),
    )
    to_gateway = ("to: [desk, gw]}", "to: gw}")
    for organisation, answers in (("one", False), ("two", True)):
        of_core = ("core: {kind: proxy,", f"core: {{kind: proxy, organisation: {organisation},")
        admits = ("address: 192.0.2.2,", "address: 192.0.2.2, admits: [one],")
        first = next(calls(network(*two, to_gateway, of_core, admits), "+420222000000"))
        assert first.end.good == answers
        if not answers:
            assert wording.end(first.end) == "gw does not admit calls of one"


def test_an_endpoint_takes_every_call() -> None:
    net = network(
        ("  two: {title: Two}", "  two: {title: Two, admits: []}"),
        ("address: 192.0.2.5,", "address: 192.0.2.5, organisation: two,"),
    )
    assert next(calls(net, "+420222000000")).end.good


PROXY = "  side: {kind: proxy, address: 192.0.2.8, host: side.example.net}\n  gk: {kind: gatekeeper,"
TO_SIDE = (
    ("  gk: {kind: gatekeeper,", PROXY),
    ("uri: 'sip:+\\1@example.net'}]", "uri: 'sip:URI@side.example.net'}]"),
)


def towards(uri: str, *more: tuple[str, str]) -> PlanNetwork:
    """An entry for +4201112... that leads to a proxy, which routes these numbers to the desk."""
    route = '  - {at: side, prefix: "+4201112", to: desk}\n'
    pairs = [(old, new.replace("URI", uri)) for old, new in TO_SIDE]
    return network(*pairs, ("domains:\n", f"{route}domains:\n"), *more)


@pytest.mark.parametrize(
    ("uri", "number", "answer"),
    [
        ("+\\1", "+420111234567", 200),
        ("\\1", "420111234567", 484),
        ("\\1;npdi", "420111234567", 484),
        ("+\\1;npdi", "+420111234567", 200),
    ],
)
def test_a_proxy_gets_the_number_as_the_uri_has_it(uri: str, number: str, answer: int) -> None:
    net = towards(uri)
    way = next(calls(net, "+420111234567"))
    (leg,) = (s.facts["number"] for s in way.steps if s.what == "leg" and s.facts["to"] == "side")
    assert (leg, way.answer) == (number, answer)
    assert way.end.engine == ("desk" if answer == 200 else "side")
    ((code, proposal),) = [(f.code, f.proposal) for f in check(net)] or [("", "")]
    assert (code == "no number") == (r"sip:+\1@side.example.net" in proposal) == (answer == 484)


def test_a_rewrite_rule_of_the_next_proxy_can_give_the_number_its_plus() -> None:
    rule = "side.example.net, rewrite: [{match: '^420(.*)$', replace: '+420\\1'}]}\n"
    net = towards("\\1", ("side.example.net}\n", rule))
    assert next(calls(net, "+420111234567")).end.engine == "desk"


def test_a_proxy_passes_484_on_and_tries_no_further_record() -> None:
    second = "{preference: 20, service: E2U+sip, uri: 'sip:+\\1@example.net'}"
    net = towards("\\1", ("@side.example.net'}]", f"@side.example.net'}}, {second}]"))
    assert [way.answer for way in calls(net, "+420111234567")] == [484]


def test_h323_carries_digits_alone_so_that_a_gateway_can_rewrite_them() -> None:
    net = network(
        H323_PHONE,
        ("arriving: sip, ", ""),
        ('{at: gk, prefix: "+420", to: pbx}', '{at: gk, prefix: "+", to: gw}\n'
         '  - {at: gw, prefix: "+420112", to: desk}'),
        ("codecs: [alaw, ulaw]}", "codecs: [alaw, ulaw], rewrite: [{match: ^112$, replace: '+420112'}]}"),
    )  # fmt: skip
    way = planned(net, "112")
    assert (way.engines, way.end.kind) == (("phone", "gk", "gw", "desk"), "answered")
    assert [s.facts["number"] for s in way.steps if s.what == "leg"] == ["112", "112", "+420112"]


H323_PHONE = (
    "protocols: [sip], address: 192.0.2.1, codecs: [alaw], organisation: one, home: core}",
    "protocols: [h323], address: 192.0.2.1, codecs: [ulaw], home: gk}",
)
GK_ASKS = ("host: gk.example.net}", "host: gk.example.net, trees: [public]}")


def tel(uri: str) -> PlanNetwork:
    """A gatekeeper that asks a tree, whose record for +4201112... is a tel URI."""
    return network(
        H323_PHONE,
        GK_ASKS,
        ('{at: gk, prefix: "+420", to: pbx}', '{at: gk, prefix: "+420222", to: pbx}'),
        ("service: E2U+sip, uri: 'sip:+\\1@example.net'}]", f"service: E2U+pstn:tel, uri: '{uri}'}}]"),
    )


@pytest.mark.parametrize(
    "uri",
    [
        "tel:+420222000000",
        "tel:+420-222-000.000",
        "tel:+420111234567;npdi;rn=+420222000000",
        "tel:+420111234567;RN=+420222000000;npdi",
    ],
)
def test_a_gatekeeper_decides_a_tel_uri_again_by_its_routing_number(uri: str) -> None:
    way = planned(tel(uri), "+420111234567")
    assert way.engines == ("phone", "gk", "pbx")
    assert [s.facts["number"] for s in way.steps if s.what == "leg"][-1] == "+420222000000"


def test_a_number_that_was_looked_up_is_not_looked_up_again() -> None:
    way = planned(tel("tel:\\1;npdi"), "+420111234567")
    assert way.end.kind == "no route"
    assert way.end.facts["trees"] == ()
    assert planned(tel("tel:\\1"), "+420111234567").end.kind == "loop"


def test_a_proxy_passes_over_a_record_that_it_cannot_follow() -> None:
    net = network(
        (
            "service: E2U+sip, uri: 'sip:+\\1@example.net'}]",
            "service: E2U+voice:tel, uri: 'tel:+420222000000'}]",
        )
    )
    way = next(calls(net, "+420111234567"))
    assert way.answer == 404
    (passed,) = [step for step in way.steps if step.what == "unusable record"]
    assert "Kamailio does not follow E2U+voice:tel" in wording.step(passed)


def test_the_transport_that_a_uri_requires_decides_between_service_points() -> None:
    def end(uri: str, services: str) -> str:
        net = network(
            ("uri: 'sip:+\\1@example.net'}]", f"uri: '{uri}'}}]"),
            (
                "services: [{service: sip, transport: udp, priority: 10, weight: 5, port: 5060, "
                "target: desk.example.net}]",
                f"services: [{services}]",
            ),
            (
                "trees:\n",
                "  bell: {kind: endpoint, protocols: [sip], address: 192.0.2.9, host: bell.example.net, "
                "transport: tcp, codecs: [alaw]}\ntrees:\n",
            ),
        )
        return next(calls(net, "+420111234567")).engines[-1]

    both = "{target: desk.example.net}, {transport: tcp, priority: 1, target: bell.example.net}"
    assert end(r"sip:+\1@example.net", both) == "desk"
    assert end(r"sip:+\1@example.net;transport=tcp", both) == "bell"
    assert end(r"sip:+\1@example.net;user=phone;transport=TCP", both) == "bell"
    assert end(r"sip:+\1@example.net;transport=udp", both) == "desk"
    assert end(r"sip:+\1@example.net", "{transport: tcp, target: bell.example.net}") == "bell"


def test_the_document_has_the_number_that_each_leg_sends() -> None:
    net = network(("to: [desk, gw]}", 'to: [desk, gw], strip: 3, prepend: "+421"}'))
    steps = wording.document(net.book, next(calls(net, "+420222000000")))["steps"]
    assert [each["number"] for each in steps if each["what"] == "leg"] == ["+420222000000", "+421222000000"]


def test_a_route_that_leaves_no_digits_ends_the_call() -> None:
    net = network(("to: [desk, gw]}", "to: [desk, gw], strip: 12}"))
    way = next(calls(net, "+420222000000"))
    assert (way.end.kind, way.answer) == ("no digits", 484)
    assert next(calls(net, "+4202220000009")).end.kind == "answered"


def test_numbers_of_more_than_15_digits_are_not_looked_up() -> None:
    way = next(calls(network(), "+4201112345678901"))
    assert (way.end.kind, way.end.facts["trees"]) == ("no route", ())


def test_a_call_may_come_again_to_a_proxy_with_another_number() -> None:
    net = network(
        ("  gk: {kind: gatekeeper,", "  side: {kind: proxy, address: 192.0.2.8}\n  gk: {kind: gatekeeper,"),
        (
            '  - {at: core, prefix: "+420222", to: [desk, gw]}',
            '  - {at: core, prefix: "+420222", to: [desk, gw]}\n  - {at: core, prefix: "+420333", to: side}\n'
            '  - {at: side, prefix: "+420333", strip: 6, prepend: "420222", to: core}',
        ),
    )
    assert next(calls(net, "+420333000000")).engines == ("phone", "core", "side", "core", "desk")


def test_a_uri_outside_the_plan_leaves_it() -> None:
    net = network(
        ("h323:\\1@gk.example.net", "h323:\\1@gk.example.org"), ("hand_over: {h323: gw}", "hand_over: {}")
    )
    assert [way.end.kind for way in calls(net, "+420111000001")] == ["answered"]
    net = network(("uri: 'sip:+\\1@example.net'}]", "uri: 'sip:+\\1@example.org'}]"))
    assert planned(net, "+420111234567").end.kind == "external"


def test_a_number_that_grows_on_its_way_round_ends_as_a_loop() -> None:
    net = network(
        ('{at: gk, prefix: "+420", to: pbx}', '{at: gk, prefix: "+", to: gw, prepend: "4"}'),
        ("arriving: sip, ", ""),
    )
    assert [*islice(calls(net, "+420222000000"), 8)][1].end.kind == "loop"


def test_a_caller_without_a_home_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"plan\.yaml:16: desk has no home"):
        next(calls(network(), "+420222000000", "desk"))


@given(st.lists(st.text("0123", max_size=6)), st.text("0123", max_size=8))
def test_the_longest_prefix_is_found(prefixes: list[str], number: str) -> None:
    index = Prefixes((prefix, prefix) for prefix in prefixes)
    fitting = [prefix for prefix in prefixes if number.startswith(prefix)]
    found = index.longest(number)
    assert (found[0] if found else None) == max(fitting, key=len, default=None)


@settings(max_examples=40)
@given(st.lists(st.text("0123456789", min_size=1, max_size=3), min_size=1, max_size=60))
def test_a_prefix_is_hidden_where_no_continuation_is_free(prefixes: list[str]) -> None:
    index = Prefixes((prefix, prefix) for prefix in ["", *prefixes])
    every = [f"{n:03d}" for n in range(1000)]
    free = [number for number in every if index.longest(number) == ("", "")]
    assert index.is_hidden("") == (not free)
    found = index.free_continuation("")
    assert (found is None) == (not free)
    if found is not None:
        assert index.longest(found.ljust(3, "0")) == ("", "")
