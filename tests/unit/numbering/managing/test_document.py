"""A plan taken apart, put together and written: it stays the same plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.numbering.managing.pieces import Item, pieces, whole
from weirlab.numbering.managing.places import written
from weirlab.numbering.managing.state import PlanState
from weirlab.numbering.plan import load, loads, ready
from weirlab.numbering.plan.model import NumberingPlan
from weirlab.scenario.document import parse

from ..plans import BASE, DAY, changed

PLANS = {name: load(ready.FOLDER / f"{name}.yaml").plan for name in ready.names()} | {
    "small": loads(BASE).plan,
    "emergency": loads(changed(("tests:\n", "emergency: ['112', '155']\ntests:\n"))).plan,
}


def items(plan: NumberingPlan) -> list[Item]:
    return [Item(number, part, content, 1) for number, (part, content) in enumerate(pieces(plan), 1)]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_taken_apart_and_written_is_the_same_plan(name: str) -> None:
    state = PlanState(items(PLANS[name]), "plan.yaml", DAY)
    assert state.plan == PLANS[name]
    assert loads(state.text, "plan.yaml").plan == PLANS[name]


@pytest.mark.parametrize("name", PLANS)
def test_places_are_those_that_reading_the_text_gives(name: str) -> None:
    text, document = written(whole(items(PLANS[name])).value, "plan.yaml", ("A comment.",))
    assert parse(text, "plan.yaml") == document
    lines = [mark.line for mark in document.keys.values()]
    assert len(lines) == len({*lines})


SCALARS = st.one_of(st.text(), st.integers(), st.booleans(), st.none())
KEYS = st.from_regex(r"[a-z][a-z0-9.]{0,5}", fullmatch=True)
VALUES = st.recursive(
    st.one_of(SCALARS, st.lists(SCALARS, max_size=3)),
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(st.dictionaries(KEYS, inner, min_size=1, max_size=3), max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_any_plain_values_are_read_as_they_were_written(value: dict[str, object]) -> None:
    text, document = written(value, "any.yaml")
    assert parse(text, "any.yaml") == document


def test_contacts_are_pieces_of_their_own_and_come_back_to_their_organisation() -> None:
    found = items(PLANS["federation"])
    contacts = [item for item in found if item.part == "contacts"]
    assert [item.content["organisation"] for item in contacts] == ["cesnet", "north", "south"]
    assert not any("contacts" in item.content for item in found if item.part == "organisations")
    item, field = whole(found).find(("organisations", "north", "contacts", 0, "email"))
    assert (item, field) == (contacts[1], "email")
