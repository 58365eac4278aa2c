"""What the engines that carry a plan out cannot do. Checks, routes and configurations share this.

Proxies are Kamailio 5.6, gateways Asterisk 16, gatekeepers Weir's own or GNU Gatekeeper.
"""

from __future__ import annotations

import re
from typing import Final

from weirlab.numbering.ere import TAIL, BadExpression, Substitution
from weirlab.numbering.plan.model import Engine, EnumEntry, Naptr, PlanRoute, Rewrite
from weirlab.numbering.plan.values import MOST_DIGITS
from weirlab.numbering.routing.names import leads_to

KAMAILIO_SERVICES: Final = ("e2u+sip", "e2u+h323")
"""ENUM services that proxies follow."""

FALL_BACK: Final = "(404|408|482|483|488|5[0-9][0-9])"
"""Answers after which a proxy tries the next target; a busy or declining callee has answered."""

_MOST_GROUPS: Final = 6
_MOST_REFERENCE: Final = 5
"""Of a regexp, in Kamailio's module enum (``SR_RE_MAX_MATCH``)."""

_SHAPE: Final = re.compile(r"\^((?:[0-9]|\\\+)*)\(\.\*\)\$")
_RESULT: Final = re.compile(r"(\+?[0-9]*)\\1")
_NUMBER: Final = re.compile(r"\^(\()?([0-9]+)(?(1)\))\$")


def simple(rule: Rewrite) -> tuple[str, str] | None:
    r"""A rule of the form ``^00(.*)$`` to ``+\1`` as the old and the new prefix; None for another form."""
    match, result = _SHAPE.fullmatch(rule.match), _RESULT.fullmatch(rule.replace)
    if match is None or result is None:
        return None
    return match[1].replace("\\", ""), result[1]


def exact(rule: Rewrite) -> tuple[str, str] | None:
    r"""A rule for one number, ``^(112)$`` to ``+420\1``, as that number and the new one; None for another."""
    match = _NUMBER.fullmatch(rule.match)
    if match is None:
        return None
    new = rule.replace.replace("\\1", match[2]) if match[1] else rule.replace
    return (match[2], new) if re.fullmatch(r"\+?[0-9]+", new) else None


def rewrite_limit(engine: Engine, rule: Rewrite) -> str:
    """What keeps ``engine`` from applying a valid rule; empty if nothing does."""
    shape = simple(rule)
    if engine.kind == "proxy" and shape is None:
        anchored = Substitution.of(rule.match, rule.replace).pattern.anchored
        if not anchored or set('/"{}$') & set(rule.match.removesuffix("$") + rule.replace):
            return 'Kamailio takes rules that begin with ^, end with $ and hold none of / " { }; write it so'
    if engine.kind == "gatekeeper":
        return "gatekeepers do not rewrite numbers; let the gateway or the proxy do it"
    known = exact(rule) is not None or (shape is not None and shape[0] and not shape[0].startswith("+"))
    if engine.kind == "gateway" and not known:
        return (
            r"the dial plan of an Asterisk takes rules such as ^00(.*)$ to +\1, or ^(112)$ to +420\1; write "
            "it so, or let the proxy rewrite"
        )
    return ""


def record_limit(engine: Engine, entry: EnumEntry, record: Naptr) -> str:
    """What keeps ``engine`` from following a valid record of ``entry``; empty if nothing does."""
    if engine.kind != "proxy" or record.refer is not None or leads_to(record.service) is None:
        return ""
    if record.service.lower() not in KAMAILIO_SERVICES:
        return f"Kamailio does not follow {record.service}; write the URI of an engine"
    if record.service.lower() != KAMAILIO_SERVICES[0]:
        # The number goes to a gateway; the expression is not used.
        return ""
    text = record.expression
    if text[:1] != "!":
        return f"Kamailio knows no delimiter but !, and this record has {text[:1]}; write it with !"
    if "\\!" in text:
        return "Kamailio knows no escaped \\!, and ends the expression there; leave the ! out of it"
    try:
        substitution = Substitution.parse(text)
    except BadExpression:
        return ""
    if substitution.pattern.groups > _MOST_GROUPS:
        return (
            f"Kamailio takes up to {_MOST_GROUPS} groups, and this pattern has {substitution.pattern.groups}"
        )
    if (most := max(substitution.references, default=0)) > _MOST_REFERENCE:
        return f"Kamailio takes the groups \\1 to \\{_MOST_REFERENCE}, and this record refers to \\{most}"
    number = f"+{entry.digits}" if entry.number is not None else f"+{entry.digits}{TAIL}"
    if unused := substitution.unused(number):
        return (
            f"Kamailio cannot insert \\{unused[0]}, as that group need not take part in the match; write a "
            "pattern of which every inserted group is used"
        )
    if substitution.replacement.lower().startswith("sips:"):
        return "sips: needs TLS, and proxies here speak UDP and TCP; write sip:"
    return ""


def falls_back(engine: Engine, answer: int) -> bool:
    """Does ``engine`` try its next target after this answer?"""
    return engine.kind != "proxy" or re.fullmatch(FALL_BACK, str(answer)) is not None


def tree_limit(engine: Engine) -> str:
    """What keeps ``engine`` from asking its trees; empty if nothing does."""
    if engine.kind == "gateway" and engine.trees:
        return "an Asterisk gateway cannot query trees; let the proxy or gatekeeper do it"
    return ""


def asks_trees(engine: Engine, digits: str) -> bool:
    """Does ``engine`` ask its trees for a number?"""
    if engine.kind == "proxy" and TAIL not in digits:
        return len(digits) <= MOST_DIGITS
    return not tree_limit(engine)


def strip_limit(engine: Engine, route: PlanRoute) -> str:
    """What keeps ``engine`` from changing numbers as a route says; empty if nothing does."""
    if engine.kind == "gatekeeper" and route.strip > len(route.prefix) - 1:
        return "GNU Gatekeeper rewrites prefixes: it cannot strip more digits than the prefix has"
    return ""
