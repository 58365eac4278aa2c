"""What is published while somebody's part of the plan has errors, and what a view of the changes costs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from weirlab.numbering.managing import publishing
from weirlab.numbering.managing.publishing import (
    PublicationPlanner,
    PublicationResult,
    PublicationTarget,
    publish,
)
from weirlab.numbering.managing.register import Register
from weirlab.numbering.plan import loads
from weirlab.numbering.plan.model import NumberingPlan

from .conftest import ADMINISTRATOR, ONE, TWO, Clock, find, refused
from .test_register import ENTRY

BAD = {**ENTRY, "number": "+4202220000091234567"}
"""An entry of the organisation two with a number that is too long."""


@pytest.fixture
def outlook(register: Register, tmp_path: Path) -> PublicationPlanner:
    """Of a plan that has been published once."""
    made = PublicationPlanner(register)
    _publish(made, tmp_path)
    return made


def _publish(outlook: PublicationPlanner, folder: Path) -> PublicationResult:
    return publish(outlook, ADMINISTRATOR, outlook.pending().head, PublicationTarget(folder / "zones"))


def published(register: Register) -> NumberingPlan:
    with register.database.reading() as on:
        kept = on.publication()
    assert kept is not None
    return loads(kept.text).plan


def numbers(plan: NumberingPlan) -> set[str | None]:
    return {entry.number for entry in plan.enum}


def entry(number: str, **more: Any) -> dict[str, Any]:
    return {**ENTRY, "number": number, **more}


def test_errors_of_one_organisation_hold_back_its_changes_alone(
    register: Register, outlook: PublicationPlanner, tmp_path: Path
) -> None:
    register.add(ONE, "enum", entry("+420111000009"))
    register.add(TWO, "enum", entry("+420222000009"))
    register.add(TWO, "enum", BAD, accept=True)
    before = outlook.pending()
    assert [*before.draft.held] == ["two"]
    assert any("19 digits" in each.reason for each in before.draft.held["two"])
    assert before.draft.errors == ()
    assert [change.numbers for change in before.changes] == ["+420111000009 itself"]
    made = _publish(outlook, tmp_path)
    assert made.held == ("two",)
    assert "+420111000009" in numbers(published(register))
    assert not {"+420222000009", BAD["number"]} & numbers(published(register))
    assert BAD["number"] in numbers(register.state().plan), "the change itself is kept"
    assert published(register).serial == register.state().plan.serial == made.serial


def test_what_was_held_back_is_published_once_it_is_correct(
    register: Register, outlook: PublicationPlanner, tmp_path: Path
) -> None:
    bad = register.add(TWO, "enum", BAD, accept=True).event
    register.add(TWO, "enum", entry("+420222000009"))
    _publish(outlook, tmp_path)
    register.change(TWO, bad.item or 0, bad.id, entry("+420222000008"))
    assert outlook.pending().draft.held == {}
    assert _publish(outlook, tmp_path).held == ()
    assert {"+420222000008", "+420222000009"} <= numbers(published(register))
    assert published(register) == register.state().plan


def test_a_piece_that_is_held_back_stays_as_it_was_published(
    register: Register, outlook: PublicationPlanner, tmp_path: Path
) -> None:
    good = register.add(TWO, "enum", entry("+420222000009")).event
    _publish(outlook, tmp_path)
    register.change(TWO, good.item or 0, good.id, BAD, accept=True)
    gone = register.add(TWO, "enum", entry("+420222000008")).event
    register.remove(TWO, gone.item or 0, gone.id)
    _publish(outlook, tmp_path)
    assert "+420222000009" in numbers(published(register))


def test_an_error_of_the_administrators_holds_back_everything(
    register: Register, outlook: PublicationPlanner, tmp_path: Path
) -> None:
    register.add(ONE, "enum", entry("+420111000009"))
    general = find(register, "general")
    content = {**general.content, "dns": {**general.content["dns"], "primary": "ns.nowhere.net"}}
    domain = {"name": "nowhere.net", "services": [{"target": "gone.nowhere.net"}]}
    register.add(ADMINISTRATOR, "domains", domain, accept=True)
    register.change(ADMINISTRATOR, general.id, general.revision, content, accept=True)
    problems = refused(lambda: _publish(outlook, tmp_path))
    assert {each.part for each in problems} <= {"domains", "general"}
    assert outlook.pending().draft.held == {}


def test_an_error_that_is_published_already_holds_nobody_back(
    register: Register, outlook: PublicationPlanner, clock: Clock, tmp_path: Path
) -> None:
    register.add(ADMINISTRATOR, "tests", {"number": "+420111000001", "answer": 200})
    _publish(outlook, tmp_path)
    old = find(register, "enum", number="+420111000001")
    register.change(ADMINISTRATOR, old.id, old.revision, {**old.content, "valid_until": "2026-11-30"})
    _publish(outlook, tmp_path)
    clock.forward(days=20)
    assert register.state().errors, "the entry has expired, so that the test number leads nowhere"
    register.add(TWO, "enum", entry("+420222000009"))
    assert _publish(outlook, tmp_path).held == ()
    assert "+420222000009" in numbers(published(register))


def test_changes_are_determined_once_for_everybody_who_looks(
    register: Register, outlook: PublicationPlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    differences = publishing.differences

    def counted(*plans: Any, **more: Any) -> Any:
        made.append(plans)
        return differences(*plans, **more)

    monkeypatch.setattr(publishing, "differences", counted)
    register.add(ONE, "enum", entry("+420111000009"))
    looking = [threading.Thread(target=outlook.pending) for _ in range(8)]
    for each in looking:
        each.start()
    for each in looking:
        each.join()
    assert len(made) == 1
    register.add(ONE, "enum", entry("+420111000008"))
    assert len(outlook.pending().changes) == 2
    assert len(made) == 2


def test_a_rule_that_tests_late_digits_costs_a_bounded_comparison(
    register: Register, outlook: PublicationPlanner
) -> None:
    core = find(register, "engines", name="core")
    rule = {"match": "^(.*)1(.)$", "replace": "+\\1"}
    register.change(ADMINISTRATOR, core.id, core.revision, {**core.content, "rewrite": [rule]}, accept=True)
    found = outlook.pending()
    assert found.changes == ()
    pieces = len(register.state().items)
    assert f"distinguish more than {2000 + 4 * pieces:,} sets of numbers" in found.untold
