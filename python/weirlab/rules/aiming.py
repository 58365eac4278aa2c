"""Test packets that a ruleset accepts at a given rule, or the reason why there are none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.errors import InputError
from weirlab.rules import matching
from weirlab.rules.chains import Ruleset
from weirlab.rules.matching import Interface, Match
from weirlab.rules.naming import find, places, text
from weirlab.rules.packets import FIELDS, instance, misfit, preferred
from weirlab.rules.passing import Passage, Place, Walker
from weirlab.rules.reasons import last, why

_FREED: Final = (
    (),
    ("destination",),
    ("source",),
    ("destination_port",),
    ("source", "destination"),
    FIELDS,
)
"""Sets of fields that may differ from the usual packets, fewest first."""

MAX_TRIED: Final = 40
"""Most rules that are tried if none is named."""
MAX_TOLD: Final = 3
MAX_NAMES: Final = 4
"""Most interface names tried on either side, those that the rule itself matches first."""


@dataclass(frozen=True)
class Aim:
    """Packets that pass, all of them accepted by the same rule."""

    packets: Match
    place: Place
    """Where they are accepted."""
    doubts: tuple[Place, ...] = ()
    """Earlier rules that may or may not match."""
    passed_over: str = ""
    """Why it is not the rule that counted most packets."""

    @property
    def interfaces(self) -> tuple[str, str]:
        """The interfaces on which the packets arrive and leave."""
        inward, outward = self.packets.inward, self.packets.outward
        return inward.name if inward else "", outward.name if outward else ""


def aim(path: Sequence[Ruleset], wishes: Sequence[tuple[Match, Match]], name: str | None, source: str) -> Aim:
    """Find packets that a rule of ``path`` accepts.

    Without ``name``, that is the accepting rule with most packets on its counter that test packets can reach.
    If nothing was counted, it is the rule that accepts the usual packets, else the first accepting rule that
    test packets can reach.

    Parameters
    ----------
    path:
        The base chains in the order in which a packet traverses them.
    wishes:
        Pairs of the possible packets and the usual ones among them, the best wish first.
    name:
        The rule in the user's words, see :func:`weirlab.rules.naming.find`.
    source:
        What the ruleset is called in messages.

    Raises
    ------
    InputError
        There is no such rule, or no test packet can reach it; the message says why.
    """
    walker = Walker(path)
    if name is not None:
        wanted = find(path, name)
        found = next((f for wish in wishes if (f := _reach(path, walker, wish, wanted))), None)
        if found is None:
            raise InputError(f"{source}: {wanted} ({text(wanted)}) {why(walker, wishes, wanted)}")
        return found
    candidates = _accepting(path)
    counted = any(place.rule and place.rule.packets for place in candidates)
    for wish in wishes:
        if not counted and (found := _usual(walker, wish)):
            return found
        for wanted in candidates[:MAX_TRIED]:
            if found := _reach(path, walker, wish, wanted):
                busiest = candidates[0]
                over = counted and not found.place.is_at(busiest) and wish is wishes[0]
                told = (
                    f"{busiest}, which counted most packets, {why(walker, wishes, busiest)}" if over else ""
                )
                return replace(found, passed_over=told)
        if found := _reach(path, walker, wish, None):
            return found
    reasons = [f"{place} ({text(place)}) {why(walker, wishes, place)}" for place in candidates[:MAX_TOLD]]
    ends = f"it ends at the {last(walker, wishes[0][0])}"
    raise InputError(f"{source}: no rule accepts test traffic: {'; '.join([*reasons, ends])}")


def verify(path: Sequence[Ruleset], packets: Match, what: str, source: str) -> Match:
    """The ``packets`` that some rule or policy accepts; raises ``InputError`` if there are none.

    ``what`` is their name in the message.
    """
    walker = Walker(path)
    for doubtful in (False, True):
        for passage in walker.passages(packets, doubtful=doubtful):
            if passage.accepted:
                return passage.packets
    end = last(walker, packets)
    raise InputError(f"{source}: {what} would end at the {end} ({text(end)})")


def _accepting(path: Sequence[Ruleset]) -> list[Place]:
    """Accepting rules, those with most packets first, then in the order of walking."""
    found = [place for place in places(path) if place.accepts]
    return sorted(found, key=lambda place: -(place.rule.packets if place.rule else 0))


def _usual(walker: Walker, wish: tuple[Match, Match]) -> Aim | None:
    """The usual packets, if all of them are accepted."""
    passages = list(itertools.islice(walker.passages(wish[1]), 2))
    if len(passages) == 1 and passages[0].accepted:
        return _aimed(passages[0], None)
    return None


def _reach(
    path: Sequence[Ruleset], walker: Walker, wish: tuple[Match, Match], wanted: Place | None
) -> Aim | None:
    possible, usual = wish
    rule = None if wanted is None else wanted.rule
    for doubtful in (False, True):
        for inward, outward in _interfaces(path, possible, wanted):
            for freed in _FREED:
                start = preferred(possible, usual, rule.match if rule else None, freed)
                start = replace(start, inward=Interface(inward), outward=Interface(outward))
                if rule is not None and misfit(start, rule.match):
                    continue
                for passage in walker.passages(start, wanted, doubtful=doubtful):
                    if passage.reaches(wanted):
                        return _aimed(passage, wanted)
    return None


def _aimed(passage: Passage, wanted: Place | None) -> Aim:
    met = [end for end in passage.ends if wanted is not None and end.is_at(wanted)]
    # If several base chains accept, one that does so by a rule, not its policy, says most.
    ruled = [end for end in passage.ends if end.rule is not None]
    return Aim(passage.packets, (met or ruled or list(passage.ends))[-1], passage.doubts)


def _interfaces(path: Sequence[Ruleset], possible: Match, wanted: Place | None) -> Iterator[tuple[str, str]]:
    """Pairs of interface names: those the rule matches, then the lab's own, then those of other rules."""
    rule = None if wanted is None or wanted.rule is None else wanted.rule.match
    sides = []
    for side in ("inward", "outward"):
        own: Interface | None = getattr(possible, side)
        asked: Interface | None = None if rule is None else getattr(rule, side)
        mentioned = [
            getattr(each.rule.match, side)
            for each in places(path)
            if each.rule and getattr(each.rule.match, side) is not None
        ]
        names = [instance(i) for i in (asked, own, *mentioned) if i is not None and not i.inverted]
        fitting = [n for n in dict.fromkeys(names) if n != "lo" and matching.named(asked, n)]
        sides.append(fitting[:MAX_NAMES])
    for inward, outward in itertools.product(*sides):
        if inward != outward:
            yield inward, outward
