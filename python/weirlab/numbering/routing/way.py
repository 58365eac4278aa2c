"""What happens to a call, step by step, as plain values; ``wording`` puts it into words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from weirlab.scenario.document import Location

What = Literal[
    "dialled", "rewritten", "prefix", "no prefix", "tree", "no entry", "record", "unusable record",
    "unusable rule",
    "referred", "handed over", "rerouted", "resolved", "translated", "leg", "forwarded",
]  # fmt: skip

EndKind = Literal[
    "answered", "external", "no route", "loop", "not admitted", "barred", "no protocol", "no codec",
    "no address", "no number", "no digits", "too many calls",
]  # fmt: skip

ANSWERS: Final[Mapping[EndKind, int]] = {
    "answered": 200, "external": 200, "no route": 404, "loop": 482, "not admitted": 403, "barred": 403,
    "no protocol": 503, "no codec": 488, "no address": 503, "no number": 484, "no digits": 484,
    "too many calls": 503,
}  # fmt: skip
"""The final answer to a SIP caller (RFC 3261, 21)."""


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class RouteStep(NamedTuple):
    """One thing that an engine does."""

    what: What
    engine: str
    number: str
    """The number at this step."""
    place: Location = ()
    """The part of the plan that causes the step."""
    facts: Mapping[str, Any] = _NOTHING


class RouteEnd(NamedTuple):
    """How a way ends."""

    kind: EndKind
    engine: str
    """The engine where it ends."""
    facts: Mapping[str, Any] = _NOTHING
    place: Location = ()

    @property
    def good(self) -> bool:
        """Is the call answered, as far as the plan says?"""
        return self.kind in ("answered", "external")


class CallRoute(NamedTuple):
    """One way of a call from its beginning to its end; if it fails, the next way is taken."""

    steps: tuple[RouteStep, ...]
    end: RouteEnd

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines in the order in which the call reaches them, without those that forward it."""
        found = [step.engine for step in self.steps[:1]]
        for step in self.steps:
            if step.what == "leg":
                found.append(str(step.facts["to"]))
            elif step.what == "forwarded":
                found.pop()
        return tuple(found)

    @property
    def decided_by(self) -> str | None:
        """What the first engine decided by: a tree, ``static`` for a route, None for nothing."""
        for step in self.steps:
            if step.what == "prefix":
                return "static"
            if step.what == "record":
                return str(step.facts["tree"])
        return None

    @property
    def answer(self) -> int:
        """The final answer in SIP."""
        return ANSWERS[self.end.kind]
