"""Plans the calls of a proof, and compares the way that each took with the plan. Pure.

A test number is called, and called again while its preferred engine fails. The way that a call took is known
from signalling on the wire and decisions in the engines' logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from weirlab.numbering.lab.endpoints import one_call, program
from weirlab.numbering.lab.engines import OFF, Fault, impossible
from weirlab.numbering.plan.model import Test
from weirlab.numbering.proof.wire import signalling
from weirlab.numbering.proof.wire.packets import TransportAddress
from weirlab.numbering.proof.wire.signalling import CallLeg
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import MOST_WAYS, calls
from weirlab.numbering.routing.profiles import Uri
from weirlab.numbering.routing.wording import ANSWERS, CallRoute, end, shared_steps, without_call
from weirlab.numbering.zones import servers


@dataclass(frozen=True)
class ProofCall:
    """A call, and what the plan expects of it."""

    index: int
    test: Test
    caller: str
    way: CallRoute
    down: str | None = None
    """The engine or name server that fails during the call."""
    fault: Fault = OFF
    """How it fails."""
    impossible: str = ""
    """Why the call cannot be made here; empty if it can."""
    tried: tuple[tuple[str, str], ...] = ()
    """Engines that get the call before the one that answers, each with its expected answer on the wire."""

    @property
    def answer(self) -> int:
        """The final answer to the caller; a busy callee has answered, so nothing else is tried."""
        return int(self.fault) if self.fault == "486" else self.way.answer

    @property
    def answered(self) -> bool:
        return self.way.end.kind == "answered" and self.answer == self.way.answer

    @property
    def decisions(self) -> dict[str, str]:
        """What each engine on the way decides by: ``static`` for a route, otherwise a tree."""
        found: dict[str, str] = {}
        for step in self.way.steps:
            if step.what in ("prefix", "record"):
                by = "static" if step.what == "prefix" else str(step.facts["tree"])
                found.setdefault(step.engine, by)
        return found

    @property
    def codecs(self) -> tuple[str | None, ...]:
        """The codec of every leg; None if the plan does not determine it."""
        return tuple(step.facts["codec"] for step in self.way.steps if step.what == "leg")


NO_TESTS: Final = "the plan has no test numbers; list some under tests: with the result expected of each call"


def planned(network: PlanNetwork, *, fall_back: bool) -> list[ProofCall]:
    """The calls in order; calls with a failure follow the same call without one."""
    found: list[ProofCall] = []
    for test in network.plan.tests:
        caller = test.caller or network.plan.caller
        ways = [*islice(calls(network, test.number, caller, test.meanwhile), MOST_WAYS)]
        first = next((way for way in ways if way.end.good), ways[0])
        found.append(_planned(network, len(found), test, caller, first))
        if fall_back and first.end.good:
            for down, fault, way in _failing(network, first, ways):
                found.append(_planned(network, len(found), test, caller, way, down, fault))
    if fall_back:
        found += _without_primary(network, found)
    for test, caller, way in _evading(network, found):
        found.append(_planned(network, len(found), test, caller, way))
    return found


def _evading(network: PlanNetwork, found: Sequence[ProofCall]) -> Iterator[tuple[Test, str, CallRoute]]:
    """Calls that try to get past the rules of each home: barred numbers in other spellings, and requests that
    belong to no call."""
    made = (each for each in found if not each.impossible and each.way.legs)
    sip = [each for each in made if program(network, each.caller) == "sipp"]
    barred = {each.way.engines[-1]: each for each in reversed(sip) if each.way.end.kind == "barred"}
    for each in barred.values():
        for number in spellings(each.test.number):
            way = next(calls(network, number, each.caller))
            yield each.test.model_copy(update={"number": number}), each.caller, way
    for each in {each.way.engines[1]: each for each in reversed([*sip, *barred.values()])}.values():
        expected = {"answer": ANSWERS["no dialog"], "via": None, "ends_at": None, "meanwhile": 0}
        test = each.test.model_copy(update=expected)
        yield test, each.caller, without_call(each.way)


def spellings(number: str) -> tuple[str, ...]:
    """Other spellings of a number, which mean the same."""
    begin = number[:-4] or number[:1]
    end = number[len(begin) :]
    escaped = "".join(f"%{ord(digit):x}" for digit in end)
    return f"{begin}-({end[:1]}){end[1:]}", f"{begin}%20.{end}", f"{begin}{escaped}", f"{number};isub=1"


def _failing(
    network: PlanNetwork, first: CallRoute, ways: list[CallRoute]
) -> Iterator[tuple[str, Fault, CallRoute]]:
    """Engines of the planned way that the next way avoids: name, fault, and the way during that fault."""
    for way in ways[ways.index(first) + 1 :]:
        if way.end.good:
            down = next((name for name in first.engines if name not in way.engines), None)
            if down is None or _waits_for_registration(network, first, way):
                continue
            yield down, OFF, way
            engine = network.plan.engines[down]
            refuses = {"sip", "h323"}.intersection(engine.speaks)
            if engine.kind == "endpoint" and refuses and down == first.engines[-1]:
                yield down, "503", way
                yield down, "486", first
            return


def _waits_for_registration(network: PlanNetwork, first: CallRoute, way: CallRoute) -> bool:
    """Does a gatekeeper name the other target only when the registration of the first one has expired?"""
    leg = first.steps[shared_steps(way, first)]
    if network.plan.engines[leg.engine].kind != "gatekeeper" or leg.what != "leg":
        return False
    return network.plan.engines[str(leg.facts["to"])].kind != "gatekeeper"


def _without_primary(network: PlanNetwork, found: list[ProofCall]) -> Iterator[ProofCall]:
    """The first call that a tree decides, while only the secondary name servers are up."""
    primary, *others = servers(network) or (None,)
    if primary is None or not others:
        return
    for each in found:
        if (
            each.answered
            and each.down is None
            and not each.impossible
            and each.way.decided_by not in (None, "static")
        ):
            yield _planned(network, len(found), each.test, each.caller, each.way, primary.name)
            return


def _planned(
    network: PlanNetwork,
    index: int,
    test: Test,
    caller: str,
    way: CallRoute,
    down: str | None = None,
    fault: Fault = OFF,
) -> ProofCall:
    why = ""
    if way.end.kind == "external":
        why = f"it leaves the plan ({way.end.facts['uri']}), where nothing answers"
    elif way.engines[-1] == caller and len(way.engines) > 1:
        why = f"{caller} calls itself"
    elif test.meanwhile:
        why = one_call(network, caller)
    for name in dict.fromkeys((caller, *way.engines)):
        if lacking := impossible(network.plan.engines[name]):
            why = f"the lab has no program for {name}: {lacking}"
            break
    return ProofCall(index, test, caller, way, down, fault, why, tuple(_tried(network, way, down, fault)))


def _tried(network: PlanNetwork, way: CallRoute, down: str | None, fault: Fault) -> Iterator[tuple[str, str]]:
    yield from ((step.engine, "302") for step in way.steps if step.what == "forwarded")
    failing = network.plan.engines.get(down or "")
    # A busy callee has answered; without a connection, no message is sent.
    if down is None or failing is None or fault == "486" or failing.transport != "udp":
        return
    if fault != OFF or "sip" in failing.speaks or "mgcp" in failing.speaks:
        yield down, "no answer" if fault == OFF else fault


_ROUTE: Final = re.compile(r"\bROUTE num=(?P<number>\S*) via=(?P<via>\S+)(?: target=(?P<target>\S+))?")
_REROUTE: Final = re.compile(r"\bREROUTE num=")
_REJECTED: Final = re.compile(r"\bREJECTED num=\S+ (?:barred|not admitted)\b")
"""What the log of an engine says of a decision, and of a call that it refused by a rule."""
_FORBIDDEN: Final = 403


@dataclass(frozen=True)
class CallHistory:
    """How a call went."""

    engines: tuple[str, ...]
    """Engines on the way that was answered, otherwise on the last one tried."""
    tried: tuple[str, ...]
    """Legs that did not lead to the answer: ``core > cyrus: 408``."""
    decisions: Mapping[str, str]
    """What each engine decided by, from its log: ``static`` for a route, otherwise a tree."""
    answer: int
    """The answer to the caller; 0 for none."""
    setup_ns: int | None
    """From the caller's INVITE, or its last digit, to the answer."""
    codec: str | None
    """The first codec of the offer that the answer to the caller accepts."""
    accepted: tuple[str, ...] = ()
    """All codecs that the answer accepts."""
    numbers: tuple[str, ...] = ()
    """Called numbers of the legs to ``engines`` after the caller; empty where the wire does not show it."""
    by_tone: bool = False
    """Did the caller only hear a tone? It is the same one for every refusal (RFC 3660), busy excepted."""

    @property
    def end(self) -> str | None:
        """The engine that answered; None if none did."""
        return self.engines[-1] if self.answer == 200 else None


class MissingCall(ValueError):
    """The caller made no call."""


def taken(
    network: PlanNetwork, planned: ProofCall, found: Sequence[CallLeg], logs: Mapping[str, str]
) -> CallHistory:
    """How a call went, by the legs ``found`` on the wire and the ``logs`` of engines.

    Raises
    ------
    MissingCall
        The caller sent nothing.
    """
    names = {leg: (named(network, leg.source), named(network, leg.target)) for leg in found}
    begun = next((leg for leg in found if names[leg][0] == planned.caller), None)
    if begun is None:
        raise MissingCall
    chain = [begun]
    while True:
        further = _onward(found, names, chain[-1])
        if not further:
            break
        good = [leg for leg in further if 200 <= leg.answer < 300]
        # Without an answer, the last one tried.
        chain.append(min(good, key=lambda leg: leg.answered_ns) if good else further[-1])
    engines = (planned.caller, *(names[leg][1] for leg in chain))
    tried = [leg for leg in found if leg not in chain]
    by_tone = begun.call_id.startswith(signalling.CALL) and begun.answer == signalling.NO_REASON
    return CallHistory(
        engines=engines,
        tried=tuple(f"{' > '.join(names[leg])}: {leg.answer or 'no answer'}" for leg in tried),
        # Logs also have the other calls, and do not say which line belongs to which call.
        decisions={} if planned.test.meanwhile else _decisions(logs, engines),
        answer=_FORBIDDEN if by_tone and _REJECTED.search(logs.get(engines[1], "")) else begun.answer,
        numbers=tuple(_called(leg.uri) for leg in chain),
        by_tone=by_tone,
        setup_ns=begun.answered_ns - begun.at_ns if begun.answer == 200 else None,
        codec=begun.codec if begun.answer == 200 else None,
        accepted=begun.codecs if begun.answer == 200 else (),
    )


def _called(text: str) -> str:
    """The user part of a SIP URI, or the digits of another protocol."""
    uri = None if text.isdigit() else Uri.parse(text)
    return (
        text
        if text.isdigit()
        else uri.user.partition(";")[0]
        if uri is not None and uri.scheme == "sip"
        else ""
    )


def _onward(
    found: Sequence[CallLeg], names: Mapping[CallLeg, tuple[str, str]], arrived: CallLeg
) -> list[CallLeg]:
    """The legs by which the call went on from where ``arrived`` brought it.

    It may have come there several times, with other numbers (a spiral, RFC 3261, 16.3). A leg belongs to the
    last arrival before it that had not been answered.
    """
    here = names[arrived][1]
    arrivals = [leg for leg in found if names[leg][1] == here]
    onward = []
    for leg in found:
        if names[leg][0] != here or leg.at_ns < arrived.at_ns or leg is arrived:
            continue
        open_ones = [
            arrival
            for arrival in arrivals
            if arrival.at_ns <= leg.at_ns and (not arrival.answer or arrival.answered_ns >= leg.at_ns)
        ]
        if len(arrivals) == 1 or (open_ones and max(open_ones, key=lambda each: each.at_ns) is arrived):
            onward.append(leg)
    return onward


def named(network: PlanNetwork, place: TransportAddress) -> str:
    """The engine at a place, or the address if there is none."""
    here = [name for name, engine in network.plan.engines.items() if engine.address == place.address]
    listening = [name for name in here if network.plan.engines[name].port("sip") == place.port]
    return next(iter((*listening, *here)), place.address)


def decided_by(log: str) -> str | None:
    """What an engine decided by first, from its log; after failed records, by a route; None for nothing."""
    if _REROUTE.search(log):
        return "static"
    for line in _ROUTE.finditer(log):
        return None if line["via"] == "none" else line["via"]
    return None


def _decisions(logs: Mapping[str, str], engines: Sequence[str]) -> dict[str, str]:
    """Decisions by engine: first the engines on the way, in its order, then others."""
    names = [*(name for name in dict.fromkeys(engines) if name in logs), *logs]
    found = ((name, decided_by(logs[name])) for name in dict.fromkeys(names))
    return {name: by for name, by in found if by is not None}


def differences(planned: ProofCall, found: CallHistory) -> list[str]:
    """The differences between a call and the plan, as phrases."""
    test, way = planned.test, planned.way
    differs = []
    if found.answer != planned.answer and not (
        found.by_tone
        and found.answer == signalling.NO_REASON
        and planned.answer >= 400
        and planned.answer != signalling.BUSY
    ):
        differs.append(f"answer {found.answer or 'none'} instead of {planned.answer}")
    if found.engines != way.engines:
        differs.append(f"way {' > '.join(found.engines)} instead of {' > '.join(way.engines)}")
    decided = {} if test.meanwhile else planned.decisions
    for name in dict.fromkeys((*decided, *found.decisions)):
        by, wanted = found.decisions.get(name), decided.get(name)
        if by != wanted:
            differs.append(f"{name} went by {by or 'nothing'} instead of {wanted or 'nothing'}")
    codec = next((codec for codec in planned.codecs if codec), None)
    if planned.answered and codec and found.accepted and found.codec != codec:
        differs.append(f"codec {found.codec or named_codecs(found.accepted)} instead of {codec}")
    differs += [
        f"{name} was not tried before (expected: {answer})"
        for name, answer in planned.tried
        if not any(leg.endswith(f"> {name}: {answer}") for leg in found.tried)
    ]
    # The expectations of the test itself apply while nothing fails.
    if planned.down is None:
        if way.answer != test.answer:
            differs.append(
                f"the plan gives {way.answer} ({end(way.end)}), but the test requires {test.answer}"
            )
        if test.ends_at is not None and found.end != test.ends_at:
            differs.append(f"the test requires that {test.ends_at} answers")
        first = found.decisions.get(way.engines[1]) if len(way.engines) > 1 else None
        if test.via is not None and first != test.via:
            differs.append(f"the test requires a decision by {test.via}")
    return [*differs, *_other_number(way, found)]


def _other_number(way: CallRoute, found: CallHistory) -> list[str]:
    """The first engine that got another number than the plan says, as a phrase; empty if none did."""
    for name, leg, got in zip(found.engines[1:], way.legs, found.numbers, strict=False):
        number = leg.number_on_wire.partition(";")[0]
        if name != leg.facts["to"]:
            break
        if got not in ("", number):
            return [
                f"{name} got {got}" + (", without its +" if f"+{got}" == number else f" instead of {number}")
            ]
    return []


def named_codecs(accepted: Sequence[str]) -> str:
    """Accepted codecs of which none was offered, as a phrase."""
    return f"{', '.join(accepted)}, which was not offered,"
