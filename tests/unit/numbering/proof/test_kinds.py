"""The kinds of routes that a proof covers, in a lab that only pretends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.numbering.checking import check
from weirlab.numbering.fakes import FakeLab
from weirlab.numbering.proof import findings, kinds
from weirlab.numbering.proof.calling import made
from weirlab.numbering.proof.findings import AS_PLANNED, NOT_AS_PLANNED, ProofFindings
from weirlab.numbering.proof.ways import ProofCall, planned
from weirlab.numbering.routing import PlanNetwork

from ..plans import DAY, network, ready_network

MANY = 25
"""Kinds that one command is to prove."""


@pytest.fixture(scope="module")
def carriers() -> tuple[PlanNetwork, list[ProofCall]]:
    net = ready_network("carriers")
    return net, planned(net, fall_back=True)


def of(
    carriers: tuple[PlanNetwork, list[ProofCall]], number: str, down: str | None = None
) -> tuple[str, ...]:
    net, calls = carriers
    return kinds.kinds(
        net, next(each for each in calls if (each.test.number, each.down) == (number, down)), calls
    )


def test_nothing_is_found_in_the_plan_of_all_kinds(carriers: tuple[PlanNetwork, list[ProofCall]]) -> None:
    assert check(carriers[0]) == []


def test_one_plan_proves_many_kinds_of_routes(
    carriers: tuple[PlanNetwork, list[ProofCall]], tmp_path: Path
) -> None:
    net, calls = carriers
    lab = FakeLab(net, tmp_path)
    rows = [made(lab, each, calls)[0] for each in calls]
    assert {row.verdict: row.why for row in rows} == {AS_PLANNED: ""}
    found = ProofFindings("carriers", tuple(rows), partly=False)
    assert len(found.kinds) >= MANY
    assert all(kind.good for kind in found.kinds)
    assert f"{len(found.kinds)} of {len(found.kinds)} kinds of routes are proved" in found.sentence


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        ("+420221000001", "regexp without back-reference"),
        ("+420221000001", "tree without an entry: the next one is asked"),
        ("+420222000005", "call limit (503)"),
        ("+420222055501", "hole below a wildcard, closed (RFC 4592)"),
        ("+420222055555", "address in a URI"),
        ("+420222000888", "order of trees"),
        ("+420223000002", "NAPTR preference"),
        ("+420223000003", "record that cannot be used is passed over"),
        ("+420224000001", "non-terminal NAPTR"),
        ("+420226000001", "SRV priority"),
        ("+420226000002", "SRV weight"),
        ("+420226000003", "SIP over TCP"),
        ("112", "emergency number"),
        ("700", "short number"),
        ("0222000002", "national number"),
        ("00493012345", "longest prefix"),
        ("00493012345", "international number dialled with 00"),
        ("+498912345", "validity dates"),
        ("+43199000002", "route after the trees"),
        ("+420440123456", "digits put in front"),
        ("+420250000001", "two proxies"),
        ("+420250000002", "organisation not admitted (403)"),
        ("555", "no international number (484)"),
        ("+420229000001", "no common codec (488)"),
        ("+420227000001", "early media (183)"),
        ("+420228000001", "forwarding (302)"),
        ("+420221999001", "both directions"),
        ("+420260000001", "IPv6"),
    ],
)
def test_a_call_is_an_example_of_what_the_plan_has_it_do(
    carriers: tuple[PlanNetwork, list[ProofCall]], number: str, kind: str
) -> None:
    assert kind in of(carriers, number)


@pytest.mark.parametrize(
    ("number", "down", "kind"),
    [
        ("+420223000002", "carrier-b", "fall-back to the next NAPTR record: no answer"),
        ("+420226000001", "carrier-a", "fall-back to the next SRV target: no answer"),
        ("+498912345", "carrier-a", "fall-back to the next target of a route: no answer"),
        ("+43199000001", "carrier-b", "fall-back to the route after the trees: no answer"),
        ("+420221000001", "named", "primary name server off: the secondary answers"),
    ],
)
def test_a_call_while_something_fails_is_an_example_of_that_alone(
    carriers: tuple[PlanNetwork, list[ProofCall]], number: str, down: str, kind: str
) -> None:
    assert of(carriers, number, down) == (kind,)


def test_what_a_call_does_not_do_is_no_kind_of_it(carriers: tuple[PlanNetwork, list[ProofCall]]) -> None:
    assert {"NAPTR order", "SRV priority", "longest prefix"}.isdisjoint(of(carriers, "+420222000001"))
    assert "both directions" not in of(carriers, "+420223000001")


def of_changed(number: str, *replacements: tuple[str, str]) -> set[str]:
    net = network(*replacements)
    calls = planned(PlanNetwork(net.book, DAY), fall_back=False)
    return {kind for each in calls if each.test.number == number for kind in kinds.kinds(net, each, calls)}


ORDERED = ("order: 100, preference: 20", "order: 200, preference: 20")
TESTED = ('tests:\n', 'tests:\n  - {number: "+420222000001", ends_at: desk}\n')  # fmt: skip
ROUTED = '  - {at: core, prefix: "+420222", to: [desk, gw]}'


def test_a_kind_counts_only_if_the_call_could_have_gone_another_way() -> None:
    enum = "+420111000001"
    assert "NAPTR order" in of_changed(enum, ORDERED)
    assert "NAPTR order" not in of_changed(enum, ORDERED, ("hand_over: {h323: gw}", "hand_over: {}"))
    assert "NAPTR preference" in of_changed(enum)
    shared = ("codecs: [alaw], organisation: one", "codecs: [alaw, ulaw], organisation: one")
    callee = "host: desk.example.net, codecs: [alaw]"
    assert "codec preference" not in of_changed(enum, shared)
    assert "codec preference" in of_changed(enum, shared, (callee, callee.replace("[alaw]", "[ulaw, alaw]")))
    longer = '  - {at: core, prefix: "+4202220", to: TO}'
    for to, is_kind in (("[desk, gw]", False), ("desk", True)):
        more = (ROUTED, f"{ROUTED}\n{longer.replace('TO', to)}")
        assert ("longest prefix" in of_changed("+420222000001", TESTED, more)) == is_kind


def test_an_emergency_number_is_one_that_the_plan_lists() -> None:
    rule = ("core: {kind: proxy,", "core: {kind: proxy, rewrite: [{match: ^155$, replace: '+420222155'}],")
    dialled = ("tests:\n", "emergency: ['155']\ntests:\n  - {number: '155', ends_at: desk}\n")
    assert "emergency number" in of_changed("155", rule, dialled)
    assert "short number" in of_changed(
        "155", rule, (dialled[0], dialled[1].replace("emergency: ['155']\n", ""))
    )


def test_a_kind_is_proved_if_all_its_calls_are(
    carriers: tuple[PlanNetwork, list[ProofCall]], tmp_path: Path
) -> None:
    net, calls = carriers
    rows = [made(FakeLab(net, tmp_path), each, calls)[0] for each in calls[:2]]
    spoiled = [rows[0], replace(rows[1], verdict=NOT_AS_PLANNED)]
    found = {kind.name: kind for kind in findings.listed_kinds(spoiled)}
    both = found["public ENUM tree"]
    assert (both.good, both.proved, both.failed) == (False, ("+420221000001",), ("+420222000001",))
    assert found["single number in ENUM"].good
