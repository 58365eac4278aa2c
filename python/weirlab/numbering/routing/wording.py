"""What happens to a call: step by step as plain values, and in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from weirlab.base.tables import Table
from weirlab.numbering.ere import TAIL
from weirlab.numbering.plan import PlanDocument
from weirlab.numbering.routing import PlanNetwork
from weirlab.scenario.document import Location

What = Literal[
    "dialled", "rewritten", "prefix", "no prefix", "tree", "no entry", "record", "unusable record",
    "unusable rule",
    "referred", "handed over", "rerouted", "resolved", "translated", "leg", "forwarded",
]  # fmt: skip

EndKind = Literal[
    "answered", "external", "no route", "loop", "not admitted", "barred", "no protocol", "no codec",
    "no address", "no number", "no digits", "too many calls", "no dialog", "busy",
]  # fmt: skip

ANSWERS: Final[Mapping[EndKind, int]] = {
    "answered": 200, "external": 200, "no route": 404, "loop": 482, "not admitted": 403, "barred": 403,
    "no protocol": 503, "no codec": 488, "no address": 503, "no number": 484, "no digits": 484,
    "too many calls": 503, "no dialog": 481, "busy": 486,
}  # fmt: skip
"""The final answer to a SIP caller (RFC 3261, 21)."""


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class RouteStep(NamedTuple):
    """One thing that an engine does."""

    what: What
    engine: str
    number: str
    """The number at this step."""
    place: Location = ()
    """The part of the plan that causes the step."""
    facts: Mapping[str, Any] = _NOTHING

    @property
    def number_on_wire(self) -> str:
        """The called number of a leg: H.323 and MGCP carry digits alone."""
        number = str(self.facts["number"])
        return number if self.facts["protocol"] == "sip" else number.removeprefix("+")


class RouteEnd(NamedTuple):
    """How a way ends."""

    kind: EndKind
    engine: str
    """The engine where it ends."""
    facts: Mapping[str, Any] = _NOTHING
    place: Location = ()

    @property
    def good(self) -> bool:
        """Is the call answered, as far as the plan says?"""
        return self.kind in ("answered", "external")


class CallRoute(NamedTuple):
    """One way of a call from its beginning to its end; if it fails, the next way is taken."""

    steps: tuple[RouteStep, ...]
    end: RouteEnd

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines in the order in which the call reaches them, without those that forward it."""
        return (*(step.engine for step in self.steps[:1]), *(str(leg.facts["to"]) for leg in self.legs))

    @property
    def legs(self) -> tuple[RouteStep, ...]:
        """The legs between ``engines``."""
        found: list[RouteStep] = []
        for step in self.steps:
            if step.what == "leg":
                found.append(step)
            elif step.what == "forwarded":
                found.pop()
        return tuple(found)

    @property
    def decided_by(self) -> str | None:
        """What the first engine decided by: a tree, ``static`` for a route, None for nothing."""
        for step in self.steps:
            if step.what == "prefix":
                return "static"
            if step.what == "record":
                return str(step.facts["tree"])
        return None

    @property
    def answer(self) -> int:
        """The final answer in SIP."""
        return ANSWERS[self.end.kind]


def without_call(way: CallRoute) -> CallRoute:
    """The way of a request that claims to belong to a call, which the first engine does not know."""
    leg = way.legs[0]
    return CallRoute(way.steps[: way.steps.index(leg) + 1], RouteEnd("no dialog", str(leg.facts["to"])))


MOST_WAYS: Final = 8
"""Ways of a call that are told, the planned one first."""

PROTOCOLS = {"sip": "SIP", "h323": "H.323", "mgcp": "MGCP"}


def step(each: RouteStep) -> str:
    """What an engine does, and why."""
    facts = each.facts
    match each.what:
        case "dialled":
            return f"dials {each.number}; its calls go to {facts['home']}"
        case "rewritten":
            return f"rewrites {facts['before']} to {each.number} by {facts['rule']}"
        case "unusable rule":
            return f"passes over the rule {facts['rule']}: {facts['why']}"
        case "prefix":
            others = f", then {', '.join(facts['to'][1:])}" if len(facts["to"]) > 1 else ""
            if facts["after_trees"]:
                which = "all numbers" if facts["prefix"] == "+" else facts["prefix"]
                return f"takes its route for {which} after the trees: to {facts['to'][0]}{others}"
            if facts["prefix"] == "+":
                return f"takes its route for all numbers: to {facts['to'][0]}{others}"
            return f"{facts['prefix']} is the longest prefix among its routes: to {facts['to'][0]}{others}"
        case "no prefix":
            return "none of its routes fits"
        case "tree":
            found = f"{facts['key']} {facts['entry']} answers"
            return f"asks tree {facts['tree']} for NAPTR {facts['asked']}: {found}"
        case "no entry":
            outside = facts.get("outside")
            found = f"not in zone {outside}, of others nothing is known" if outside else "no such name"
            return f"asks tree {facts['tree']} for NAPTR {facts['asked']}: {found}"
        case "record":
            rank = "first" if facts["first"] else "next"
            return f"takes {_record(facts)}, {rank} in order and preference that it can use: {facts['uri']}"
        case "unusable record":
            return f"passes over {_record(facts)}: {facts['why']}"
        case "referred":
            return f"{_record(facts)} refers to tree {facts['to']}: asks for NAPTR {facts['asked']}"
        case "forwarded":
            return f"forwards the call to {facts['to']} (302): {facts['by']} routes it again"
        case "handed over":
            spoken = PROTOCOLS[facts["protocol"]]
            return f"does not speak {spoken}: hands the number over to {facts['to']}"
        case "rerouted":
            return f"{facts['uri']} is another number: routes the call again"
        case "resolved":
            return _resolved(facts)
        case "translated":
            return f"translates {PROTOCOLS[facts['before']]} to {PROTOCOLS[facts['after']]}"
        case "leg":
            codec = f", codec {facts['codec']}" if facts["codec"] else ""
            number = f" as {facts['number']}" if facts["number"] != each.number else ""
            if facts["direct"]:
                # In direct mode, a gatekeeper only names the target, and the gateway calls it.
                spoken = PROTOCOLS[facts["protocol"]]
                return f"names {facts['to']}: the call goes there by {spoken}{number}{codec}"
            return f"sends the call to {facts['to']} by {PROTOCOLS[facts['protocol']]}{number}{codec}"


def _record(facts: Any) -> str:
    return f"record {facts['order']} {facts['preference']} {facts['service']}".rstrip()


def _resolved(facts: Any) -> str:
    port = f":{facts['port']}" if facts["port"] else ""
    match facts["by"]:
        case "SRV":
            return f"{facts['host']} has an SRV record: {facts['name']}{port}, {facts['address']}"
        case "A":
            return f"{facts['host']} has the address {facts['address']}"
        case _:
            return f"{facts['address']}{port} is an address already"


def end(each: RouteEnd) -> str:
    """How a way ends."""
    facts = each.facts
    match each.kind:
        case "answered":
            return f"{each.engine} answers"
        case "external":
            return f"leaves the plan: {facts['uri']}"
        case "no route":
            trees = ", ".join(facts["trees"])
            asked = f" and no tree of the plan ({trees}) has the number" if trees else ""
            by = f", for calls arriving by {PROTOCOLS[facts['by']]}" if facts.get("by") else ""
            return f"{each.engine} has no route for it{by}{asked}"
        case "no digits":
            return f"{each.engine} strips {facts['strip']} digits: nothing is left of the number"
        case "loop":
            return f"goes round in a loop: {', '.join(facts['engines'])}"
        case "not admitted":
            return f"{each.engine} does not admit calls of {facts['organisation']}"
        case "barred":
            return f"callers of {facts['organisation']} may not call this number"
        case "too many calls":
            return (
                f"callers of {facts['organisation']} already have {facts['most']} calls, which is their limit"
            )
        case "no protocol":
            by = f" by {PROTOCOLS[facts['by']]}" if facts["by"] else ""
            return (
                f"{each.engine} cannot send the call to {facts['to']}{by}: it would leave as "
                f"{_protocols(facts['here'])}, and {facts['to']} speaks {_protocols(facts['there'])}"
            )
        case "no codec":
            return (
                f"{facts['to']} has none of the codecs offered ({', '.join(facts['here'] or ())}): it has "
                f"{', '.join(facts['there'])}"
            )
        case "no address":
            return f"{facts['host']} has neither an SRV record nor an address in the plan"
        case "busy":
            return f"{facts['to']} is a line, which carries one call: it is busy"
        case "no dialog":
            return f"{each.engine} knows no call to which the request belongs"
        case "no number":
            shown = str(facts["number"]).replace(TAIL, "...")
            if shown.startswith("+0"):
                return f"{each.engine} gets {shown}, and no country code begins with 0: it cannot route it"
            return f"{each.engine} gets {shown} without a +, which is not international: it cannot route it"


def proposal(network: PlanNetwork, dialled: str, ways: Sequence[CallRoute]) -> str:
    """What would help a call that did not get an international number; empty for all others."""
    if ways[0].end.kind != "no number" or any(way.end.good for way in ways):
        return ""
    if ways[0].decided_by is not None:
        return cure(ways[0])
    return f"dial {network.international(dialled) or '+ and the country code'}, or {cure(ways[0])}"


def cure(way: CallRoute) -> str:
    """What gives the engine at the end of ``way`` an international number."""
    last = next((each for each in reversed(way.steps) if each.what in ("prefix", "record")), None)
    if last is None or last.what == "prefix":
        return f"add a rewrite rule to {way.end.engine}"
    return rf"write a + before the number in the URI: sip:+\1@{str(last.facts['uri']).partition('@')[2]}"


def _protocols(names: Any) -> str:
    return " or ".join(PROTOCOLS[name] for name in names)


def shared_steps(way: CallRoute, other: CallRoute) -> int:
    """How many steps both begin with."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(way.steps, other.steps, strict=False))])


def place(book: PlanDocument, location: Location) -> str:
    """``file:line`` of a location; empty for none."""
    return book.at(*location) if location else ""


def conclusion(network: PlanNetwork, number: str, ways: Sequence[CallRoute]) -> str:
    """Where a call to ``number`` goes, in a sentence; ``ways`` are tried one after the other."""
    good = [way for way in ways if way.end.good]
    if not good:
        more = proposal(network, number, ways)
        return f"{number}: {end(ways[0].end)}{f'; {more}' if more else ''}."
    alone = "; if that fails, nothing else is tried" if len(good) == 1 else ""
    return f"{number}: {end(good[0].end)}, by way of {' > '.join(good[0].engines)}{alone}."


def tables(book: PlanDocument, ways: Sequence[CallRoute]) -> list[Table]:
    """One table per way, without the steps that it shares with the previous way."""
    found = []
    for index, way in enumerate(ways):
        shared = shared_steps(way, ways[index - 1]) if index else 0
        rows = [
            (str(number), one.engine, step(one), _short(place(book, one.place)))
            for number, one in enumerate(way.steps[shared:], shared + 1)
        ]
        rows.append(("", way.end.engine, end(way.end), _short(place(book, way.end.place))))
        title = "The way" if not index else f"If that fails: again from step {shared + 1}"
        found.append(Table(title, ("Step", "Engine", "What happens", "Plan"), rows))
    return found


def _short(place: str) -> str:
    """A place without its folder: the table has little room, and the JSON document has all of it."""
    return Path(place).name


def document(book: PlanDocument, way: CallRoute) -> dict[str, Any]:
    """A way for JSON."""
    return {
        "engines": way.engines,
        "decided_by": way.decided_by,
        "answer": way.answer,
        "end": {
            "kind": way.end.kind,
            "engine": way.end.engine,
            "text": end(way.end),
            **way.end.facts,
        },
        "steps": [
            {
                "engine": each.engine,
                "what": each.what,
                "text": step(each),
                "place": place(book, each.place),
                "number": each.number,
                **each.facts,
            }
            for each in way.steps
        ],
    }
