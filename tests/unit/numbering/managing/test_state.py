"""A plan after a change: the same as one made of all its pieces, and what the checks of a large one see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.numbering.managing.pieces import Content, Item, pieces
from weirlab.numbering.managing.publishing import PublicationPlanner, PublicationTarget, publish
from weirlab.numbering.managing.register import Register
from weirlab.numbering.managing.state import ChangeRefusal, PlanState, Problem
from weirlab.numbering.plan import loads
from weirlab.web.voice.service import Checker

from ..plans import BASE, DAY
from .conftest import ADMINISTRATOR, Clock, find, refused
from .test_register import ENTRY

LARGE = 0
"""Every plan is a large one."""


def items() -> list[Item]:
    return [
        Item(number, part, content, 1) for number, (part, content) in enumerate(pieces(loads(BASE).plan), 1)
    ]


def state(listed: list[Item], small: int = LARGE) -> PlanState:
    return PlanState(listed, "plan.yaml", DAY, small=small)


NAPTR = [{"service": "E2U+sip", "uri": "sip:\\1@example.net"}]
PREFIXES = st.text("12", max_size=4).map(lambda rest: f"+420{rest}")
LIMITS = st.sampled_from([{}, {"valid_until": "2026-11-01"}, {"valid_from": "2027-01-01"}])
CONTENTS: dict[str, st.SearchStrategy[Content]] = {
    "ranges": st.builds(
        lambda prefix, owner, digits, limits: {"prefix": prefix, "owner": owner, **digits, **limits},
        PREFIXES, st.sampled_from(["one", "two"]), st.sampled_from([{}, {"digits": 5}]), LIMITS,
    ),
    "enum": st.builds(
        lambda key, digits, owner, limits: {key: digits, "tree": "public", "naptr": NAPTR, **owner, **limits},
        st.sampled_from(["number", "prefix"]), PREFIXES, st.sampled_from([{}, {"owner": "one"}]), LIMITS,
    ),
    "routes": st.builds(
        lambda prefix, to, limits: {"at": "core", "prefix": prefix, "to": to, **limits},
        PREFIXES, st.sampled_from([["desk"], ["gw"], ["desk", "gw"]]), LIMITS,
    ),
}  # fmt: skip
CHANGES = st.lists(
    st.sampled_from(sorted(CONTENTS)).flatmap(
        lambda part: st.tuples(st.just(part), st.integers(0, 5), st.none() | CONTENTS[part])
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60)
@given(CHANGES)
def test_a_changed_plan_is_the_one_that_its_pieces_make(
    changes: list[tuple[str, int, Content | None]],
) -> None:
    """What checks around each change have found is what they find in the whole plan."""
    found = state(items())
    found._known = found.complete()
    for part, which, content in changes:
        listed = found.of(part)
        number = listed[which].id if which < len(listed) else max(each.id for each in found.items) + 1
        if content is None and which >= len(listed):
            continue
        piece = None if content is None else Item(number, part, content, 1)
        try:
            after = found.after(part, number, piece)
        except ChangeRefusal:
            # A range that tests or others need.
            continue
        found = after
        anew = state([*found.items])
        assert found.plan == anew.plan
        assert found.text == anew.text
        assert seen(found.problems) == seen(anew.complete())


def seen(problems: Iterable[Problem]) -> set[object]:
    """What is seen around a change; that nothing leads to an engine is seen in the whole plan alone."""
    return {each.key for each in problems if each.code != "unreachable"}


def test_each_part_is_changed_as_if_read_anew() -> None:
    before = state(items())
    for item in before.items:
        after = before.after(item.part, item.id, item)
        assert after.plan == before.plan
        assert after.item(item.id) == item
        removed = partial(before.after, item.part, item.id, None)
        anew = partial(state, [each for each in items() if each.id != item.id])
        assert outcome(removed) == outcome(anew)


def outcome(make: Callable[[], PlanState]) -> object:
    """The plan, or why there is none."""
    try:
        return make().plan
    except ChangeRefusal as why:
        return why.problems


def test_a_name_that_is_no_more_is_missed_wherever_it_is_used() -> None:
    before = state(items())
    (tree,) = before.of("trees")
    with pytest.raises(ChangeRefusal) as refused_:
        before.after("trees", tree.id, None)
    assert {each.part for each in refused_.value.problems} == {"engines", "enum", "tests"}


@pytest.fixture
def large(register: Register, clock: Clock) -> Register:
    """The same plan, as if it had very many pieces."""
    return Register(register.database, clock, small=LARGE)


def test_an_error_around_a_change_of_a_large_plan_is_refused(large: Register) -> None:
    twice = {**ENTRY, "number": "+420111000001"}
    (problem,) = refused(lambda: large.add(ADMINISTRATOR, "enum", twice))
    assert "has an entry in" in problem.reason
    assert problem.reason.startswith("number +420111000001 of tree public has an entry in entry +42011100")
    done = large.add(ADMINISTRATOR, "enum", twice, accept=True)
    assert [each.code for each in done.problems] == ["duplicate"]
    # It is there already: nobody else is kept from working.
    again = find(large, "enum", number="+420111000001", naptr=ENTRY["naptr"])
    large.change(ADMINISTRATOR, again.id, again.revision, {**twice, "owner": "one"})


def test_an_error_elsewhere_in_a_large_plan_keeps_it_from_being_published(
    register: Register, large: Register, tmp_path: Path
) -> None:
    pbx = find(large, "engines", name="pbx")
    other = {**pbx.content, "codecs": ["g729"]}
    assert "no codec" in {
        each.code for each in refused(lambda: register.change(ADMINISTRATOR, pbx.id, 1, other))
    }
    done = large.change(ADMINISTRATOR, pbx.id, pbx.revision, other)
    state = large.state()
    assert (state.errors, state.is_checked) == ([], False)
    problems = refused(
        lambda: publish(PublicationPlanner(large), ADMINISTRATOR, done.event.id, PublicationTarget(tmp_path))
    )
    assert {each.code for each in problems} == {"no codec"}
    assert state.is_checked
    assert [*problems] == state.errors


def test_a_large_plan_is_checked_behind_the_requests(register: Register, clock: Clock) -> None:
    told: list[PlanState] = []
    large = Register(register.database, clock, small=LARGE, large=told.append)
    first = large.state()
    large.add(ADMINISTRATOR, "enum", ENTRY)
    assert [*told] == [first, large.state()]
    checker = Checker()
    for each in told:
        checker.check(each)
    # Waits for what the other thread has begun.
    assert large.state().complete() == ()
    assert large.state().is_checked
