"""What telephones cannot dial, and what callers reach that they should not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from weirlab.numbering.checking.findings import PlanFinding, line, named, warning
from weirlab.numbering.checking.routes import can_walk, example, planned
from weirlab.numbering.configs import parts
from weirlab.numbering.plan.values import MOST_SHORT_DIGITS
from weirlab.numbering.routing import PlanNetwork, wording
from weirlab.numbering.routing.calls import Arrival, arrivals
from weirlab.numbering.routing.wording import CallRoute, RouteStep
from weirlab.scenario.document import Location

_MOST_WAYS: Final = 8


def telephones(network: PlanNetwork) -> dict[str, list[str]]:
    """Endpoints with a home, by the first one with the same organisation, home and protocols."""
    found: dict[tuple[object, ...], list[str]] = {}
    for name, engine in network.plan.engines.items():
        if engine.kind == "endpoint" and engine.home is not None:
            found.setdefault((engine.organisation, engine.home, engine.speaks), []).append(name)
    return {names[0]: names for names in found.values()}


def short_numbers(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Telephones can dial the emergency numbers, and the short numbers that their organisation tests."""
    if not can_walk(network) or network.scope is not None:
        return
    plan, groups = network.plan, telephones(network)
    covered = emergency_coverage(network)
    for number in covered.numbers:
        ways = {name: planned(network, number, name) for name in covered.telephones}
        yield from _not_dialled(network, number, ways, groups)
    yield from _kept_inside(network, covered, groups)
    testing: dict[str, set[str | None]] = {}
    for test in plan.tests:
        owners = testing.setdefault(test.number, set())
        if test.answer == 200:
            owners.add(plan.engines[test.caller or plan.caller].organisation)
    for number in dict.fromkeys((*plan.emergency, *testing)):
        owners = testing.get(number, set())
        if number in plan.emergency:
            continue
        if len(number) > MOST_SHORT_DIGITS or number.startswith("+"):
            continue
        own = [name for name in groups if plan.engines[name].organisation in owners]
        yield from _not_dialled(
            network, number, {name: planned(network, number, name) for name in own}, groups
        )


@dataclass(frozen=True)
class EmergencyCoverage:
    """Emergency numbers that are tried, and the telephones from which they are, and are not."""

    numbers: tuple[str, ...]
    telephones: tuple[str, ...]
    """The first of those that are alike."""
    left_out: tuple[str, ...]
    """Peers and trunks: their home is another organisation's, or no call of theirs leaves it."""


def emergency_coverage(network: PlanNetwork) -> EmergencyCoverage:
    """Every telephone of the plan should be able to dial the emergency numbers; peers and trunks need not."""
    plan = network.plan
    dialled = {test.number for test in plan.tests if test.answer == 200}
    listed = "emergency" in plan.model_fields_set
    numbers = tuple(dict.fromkeys(each for each in plan.emergency if listed or each in dialled))
    if not numbers or not can_walk(network):
        return EmergencyCoverage((), (), ())
    calling = {test.caller or plan.caller for test in plan.tests if test.number in numbers} | {plan.caller}
    owners = {plan.engines[name].organisation for name in calling}
    within, left_out = [], []
    for name, names in telephones(network).items():
        engine = plan.engines[name]
        home = plan.engines[engine.home or ""]
        is_own = engine.organisation in owners or (
            engine.organisation == home.organisation and _leads_out(network, name)
        )
        if is_own:
            within.append(name)
        else:
            left_out += names
    return EmergencyCoverage(numbers, tuple(within), tuple(left_out))


def _leads_out(network: PlanNetwork, name: str) -> bool:
    """Can a telephone call others than those of its organisation?"""
    plan = network.plan
    for prefix in dict.fromkeys(route.prefix[1:] for route in plan.routes if route.holds(network.day)):
        number = example(network, prefix, "" if prefix else "1")
        way = planned(network, number, name) if number is not None else None
        if way is not None and way.end.good:
            other = plan.engines[way.end.engine].organisation
            if way.end.kind == "external" or other != plan.engines[name].organisation:
                return True
    return False


def _kept_inside(
    network: PlanNetwork, covered: EmergencyCoverage, groups: dict[str, list[str]]
) -> Iterator[PlanFinding]:
    """No emergency number ends at a telephone of the caller's own network while others leave it."""
    plan = network.plan
    meant = {(test.number, test.ends_at) for test in plan.tests if test.ends_at is not None}
    own = {plan.engines[name].organisation for name in covered.telephones}
    found: dict[tuple[str, str, Location], list[str]] = {}
    for name in covered.telephones:
        ends = {number: planned(network, number, name) for number in covered.numbers}
        inside = [
            number
            for number, way in ends.items()
            if way.end.kind == "answered" and plan.engines[way.end.engine].organisation in own
        ]
        leaving = [number for number, way in ends.items() if way.end.good and number not in inside]
        for number in inside if leaving else ():
            sending = [each for each in ends[number].steps if each.what in ("prefix", "record", "leg")]
            key = (number, ends[number].end.engine, sending[-1].place[:2])
            if key[:2] not in meant:
                found.setdefault(key, []).extend(groups[name])
    for (number, end, place), names in found.items():
        yield warning(
            "emergency stays",
            network.book.at(*place),
            f"{number} from {named(names)} ends at {end}, while other emergency numbers leave the network",
            f"send it where the others go; if {end} should answer, add a test with ends_at: {end}",
        )


def _not_dialled(
    network: PlanNetwork, number: str, ways: dict[str, CallRoute], groups: dict[str, list[str]]
) -> Iterator[PlanFinding]:
    demanded = {
        test.caller or network.plan.caller
        for test in network.plan.tests
        if test.number == number and test.answer != 200
    }
    found: dict[str, tuple[str, list[str]]] = {}
    for name, way in ways.items():
        # A telephone that its home does not admit makes no calls at all.
        is_stranger = way.end.kind == "not admitted" and way.end.engine == network.plan.engines[name].home
        legs = (step for step in way.steps if step.what == "leg")
        mistaken = next((step.engine for step in legs if step.facts["number"] == f"+{number}"), None)
        if (way.end.good and mistaken is None) or is_stranger or name in demanded:
            continue
        why = wording.end(way.end) if mistaken is None else f"{mistaken} takes it for +{number}"
        if any(step.what == "unusable rule" for step in way.steps):
            continue  # The check of rewrites reports this.
        cure = f"add a rewrite rule to {mistaken}" if mistaken else _cure(network, number, name, way)
        found.setdefault(cure, (why, []))[1].extend(groups[name])
    if found:
        first, *_ = (names for _, names in found.values())
        yield warning(
            "cannot dial",
            network.book.at("engines", first[0]),
            f"{number} cannot be dialled from "
            + "; nor from ".join(f"{named(names)}: {why}" for why, names in found.values()),
            "; ".join(found),
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


def past_bars(network: PlanNetwork) -> Iterator[PlanFinding]:
    """No telephone reaches a barred number by another form of it, which an engine on the way changes."""
    if not can_walk(network) or network.scope is not None:
        return
    for name, alike in telephones(network).items():
        owner = network.plan.engines[name].organisation
        barred = network.plan.organisations[owner].barred if owner else ()
        begins = {prefix: _begins(network, owner or "", prefix) for prefix in barred}
        for i, prefix in enumerate(barred):
            before = [*barred[:i], *(other for other in barred[i:] if other not in begins[prefix])]
            if any(prefix in begins[other] for other in before):
                continue  # It bars another form of a number whose own bar is checked.
            tried = ((begin, _passed(network, form, name)) for begin, form in begins[prefix].items())
            passing = {begin: call for begin, call in tried if call is not None}
            if not passing:
                continue
            begin, (changer, way) = next(iter(passing.items()))
            form, more = begins[prefix][begin], named(f'"{each}"' for each in passing)
            yield warning(
                "bar passed",
                network.book.at("organisations", owner or "", "barred", i),
                f"{prefix} is barred, but {named(alike)} can dial {form}: {changer.engine} makes "
                f"{changer.facts['number']} of it, and {way.end.engine} gets the call",
                f"bar {more}, too",
            )


def _begins(network: PlanNetwork, owner: str, prefix: str) -> dict[str, str]:
    """How forms of a barred number begin, as a bar has it, each with a whole one."""
    # No country code begins with 0: such a prefix bars another form of a number.
    more = network.permissions[owner].free_continuation(prefix[1:])
    number = None if prefix.startswith("+0") else example(network, prefix[1:], more)
    if number is None:
        return {}
    rest = number.removeprefix(prefix)
    return {f"+{form.removesuffix(rest).removeprefix('+')}": form for form in _forms(network, number)}


def _passed(network: PlanNetwork, form: str, name: str) -> tuple[RouteStep, CallRoute] | None:
    """The first leg with a barred number of a call that is answered nevertheless, and the call."""
    way = planned(network, form, name)
    owner = network.plan.engines[name].organisation
    legs = (leg for leg in way.legs if not network.may_call(owner, str(leg.facts["number"]).lstrip("+")))
    barred = next(legs, None)
    return None if barred is None or not way.end.good else (barred, way)


_BEGINS: Final = ("", "0", "00", "000", "9")
"""What people dial before a number, besides what rules say."""


def _forms(network: PlanNetwork, number: str) -> list[str]:
    """What to dial so that rewrite rules, or routes that strip digits, make ``number`` of it."""
    found = {number: None, number[1:]: None}
    # Two engines on the way can each change the number once.
    for _ in range(2):
        for known in [*found]:
            found.update(dict.fromkeys(_before(network, known)))
    return [*found]


def _before(network: PlanNetwork, number: str) -> Iterator[str]:
    """The numbers of which one engine makes ``number``."""
    for name, rules in network.rewrites.items():
        for rule, applied in zip(network.plan.engines[name].rewrite, rules, strict=True):
            front, _, rest = rule.replace.partition("\\1")
            own = re.match(r"\^\(?([0-9]+)", rule.match)
            if not rest and number.startswith(front) and "\\" not in front:
                tails = (
                    f"{begin}{number.removeprefix(front)}" for begin in (own[1] if own else "", *_BEGINS)
                )
                yield from (each for each in tails if applied.apply(each) == number)
    for _, route in network.each_route():
        if 0 < route.strip < len(route.prefix) and number[1:].startswith(route.prepend.removeprefix("+")):
            begin = route.prefix[: route.strip + 1]
            longer = f"{begin}{number[1:].removeprefix(route.prepend.removeprefix('+'))}"
            if longer.startswith(route.prefix):
                yield longer
