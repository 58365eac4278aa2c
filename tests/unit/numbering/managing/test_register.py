"""Changes: made, refused, found in the history, undone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError, StoreError
from weirlab.numbering.managing.database import Database, opened
from weirlab.numbering.managing.pieces import Item
from weirlab.numbering.managing.register import Register
from weirlab.numbering.managing.state import PlanState
from weirlab.numbering.plan import loads

from ..plans import BASE
from .conftest import ADMINISTRATOR, ONE, TWO, Clock, find, refused

ENTRY = {
    "tree": "public",
    "number": "+420111000009",
    "naptr": [{"service": "E2U+sip", "uri": "sip:\\1@example.net"}],
}


def test_what_is_added_is_in_the_plan_and_in_the_history(register: Register, clock: Clock) -> None:
    done = register.add(ONE, "enum", ENTRY)
    assert done.problems == ()
    assert register.state().plan.enum[-1].number == "+420111000009"
    with register.database.reading() as on:
        event = on.events(most=1)[0]
    assert (event.who, event.action, event.told) == ("ann", "added", "entry +420111000009")
    assert event.at == "2026-11-22T12:00:00.000Z"
    assert (event.before, event.after) == (None, find(register, "enum", number="+420111000009").content)


def test_a_foreign_number_is_refused_with_place_reason_and_proposal(register: Register) -> None:
    (problem,) = refused(lambda: register.add(TWO, "enum", ENTRY))
    assert problem.field == "number"
    assert problem.place == "entry +420111000009, number"
    assert problem.reason == "+420111000009 belongs to one, but you act for two"
    assert problem.proposal.startswith("enter numbers of two: +420222")
    assert len(register.state().plan.enum) == 2


def test_what_makes_no_piece_is_refused_at_its_field(register: Register) -> None:
    wrong = {**ENTRY, "naptr": [{"service": "E2U+sip"}], "valid_from": "tomorrow"}
    found = {each.field: each.reason for each in refused(lambda: register.add(ONE, "enum", wrong))}
    assert found["naptr.0"] == "give either uri, regexp or refer"
    assert "tomorrow" in found["valid_from"]


def test_a_name_that_stands_for_nothing_is_refused_at_its_field(register: Register) -> None:
    wrong = {**ENTRY, "tree": "pubic"}
    (problem,) = refused(lambda: register.add(ONE, "enum", wrong, accept=True))
    assert problem.field == "tree"
    assert problem.reason == "there is no tree 'pubic'; did you mean 'public'?"


def test_an_error_that_the_checks_find_is_refused_unless_accepted(register: Register) -> None:
    wrong = {**ENTRY, "number": "+4201110000091234567"}
    problems = refused(lambda: register.add(ONE, "enum", wrong))
    assert any("19 digits" in each.reason for each in problems)
    assert {(each.item, each.field.partition(".")[0]) for each in problems} == {(None, "number")}
    done = register.add(ONE, "enum", wrong, accept=True)
    assert any(each.severity == "error" for each in done.problems)
    # Errors that are there do not keep others from working.
    register.change(
        ADMINISTRATOR, find(register, "organisations", name="two").id, 1, {"name": "two", "title": "Second"}
    )


def test_what_others_need_is_not_removed(register: Register) -> None:
    desk = find(register, "engines", name="desk")
    problems = refused(lambda: register.remove(ADMINISTRATOR, desk.id, desk.revision, accept=True))
    assert any(each.part == "routes" and each.field == "to.0" for each in problems)
    assert "desk" in register.state().plan.engines


def test_an_organisation_with_a_contact_is_not_removed(register: Register) -> None:
    three = register.add(ADMINISTRATOR, "organisations", {"name": "three", "title": "Third"}).event
    register.add(ADMINISTRATOR, "contacts", {"name": "Desk", "organisation": "three"})
    piece = find(register, "organisations", name="three")
    (problem,) = refused(lambda: register.remove(ADMINISTRATOR, piece.id, three.id, accept=True))
    assert (problem.part, problem.field) == ("contacts", "organisation")
    assert problem.reason == "there is no organisation 'three'"
    assert register.state().plan.organisations["three"].title == "Third"


def test_two_who_change_one_piece_do_not_overwrite_each_other(register: Register) -> None:
    one = find(register, "organisations", name="one")
    register.change(ONE, one.id, one.revision, {"name": "one", "title": "First"})
    late = {"name": "one", "title": "Number one"}
    (problem,) = refused(lambda: register.change(ONE, one.id, one.revision, late))
    assert problem.reason == "it has been changed meanwhile by ann"
    assert register.state().plan.organisations["one"].title == "First"


def test_two_engines_cannot_have_one_name(register: Register) -> None:
    again = {"name": "gw", "kind": "gateway", "protocols": ["sip"], "organisation": "one"}
    (problem,) = refused(lambda: register.add(ONE, "engines", again, accept=True))
    assert (problem.field, problem.reason) == ("name", "there is already an engine gw")


@pytest.mark.parametrize("kind", ["added", "changed", "removed"])
def test_undoing_brings_back_the_very_plan(register: Register, kind: str) -> None:
    before = register.state().text
    one = find(register, "organisations", name="one")
    test = find(register, "tests", number="+420111000001")
    if kind == "added":
        event = register.add(ONE, "enum", ENTRY).event
    elif kind == "changed":
        event = register.change(ONE, one.id, one.revision, {"name": "one", "title": "First"}).event
    else:
        event = register.remove(ONE, test.id, test.revision).event
    after = register.state().text
    assert after != before
    undone = register.undo(ONE, event.id).event
    assert register.state().text == before
    with register.database.reading() as on:
        kept = on.event(event.id)
    assert kept is not None
    assert (kept.undone, kept.latest) == (True, False)
    register.undo(ONE, undone.id)
    assert register.state().text == after


def test_a_change_behind_another_one_is_not_undone(register: Register) -> None:
    one = find(register, "organisations", name="one")
    first = register.change(ONE, one.id, one.revision, {"name": "one", "title": "First"}).event
    second = register.change(ONE, one.id, first.id, {"name": "one", "title": "Uno"}).event
    (problem,) = refused(lambda: register.undo(ONE, first.id))
    assert problem.proposal == f"undo event {second.id} first"


def test_others_changes_are_not_undone(register: Register) -> None:
    event = register.add(ONE, "enum", ENTRY).event
    (problem,) = refused(lambda: register.undo(TWO, event.id))
    assert "belongs to one" in problem.reason


def test_the_serial_is_no_field_of_forms(register: Register) -> None:
    general = find(register, "general")
    content = {**general.content, "serial": 1, "external": ["example.org"]}
    register.change(ADMINISTRATOR, general.id, general.revision, content)
    assert register.state().plan.serial == 7
    assert register.state().plan.external == ("example.org",)


def test_a_database_holds_one_plan_that_nobody_else_reads(register: Register, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already has a plan"):
        register.begin("test", loads(BASE).plan, "plan.yaml")
    assert os.stat(tmp_path / "plan.db").st_mode & 0o777 == 0o600


def test_what_is_no_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="weir voice manage import creates one"):
        opened(str(tmp_path / "none.db"))
    with pytest.raises(InputError, match="SQLite file, or a URL"):
        opened("mysql://root:secret@localhost/voice")
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(StoreError, match="not a database"):
        opened(str(tmp_path / "text.db"))


def test_an_expired_range_is_found_on_the_day(register: Register, clock: Clock) -> None:
    two = find(register, "ranges", owner="two")
    content = {**two.content, "valid_until": "2026-11-23"}
    register.change(ADMINISTRATOR, two.id, two.revision, content)
    assert register.state().problems == ()
    clock.forward(days=2)
    assert any(each.item == two.id and each.code == "expired" for each in register.state().problems)


def test_checks_hold_no_transaction(
    register: Register, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What users have entered decides how long checks take; meanwhile, others sign in."""
    after = PlanState.after

    def checked(state: PlanState, part: str, number: int, piece: Item | None) -> PlanState:
        with database.writing() as on:
            on.record("2026-11-22T12:00:00.000Z", "ben", "signed in", "")
        return after(state, part, number, piece)

    monkeypatch.setattr(PlanState, "after", checked)
    done = register.add(ONE, "enum", ENTRY)
    assert register.state().item(done.event.item or 0) == find(register, "enum", number="+420111000009")
    assert find(register, "enum", number="+420111000009").revision == done.event.id


@pytest.fixture
def desk_meanwhile(
    register: Register, database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Item:
    """An engine, which somebody else changes while the next change is checked."""
    other = Register(database, clock)
    desk = find(register, "engines", name="desk")
    after = PlanState.after

    def checked(state: PlanState, part: str, number: int, piece: Item | None) -> PlanState:
        monkeypatch.setattr(PlanState, "after", after)
        other.change(ADMINISTRATOR, desk.id, desk.revision, {**desk.content, "address": "192.0.2.99"})
        return after(state, part, number, piece)

    monkeypatch.setattr(PlanState, "after", checked)
    return desk


def test_a_change_is_checked_again_if_the_plan_changes_meanwhile(
    register: Register, desk_meanwhile: Item
) -> None:
    register.add(ONE, "enum", ENTRY)
    assert register.state().plan.engines["desk"].address == "192.0.2.99"
    assert register.state().plan.enum[-1].number == ENTRY["number"]


def test_a_change_of_what_changes_meanwhile_is_refused(register: Register, desk_meanwhile: Item) -> None:
    desk = desk_meanwhile
    content = {**desk.content, "address": "192.0.2.98"}
    (problem,) = refused(lambda: register.change(ADMINISTRATOR, desk.id, desk.revision, content))
    assert problem.code == "conflict"
    assert register.state().plan.engines["desk"].address == "192.0.2.99"


@pytest.mark.parametrize(
    "regexp", [r"!^\+(.|.)*x$!sip:a@example.net!", r"!^\+([0-9]|[0-9][0-9])*x$!sip:a@example.net!"]
)
def test_an_expression_that_would_backtrack_for_ever_is_checked_at_once(
    register: Register, regexp: str
) -> None:
    number = "+42011100000" + "9" * 15
    entry = {"tree": "public", "number": number, "naptr": [{"service": "E2U+sip", "regexp": regexp}]}
    problems = refused(lambda: register.add(ONE, "enum", entry))
    assert any(each.field.startswith("naptr.0") for each in problems)
    register.add(ONE, "enum", entry, accept=True)
    register.state().complete()


HALF = "\ud800"


@pytest.mark.parametrize(
    ("part", "content", "field"),
    [
        ("ranges", {"prefix": "+4201119", "owner": "one", "digits": 2**63 - 1}, "digits"),
        ("ranges", {"prefix": "+4201119", "owner": "one", "digits": 10**30}, "digits"),
        ("ranges", {"prefix": f"+420{HALF}", "owner": "one"}, "prefix"),
        ("ranges", {"prefix": "+" + "4" * 10_000, "owner": "one"}, "prefix"),
        ("ranges", {"prefix": "+4201119", "owner": HALF}, "owner"),
        ("organisations", {"name": "three", "most_calls": 2**63 - 1}, "most_calls"),
        ("organisations", {"name": "three", "title": HALF}, "title"),
        ("organisations", {"name": "three", "title": "x" * 100_000}, "title"),
        ("contacts", {"name": f"a{HALF}", "organisation": "one"}, "name"),
        ("contacts", {"name": "a", "organisation": "one", "email": f"{'a' * 400}@example.net"}, "email"),
        ("enum", {**ENTRY, "naptr": [{"service": "E2U+sip", "uri": f"sip:{HALF}@x"}]}, "naptr.0.uri"),
        (
            "enum",
            {**ENTRY, "naptr": [{"service": "E2U+sip", "uri": "sip:a@x", "order": 2**63}]},
            "naptr.0.order",
        ),
        ("routes", {"at": "core", "prefix": "+4", "to": ["desk"], "prepend": "1" * 100_000}, "prepend"),
        ("routes", {"at": "core", "prefix": "+4", "to": ["desk"], "strip": 2**63 - 1}, "strip"),
        ("tests", {"number": "+420111000001", "note": HALF}, "note"),
        (
            "engines",
            {"name": "new", "kind": "endpoint", "protocols": ["sip"], "codecs": ["a" * 999]},
            "codecs.0",
        ),
    ],
)
def test_what_no_database_and_no_zone_can_hold_is_refused_at_its_field(
    register: Register, part: str, content: dict[str, Any], field: str
) -> None:
    problems = refused(lambda: register.add(ADMINISTRATOR, part, content, accept=True))
    assert [(each.code, each.field) for each in problems] == [("form", field)]
    assert "".join(each.reason for each in problems).encode()
