"""Routes after the trees: for numbers that no tree has, and for calls whose ENUM records failed."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

import pytest

from weirlab.base.errors import InputError
from weirlab.numbering.checking import check
from weirlab.numbering.configs import configs
from weirlab.numbering.proof.ways import planned
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls
from weirlab.numbering.routing.wording import conclusion

from .mistakes.planted import ROUTE, TO_PBX
from .plans import network

CARRIER = '  - {at: core, prefix: "+", after_trees: true, to: [spare, gw]}\n'
SPARE = "  spare: {kind: endpoint, protocols: [sip], address: 192.0.2.9, codecs: [CODEC]}\ntrees:\n"


def with_carrier(codec: str = "alaw", *more: tuple[str, str]) -> PlanNetwork:
    return network((ROUTE, ROUTE + CARRIER), ("trees:\n", SPARE.replace("CODEC", codec)), *more)


def ends(net: PlanNetwork, number: str) -> list[str]:
    return [way.end.engine for way in islice(calls(net, number), 8)]


def test_the_carrier_is_tried_when_all_records_of_enum_have_failed() -> None:
    ways = [*islice(calls(with_carrier(), "+420111000001"), 8)]
    assert [way.engines[2] for way in ways] == ["desk", "gw", "spare", "gw"]
    assert [way.decided_by for way in ways] == ["public", "public", "static", "static"]


def test_a_number_that_no_tree_has_goes_to_the_carrier_at_once() -> None:
    assert ends(with_carrier(), "+420333000000") == ["spare", "pbx"]
    assert [way.end.kind for way in calls(network(), "+420333000000")] == ["no route"]


def test_a_number_with_a_route_does_not_go_to_the_carrier() -> None:
    assert ends(with_carrier(), "+420222000000") == ends(network(), "+420222000000")


def test_a_target_whose_answer_is_passed_on_is_the_last_one() -> None:
    """A call that a carrier does not admit (403) is over."""
    gateway_first = CARRIER.replace("spare, gw", "gw, spare")
    mine = ("core: {kind: proxy,", "core: {kind: proxy, organisation: one,")
    theirs = ("gw: {kind: gateway,", "gw: {kind: gateway, organisation: two, admits: [],")
    plan = ((ROUTE, ROUTE + gateway_first), ("trees:\n", SPARE.replace("CODEC", "alaw")), mine)
    assert ends(network(*plan), "+420333000000") == ["pbx", "spare"]
    assert ends(network(*plan, theirs), "+420333000000") == ["gw"]


def test_checks_accept_it_and_trace_calls_to_it() -> None:
    assert [finding.reason for finding in check(with_carrier()) if finding.severity == "error"] == []
    codes = [finding.code for finding in check(with_carrier("g729"))]
    assert codes.count("no codec") == 1


def test_an_entry_without_a_record_that_can_be_used_is_reported_although_the_carrier_takes_its_calls() -> (
    None
):
    useless = (
        "service: E2U+sip, uri: 'sip:+\\1@example.net'}]",
        "service: E2U+mailto, uri: 'mailto:\\1@x.y'}]",
    )
    assert "unusable" in [finding.code for finding in check(with_carrier("alaw", useless))]


def test_a_proxy_that_queries_no_trees_has_nothing_before_it() -> None:
    net = with_carrier("alaw", (", trees: [public], hand_over: {h323: gw}", ""))
    assert "core queries no trees, so there is nothing after which to use the route" in [
        finding.reason for finding in check(net)
    ]


def test_what_cannot_come_after_trees_is_refused_with_its_line() -> None:
    net = network((TO_PBX, TO_PBX.replace("gk, ", "gk, after_trees: true, ")))
    with pytest.raises(InputError, match=r"plan\.yaml:32: gatekeepers name one target"):
        configs(net, "/etc/voice")


def test_the_proxy_asks_its_table_when_the_trees_had_no_answer_and_when_records_failed() -> None:
    files = configs(with_carrier(), "/etc/voice")
    assert "1:+:0,,sip\\:192.0.2.9\\:5060|sip\\:192.0.2.3\\:5060\n" in files["core/db/mtree_after"]
    blocks = re.findall(
        r"^(\w+(?:\[\w+\])?) \{\n(.*?)^\}", files["core/kamailio.cfg"], re.MULTILINE | re.DOTALL
    )
    asking = [name for name, lines in blocks if "route(AFTER);" in lines]
    assert asking == ["request_route", "route[LATER]", "failure_route[GATEWAY]"]


CELL = "  cell: {kind: endpoint, protocols: [h323], address: 192.0.2.10, home: gk}\n  desk: {"
TWO = """\
  - tree: public
    number: "+490000001"
    naptr:
      - {preference: 1, service: E2U+h323, uri: 'h323:\\1@192.0.2.6'}
      - {preference: 2, service: E2U+h323, uri: 'h323:\\1@192.0.2.3'}
routes:
"""
DIALLED = "".join(f"  - {{number: '{number}', caller: cell}}\n" for number in ("480000001", "490000001"))
KEEPER: Final = (
    ("  desk: {", CELL),
    ("host: gk.example.net}", "host: gk.example.net, trees: [public]}"),
    ("routes:\n", TWO),
    (TO_PBX, TO_PBX + '  - {at: gk, prefix: "+480", to: [pbx, gw]}\n'),
    ("tests:\n", f"tests:\n{DIALLED}"),
)


def test_a_gatekeeper_names_one_record_and_does_not_learn_whether_the_target_answers() -> None:
    """Found: the next record was promised, and the proof ended because the telephone reached nobody."""
    net = network(*KEEPER)
    assert [way.end.engine for way in calls(net, "490000001", "cell")] == ["pbx"]
    assert next(way.end.engine for way in calls(net, "480000001", "cell")) == "pbx"
    proof = planned(net, fall_back=True)
    assert [each.down for each in proof if each.caller == "cell"] == [None, None]


def test_a_call_with_one_way_says_so() -> None:
    for net, alone in ((network(), True), (with_carrier(), False)):
        ways = [*islice(calls(net, "+420111200001"), 8)]
        assert ("nothing else is tried" in conclusion(net, "+420111200001", ways)) == alone
