"""A number has several spellings (RFC 3966, RFC 3261), which go where it goes, and are barred as it is."""

from __future__ import annotations

import pytest

from weirlab.numbering.configs import configs, sipp
from weirlab.numbering.plan import loads
from weirlab.numbering.plan.values import spelling
from weirlab.numbering.proof.ways import planned, spellings
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls

from .plans import DAY
from .test_carriers import BORDER

BARRING = BORDER.replace("admits: []}", 'barred: ["+44900"]}').replace(
    "trees: [own]}", "trees: [own], rewrite: [{match: '^00(.*)$', replace: '+\\1'}]}"
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+44-900.1(2) 3", "+44900123"),
        ("+4%34900123", "+44900123"),
        ("%2B44%20900123", "+44900123"),
        ("+44900123;phone-context=+1;isub=2", "+44900123"),
        ("TEL:+44-900-123", "+44900123"),
        ("Sip:+44900123@192.0.2.2;user=phone", "+44900123"),
        ("0044 900", "0044900"),
        ("+44%2539", None),
        ("+44+900", None),
        ("(+44)900", None),
        ("(44)900", None),
        ("+44900a", None),
        ("+44\N{ARABIC-INDIC DIGIT NINE}00", None),
        ("-", None),
        ("", None),
    ],
)
def test_a_number_has_one_spelling_that_is_compared(text: str, number: str | None) -> None:
    assert spelling(text) == number


def network() -> PlanNetwork:
    return PlanNetwork(loads(BARRING, "plan.yaml"), DAY)


@pytest.mark.parametrize(
    "dialled", ["+44900123", "0044900123", *spellings("+44900123"), *spellings("0044900123")]
)
def test_every_spelling_of_a_barred_number_is_barred(dialled: str) -> None:
    assert [way.end.kind for way in calls(network(), dialled)] == ["barred"]


@pytest.mark.parametrize("number", ["1", "18", "188", "+18", "1888"])
def test_other_spellings_of_a_short_number_mean_it(number: str) -> None:
    assert {spelling(each) for each in spellings(number)} == {number}


def test_no_country_code_begins_with_0() -> None:
    assert [way.end.kind for way in calls(network(), "+0044900123")] == ["no number"]


def test_a_proof_calls_other_spellings_and_sends_a_request_of_no_call() -> None:
    book = loads(BARRING + '  - {number: "+44900123", answer: 403}\n', "plan.yaml")
    found = planned(PlanNetwork(book, DAY), fall_back=False)
    barred = [call.test.number for call in found if call.way.end.kind == "barred"]
    assert barred == ["+44900123", *spellings("+44900123")]
    forged = {call.way.engines for call in found if call.answer == 481}
    assert forged == {("far", "sbc"), ("phone", "core")}


def test_engines_compare_and_pass_on_one_spelling_and_know_the_calls_of_later_requests() -> None:
    proxy = configs(network(), "/etc/voice")["core/kamailio.cfg"]
    begin = proxy.index("request_route")
    steps = ("has_totag", "route(ADMIT)", "route(NUMBER)", "route(REWRITE)", "route(BARRED)", "dlg_manage")
    at = [proxy.index(step, begin) for step in steps]
    assert at == sorted(at)
    dialog = proxy[proxy.index("route[DIALOG]") :]
    unknown, _, known = dialog.partition('"481"')
    assert unknown.index("is_known_dlg") < unknown.index('"ACK|BYE|PRACK|INFO|UPDATE") && loose_route()')
    # Neither side moves the call to a barred number.
    assert known.index("$dlg(to_contact)") < known.index("$dlg(from_contact)") < known.index("route(BARRED)")
    assert 'remove_hf("Route")' in proxy


def test_a_proof_of_a_telephone_whose_calls_do_not_begin_has_no_attacks() -> None:
    silent = BARRING.replace("core: {kind: proxy,", "core: {kind: gatekeeper,").replace(
        ", rewrite: [{", ", hm: [{"
    )
    silent = silent.replace(", hm: [{match: '^00(.*)$', replace: '+\\1'}]", "")
    found = planned(PlanNetwork(loads(silent, "plan.yaml"), DAY), fall_back=False)
    assert [call.caller for call in found if call.answer == 481] == ["far"]


def test_a_proxy_refuses_a_call_that_was_there_with_the_same_number() -> None:
    begin = configs(network(), "/etc/voice")["core/kamailio.cfg"].partition("route(REWRITE);")[0]
    assert begin.index("route(NUMBER)") < begin.index(";at-core=") < begin.index('"482"')
    assert begin.index('"482"') < begin.index("add_rr_param")


def test_a_request_of_no_call_names_no_address_that_sipp_takes_for_a_keyword() -> None:
    book = loads(BARRING.replace("192.0.2.6", "2001:db8::6"), "plan.yaml")
    text = sipp.caller(PlanNetwork(book, DAY), "phone", sipp.NO_CALL)
    assert f"tag={sipp.NO_CALL_TAG}" in text
    assert "2001:db8" not in text
