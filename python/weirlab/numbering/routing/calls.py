"""Traces calls through a network, by every way that they can take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from weirlab.base.errors import InputError
from weirlab.numbering.ere import TAIL, BadExpression, MissingDigits, Substitution
from weirlab.numbering.plan.model import Engine, EnumEntry, Naptr, PlanRoute
from weirlab.numbering.plan.values import Protocol, digits_below, owner_name
from weirlab.numbering.routing import PlanNetwork, profiles
from weirlab.numbering.routing.profiles import SCHEMES, Uri, leads_to
from weirlab.numbering.routing.wording import CallRoute, EndKind, RouteEnd, RouteStep, What
from weirlab.scenario.document import Location

MOST_HOPS: Final = 10
"""Most engines on a way: what a proxy allows by Max-Forwards."""

MOST_WAYS: Final = 32


class Arrival(NamedTuple):
    """A call that reaches an engine."""

    engine: str
    number: str
    arriving: Protocol
    offer: tuple[str, ...] | None
    """Codecs offered, the preferred one first; None if unknown."""
    organisation: str | None
    """The organisation of the caller."""
    sender: str | None = None
    """Whose address the call comes from: in direct mode, gatekeepers pass no calls on; None if unknown."""
    steps: tuple[RouteStep, ...] = ()
    been: tuple[tuple[str, str, str], ...] = ()
    """Engine, number and protocol of the earlier arrivals."""
    offered: tuple[str, ...] | None = None
    """Codecs offered to the previous engine."""
    meanwhile: int = 0
    """Calls that the caller already has."""
    dipped: bool = False
    """Has a tree said where a ported number is routed? Then no tree is asked again."""

    def then(self, *steps: RouteStep) -> Arrival:
        """With further steps."""
        return self._replace(steps=(*self.steps, *steps))

    def step(self, what: What, place: Location = (), **facts: object) -> RouteStep:
        return RouteStep(what, self.engine, self.number, place, facts)

    def end(self, kind: EndKind, place: Location = (), **facts: object) -> CallRoute:
        return CallRoute(self.steps, RouteEnd(kind, self.engine, facts, place))


def calls(
    network: PlanNetwork, dialled: str, caller: str | None = None, meanwhile: int = 0
) -> Iterator[CallRoute]:
    """Every way of a call to ``dialled`` by the endpoint ``caller``, the planned one first.

    ``meanwhile`` is how many calls the caller already has.

    Raises
    ------
    InputError
        The caller is not an endpoint with a home.
    """
    name = caller or network.plan.caller
    endpoint = network.plan.engines.get(name)
    if endpoint is None:
        raise InputError(f"there is no engine {name!r}; there are {', '.join(network.plan.engines)}")
    if endpoint.home is None:
        place = network.book.at("engines", name)
        raise InputError(f"{place}: {name} has no home: set home: to the engine that routes its calls")
    offer = endpoint.codecs or None
    begin = Arrival(name, dialled, endpoint.speaks[0], offer, endpoint.organisation, meanwhile=meanwhile)
    begin = begin.then(begin.step("dialled", ("engines", name, "home"), home=endpoint.home))
    yield from _leg(network, begin, endpoint.home, dialled, None, ("engines", name, "home"))


def arrivals(network: PlanNetwork, arrival: Arrival) -> Iterator[CallRoute]:
    """Every way of a call after its arrival at an engine."""
    engine = network.plan.engines[arrival.engine]
    here = (arrival.engine, arrival.number, arrival.arriving)
    if here in arrival.been or len(arrival.been) >= MOST_HOPS:
        yield arrival.end("loop", engines=(*(name for name, _, _ in arrival.been), arrival.engine))
        return
    arrival = arrival._replace(been=(*arrival.been, here))
    if engine.kind == "endpoint":
        if engine.forwards_to is not None and len(arrival.been) > 1:
            yield from _forwarded(network, arrival, engine.forwards_to)
        else:
            yield arrival.end("answered")
        return
    organisation = network.plan.engines[arrival.sender].organisation if arrival.sender else None
    if not network.admits(engine, organisation):
        yield arrival.end("not admitted", network.admission(arrival.engine), organisation=organisation)
        return
    arrival = _rewritten(network, arrival._replace(number=profiles.number_of(arrival.number)))
    digits = arrival.number.removeprefix("+")
    if not profiles.can_be_routed(arrival.number, arrival.arriving):
        yield arrival.end("no number", number=arrival.number)
        return
    if engine.kind == "gateway":
        arrival = arrival._replace(number=f"+{digits}")
    place: Location = ("organisations", arrival.organisation or "")
    if len(arrival.been) == 1 and not network.may_call(arrival.organisation, digits):
        yield arrival.end("barred", place, organisation=arrival.organisation)
        return
    most = network.most_calls(arrival.organisation)
    full = len(arrival.been) == 1 and most is not None and arrival.meanwhile >= most
    if full and digits not in emergency(network, arrival.engine, arrival.arriving):
        facts = {"organisation": arrival.organisation, "most": most}
        yield arrival.end("too many calls", (*place, "most_calls"), **facts)
        return
    yield from _decided(network, arrival, engine)


def emergency(network: PlanNetwork, engine: str, arriving: Protocol) -> tuple[str, ...]:
    """The digits that emergency numbers become at an engine; calls to them count towards no limit."""
    dialled = (Arrival(engine, number, arriving, None, None) for number in network.plan.emergency)
    found = [_rewritten(network, each).number for each in dialled]
    return tuple({each.removeprefix("+"): None for each in found if profiles.can_be_routed(each, arriving)})


def _forwarded(network: PlanNetwork, arrival: Arrival, number: str) -> Iterator[CallRoute]:
    """The previous engine routes the call again, to the number to which the endpoint forwards."""
    by, _, arriving = arrival.been[-2]
    place: Location = ("engines", arrival.engine, "forwards_to")
    told = arrival.then(arrival.step("forwarded", place, to=number, by=by))
    here = (by, number, arriving)
    if here in arrival.been or len(arrival.been) >= MOST_HOPS:
        yield told.end("loop", engines=(*(name for name, _, _ in arrival.been), by))
        return
    again = told._replace(engine=by, number=number, offer=arrival.offered, been=(*told.been, here))
    yield from _decided(network, again, network.plan.engines[by])


def _rewritten(network: PlanNetwork, arrival: Arrival) -> Arrival:
    engine = network.plan.engines[arrival.engine]
    for index, rule in enumerate(network.rewrites[arrival.engine]):
        dialled, number = arrival.number, profiles.exact(engine.rewrite[index])
        if number and arrival.arriving == "mgcp" and number[0] in network.plan.emergency:
            # A line dials digit by digit: an emergency number is complete, whatever follows.
            dialled = number[0] if dialled.startswith(number[0]) else dialled
        after = rule.apply(dialled)
        if after is not None:
            place: Location = ("engines", arrival.engine, "rewrite", index)
            if limit := profiles.rewrite_limit(engine, engine.rewrite[index]):
                facts = {"rule": rule.pattern.text, "why": limit}
                arrival = arrival.then(arrival.step("unusable rule", place, **facts))
                continue
            changed = arrival._replace(number=after)
            facts = {"before": arrival.number, "rule": rule.pattern.text}
            return changed.then(changed.step("rewritten", place, **facts))
    return arrival


def _decided(network: PlanNetwork, arrival: Arrival, engine: Engine) -> Iterator[CallRoute]:
    """The ways by a route, otherwise by the trees in their order, then by a route after them."""
    digits = arrival.number.removeprefix("+")
    found = network.route(arrival.engine, arrival.arriving, digits)
    if found is not None:
        yield from _by_route(network, arrival, engine, found[1])
        return
    last = network.route(arrival.engine, arrival.arriving, digits, after_trees=True)
    if last is not None and profiles.after_limit(engine, network.plan.routes[last[1]]):
        last = None
    arrival = arrival.then(arrival.step("no prefix"))
    trees = engine.trees if profiles.asks_trees(engine, digits) and not arrival.dipped else ()
    for name in trees:
        index = network.trees[name].lookup(digits)
        asked = owner_name(digits, network.plan.trees[name].suffix) if TAIL not in digits else ""
        if index is None:
            tree = network.plan.trees[name]
            # Of a delegated zone, the plan does not have the rest of the tree.
            inside = digits.startswith(digits_below(tree.origin, tree.suffix) or "")
            zone = {} if inside else {"outside": tree.origin}
            arrival = arrival.then(arrival.step("no entry", ("trees", name), tree=name, asked=asked, **zone))
            continue
        entry = network.plan.enum[index]
        facts = {"tree": name, "asked": asked, "key": entry.key, "entry": entry.number or entry.prefix}
        arrival = arrival.then(arrival.step("tree", ("enum", index), **facts))
        ways, arrival = _by_records(network, arrival, engine, index, entry)
        if ways:
            if last is not None:
                ways.append(_by_route(network, arrival, engine, last[1]))
            yield from _tried(engine, ways, by_record=True)
            return
    if last is not None:
        yield from _by_route(network, arrival, engine, last[1])
        return
    # Routes may hold for one protocol of several.
    by = arrival.arriving if len(engine.speaks) > 1 else None
    yield arrival.end("no route", trees=trees, by=by)


def _by_route(network: PlanNetwork, arrival: Arrival, engine: Engine, index: int) -> Iterator[CallRoute]:
    """The ways to the targets of a route."""
    route = network.plan.routes[index]
    place: Location = ("routes", index)
    facts = {"prefix": route.prefix, "to": route.to, "after_trees": route.after_trees}
    arrival = arrival.then(arrival.step("prefix", place, **facts))
    leaving = _changed(arrival.number, route)
    if leaving in ("", "+"):
        yield arrival.end("no digits", place, strip=route.strip)
        return
    yield from _tried(
        engine,
        (
            _leg(network, arrival, target, leaving, route.by, (*place, "to", rank))
            for rank, target in enumerate(route.to)
        ),
    )


def _tried(
    engine: Engine, targets: Iterable[Iterator[CallRoute]], *, by_record: bool = False
) -> Iterator[CallRoute]:
    """The ways by one target after the other, until one gives an answer that ``engine`` passes on.

    A gatekeeper names the first record that has an address, and does not learn how the call ends.
    """
    for ways in targets:
        last = None
        for last in ways:
            yield last
        if last is not None and not last.end.good and not profiles.falls_back(engine, last.answer):
            return
        if by_record and engine.kind == "gatekeeper" and last is not None and last.end.kind != "no address":
            return


def _changed(number: str, route: PlanRoute) -> str:
    """``number`` after the route's ``strip`` and ``prepend``."""
    if not route.strip and not route.prepend:
        return number
    digits = number.removeprefix("+")
    known, tail, rest = digits.partition(TAIL)
    if tail and len(known) < route.strip:
        # Which digits are stripped is known only once there are enough of them.
        raise MissingDigits(frozenset("0123456789").difference(rest))
    plus = "+" if digits != number else ""
    return f"{plus}{route.prepend.removeprefix('+')}{known[route.strip :]}{tail}{rest}"


def _by_records(
    network: PlanNetwork, arrival: Arrival, engine: Engine, index: int, entry: EnumEntry
) -> tuple[list[Iterator[CallRoute]], Arrival]:
    """The ways by the usable records of an entry, and the arrival with the steps of the others."""
    ways: list[Iterator[CallRoute]] = []
    seen = arrival
    for rank, record in in_order(entry):
        place: Location = ("enum", index, "naptr", rank)
        facts = {
            "tree": entry.tree,
            "order": record.order,
            "preference": record.preference,
            "service": record.service,
        }
        if record.refer is not None:
            asked = owner_name(entry.digits, network.plan.trees[record.refer].suffix)
            told = seen.then(seen.step("referred", place, **facts, to=record.refer, asked=asked))
            other = network.trees[record.refer].lookup(entry.digits)
            if other is not None and not ways and not any(step.what == "referred" for step in seen.steps):
                return _by_records(network, told, engine, other, network.plan.enum[other])
            if ways:
                why = "an earlier record can be used"
            elif other is None:
                why = f"tree {record.refer} has no entry for the number"
            else:
                why = "an earlier record already refers to a tree"
            seen = seen.then(seen.step("unusable record", place, **facts, uri=None, why=why))
            # A call that follows it does not come back.
            break
        text, uri, why = uri_of(engine, entry, record, arrival.number)
        if why or uri is None:
            seen = seen.then(seen.step("unusable record", place, **facts, uri=text, why=why))
            continue
        known = seen.then(seen.step("record", place, **facts, uri=text, first=not ways))
        ways.append(_follow(network, known, engine, uri, place))
    return ways, seen


def uri_of(
    engine: Engine, entry: EnumEntry, record: Naptr, number: str
) -> tuple[str | None, Uri | None, str]:
    """What a record gives for ``number``, as text and as URI, and why ``engine`` cannot use it, if so."""
    try:
        text = Substitution.parse(record.expression).apply(f"+{number.removeprefix('+')}")
    except BadExpression as wrong:
        return None, None, f"its regexp is not valid: {wrong}"
    uri = Uri.parse(text) if text is not None else None
    return text, uri, _unusable(engine, entry, record, text, uri)


def in_order(entry: EnumEntry) -> list[tuple[int, Naptr]]:
    """Records by order, then preference, as one sort key (RFC 5483, 3), with their places in the list."""
    if len(entry.naptr) == 1:
        return [(0, entry.naptr[0])]
    return sorted(enumerate(entry.naptr), key=lambda each: (each[1].order, each[1].preference))


def _unusable(engine: Engine, entry: EnumEntry, record: Naptr, text: str | None, uri: Uri | None) -> str:
    """Why ``engine`` cannot use a record; empty if it can."""
    if text is None:
        return "its regexp does not match the number"
    wanted = leads_to(record.service)
    if wanted is None:
        return "no engine here understands its service"
    if limit := profiles.record_limit(engine, entry, record):
        return limit
    if uri is None or SCHEMES.get(uri.scheme) != wanted:
        return f"{text} is no URI for its service"
    if wanted != "tel" and wanted not in engine.speaks and wanted not in engine.hand_over:
        return f"the engine does not speak {wanted}, and hand_over names no gateway for it"
    return ""


def _follow(
    network: PlanNetwork, arrival: Arrival, engine: Engine, uri: Uri, place: Location
) -> Iterator[CallRoute]:
    """The ways to the URI of a record."""
    wanted: Protocol | Literal["tel"] = SCHEMES[uri.scheme]
    if wanted == "tel":
        number = uri.routing_number or uri.number or uri.user
        # A query for a ported number is not repeated (RFC 4694, 4.2).
        changed = arrival._replace(number=number, dipped=arrival.dipped or uri.is_dipped)
        rerouted = changed.then(changed.step("rerouted", place, uri=uri.text))
        if arrival.dipped or not uri.is_dipped:
            yield from arrivals(network, rerouted)
        else:
            yield from _decided(network, rerouted, engine)
        return
    if wanted not in engine.speaks:
        gateway = engine.hand_over[wanted]
        handed: Location = ("engines", arrival.engine, "hand_over", wanted)
        told = arrival.then(arrival.step("handed over", handed, to=gateway, protocol=wanted))
        yield from _leg(network, told, gateway, arrival.number, None, handed)
        return
    targets = network.names.resolve(uri.host, wanted, uri.port, uri.transport)
    if not targets:
        kind: EndKind = "external" if network.names.domain_of(uri.host) is None else "no address"
        yield arrival.end(kind, place, uri=uri.text, host=uri.host)
    for target in targets[:1] if engine.kind == "gatekeeper" else targets:
        facts = {"host": uri.host, "by": target.by, "name": target.name, "address": target.address}
        told = arrival.then(arrival.step("resolved", target.place, **facts, port=target.port))
        if target.engine is None:
            yield told.end("external", place, uri=uri.text, host=uri.host)
        else:
            # SIP carries the user part as it is written; numbers of H.323 are digits alone.
            number = uri.user.partition(";")[0] if wanted == "sip" else uri.number or uri.user
            yield from _leg(network, told, target.engine, number, wanted, place)


def _leg(
    network: PlanNetwork, arrival: Arrival, name: str, number: str, by: Protocol | None, place: Location
) -> Iterator[CallRoute]:
    """The leg from one engine to the next, if they share a protocol and a codec."""
    engine, target = network.plan.engines[arrival.engine], network.plan.engines[name]
    through = (arrival.arriving,) if engine.kind == "proxy" else engine.speaks
    common = [speak for speak in target.speaks if speak in through and by in (None, speak)]
    facts: dict[str, object] = {"to": name}
    if not common:
        yield arrival.end("no protocol", place, **facts, here=through, there=target.speaks, by=by)
        return
    leaving = common[0]
    if leaving == "mgcp" and arrival.meanwhile:
        # A line carries one call, and its gateway knows.
        yield arrival.end("busy", place, **facts)
        return
    offer = arrival.offer
    if target.codecs:
        offer = target.codecs if offer is None else tuple(c for c in offer if c in target.codecs)
        if not offer:
            # A proxy ignores codecs: the target gets the call, and refuses it.
            if engine.kind == "proxy":
                leg = {"to": name, "protocol": leaving, "codec": None, "number": number}
                arrival = arrival.then(arrival.step("leg", place, **leg, direct=False))._replace(engine=name)
            yield arrival.end("no codec", place, **facts, here=arrival.offer, there=target.codecs)
            return
    steps = []
    if engine.kind == "gateway" and leaving != arrival.arriving:
        facts_of = {"before": arrival.arriving, "after": leaving}
        steps.append(arrival.step("translated", ("engines", arrival.engine), **facts_of))
    codec = offer[0] if offer and target.codecs and arrival.offer else None
    leg = {"to": name, "protocol": leaving, "codec": codec, "number": number}
    steps.append(arrival.step("leg", place, **leg, direct=engine.kind == "gatekeeper"))
    if target.kind == "gateway" and target.transcodes and target.codecs:
        offer = target.codecs
    onward = arrival._replace(
        engine=name,
        number=number,
        arriving=leaving,
        offer=offer,
        steps=(*arrival.steps, *steps),
        offered=arrival.offer,
        sender=arrival.sender if engine.kind == "gatekeeper" else arrival.engine,
    )
    yield from arrivals(network, onward)
