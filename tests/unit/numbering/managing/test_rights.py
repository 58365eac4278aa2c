"""Who may change what."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from weirlab.numbering.managing.rights import Owners, refusal

from ..plans import book

PLAN = book(
    ('  - {prefix: "+420222", owner: two, digits: 12}\n',
     '  - {prefix: "+420222", owner: two, digits: 12}\n'
     '  - {prefix: "+4201119", owner: two, digits: 12, delegated_by: one}\n'),
    ("desk.example.net, codecs: [alaw]}", "desk.example.net, codecs: [alaw], organisation: two}"),
).plan  # fmt: skip
DAY = date(2026, 7, 1)
OWNERS = Owners(PLAN, DAY)
NAPTR = [{"service": "E2U+sip", "uri": "sip:\\1@example.net"}]


def entry(**values: Any) -> dict[str, Any]:
    return {"tree": "public", "naptr": NAPTR, **values}


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("enum", entry(number="+420111000009")),
        ("enum", entry(prefix="+42011155", owner="one")),
        ("ranges", {"prefix": "+4201118", "owner": "two", "delegated_by": "one"}),
        ("contacts", {"name": "Desk", "organisation": "one"}),
        ("engines", {"name": "mine", "kind": "endpoint", "protocols": ["sip"], "organisation": "one"}),
        ("routes", {"at": "phone", "prefix": "+420222", "to": ["gw"]}),
        ("tests", {"number": "+420111000009"}),
        ("tests", {"number": "112", "caller": "phone"}),
    ],
)
def test_an_organisation_changes_what_is_its_own(part: str, content: dict[str, Any]) -> None:
    assert refusal("one", PLAN, part, None, content, OWNERS) is None
    assert refusal("one", PLAN, part, content, None, OWNERS) is None


@pytest.mark.parametrize(
    ("part", "content", "field", "reason"),
    [
        ("enum", entry(number="+420222000009"), "number",
         "+420222000009 belongs to two, but you act for one"),
        ("enum", entry(prefix="+420"), "prefix", "+420 lies in no range of the plan"),
        ("enum", entry(number="+420111900000"), "number", "belongs to two"),
        ("enum", entry(number="+420111000009", owner="two"), "owner", "you act for one, not for two"),
        ("ranges", {"prefix": "+420111", "owner": "one"}, "prefix", "lies in no other range"),
        ("ranges", {"prefix": "+42011195", "owner": "one"}, "prefix", "+42011195 belongs to two"),
        ("contacts", {"name": "Desk", "organisation": "two"}, "organisation", "belongs to two"),
        ("engines", {"name": "x", "kind": "gatekeeper"}, "organisation", "belongs to no organisation"),
        ("routes", {"at": "core", "prefix": "+420111", "to": ["gw"]}, "at", "engine core belongs to no"),
        ("tests", {"number": "+420222000001"}, "number", None),
        ("tests", {"number": "112", "caller": "desk"}, "caller", "neither 112 nor the engine that calls"),
        ("trees", {"name": "own", "suffix": "example.net"}, "", "only administrators may change"),
        ("domains", {"name": "example.net"}, "", "only administrators may change"),
        ("general", {"plan": "small", "caller": "phone"}, "", "only administrators may change"),
        ("organisations", {"name": "three"}, "name", "added only by administrators"),
    ],
)  # fmt: skip
def test_what_is_not_its_own_is_refused_with_the_field(
    part: str, content: dict[str, Any], field: str, reason: str | None
) -> None:
    found = refusal("one", PLAN, part, None, content, OWNERS)
    if reason is None:
        # Its own engine calls.
        assert found is None
        return
    assert found is not None
    assert found.field == field
    assert reason in found.reason
    assert found.proposal
    assert refusal(None, PLAN, part, None, content, OWNERS) is None


def test_what_is_another_s_cannot_be_made_one_s_own() -> None:
    foreign, own = entry(number="+420222000009"), entry(number="+420111000009")
    assert refusal("one", PLAN, "enum", foreign, own, OWNERS) is not None
    assert refusal("one", PLAN, "enum", own, foreign, OWNERS) is not None


def test_an_organisation_changes_itself_but_for_its_name() -> None:
    before = {"name": "one", "title": "One"}
    assert refusal("one", PLAN, "organisations", before, {"name": "one", "title": "First"}, OWNERS) is None
    renamed = refusal("one", PLAN, "organisations", before, {"name": "first"}, OWNERS)
    assert renamed is not None
    assert "refer to this name" in renamed.reason
    assert refusal("two", PLAN, "organisations", before, before, OWNERS) is not None


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("barred", ["+420900"], []),
        ("barred", ["+420900"], ["+420900", "+420901"]),
        ("may_call", ["+420"], ["+4"]),
        ("may_call", None, ["+420"]),
        ("most_calls", 2, 200),
        ("most_calls", 2, None),
    ],
)
def test_the_limits_of_an_organisation_are_for_administrators(field: str, before: Any, after: Any) -> None:
    was, becomes = ({"name": "one", field: value} for value in (before, after))
    found = refusal("one", PLAN, "organisations", was, becomes, OWNERS)
    assert found is not None
    assert (found.field, found.reason) == (field, "this limit is set by administrators")
    assert refusal(None, PLAN, "organisations", was, becomes, OWNERS) is None
    title = {**was, "title": "First"}
    assert refusal("one", PLAN, "organisations", was, title, OWNERS) is None
    left_out = {key: value for key, value in was.items() if value is not None}
    assert refusal("one", PLAN, "organisations", was, left_out, OWNERS) is None


def test_the_proposal_names_one_s_own_numbers() -> None:
    found = refusal("two", PLAN, "enum", None, entry(number="+420111000009"), OWNERS)
    assert found is not None
    assert found.proposal == "enter numbers of two: +420222 and +4201119, or ask an administrator"


def test_names_in_a_domain_are_for_administrators() -> None:
    (domain, *_) = PLAN.domains
    engine = {"name": "mine", "kind": "endpoint", "protocols": ["sip"], "organisation": "one"}
    found = refusal("one", PLAN, "engines", engine, {**engine, "host": f"www.{domain}"}, OWNERS)
    assert found is not None
    assert found.field == "host"
    named = {**engine, "host": f"mine.{domain}"}
    assert refusal("one", PLAN, "engines", named, {**named, "address": "192.0.2.9"}, OWNERS) is None
    assert refusal("one", PLAN, "engines", engine, {**engine, "host": "mine.example.org"}, OWNERS) is None


def test_who_had_a_range_may_not_change_it_any_more() -> None:
    (mine, *others) = (each for each in PLAN.ranges if each.owner == "one")
    passed = PLAN.model_copy(
        update={"ranges": (mine.model_copy(update={"valid_until": date(2026, 6, 30)}), *others)}
    )
    content = entry(number=f"{mine.prefix}000009")
    assert refusal("one", PLAN, "enum", None, content, OWNERS) is None
    assert refusal("one", passed, "enum", None, content, Owners(passed, DAY)) is not None
