"""Which numbers two plans route differently. The answer covers all numbers, without sampling.

Numbers are split digit by digit, but only where one of the plans distinguishes them: an unknown rest of
a number goes through both networks as a whole (:data:`~weirlab.numbering.ere.TAIL`), until something in
a plan depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from weirlab.base.errors import InputError
from weirlab.numbering.ere import TAIL, MissingDigits
from weirlab.numbering.plan.values import MOST_DIGITS
from weirlab.numbering.routing import PlanNetwork, wording
from weirlab.numbering.routing.calls import calls
from weirlab.numbering.routing.profiles import Uri
from weirlab.numbering.routing.wording import CallRoute

DIGITS: Final = "0123456789"
MOST_CELLS: Final = 2_000_000
"""Most sets of numbers that are compared; expressions that test late digits give more."""

MOST_WAYS: Final = 8


@dataclass(frozen=True)
class RouteDescription:
    """The ways of a call, in words that are the same for all numbers that are routed alike."""

    ways: tuple[str, ...]

    def __str__(self) -> str:
        return ", then ".join(self.ways)


@dataclass(frozen=True)
class RoutingChange:
    """Numbers that are routed differently.

    ``itself`` is the number ``prefix``, ``longer`` the longer numbers, except those whose next digit is
    one of ``but``.
    """

    prefix: str
    itself: bool
    longer: bool
    but: str
    before: RouteDescription
    after: RouteDescription

    @property
    def numbers(self) -> str:
        """Which numbers, in words."""
        if not self.longer:
            return f"{self.prefix} itself"
        except_for = f", except {' '.join(self.prefix + digit for digit in self.but)}" if self.but else ""
        return f"{self.prefix}{'' if self.itself else ' and at least one digit'}...{except_for}"

    def holds_for(self, number: str) -> bool:
        """Is ``number`` one of these?"""
        if number == self.prefix:
            return self.itself
        rest = number.removeprefix(self.prefix)
        return self.longer and rest != number and rest[0] not in self.but


def differences(
    before: PlanNetwork, after: PlanNetwork, caller: str | None = None, *, most_cells: int = MOST_CELLS
) -> list[RoutingChange]:
    """What changes between two plans for the calls of ``caller`` to international numbers of up to 15 digits.

    Raises
    ------
    InputError
        The caller cannot call in one of the plans, or they distinguish more than ``most_cells`` sets of
        numbers.
    """
    return [*_RoutingDiff(before, after, caller, most_cells).below("+")]


class _RoutingDiff:
    def __init__(self, before: PlanNetwork, after: PlanNetwork, caller: str | None, most_cells: int) -> None:
        self._most_cells = most_cells
        self.before = before
        self.after = after
        self.caller = caller
        self.cells = 0

    def below(self, prefix: str) -> list[RoutingChange]:
        """Changes among the numbers that begin with ``prefix``, as few as describe them."""
        itself = self._pair(prefix) if len(prefix) > 1 else None
        if len(prefix) > MOST_DIGITS:
            return _told(prefix, itself, None, "", [])
        told: set[str] = set()
        longer = None
        while len(told) < len(DIGITS):
            try:
                longer = self._pair(prefix + TAIL + "".join(sorted(told)))
                break
            except MissingDigits as asked:
                told |= asked.digits
        deeper = [(digit, self.below(prefix + digit)) for digit in sorted(told)]
        return _told(prefix, itself, longer, "".join(sorted(told)), deeper)

    def _pair(self, number: str) -> tuple[RouteDescription, RouteDescription]:
        self.cells += 1
        if self.cells > self._most_cells:
            raise InputError(
                f"{self.before.book.name}, {self.after.book.name}: their expressions distinguish more than "
                f"{self._most_cells:,} "
                rf"sets of numbers; use patterns such as ^\+420(.*)$, see {self.before.command('check')}"
            )
        return course(self.before, number, self.caller), course(self.after, number, self.caller)


def _told(
    prefix: str,
    itself: tuple[RouteDescription, RouteDescription] | None,
    longer: tuple[RouteDescription, RouteDescription] | None,
    told: str,
    deeper: list[tuple[str, list[RoutingChange]]],
) -> list[RoutingChange]:
    """The changes below ``prefix``, with what changes alike joined into one."""
    joined: list[RoutingChange] = []
    changed = longer is not None and longer[0] != longer[1]
    alike: list[str] = []
    rest: list[RoutingChange] = []
    for digit, changes in deeper:
        whole = changes[0] if len(changes) == 1 else None
        same = (
            whole is not None and changed and whole.itself and not whole.but
            and (whole.longer or len(whole.prefix) > MOST_DIGITS)
            and (whole.before, whole.after) == longer
        )  # fmt: skip
        if same:
            alike.append(digit)
        else:
            rest += changes
    if changed and longer is not None:
        but = "".join(digit for digit in told if digit not in alike)
        joined.append(RoutingChange(prefix, itself == longer, True, but, *longer))
    if itself is not None and itself[0] != itself[1] and not (changed and itself == longer):
        joined.insert(0, RoutingChange(prefix, True, False, "", *itself))
    return joined + rest


def course(network: PlanNetwork, number: str, caller: str | None) -> RouteDescription:
    """The ways of a call to ``number``, with ``N`` in place of its digits wherever they recur."""
    ways = islice(calls(network, number, caller), MOST_WAYS)
    return RouteDescription(tuple(_said(way, number) for way in ways))


def _said(way: CallRoute, number: str) -> str:
    parts = [way.engines[0]]
    leaving = ""
    for step in way.steps:
        match step.what:
            case "record":
                leaving = f" (tree {step.facts['tree']}: {_generic_uri(str(step.facts['uri']), number)})"
            case "leg":
                codec = f" {step.facts['codec']}" if step.facts["codec"] else ""
                protocol = wording.PROTOCOLS[step.facts["protocol"]]
                parts.append(f"{leaving} > {protocol}{codec} > {step.facts['to']}")
                leaving = ""
            case "forwarded":
                parts.append(f" (302 to {step.facts['to']})")
    last = next((str(step.facts["number"]) for step in reversed(way.steps) if step.what == "leg"), number)
    arriving = _generic(last, number)
    end = way.end
    told = f"{leaving}: {wording.end(end)}"
    if end.kind == "answered":
        told = ""
    elif end.kind == "external":
        told = f"{leaving}: leaves the plan"
    elif end.kind == "no route":
        # It does not matter which trees had no entry.
        told = f"{leaving}: no route"
    as_number = f" as {arriving}" if arriving != "+N" else ""
    return "".join(parts) + as_number + told


def _generic_uri(text: str, number: str) -> str:
    """A URI with the number in its user part as ``N``."""
    uri = Uri.parse(text)
    if uri is None or uri.number is None:
        return text
    return text.replace(uri.number[1:], _generic(uri.number, number).removeprefix("+"), 1)


def _generic(found: str, number: str) -> str:
    """``found`` in terms of ``number``: ``+N`` if they are equal."""
    after, before = found.removeprefix("+"), number.removeprefix("+")
    same = 0
    while same < min(len(after), len(before)) and after[-1 - same] == before[-1 - same]:
        same += 1
    if not same:
        return found
    lost = len(before) - same
    return f"+{after[: len(after) - same]}{f'(N without {lost} digits)' if lost else 'N'}"


def by_kind(
    changes: list[RoutingChange],
) -> Iterator[tuple[RouteDescription, RouteDescription, list[RoutingChange]]]:
    """Changes grouped by what was and what is now, in the order of their numbers."""
    found: dict[tuple[RouteDescription, RouteDescription], list[RoutingChange]] = {}
    for change in sorted(changes, key=lambda each: (each.prefix, each.longer)):
        found.setdefault((change.before, change.after), []).append(change)
    for (before, after), listed in found.items():
        yield before, after, listed
