"""Chooses the numbers of a load test: one by a route, one by ENUM, one per translation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quantities import words
from weirlab.numbering.proof.plan import ProofCall
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.wording import PROTOCOLS

_FIRST: Final = ("route", "tree")


@dataclass(frozen=True)
class LoadTarget:
    """A number to call."""

    planned: ProofCall
    translation: str
    """The translation by gateways on the way: ``SIP to H.323 to SIP``; empty without a gateway."""
    no_load: str
    """Why it cannot be called many times; empty if it can."""

    @property
    def number(self) -> str:
        return self.planned.test.number


def chosen(network: PlanNetwork, calls: Sequence[ProofCall]) -> tuple[LoadTarget, ...]:
    """The first number that a route decides, the first that a tree decides, and one for each translation.

    A translation that no call can load is represented by its first number, with the reason.

    Raises
    ------
    InputError
        No endpoint of the lab answers, or no number can be called many times.
    """
    targets = [_target(network, call) for call in calls if call.answered and not call.impossible]
    if not targets:
        raise InputError(f"{network.book.name}: no endpoint of the lab answers any of its test numbers")
    reasons = dict.fromkeys(each.no_load for each in targets)
    if "" not in reasons:
        why = words([*reasons], most=3)
        raise InputError(f"{network.book.name}: none of its test numbers can be called many times: {why}")
    found: dict[str, LoadTarget] = {}
    for target in targets:
        if target.no_load and not target.translation:
            continue
        by = "route" if target.planned.way.decided_by in (None, "static") else "tree"
        known = found.setdefault(target.translation or by, target)
        if known.no_load and not target.no_load:
            found[target.translation or by] = target
    # The sort keeps the plan's order among translations.
    return tuple(found[key] for key in sorted(found, key=_order))


def _order(key: str) -> int:
    return _FIRST.index(key) if key in _FIRST else len(_FIRST)


def named(network: PlanNetwork, calls: Sequence[ProofCall], number: str) -> LoadTarget:
    """The target with this number.

    Raises
    ------
    InputError
        It is not a test number, or cannot be called many times.
    """
    call = next((call for call in calls if call.test.number == number), None)
    if call is None:
        known = words([call.test.number for call in calls if call.answered], most=8)
        raise InputError(f"{network.book.name}: {number} is not one of its test numbers; choose from {known}")
    target = _target(network, call)
    why = call.impossible or ("" if call.answered else f"its answer is {call.answer}") or target.no_load
    if why:
        raise InputError(f"{network.book.name}: {number} cannot be called many times: {why}")
    return target


def _target(network: PlanNetwork, call: ProofCall) -> LoadTarget:
    return LoadTarget(call, _translation(network, call), _no_load(network, call))


def _translation(network: PlanNetwork, call: ProofCall) -> str:
    """The protocols between which gateways translate, or pass calls on."""
    legs = [step for step in call.way.steps if step.what == "leg"]
    onward = [step for step in legs[1:] if network.plan.engines[step.engine].kind == "gateway"]
    return " to ".join(PROTOCOLS[step.facts["protocol"]] for step in (legs[0], *onward)) if onward else ""


def _no_load(network: PlanNetwork, call: ProofCall) -> str:
    for name in (call.caller, call.way.end.engine):
        speaks = network.plan.engines[name].speaks
        if "sip" in speaks:
            continue
        if "mgcp" in speaks:
            return f"{name} is an MGCP line, which carries one call at a time"
        return f"{name} is an H.323 telephone; only SIP endpoints carry many calls at once"
    return ""
