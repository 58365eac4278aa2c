"""Which rule a user means: by chain and place, handle, line, comment, or words of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from weirlab.base.errors import InputError
from weirlab.rules.chains import Ruleset
from weirlab.rules.matching import KNOWN_STATES
from weirlab.rules.passing import VerdictPlace

FORMS: Final = (
    "its place (12, or CHAIN:12 outside the chain for forwarded packets), 'handle 12', 'line 12', "
    "its comment, some words of it, or 'policy'"
)

_PLACE: Final = re.compile(r"(?:(?P<chain>[^\s:]+)[\s:]+(?:rule\s+)?)?(?P<number>\d{1,18})")
_SHOWN: Final = 3
_COUNTERS: Final = re.compile(r"\bcounter(?: packets \d+ bytes \d+| name \S+)? ?")


def places(path: Sequence[Ruleset]) -> list[VerdictPlace]:
    """Every rule of the chains on ``path`` and those that they call, in the order of walking."""
    found: list[VerdictPlace] = []
    for ruleset in path:
        for name in walked(ruleset):
            at: dict[int, VerdictPlace] = {}
            for rule in ruleset.chains[name].rules:
                place = VerdictPlace(ruleset.table, name, rule)
                # Of the elements of a verdict map, one that accepts represents all.
                if rule.number not in at or (place.accepts and not at[rule.number].accepts):
                    at[rule.number] = place
            found += at.values()
    return found


def unmet_known(path: Sequence[Ruleset], end: VerdictPlace) -> str:
    """The busiest rule for known connections if packets of such end at a rule of another kind; else empty."""
    found = [
        one for one in places(path) if one.accepts and one.rule and one.rule.match.states <= KNOWN_STATES
    ]
    if any(one.is_at(end) for one in found):
        return ""
    return str(max(found, key=lambda one: one.packets, default=""))


def walked(ruleset: Ruleset) -> list[str]:
    """The base chain and those that it calls, directly or not, in the order of the calls."""
    found = [ruleset.entry]
    for name in found:
        found += dict.fromkeys(
            rule.jump
            for rule in ruleset.chains[name].rules
            if rule.jump is not None and rule.jump in ruleset.chains and rule.jump not in found
        )
    return found


def find(path: Sequence[Ruleset], name: str) -> VerdictPlace:
    """The one rule that ``name`` means; raises ``InputError`` if there is none, or more than one."""
    found = list(_named(path, name.strip()))
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"--match: no rule for forwarded packets is called {name!r}; give {FORMS}")
    shown = "; ".join(f"{place} ({text(place)})" for place in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise InputError(f"--match: {name!r} means several rules: {shown}{more}; give chain and place of one")


def text(place: VerdictPlace, width: int = 90) -> str:
    """The rule as written, without counters, shortened."""
    if place.rule is None:
        return place.policy
    words = _COUNTERS.sub("", place.rule.text)
    return words if len(words) <= width else f"{words[: width - 3]}..."


def _named(path: Sequence[Ruleset], name: str) -> Iterator[VerdictPlace]:
    rules = places(path)
    if name == "policy":
        main = _main(path)
        yield VerdictPlace(main.table, main.entry, None, main.forward.policy or "accept")
        return
    for word, attribute in (("handle", "handle"), ("line", "line")):
        if match := re.fullmatch(rf"{word}[\s:]*(\d{{1,18}})", name):
            yield from (p for p in rules if p.rule and getattr(p.rule, attribute) == int(match[1]))
            return
    if match := _PLACE.fullmatch(name):
        main = _main(path)
        chain, table = match["chain"] or main.entry, None if match["chain"] else main.table
        at = [
            p
            for p in rules
            if p.chain == chain
            and p.rule
            and p.rule.number == int(match["number"])
            and table in (None, p.table)
        ]
        if at or match["chain"] is None:
            yield from at
            return
    commented = [place for place in rules if place.rule and place.rule.comment == name]
    yield from commented or [place for place in rules if place.rule and name in text(place, 10_000)]


def _main(path: Sequence[Ruleset]) -> Ruleset:
    """The base chain with most rules: of several tables, the one that is meant if none is named."""
    filters = [ruleset for ruleset in path if ruleset.table == "filter"] or list(path)
    return max(filters, key=lambda ruleset: sum(len(ruleset.chains[c].rules) for c in walked(ruleset)))
