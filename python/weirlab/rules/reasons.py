"""Why test packets do not reach a rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from weirlab.rules.matching import Interface, Match
from weirlab.rules.packets import instance, misfit, narrowed
from weirlab.rules.passing import Place, Walker

_LOOKED_AT: Final = 20
_TOLD: Final = 3

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


def why(walker: Walker, wishes: Sequence[tuple[Match, Match]], wanted: Place) -> str:
    """Why ``wanted`` accepts no packets of ``wishes`` (possible and usual), in words that follow its name."""
    if not wanted.accepts:
        jump = wanted.rule.jump if wanted.rule else None
        if jump:
            return f"does not accept: it jumps to {jump}"
        if not wanted.verdict:
            return "does not accept: it has no verdict"
        return f"does not accept: its verdict is {wanted.verdict.lower()}"
    if wanted.rule is None:
        return f"is never reached: an earlier rule decides, {last(walker, wishes[0][0], wanted)}"
    rule = wanted.rule.match
    at = [_between(wish, rule) for wish, _ in wishes]
    fitting = [some for some in at if not misfit(some, rule)]
    if not fitting:
        found = misfit(at[0], rule)
        if found == "state":
            return (
                f"matches packets in the state {' or '.join(sorted(rule.states))}; nothing answers "
                "test traffic, so connection tracking sees it as NEW"
            )
        return _MISFITS[found]
    ends = dict.fromkeys(str(end) for end in _ends(walker, narrowed(fitting[0], rule), wanted))
    if not ends:
        return "is never reached: forwarded packets do not get there"
    return f"is never reached: an earlier rule decides, {', '.join(itertools.islice(ends, _TOLD))}"


def last(walker: Walker, packets: Match, wanted: Place | None = None) -> Place:
    """Where packets end if they are not accepted at ``wanted``."""
    return next(_ends(walker, packets, wanted))


def _between(some: Match, rule: Match) -> Match:
    """``some`` between the interfaces that ``rule`` matches."""
    return replace(
        some, inward=_asked(rule.inward) or some.inward, outward=_asked(rule.outward) or some.outward
    )


def _asked(interface: Interface | None) -> Interface | None:
    if interface is None or interface.inverted or interface.name == "lo":
        return None
    return Interface(instance(interface))


def _ends(walker: Walker, packets: Match, wanted: Place | None) -> Iterator[Place]:
    for passage in itertools.islice(walker.passages(packets, wanted, doubtful=True), _LOOKED_AT):
        if not passage.reaches(wanted):
            yield passage.ends[-1]
