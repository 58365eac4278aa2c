"""What no call of a proof shows: numbers, telephones and routes that it leaves out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weirlab.base.quantities import words
from weirlab.numbering.checking.callers import emergency_coverage, telephones
from weirlab.numbering.proof.ways import ProofCall
from weirlab.numbering.routing import PlanNetwork

_MOST = 8


def not_called(network: PlanNetwork, calls: Sequence[ProofCall]) -> Iterator[str]:
    """Emergency numbers by home, telephones, and routes by line that no call has, as phrases."""
    plan = network.plan
    made = [call for call in calls if not call.impossible]
    dialled = {(call.test.number, plan.engines[call.caller].home) for call in made}
    groups, covered = telephones(network), emergency_coverage(network)
    homes = dict.fromkeys(plan.engines[name].home or "" for name in covered.telephones)
    undialled: dict[str, list[str]] = {}
    for number in covered.numbers:
        if missing := [home for home in homes if (number, home) not in dialled]:
            where = "any telephone" if len(missing) == len(homes) else f"telephones at {words(missing)}"
            undialled.setdefault(where, []).append(number)
    yield from (f"{words(numbers)} from {where}" for where, numbers in undialled.items())
    calling = {call.caller for call in made}
    if silent := [name for names in groups.values() for name in names if name not in calling]:
        yield f"calls by {words(silent, most=_MOST)}"
    used = {step.place[1] for call in made for step in call.way.steps if step.place[:1] == ("routes",)}
    unused = (i for i, route in enumerate(plan.routes) if route.holds(network.day) and i not in used)
    if lines := [network.book.at("routes", i).rpartition(":")[2] for i in unused]:
        yield f"routes in {'line' if len(lines) == 1 else 'lines'} {words(lines, most=_MOST)}"
