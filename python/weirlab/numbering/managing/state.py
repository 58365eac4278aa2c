"""The current state of a managed plan: its pieces, its document and its problems. Pure."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import islice
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.numbering.checking import Severity, check
from weirlab.numbering.managing.pieces import LISTS, PARTS, Content, InvalidPlan, Item, PlanAssembly, whole
from weirlab.numbering.managing.places import PieceLocations, written
from weirlab.numbering.managing.rights import Owners
from weirlab.numbering.plan import PlanDocument, Scope, unknown_names
from weirlab.numbering.plan.model import NumberingPlan
from weirlab.numbering.routing import PlanNetwork
from weirlab.scenario import load as scenario
from weirlab.scenario.document import Document, Location

HEAD: Final = ("A numbering plan, as weir voice manage keeps it.",)
_LINE: Final = re.compile(r"\bline ([0-9]+)\b")

SMALL: Final = 5000
"""Most pieces of a plan that is checked as a whole with every change, in well below a second."""
MOST_BELOW: Final = 1000
"""Most pieces below a changed prefix that are checked at once."""

_SCOPED: Final = ("ranges", "enum", "routes")
"""Parts of which checks can examine only some pieces."""
_WHOLE: Final = ("unreachable",)
"""Codes of findings that need a check of the whole plan."""


@dataclass(frozen=True)
class Problem:
    """Something wrong with a plan, or why a change is refused."""

    severity: Severity
    code: str
    """The kind of mistake in a word or two."""
    part: str
    item: int | None
    """The piece; None if it is not stored yet."""
    field: str
    """The field in the piece, such as ``naptr.0.uri``."""
    place: str
    """In words: ``entry +420950052, owner``."""
    reason: str
    proposal: str = ""

    @property
    def key(self) -> tuple[str, str, int | None, str]:
        """A key that a change elsewhere does not alter."""
        return self.severity, self.code, self.item, self.field


class ChangeRefusal(InputError):
    """A change was refused; ``problems`` say where and why."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(problem_sentence(problem) for problem in problems))
        self.problems = tuple(problems)

    @property
    def acceptable(self) -> bool:
        """Can the change be made by accepting its mistakes?"""
        return all(problem.code not in FINAL for problem in self.problems)


FINAL: Final = ("form", "name", "rights", "conflict")
"""Codes of problems that cannot be accepted, because such a plan cannot be stored."""


def problem_sentence(problem: Problem) -> str:
    """A problem as a line."""
    advice = f"; {problem.proposal}" if problem.proposal else ""
    return f"{problem.place}: {problem.reason}{advice}"


class PlanState:
    """The plan made of ``items``, on ``day``.

    A small plan is checked as a whole. A large one is checked around each change, at once, and as a whole
    when :meth:`complete` is called.

    Parameters
    ----------
    small:
        Most pieces of a small plan.

    Raises
    ------
    ChangeRefusal
        The pieces do not make a valid plan.
    """

    def __init__(self, items: Iterable[Item], name: str, day: date, *, small: int = SMALL) -> None:
        self._begin(whole(items), name, day, small)
        try:
            self.book = _book(self._whole.plan, self._places)
        except InvalidPlan as wrong:
            raise self._refused("form", wrong.problems) from None
        self._check_names(None)
        self.network = PlanNetwork(self.book, day)

    def _begin(self, made: PlanAssembly, name: str, day: date, small: int) -> None:
        self.name, self.day = name, day
        self._whole, self._small = made, small
        self._places = PieceLocations(name)
        self._lock = threading.Lock()
        self._complete: tuple[Problem, ...] | None = None
        self._known: tuple[Problem, ...] = ()
        self._new: list[Problem] = []

    def after(self, part: str, number: int, piece: Item | None) -> PlanState:
        """The plan with the piece ``number`` added, replaced, or, with None, removed.

        Raises
        ------
        ChangeRefusal
            The result is not a valid plan.
        """
        made = PlanState.__new__(PlanState)
        try:
            changed = self._whole.changed(part, number, piece)
        except InvalidPlan as wrong:
            # The places of the problems come from the pieces as they would be.
            others = [item for item in self.items if item.id != number]
            made._begin(
                whole([*others, *([] if piece is None else [piece])]), self.name, self.day, self._small
            )
            raise made._refused("form", wrong.problems) from None
        made._begin(changed, self.name, self.day, self._small)
        made.book = _book(changed.plan, made._places)
        made._check_names(self._whose_names(made, part, number))
        made.network = PlanNetwork(made.book, self.day)
        made.network.follow(self.network, part)
        if part != "ranges" and "owners" in self.__dict__:
            made.__dict__["owners"] = self.owners
        if not made.is_small:
            made._look_around(self, part, number)
        return made

    @property
    def plan(self) -> NumberingPlan:
        return self.book.plan

    @property
    def items(self) -> tuple[Item, ...]:
        """All pieces in the order of their numbers."""
        return self._whole.items

    def of(self, part: str) -> tuple[Item, ...]:
        """The pieces of a part."""
        return self._whole.parts[part]

    def item(self, number: int) -> Item | None:
        """The piece with this number."""
        return self._whole.item(number)

    @cached_property
    def owners(self) -> Owners:
        """The owners of numbers."""
        return Owners(self.plan, self.day)

    @cached_property
    def exported(self) -> PlanNetwork:
        """The plan as a document, whose places are lines of :attr:`text`."""
        found = PlanNetwork(PlanDocument(self.plan, self._written[1]), self.day)
        found.follow(self.network)
        return found

    @property
    def text(self) -> str:
        """The plan as YAML."""
        return self._written[0]

    @cached_property
    def _written(self) -> tuple[str, Document]:
        return written(self._whole.value, self.name, HEAD)

    @property
    def is_small(self) -> bool:
        """Are all changes checked against the whole plan at once?"""
        return len(self.items) <= self._small

    @property
    def is_checked(self) -> bool:
        """Has the whole plan been checked?"""
        return self.is_small or self._complete is not None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Findings of the checks so far; a large plan may not have been checked as a whole yet."""
        if self._complete is None and not self.is_small:
            return self._known
        return self.complete()

    def complete(self) -> tuple[Problem, ...]:
        """Findings of the checks of the whole plan."""
        with self._lock:
            if self._complete is None:
                self._complete = self._found(self.network)
            return self._complete

    @property
    def errors(self) -> list[Problem]:
        """Known errors, which keep the plan from being published."""
        return [problem for problem in self.problems if problem.severity == "error"]

    def new_errors(self, before: PlanState) -> list[Problem]:
        """Errors that the change from ``before`` to this plan has added."""
        return more_problems(self.errors, before.errors) if self.is_small else self._new

    def _look_around(self, before: PlanState, part: str, number: int) -> None:
        """Check everything that a change of one piece can affect, before and after it."""
        both = (before, self)
        pieces = [each.item(number) for each in both]
        digits = {
            str(piece.content[key])[1:]
            for piece in pieces
            for key in ("number", "prefix")
            if piece is not None and piece.content.get(key)
        }
        scopes = [_around(state.plan, digits) if part in LISTS else {} for state in both]
        was, now = (
            state._found(state.network.limited(scope)) for state, scope in zip(both, scopes, strict=True)
        )
        self._new = more_problems(_errors(now), _errors(was))
        looked_at = {
            state.of(name)[index].id
            for state, scope in zip(both, scopes, strict=True)
            for name, indices in scope.items()
            for index in indices
        }
        kept = [
            problem
            for problem in before.problems
            if problem.code in _WHOLE or (problem.part in _SCOPED and problem.item not in looked_at)
        ]
        found = {(each.key, each.reason): each for each in (*kept, *now)}
        order = [*PARTS]
        self._known = tuple(
            sorted(found.values(), key=lambda each: (order.index(each.part), each.item or 0, each.field))
        )

    def _found(self, network: PlanNetwork) -> tuple[Problem, ...]:
        """Findings of the checks in ``network``, which is this plan, in the plan's order."""
        try:
            found = check(network)
        except InputError as error:
            where, what = self._located(str(error))
            return (self._problem("plan", where, what),)
        located = [(self._places.at(each.place), each) for each in found]
        return tuple(
            self._problem(each.code, where, self._in_words(each.reason), each.proposal, each.severity)
            for where, each in sorted(located, key=lambda one: (self._whole.rank(one[0]), one[1].code))
        )

    def _whose_names(self, after: PlanState, part: str, number: int) -> Scope | None:
        """The pieces whose references a change can break; None for all."""
        if part in LISTS:
            rank = next((i for i, each in enumerate(after.of(part)) if each.id == number), None)
            return {} if rank is None else {part: (rank,)}
        names = [{each.content["name"] for each in state.of(part)} if PARTS[part].named else set()
                 for state in (self, after)]  # fmt: skip
        return None if names[0] - names[1] else {}

    def _check_names(self, scope: Scope | None) -> None:
        # Contacts alone would also make an organisation, but one without its rules.
        there = {each.content["name"] for each in self.of("organisations")}
        lost = [
            Problem(
                "error", "name", each.part, each.id, "organisation", f"{each.label}, organisation",
                f"there is no organisation {quoted(each.content['organisation'])}",
            )
            for each in self.of("contacts")
            if each.content["organisation"] not in there
        ]  # fmt: skip
        wrong = [
            self._problem("name", where, what)
            for where, what in unknown_names(self.book, None if lost else scope)
        ]
        if lost or wrong:
            raise ChangeRefusal([*lost, *wrong])

    def _refused(self, code: str, problems: Iterable[tuple[Location, str]]) -> ChangeRefusal:
        return ChangeRefusal([self._problem(code, where, what) for where, what in problems])

    def _problem(
        self, code: str, where: Location, reason: str, proposal: str = "", severity: Severity = "error"
    ) -> Problem:
        item, field = self._whole.find(where)
        if item is None:
            return Problem(severity, code, "general", None, "", "plan", reason, proposal)
        # The place is shown separately from the reason.
        reason = reason.removeprefix(f"{_dotted(where)}: ")
        return Problem(severity, code, item.part, item.id, field, f"{item.label}, {field}", reason, proposal)

    def _located(self, message: str) -> tuple[Location, str]:
        """The location and the text of an error ``name:line: what``."""
        head, _, rest = message.partition(": ")
        return (self._places.at(head), rest) if head.startswith(f"{self.name}:") else ((), message)

    def _in_words(self, reason: str) -> str:
        """``reason`` with labels of pieces in place of line numbers."""

        def named(match: re.Match[str]) -> str:
            item, _ = self._whole.find(self._places.at(f":{match[1]}"))
            return match[0] if item is None else item.label

        return _LINE.sub(named, reason)


def _book(plan: NumberingPlan, places: PieceLocations) -> PlanDocument:
    return PlanDocument(plan, Document(places.name, {}), places)


def _errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


def more_problems(problems: Iterable[Problem], known: Iterable[Problem]) -> list[Problem]:
    """Problems that are not among ``known``, or are more frequent than there."""
    left = Counter(each.key for each in known)
    found = []
    for problem in problems:
        left[problem.key] -= 1
        if left[problem.key] < 0:
            found.append(problem)
    return found


def _around(plan: NumberingPlan, digits: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Ranges, entries and routes whose numbers begin with one of ``digits``, or the reverse."""
    listed = {
        "ranges": [range_.prefix for range_ in plan.ranges],
        "enum": [each.number or each.prefix or "+" for each in plan.enum],
        "routes": [route.prefix for route in plan.routes],
    }
    around: dict[str, set[int]] = {part: set() for part in listed}
    for each in digits:
        shorter = {f"+{each[:length]}" for length in range(len(each))}
        for part, numbers in listed.items():
            above = [i for i, number in enumerate(numbers) if number in shorter]
            below = (i for i, number in enumerate(numbers) if number.startswith(f"+{each}"))
            around[part].update(above, islice(below, MOST_BELOW))
    return {part: tuple(sorted(found)) for part, found in around.items()}


def form(part: str, number: int | None, content: Content) -> list[Problem]:
    """Why ``content`` is not a valid piece of ``part``; ``number`` is the piece's, if it is stored."""
    kind = PARTS[part]
    found = scenario.problems(content, kind.model)
    return [
        Problem(
            "error",
            "form",
            part,
            number,
            ".".join(str(each) for each in where) or kind.first[0],
            f"{kind.label(content)}, {where[0] if where else kind.first[0]}",
            what.removeprefix(f"{_dotted(where)}: "),
        )
        for where, what in found
    ]


def _dotted(where: Location) -> str:
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in where)
    return text.removeprefix(".")
