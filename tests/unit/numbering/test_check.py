from __future__ import annotations

from contextlib import suppress

import pytest

from weirlab.base.errors import InputError
from weirlab.numbering.checking import PlanFinding, check
from weirlab.numbering.configs import configs
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls
from weirlab.numbering.zones import zones

from .mistakes import PLANTED, PUBLIC, ROUTE, Planted
from .plans import BASE, DAY, changed, ready_network


def found(text: str) -> list[PlanFinding]:
    return check(PlanNetwork(loads(text, "plan.yaml"), DAY))


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


@pytest.mark.parametrize("name", ["campus", "cesnet", "federation"])
def test_nothing_is_found_in_the_plans_that_come_with_weir(name: str) -> None:
    assert check(ready_network(name)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("to: gk}", "to: [gk, desk]}"),
        ('{at: gw, arriving: sip, prefix: "+", to: gk}\n  - {at: gk, prefix: "+420", to: pbx}',
         '{at: gw, arriving: sip, prefix: "+", to: pbx}'),
    ],
    ids=["by SIP", "without a gatekeeper"],
)  # fmt: skip
def test_a_gateway_may_call_by_sip_and_without_a_gatekeeper_by_h323(old: str, new: str) -> None:
    assert "past gatekeeper" not in [finding.code for finding in found(changed((old, new)))]


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
        network = PlanNetwork(loads(planted(mistake), "plan.yaml"), DAY)
        for make in (zones, lambda network: configs(network, "/etc/voice"), lambda n: [*calls(n, "+420222")]):
            with suppress(InputError):
                make(network)


def test_a_name_server_that_the_lab_cannot_run_is_named() -> None:
    text = changed(("primary: ns.example.net", "primary: ns.acme.example"))
    assert ("warning", "no address", "plan.yaml:4") in [(f.severity, f.code, f.place) for f in found(text)]


def test_a_dead_end_names_the_protocol_where_an_engine_speaks_several() -> None:
    text = changed(
        ('{at: gw, arriving: sip, prefix: "+", to: gk}', '{at: gw, arriving: h323, prefix: "+", to: gk}')
    )
    dead = [finding.reason for finding in found(text) if finding.code == "dead end"]
    assert any("gw has no route for it, for calls arriving by SIP" in reason for reason in dead), dead


def test_an_entry_that_names_its_owner_needs_no_range() -> None:
    naptr = '[{service: E2U+sip, uri: "sip:a@desk.example.net"}]'
    entry = f'  - {{tree: public, number: "+420999000001", OWNER naptr: {naptr}}}'
    text = changed((ROUTE, ROUTE)).replace("routes:\n", f"{entry}\nroutes:\n", 1)
    codes = {
        owner: {each.code for each in found(text.replace("OWNER", owner)) if "+420999" in each.reason}
        for owner in ("", "owner: two,")
    }
    assert "unowned" in codes[""]
    assert "unowned" not in codes["owner: two,"]
