"""Why test packets do not reach a rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from weirlab.rules.packets import PacketSet, misfit, narrowed
from weirlab.rules.passing import Doubt, VerdictPlace, Walker

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
            return (
                f"matches packets in the state {' or '.join(sorted(rule.states))}; nothing answers "
                "test traffic, so connection tracking sees it as NEW"
            )
        return _MISFITS[found]
    ends = dict.fromkeys(str(end) for end in _ends(walker, narrowed(fitting[0], rule), wanted))
    if not ends:
        return "is not reached: forwarded packets do not get there"
    return f"{_UNREACHED}, {', '.join(itertools.islice(ends, _SHOWN))}"


def last(walker: Walker, packets: PacketSet, wanted: VerdictPlace | None = None) -> VerdictPlace:
    """Where packets end if they do not reach ``wanted``."""
    return next(_ends(walker, packets, wanted))


def _ends(walker: Walker, packets: PacketSet, wanted: VerdictPlace | None) -> Iterator[VerdictPlace]:
    passages = walker.passages(packets, wanted, Doubt.ANYWHERE)
    for passage in itertools.islice(passages, _LOOKED_AT):
        if passage.ends and not passage.reaches(wanted):
            yield passage.ends[-1]
