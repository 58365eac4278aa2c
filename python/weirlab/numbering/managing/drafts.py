"""What is published: all changes but those of organisations whose part of the plan has errors. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.numbering.managing.pieces import PARTS, Content, Item, pieces
from weirlab.numbering.managing.rights import Owners, refusal
from weirlab.numbering.managing.state import ChangeRefusal, PlanState, Problem, more_problems
from weirlab.numbering.plan.model import NumberingPlan

_KEPT: Final = ("organisations", "ranges")
"""Parts to which all others refer: before anything is published, who is held back keeps these."""
_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "contacts": ("organisation", "name"), "ranges": ("prefix", "owner"), "enum": ("tree", "number", "prefix"),
    "routes": ("at", "prefix", "arriving"), "tests": ("number", "caller"), "general": (),
}  # fmt: skip
"""Fields by which a changed piece is known again; those of other parts have a name."""


@dataclass(frozen=True)
class Draft:
    """What would be published."""

    state: PlanState
    held: Mapping[str, tuple[Problem, ...]]
    """By organisation whose changes are held back: the errors that are the reason."""
    errors: tuple[Problem, ...]
    """Errors that keep everything from being published: nobody's changes can be held back for them."""


def draft(current: PlanState, published: NumberingPlan | None) -> Draft:
    """The part of ``current`` that can be published.

    An organisation is held back if there are errors in pieces that its users may change: in place of these,
    the draft has its pieces of the plan that was ``published`` last. Errors that are published already hold
    nobody back.
    """
    wrong = _errors(current)
    if not wrong:
        return Draft(current, {}, ())
    before = [] if published is None else _numbered(published, current.items)
    known = [] if published is None else _errors(_state(before, current))
    state, held = current, dict[str, tuple[Problem, ...]]()
    while wrong := more_problems(wrong, known):
        found = _by_organisation(state, wrong)
        new = {name: problems for name, problems in found.items() if name not in held}
        if not new:
            return Draft(state, held, tuple(wrong))
        held.update(new)
        try:
            state = _state(_without(current, published, before, [*held]), current)
        except ChangeRefusal as refused:
            # What others have changed needs the changes that are held back.
            return Draft(current, held, refused.problems)
        wrong = _errors(state)
    return Draft(state, held, ())


def _state(items: Iterable[Item], current: PlanState) -> PlanState:
    return PlanState(items, current.name, current.day)


def _errors(state: PlanState) -> list[Problem]:
    return [each for each in state.complete() if each.severity == "error"]


def _by_organisation(state: PlanState, problems: Iterable[Problem]) -> dict[str, tuple[Problem, ...]]:
    """Errors by the organisations that may change the pieces."""
    found: dict[str, tuple[Problem, ...]] = {}
    for problem in problems:
        item = None if problem.item is None else state.item(problem.item)
        for name in state.plan.organisations:
            if item is not None and _may_change(name, item, state.plan, state.owners):
                found[name] = (*found.get(name, ()), problem)
    return found


def _may_change(organisation: str, item: Item, plan: NumberingPlan, owners: Owners) -> bool:
    return refusal(organisation, plan, item.part, item.content, item.content, owners) is None


def _without(
    current: PlanState, published: NumberingPlan | None, before: Sequence[Item], held: Sequence[str]
) -> Iterator[Item]:
    """The pieces of ``current``, those of organisations that are ``held`` as they were ``before``."""

    def theirs(item: Item, plan: NumberingPlan, owners: Owners) -> bool:
        return any(_may_change(name, item, plan, owners) for name in held)

    for item in current.items:
        kept = published is None and item.part in _KEPT
        if kept or not theirs(item, current.plan, current.owners):
            yield item
    if published is not None:
        owners = Owners(published, current.day)
        yield from (item for item in before if theirs(item, published, owners))


def _numbered(published: NumberingPlan, items: Sequence[Item]) -> list[Item]:
    """The pieces of a plan, with the numbers that they, or what became of them, have among ``items``."""
    same = {_key(item.part, json.dumps(item.content, sort_keys=True)): item for item in items}
    alike = {_key(item.part, *_identity(item.part, item.content)): item for item in items}
    found: list[Item | None] = []
    contents = [*pieces(published)]
    taken: set[int] = set()
    for known, names in ((same, _whole), (alike, _identity)):
        for rank, (part, content) in enumerate(contents):
            if rank == len(found):
                found.append(None)
            item = known.get(_key(part, *names(part, content)))
            if found[rank] is None and item is not None and item.id not in taken:
                taken.add(item.id)
                found[rank] = Item(item.id, part, content, item.revision)
    new = max((item.id for item in items), default=0)
    return [each or Item(new + rank, *contents[rank - 1], 0) for rank, each in enumerate(found, 1)]


def _key(part: str, *values: object) -> tuple[object, ...]:
    return (part, *values)


def _whole(part: str, content: Content) -> tuple[object, ...]:
    return (json.dumps(content, sort_keys=True),)


def _identity(part: str, content: Content) -> tuple[object, ...]:
    names = ("name",) if PARTS[part].named else _IDENTITY[part]
    return tuple(content.get(name) for name in names)
