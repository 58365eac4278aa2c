"""A managed plan as it stands: its pieces, the document that they make, and what is wrong with it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Final

from weirlab.errors import InputError
from weirlab.scenario import load as scenario
from weirlab.scenario.document import Location
from weirlab.studies.voice.checking import Severity, check
from weirlab.studies.voice.managing import places
from weirlab.studies.voice.managing.parts import PARTS, Content, Item, whole
from weirlab.studies.voice.plan import Book
from weirlab.studies.voice.plan.load import unknown_names
from weirlab.studies.voice.plan.model import NumberingPlan
from weirlab.studies.voice.routing import Network

HEAD: Final = ("A numbering plan, as weir voice manage keeps it.",)
_LINE: Final = re.compile(r"\bline ([0-9]+)\b")


@dataclass(frozen=True)
class Problem:
    """Something wrong with a plan, or why a change is refused."""

    severity: Severity
    code: str
    """The kind of mistake in a word or two."""
    part: str
    item: int | None
    """The piece; None for one that is not kept yet."""
    field: str
    """In the piece, as in ``naptr.0.uri``."""
    place: str
    """In words: ``entry +420950052, owner``."""
    reason: str
    proposal: str = ""

    @property
    def key(self) -> tuple[str, str, int | None, str]:
        """The same for one mistake before and after a change elsewhere."""
        return self.severity, self.code, self.item, self.field


class Refused(InputError):
    """A change that is not made; ``problems`` say where and why."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(said(each) for each in problems))
        self.problems = tuple(problems)

    @property
    def acceptable(self) -> bool:
        """Would the change be made for somebody who accepts its mistakes?"""
        return all(each.code not in FINAL for each in self.problems)


FINAL: Final = ("form", "name", "rights", "conflict")
"""Codes of what nobody can accept: no such plan can be kept."""


def said(problem: Problem) -> str:
    """A problem as a line."""
    advice = f"; {problem.proposal}" if problem.proposal else ""
    return f"{problem.place}: {problem.reason}{advice}"


class State:
    """The plan that ``items`` make, as it holds on ``day``.

    Raises
    ------
    Refused
        They make no plan.
    """

    def __init__(self, items: Iterable[Item], name: str, day: date) -> None:
        self.items = tuple(items)
        self.name = name
        self._whole = whole(self.items)
        self.text, document = places.written(self._whole.value, name, HEAD)
        self._lines = places.locations(document)
        found = scenario.problems(self._whole.value, NumberingPlan)
        if found:
            raise Refused([self._problem("form", where, what) for where, what in found])
        self.book = Book(NumberingPlan.model_validate(self._whole.value), document)
        if named := [*unknown_names(self.book)]:
            raise Refused([self._problem("name", where, what) for where, what in named])
        self.network = Network(self.book, day)

    @property
    def plan(self) -> NumberingPlan:
        return self.book.plan

    def item(self, number: int) -> Item | None:
        """The piece with this number."""
        return next((each for each in self.items if each.id == number), None)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What the checks find."""
        try:
            found = check(self.network)
        except InputError as error:
            where, what = self._located(str(error))
            return (self._problem("plan", where, what),)
        return tuple(
            self._problem(
                each.code, self._at(each.place), self._in_words(each.reason), each.proposal, each.severity
            )
            for each in found
        )

    @property
    def errors(self) -> list[Problem]:
        """What keeps the plan from being published."""
        return [each for each in self.problems if each.severity == "error"]

    def new_errors(self, before: State | None) -> list[Problem]:
        """Errors that were not there before."""
        known = Counter() if before is None else Counter(each.key for each in before.errors)
        found = []
        for each in self.errors:
            known[each.key] -= 1
            if known[each.key] < 0:
                found.append(each)
        return found

    def _problem(
        self, code: str, where: Location, reason: str, proposal: str = "", severity: Severity = "error"
    ) -> Problem:
        item, field = self._whole.find(where)
        if item is None:
            return Problem(severity, code, "general", None, "", "plan", reason, proposal)
        # The place is told beside the sentence.
        reason = reason.removeprefix(f"{_dotted(where)}: ")
        return Problem(severity, code, item.part, item.id, field, f"{item.label}, {field}", reason, proposal)

    def _at(self, place: str) -> Location:
        """What stands at ``name:line``."""
        line = place.rpartition(":")[2]
        return self._lines.get(int(line), ()) if line.isdecimal() else ()

    def _located(self, message: str) -> tuple[Location, str]:
        """Where an error's ``name:line: what`` is, and what it says."""
        head, _, rest = message.partition(": ")
        return (self._at(head), rest) if head.startswith(f"{self.name}:") else ((), message)

    def _in_words(self, reason: str) -> str:
        """``reason`` with pieces in place of lines, which the pieces do not have."""

        def named(match: re.Match[str]) -> str:
            item, _ = self._whole.find(self._lines.get(int(match[1]), ()))
            return match[0] if item is None else item.label

        return _LINE.sub(named, reason)


def form(part: str, number: int | None, content: Content) -> list[Problem]:
    """Why ``content`` is no such piece, by itself; ``number`` is that of the piece, if it is kept."""
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
