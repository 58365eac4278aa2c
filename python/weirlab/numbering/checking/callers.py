"""What telephones cannot dial, and what callers reach that they should not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from weirlab.numbering.checking.findings import PlanFinding, line, named, warning
from weirlab.numbering.checking.routes import can_walk, example, planned
from weirlab.numbering.configs import parts
from weirlab.numbering.plan.values import MOST_SHORT_DIGITS
from weirlab.numbering.routing import PlanNetwork, wording
from weirlab.numbering.routing.calls import Arrival, arrivals, calls
from weirlab.numbering.routing.wording import CallRoute

_MOST_NUMBERS: Final = 200
"""Numbers whose calls a check traces; in a plan with many routes, the first ones."""
_MOST_WAYS: Final = 8


def telephones(network: PlanNetwork) -> dict[str, list[str]]:
    """Endpoints with a home, by the first one with the same organisation, home and protocols."""
    found: dict[tuple[object, ...], list[str]] = {}
    for name, engine in network.plan.engines.items():
        if engine.kind == "endpoint" and engine.home is not None:
            found.setdefault((engine.organisation, engine.home, engine.speaks), []).append(name)
    return {names[0]: names for names in found.values()}


def numbers(network: PlanNetwork) -> list[str]:
    """The test numbers, then one for each route and each prefix of a tree, as far as checks trace them."""
    found = dict.fromkeys(test.number for test in network.plan.tests)
    tables = [*network.routes.values(), *(tree.prefixes for tree in network.trees.values())]
    examples = (
        example(network, prefix, prefixes.free_continuation(prefix))
        for prefixes in tables
        for prefix in prefixes
    )
    return [*dict.fromkeys((*found, *filter(None, islice(examples, _MOST_NUMBERS))))][:_MOST_NUMBERS]


def short_numbers(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Every telephone can dial the emergency numbers, and the short numbers that its organisation tests."""
    if not can_walk(network) or network.scope is not None:
        return
    plan, groups = network.plan, telephones(network)
    tested = {test.number for test in plan.tests if test.answer == 200}
    for number in dict.fromkeys(plan.emergency):
        ways = {name: planned(network, number, name) for name in groups}
        if "emergency" in plan.model_fields_set or number in tested:
            yield from _not_dialled(network, number, ways, groups)
    for test in plan.tests:
        is_short = len(test.number) <= MOST_SHORT_DIGITS and not test.number.startswith("+")
        if is_short and test.number in tested.difference(plan.emergency):
            owner = plan.engines[test.caller or plan.caller].organisation
            own = [name for name in groups if plan.engines[name].organisation == owner]
            ways = {name: planned(network, test.number, name) for name in own}
            yield from _not_dialled(network, test.number, ways, groups)


def _not_dialled(
    network: PlanNetwork, number: str, ways: dict[str, CallRoute], groups: dict[str, list[str]]
) -> Iterator[PlanFinding]:
    demanded = {
        test.caller or network.plan.caller
        for test in network.plan.tests
        if test.number == number and test.answer != 200
    }
    for name, way in ways.items():
        # A telephone that its home does not admit makes no calls at all.
        is_stranger = way.end.kind == "not admitted" and way.end.engine == network.plan.engines[name].home
        legs = (step for step in way.steps if step.what == "leg")
        mistaken = next((step.engine for step in legs if step.facts["number"] == f"+{number}"), None)
        if (way.end.good and mistaken is None) or is_stranger or name in demanded:
            continue
        why = wording.end(way.end) if mistaken is None else f"{mistaken} takes it for +{number}"
        yield warning(
            "cannot dial",
            network.book.at("engines", name),
            f"{number} cannot be dialled from {named(groups[name])}: {why}",
            f"add a rewrite rule to {mistaken}" if mistaken else _cure(network, number, name, way),
        )


def _cure(network: PlanNetwork, number: str, caller: str, way: CallRoute) -> str:
    at, last = way.end.engine, way.steps[-1]
    reached = str(last.facts.get("number", last.number))
    match way.end.kind:
        case "no number":
            return wording.cure(way)
        case "barred":
            prefix = f"+{reached.removeprefix('+')}"
            return _permit(network, network.plan.engines[caller].organisation or "", prefix)
        case "no route" if reached.startswith("+"):
            return f'add a route for "{reached}" at {at}'
        case "no route":
            return f'add a route for "+" at {at} to a gateway with a rewrite rule for {number}'
    return f"see {network.command('route', number, '--caller', caller)}"


def _permit(network: PlanNetwork, organisation: str, prefix: str) -> str:
    """What lets its callers call ``prefix``, and no less than before."""
    if prefix in network.plan.organisations[organisation].barred:
        return f'take "{prefix}" out of barred of {organisation}'
    if network.plan.organisations[organisation].may_call is not None:
        return f'add "{prefix}" to may_call of {organisation}'
    return f'give {organisation} may_call: ["+", "{prefix}"]; "+" keeps all other numbers that are not barred'


def own_numbers(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Callers may call the numbers of their own organisation."""
    calling = {each.organisation for each in network.plan.engines.values() if each.home is not None}
    for i, range_ in network.each_range():
        if range_.owner in calling and not network.may_call(range_.owner, range_.prefix[1:]):
            yield warning(
                "barred",
                network.book.at("organisations", range_.owner),
                f"callers of {range_.owner} may not call {range_.prefix}..., their own range in "
                f"{line(network.book.at('ranges', i))}",
                f"bar a longer prefix, or {_permit(network, range_.owner, range_.prefix)}",
            )


def relays(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Calls of other organisations do not go on to a carrier, unless the engine's organisation names them."""
    plan = network.plan
    if not can_walk(network) or network.scope is not None or not plan.ranges:
        return
    reached: dict[str, dict[str, None]] = {}
    tried = numbers(network)
    for name in telephones(network):
        caller = plan.engines[name]
        for way in (way for number in tried for way in islice(calls(network, number, name), 1)):
            for at in way.engines[2:]:
                owner = plan.engines[at].organisation
                by_all = owner is not None and plan.organisations[owner].admits is None
                if by_all and caller.organisation not in (None, owner) and plan.engines[at].kind == "proxy":
                    reached.setdefault(at, {})[caller.organisation or ""] = None
    for at, organisations in reached.items():
        for number in (number for number in tried if number.startswith("+")):
            if (carrier := _carrier(network, at, number, set(organisations))) is not None:
                owner = plan.engines[at].organisation
                yield warning(
                    "open relay",
                    network.book.at("engines", at),
                    f"{owner} admits everybody, calls of {named(organisations)} reach {at}, and {at} sends "
                    f"those to {number} on to {carrier}",
                    f"let another proxy, which they do not reach, lead to {carrier}; if {owner} carries "
                    "their calls, list them under its admits",
                )
                break


def _carrier(network: PlanNetwork, at: str, number: str, organisations: set[str]) -> str | None:
    """The endpoint of others that answers ``number`` after ``at`` although it is not its owner's."""
    own = {network.plan.engines[at].organisation, *organisations}
    for way in islice(arrivals(network, Arrival(at, number, "sip", None, None)), 1):
        carrier = network.plan.engines[way.end.engine].organisation
        owner = network.owner(number.removeprefix("+"))
        if way.end.kind == "answered" and carrier is not None and carrier not in own and carrier != owner:
            return way.end.engine
    return None


def forwarding(network: PlanNetwork) -> Iterator[PlanFinding]:
    """No endpoint forwards calls to a number that callers may not call: ``barred`` does not stop them."""
    if not can_walk(network):
        return
    plan = network.plan
    for name, engine in plan.engines.items():
        if engine.forwards_to is None:
            continue
        digits = engine.forwards_to[1:]
        barred = [each for each in plan.organisations if not network.may_call(each, digits)]
        for at in parts.feeders(network, name) if barred else ():
            again = Arrival(at, engine.forwards_to, "sip", None, None)
            ends = [way.end for way in islice(arrivals(network, again), _MOST_WAYS) if way.end.good]
            # The announcement of whoever runs the engine costs nobody anything.
            if any(plan.engines[end.engine].organisation != plan.engines[at].organisation for end in ends):
                yield warning(
                    "forwards past",
                    network.book.at("engines", name, "forwards_to"),
                    f"{at} sends calls that {name} forwards on to {engine.forwards_to}, which callers of "
                    f"{named(barred)} may not call: barred and may_call do not apply to forwarding",
                    f"let {name} forward elsewhere, or route the number at {at} to an announcement",
                )
                break
