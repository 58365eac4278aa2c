"""Decides who may change which piece of a plan. Pure.

Administrators may change everything. Users of an organisation may change its own contacts, engines and
their routes, ranges inside its own ranges, entries and test numbers for its own numbers, but not the limits
of its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from weirlab.base.quantities import words
from weirlab.numbering.plan.model import NumberingPlan
from weirlab.numbering.plan.values import is_number

LIMITS: Final = ("may_call", "barred", "most_calls")
"""Fields of an organisation by which the operator limits its calls."""
_MOST_NAMED: Final = 8
_ASK: Final = "ask an administrator"


@dataclass(frozen=True)
class RightsRefusal:
    """Why a user may not make a change."""

    field: str
    reason: str
    proposal: str


class Owners:
    """The owners of numbers of ``plan``, now or later, without ranges that have expired by ``day``."""

    def __init__(self, plan: NumberingPlan, day: date) -> None:
        self.ranges = [range_ for range_ in plan.ranges if not range_.expired(day)]
        self._by_prefix: dict[str, set[str]] = {}
        for range_ in self.ranges:
            self._by_prefix.setdefault(range_.prefix[1:], set()).add(range_.owner)

    def of(self, digits: str, *, around: bool = False) -> set[str]:
        """The owners of the numbers that begin with ``digits``, by the longest range.

        With ``around``, by the longest range that is shorter than ``digits``.
        """
        for length in range(len(digits) - around, -1, -1):
            if found := self._by_prefix.get(digits[:length]):
                return found
        return set()


def refusal(
    organisation: str | None,
    plan: NumberingPlan,
    part: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    owners: Owners,
) -> RightsRefusal | None:
    """Why users of ``organisation`` may not change a piece from ``before`` to ``after``; None if they may.

    Parameters
    ----------
    organisation
        None for an administrator.
    plan
        The plan before the change.
    before, after
        The piece; None if it is added or removed.
    owners
        The owners of numbers in the plan.
    """
    if organisation is None:
        return None
    if part == "organisations" and (before is None or after is None):
        what = "added" if before is None else "removed"
        return RightsRefusal("name", f"organisations are {what} only by administrators", _ASK)
    renamed = before is not None and after is not None and before.get("name") != after.get("name")
    if part == "organisations" and renamed:
        return RightsRefusal("name", "other parts of the plan refer to this name", f"keep it, or {_ASK}")
    if part == "organisations" and before is not None and after is not None:
        for field in LIMITS:
            if (before.get(field) or None) != (after.get(field) or None):
                return RightsRefusal(
                    field, "this limit is set by administrators", f"leave it as it is, or {_ASK}"
                )
    rule = _RULES.get(part)
    if rule is None:
        return RightsRefusal("", "only administrators may change this part of the plan", _ASK)
    claim = _Claim(organisation, plan, owners)
    for content in (before, after):
        if content is not None and (found := rule(claim, content)) is not None:
            return found
    if part == "engines" and after is not None:
        return _new_name(plan, None if before is None else before.get("host"), after.get("host"))
    return None


def _new_name(plan: NumberingPlan, before: str | None, after: str | None) -> RightsRefusal | None:
    """Refuse new host names in domains, which belong to administrators."""
    if after is None or after == before:
        return None
    for domain in plan.domains:
        if after == domain or after.endswith(f".{domain}"):
            return RightsRefusal(
                "host", f"only administrators may give names in {domain}", f"leave this name out, or {_ASK}"
            )
    return None


@dataclass(frozen=True)
class _Claim:
    """What users of an organisation may change in a plan: what is its own."""

    organisation: str
    plan: NumberingPlan
    owners: Owners

    def route(self, content: Mapping[str, Any]) -> RightsRefusal | None:
        engine = self.plan.engines.get(content["at"])
        owner = None if engine is None else engine.organisation
        return self.owned_by(owner, "at", f"engine {content['at']}")

    def range(self, content: Mapping[str, Any]) -> RightsRefusal | None:
        found = self.owners.of(content["prefix"][1:], around=True)
        if self.organisation in found:
            return None
        if found:
            return self._foreign(content["prefix"], "prefix", found)
        return RightsRefusal(
            "prefix",
            f"{content['prefix']} lies in no other range, and only administrators may add such ranges",
            f"{self._own()}, or {_ASK}",
        )

    def entry(self, content: Mapping[str, Any]) -> RightsRefusal | None:
        field = "number" if content.get("number") else "prefix"
        number, own = content[field], self.organisation
        found = self.owners.of(number[1:])
        if own not in found:
            return self._foreign(number, field, found)
        if content.get("owner") not in (None, own):
            return RightsRefusal(
                "owner", f"you act for {own}, not for {content['owner']}", f"enter {own} here"
            )
        return None

    def test(self, content: Mapping[str, Any]) -> RightsRefusal | None:
        number, own = content["number"], self.organisation
        found = self.owners.of(number[1:]) if is_number(number) else set()
        caller = self.plan.engines.get(content.get("caller") or self.plan.caller)
        if own in found or (caller is not None and caller.organisation == own):
            return None
        if found:
            return self._foreign(number, "number", found)
        return RightsRefusal(
            "caller",
            f"neither {number} nor the engine that calls belongs to {own}",
            f"name one of {own}'s own engines as the caller, or {_ASK}",
        )

    def owned_by(self, owner: str | None, field: str, what: str) -> RightsRefusal | None:
        if owner == self.organisation:
            return None
        belongs = f"belongs to {owner}" if owner else "belongs to no organisation"
        reason = f"{what} {belongs}, but you act for {self.organisation}"
        return RightsRefusal(field, reason, f"enter your own, or {_ASK}")

    def _foreign(self, number: str, field: str, found: Iterable[str]) -> RightsRefusal:
        names = words(sorted(found), most=_MOST_NAMED)
        belongs = f"belongs to {names}" if names else "lies in no range of the plan"
        reason = f"{number} {belongs}, but you act for {self.organisation}"
        return RightsRefusal(field, reason, f"{self._own()}, or {_ASK}")

    def _own(self) -> str:
        """A proposal that names the organisation's own numbers."""
        prefixes = list(dict.fromkeys(r.prefix for r in self.owners.ranges if r.owner == self.organisation))
        if not prefixes:
            return f"have numbers given to {self.organisation} first"
        return f"enter numbers of {self.organisation}: {words(prefixes, most=_MOST_NAMED)}"


_RULES: Final[Mapping[str, Callable[[_Claim, Mapping[str, Any]], RightsRefusal | None]]] = {
    "organisations": lambda own, piece: own.owned_by(piece["name"], "name", "this organisation"),
    "contacts": lambda own, piece: own.owned_by(piece["organisation"], "organisation", "this contact"),
    "ranges": _Claim.range,
    "engines": lambda own, piece: own.owned_by(
        piece.get("organisation"), "organisation", f"engine {piece['name']}"
    ),
    "enum": _Claim.entry,
    "routes": _Claim.route,
    "tests": _Claim.test,
}
