"""Test packets that meet a given rule of a ruleset, or the reason why there are none."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from weirlab.base.errors import InputError
from weirlab.rules.chains import Ruleset
from weirlab.rules.matching import ALL_STATES, Match
from weirlab.rules.naming import find, places, text, walked
from weirlab.rules.packets import FIELDS, SIDES, PacketSet, between, misfit, narrowed, preferred
from weirlab.rules.passing import Doubt, VerdictPlace, Walker, WalkResult

_LOOKED_AT: Final = 20
_SHOWN: Final = 3

# Rules for packets that leave where they arrived are reached by no others.
_UNREACHED: Final = (
    "is not reached by packets that pass from one interface to another, as test traffic does: an earlier "
    "rule decides"
)
_MISFITS: Final = {
    "tcp_flags": "matches TCP segments with other flags; those of the test traffic have ACK and PSH",
    "protocol": "matches another protocol; test traffic is UDP or TCP (--l4)",
    "source": "matches source addresses that test traffic cannot have (--ip says which IP version)",
    "destination": "matches destination addresses that test traffic cannot have (--ip says which IP version)",
    "source_port": "matches source ports that this traffic cannot have",
    "destination_port": "matches destination ports that this traffic cannot have",
    "inward": "matches packets from another interface",
    "outward": "matches packets to another interface",
}


def why(walker: Walker, wishes: Sequence[tuple[PacketSet, PacketSet]], wanted: VerdictPlace) -> str:
    """Why no packets of ``wishes`` (possible and usual) end at ``wanted``, in words that follow its name."""
    if not (wanted.accepts or wanted.drops):
        jump = wanted.rule.jump if wanted.rule else None
        if jump:
            return f"decides nothing: it jumps to {jump}"
        if not wanted.verdict:
            return "decides nothing: it has no verdict"
        return f"does not forward or drop packets: its verdict is {wanted.verdict.lower()}"
    if wanted.rule is None:
        return f"{_UNREACHED}, {last(walker, wishes[0][0], wanted)}"
    rule = wanted.rule.match
    fitting = [possible for possible, _ in wishes if not misfit(possible, rule)]
    if not fitting:
        found = misfit(wishes[0][0], rule)
        if found == "state":
            way = "; --answered makes such packets" if "ESTABLISHED" in rule.states else ""
            return (
                f"matches packets in the state {' or '.join(sorted(rule.states))}; nothing answers "
                f"test traffic, so connection tracking sees it as NEW{way}"
            )
        return _MISFITS[found]
    ends = dict.fromkeys(str(end) for end in _ends(walker, narrowed(fitting[0], rule), wanted))
    if not ends:
        return "is not reached: forwarded packets do not get there"
    known = fitting[0].state == "ESTABLISHED" and "NEW" not in rule.states
    way = (
        "; that takes packets of known connections, too: put this rule first, or let that one match state NEW"
        if known
        else ""
    )
    return f"{_UNREACHED}, {', '.join(itertools.islice(ends, _SHOWN))}{way}"


def last(walker: Walker, packets: PacketSet, wanted: VerdictPlace | None = None) -> VerdictPlace:
    """Where packets end if they do not reach ``wanted``."""
    return next(_ends(walker, packets, wanted))


def _ends(walker: Walker, packets: PacketSet, wanted: VerdictPlace | None) -> Iterator[VerdictPlace]:
    passages = walker.passages(packets, wanted, Doubt.ANYWHERE)
    for passage in itertools.islice(passages, _LOOKED_AT):
        if passage.ends and not passage.reaches(wanted):
            yield passage.ends[-1]


Wish = tuple[PacketSet, PacketSet]
"""Possible packets, and the usual ones among them."""

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
MAX_REASONS: Final = 3
MAX_NAME: Final = 15
"""Longest name of an interface (IFNAMSIZ of linux/if.h)."""


@dataclass(frozen=True)
class Aim:
    """Packets that all meet their verdict at the same rule."""

    packets: PacketSet
    place: VerdictPlace
    """Where they are accepted or dropped."""
    compared: int
    """Rules with which each packet is compared, in all base chains."""
    reason: str = ""
    """Why it is this rule, if none was named."""
    doubts: tuple[VerdictPlace, ...] = ()
    """Rules that may or may not match, among them perhaps the rule itself."""

    @property
    def interfaces(self) -> tuple[str, str]:
        """The interfaces on which the packets arrive and leave."""
        return self.packets.interfaces or ("", "")


def aim(path: Sequence[Ruleset], wishes: Sequence[Wish], name: str | None, source: str) -> Aim:
    """The first of :func:`aims`."""
    return next(aims(path, wishes, name, source))


def aims(path: Sequence[Ruleset], wishes: Sequence[Wish], name: str | None, source: str) -> Iterator[Aim]:
    """Packets that meet their verdict at a rule of ``path``, the best first; at least one.

    Without ``name``, the best rule is the accepting one with most packets on its counter that test packets
    can reach. If nothing was counted, it is the rule that accepts the usual packets, else the first accepting
    rule that test packets can reach. A rule that certainly matches comes before one that may not.

    Parameters
    ----------
    path:
        The base chains in the order in which a packet traverses them.
    wishes:
        The best wish first.
    name:
        The rule in the user's words, see :func:`weirlab.rules.naming.find`. It may also drop packets.
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
        found = (_reach(walker, wish, wanted, doubt) for doubt, wish in itertools.product(Doubt, wishes))
        yield from _some(found, lambda: f"{source}: {wanted} ({text(wanted)}) {why(walker, wishes, wanted)}")
        return
    candidates = _accepting(path)
    search = _busiest if any(place.packets for place in candidates) else _first

    def refusal() -> str:
        listed = candidates[:MAX_REASONS]
        reasons = [f"{place} ({text(place)}) {why(walker, wishes, place)}" for place in listed]
        ends = f"it ends at the {last(walker, wishes[0][0])}"
        return f"{source}: no rule accepts test traffic: {'; '.join([*reasons, ends])}"

    yield from _some(search(walker, wishes, candidates), refusal)


def connecting(path: Sequence[Ruleset], wishes: Sequence[Wish], name: str) -> list[Wish]:
    """Those of ``wishes``, in any state of their connection, that fit what the rule ``name`` matches."""
    cases = [replace(case, states=ALL_STATES) for case in Walker(path).cases(find(path, name))]
    return [
        (narrowed(possible, case), narrowed(preferred(possible, usual, case, ()), case))
        for case, (possible, usual) in itertools.product(cases[:MAX_TRIED], wishes)
        if not misfit(possible, case)
    ]


def _some(found: Iterable[Aim | None], refusal: Callable[[], str]) -> Iterator[Aim]:
    """Those that are not None; ``InputError`` if there are none."""
    some = False
    for each in found:
        if each is not None:
            some = True
            yield each
    if not some:
        raise InputError(refusal())


def accepted(path: Sequence[Ruleset], packets: PacketSet, what: str, source: str) -> Aim:
    """The ``packets`` that some rule or policy accepts; raises ``InputError`` if there are none.

    ``what`` is their name in the message.
    """
    walker = Walker(path)
    for doubt in (Doubt.NONE, Doubt.ANYWHERE):
        for passage in walker.passages(packets, doubt=doubt):
            if passage.accepted:
                return _aimed(passage, None)
    end = last(walker, packets)
    raise InputError(f"{source}: {what} would end at the {end} ({text(end)})")


def _accepting(path: Sequence[Ruleset]) -> list[VerdictPlace]:
    """Accepting rules, those with most packets first, then in the order of walking."""
    return sorted((place for place in places(path) if place.accepts), key=lambda place: -place.packets)


def _busiest(
    walker: Walker, wishes: Sequence[Wish], candidates: Sequence[VerdictPlace]
) -> Iterator[Aim | None]:
    """Packets for the rules that counted most, whatever their protocol."""
    busiest = candidates[0]
    for doubt, wanted, wish in itertools.product(Doubt, _tried(walker, wishes, candidates), wishes):
        if found := _reach(walker, wish, wanted, doubt):
            if wanted.is_at(busiest):
                yield replace(found, reason="the rule that counted most packets")
            else:
                yield replace(found, reason=_passed_over(walker, wishes, busiest, doubt))
    for doubt, wish in itertools.product(Doubt, wishes):
        if found := _reach(walker, wish, None, doubt):
            yield replace(found, reason=_passed_over(walker, wishes, busiest, doubt))


def _first(
    walker: Walker, wishes: Sequence[Wish], candidates: Sequence[VerdictPlace]
) -> Iterator[Aim | None]:
    """The usual packets if they are accepted; then those for the first rules that they can reach."""
    uncounted = "no rule that accepts has counted packets"
    for wish in wishes:
        if found := _usual(walker, wish):
            yield replace(found, reason=f"{uncounted}; this one accepts the usual test traffic")
    first = f"{uncounted}; this is the first that test traffic reaches"
    for doubt, wish, wanted in itertools.product(Doubt, wishes, _tried(walker, wishes, candidates)):
        if found := _reach(walker, wish, wanted, doubt):
            yield replace(found, reason=first)
    for doubt, wish in itertools.product(Doubt, wishes):
        if found := _reach(walker, wish, None, doubt):
            yield replace(found, reason=first)


def _tried(walker: Walker, wishes: Sequence[Wish], candidates: Sequence[VerdictPlace]) -> list[VerdictPlace]:
    """The first of ``candidates`` that match some of the packets."""
    some = (
        place
        for place in candidates
        if any(not misfit(possible, case) for case in walker.cases(place) for possible, _ in wishes)
    )
    return list(itertools.islice(some, MAX_TRIED))


def _passed_over(walker: Walker, wishes: Sequence[Wish], busiest: VerdictPlace, doubt: Doubt) -> str:
    """Why packets that reach another rule with ``doubt`` do not reach the busiest one."""
    uncertain = any(_reach(walker, wish, busiest, more) for more in Doubt if more > doubt for wish in wishes)
    reason = "may or may not match" if uncertain else why(walker, wishes, busiest)
    return f"{busiest}, which counted most packets, {reason}"


def _usual(walker: Walker, wish: Wish) -> Aim | None:
    """The usual packets, if all of them are accepted."""
    start = replace(wish[1], **{side: getattr(wish[1], side)[:1] for side in SIDES})
    passages = list(itertools.islice(walker.passages(start), 2))
    if len(passages) == 1 and passages[0].accepted:
        return _aimed(passages[0], None)
    return None


def _reach(walker: Walker, wish: Wish, wanted: VerdictPlace | None, doubt: Doubt) -> Aim | None:
    """Packets that reach ``wanted``, as few of their fields as possible differing from the usual ones."""
    for rule in walker.cases(wanted):
        # What all possible packets do not reach, no part of them does.
        found = _walk(walker, _start(wish, rule, FIELDS), wanted, doubt)
        if found is None:
            continue
        for few, freed in itertools.product((True, False), _FREED):
            if closer := _walk(walker, _start(wish, rule, freed, few=few), wanted, doubt):
                return closer
        return found
    return None


def _start(wish: Wish, rule: Match, freed: Sequence[str], *, few: bool = False) -> PacketSet | None:
    """Packets that ``rule`` matches, None if it matches none; ``few``: with one name for each interface."""
    some = preferred(*wish, rule, freed)
    if misfit(some, rule):
        return None
    some = between(some, rule)
    if few and some.interfaces:
        inward, outward = some.interfaces
        some = replace(some, inward=(inward,), outward=(outward,))
    return some if some.interfaces else None


def _walk(walker: Walker, start: PacketSet | None, wanted: VerdictPlace | None, doubt: Doubt) -> Aim | None:
    passages = () if start is None else walker.passages(start, wanted, doubt)
    return next((_aimed(passage, wanted) for passage in passages if passage.reaches(wanted)), None)


def _aimed(passage: WalkResult, wanted: VerdictPlace | None) -> Aim:
    met = [end for end in passage.ends if wanted is not None and end.is_at(wanted)]
    # If several base chains accept, one that does so by a rule, not its policy, says most.
    ruled = [end for end in passage.ends if end.rule is not None]
    place = (met or ruled or list(passage.ends))[-1]
    return Aim(passage.packets, place, passage.compared, doubts=passage.doubts)


def between_any(path: Sequence[Ruleset], wishes: Iterable[Wish]) -> list[Wish]:
    """``wishes`` between interfaces with any name that the rules tell apart."""
    return [(_with_names(path, possible), _with_names(path, usual)) for possible, usual in wishes]


def _with_names(path: Sequence[Ruleset], some: PacketSet) -> PacketSet:
    """``some`` between interfaces with any name that the rules tell apart: those that ``some`` has, every
    name that rules mention, and one that they do not."""
    matches = [
        rule.match for ruleset in path for chain in walked(ruleset) for rule in ruleset.chains[chain].rules
    ]
    sides: dict[str, Any] = {}
    for side in SIDES:
        mentioned = {each for match in matches if (each := getattr(match, side)) is not None}
        prefixes = tuple(prefix for each in mentioned for prefix in each.prefixes if prefix)
        names = {name for each in mentioned for name in each.names}
        fresh = (f"{letter}weir0" for letter in ("", *string.ascii_lowercase))
        other = next((each for each in fresh if each not in names and not each.startswith(prefixes)), None)
        listed = [*getattr(some, side), *sorted(names), *map(instance, sorted(prefixes)), other]
        fitting = [each for each in listed if each and each != "lo" and len(each) <= MAX_NAME]
        sides[side] = tuple(dict.fromkeys(fitting))
    return replace(some, **sides)


def instance(prefix: str) -> str:
    """A name that begins so."""
    return prefix[:MAX_NAME] if len(prefix) >= MAX_NAME else f"{prefix}0"
