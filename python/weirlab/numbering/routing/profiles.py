"""What engines understand, to which of them the hosts of URIs lead, and what engines cannot do.

Checks, routes and configurations share this. Hosts are resolved by SRV, then A records (RFC 3263). Proxies
are Kamailio 5.6, gateways Asterisk 16, gatekeepers Weir's own or GNU Gatekeeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from weirlab.numbering.ere import TAIL, BadExpression, Substitution
from weirlab.numbering.plan.model import (
    Engine,
    EnumEntry,
    Naptr,
    NumberingPlan,
    PlanRoute,
    Rewrite,
    ServicePoint,
)
from weirlab.numbering.plan.values import DIALLED, MOST_DIGITS, Protocol, Transport, is_address, spelling
from weirlab.scenario.document import Location

SERVICES: Final[dict[str, Protocol | Literal["tel"]]] = {
    "sip": "sip", "h323": "h323", "voice:tel": "tel", "pstn:tel": "tel", "tel": "tel", "pstn:sip": "sip",
}  # fmt: skip
"""Enumservices that engines understand (RFC 3764, 3762, 4415, 4769), and what they lead to."""

SCHEMES: Final[dict[str, Protocol | Literal["tel"]]] = {
    "sip": "sip", "sips": "sip", "h323": "h323", "tel": "tel",
}  # fmt: skip

_SEPARATORS: Final = str.maketrans("", "", "-.()")
_SERVICE = re.compile(r"E2U((?:\+[A-Z0-9-]+(?::[A-Z0-9-]+)*)+)", re.IGNORECASE)
_URI = re.compile(
    rf"(?P<scheme>[a-z0-9+.-]+):(?:(?:(?P<user>[^@]*)@)?(?P<host>[^@:;\[\]{TAIL}]+|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<rest>;.*)?)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Uri:
    """``scheme:user@host:port``; ``user`` is empty if there is none."""

    scheme: str
    user: str
    host: str
    port: int | None
    text: str
    """The whole URI."""
    transport: Transport | None = None
    """What its parameter ``transport`` requires (RFC 3261, 19.1.1); None for none, or one not known here."""

    @classmethod
    def parse(cls, text: str) -> Uri | None:
        """The parts of ``text``; None if it is not a URI of this form. For tel, the number is the user."""
        if text[:4].lower() == "tel:":
            return cls("tel", text[4:], "", None, text)
        match = _URI.fullmatch(text)
        if match is None:
            return None
        port = int(match["port"]) if match["port"] else None
        asked = _parameters(match["rest"] or "").get("transport", "").lower()
        transport: Transport | None = "tcp" if asked == "tcp" else "udp" if asked == "udp" else None
        host = match["host"].strip("[]").lower()
        return cls(match["scheme"].lower(), match["user"] or "", host, port, text, transport)

    @property
    def number(self) -> str | None:
        """The user part as an international number; None if it is something else."""
        return _number(self.user.partition(";")[0])

    @property
    def routing_number(self) -> str | None:
        """Where a ported number is routed (``rn``, RFC 4694); None if the URI does not say."""
        return _number(_parameters(self.user).get("rn", ""))

    @property
    def is_dipped(self) -> bool:
        """Has somebody looked up whether the number is ported (``npdi``, RFC 4694)?"""
        return "npdi" in _parameters(self.user)


def _number(text: str) -> str | None:
    # RFC 3966, 5.1.1: separators for people.
    digits = text.removeprefix("+").translate(_SEPARATORS)
    return f"+{digits}" if digits and re.fullmatch(rf"[0-9]*(?:{TAIL}[0-9]*)?", digits) else None


def _parameters(text: str) -> dict[str, str]:
    """The parameters behind the first semicolon, by their names in small letters."""
    pairs = (each.partition("=") for each in text.split(";")[1:])
    return {name.strip().lower(): value for name, _, value in pairs}


def enumservices(service: str) -> tuple[str, ...] | None:
    """``E2U+voice:tel+sip`` as ``("voice:tel", "sip")``; None for another text (RFC 6116, 3.4.3)."""
    match = _SERVICE.fullmatch(service)
    return None if match is None else tuple(match[1].lower().split("+")[1:])


@lru_cache(maxsize=256)
def leads_to(service: str) -> Protocol | Literal["tel"] | None:
    """What a NAPTR service leads to; None for one that no engine understands."""
    for name in enumservices(service) or ():
        if name in SERVICES:
            return SERVICES[name]
    return None


@dataclass(frozen=True)
class HostTarget:
    """Where a host name leads: an engine, or None for a host that is not an engine."""

    by: Literal["SRV", "A", "address"]
    name: str
    """The address that the host resolves to."""
    address: str
    port: int | None
    engine: str | None
    place: Location = ()


class Names:
    """Hosts, their addresses and service points."""

    def __init__(self, plan: NumberingPlan) -> None:
        self.plan = plan
        self.addresses: dict[str, str] = {}
        for domain in plan.domains.values():
            self.addresses.update(domain.hosts)
        self._resolved: dict[tuple[str, Protocol, int | None, Transport | None], list[HostTarget]] = {}
        self._engines: dict[str, list[str]] = {}
        for name, engine in plan.engines.items():
            if engine.address is not None:
                self._engines.setdefault(engine.address, []).append(name)
                if engine.host is not None:
                    self.addresses[engine.host] = engine.address

    def domain_of(self, host: str) -> str | None:
        """The plan's zone that contains ``host``, by its longest name."""
        labels = host.split(".")
        for start in range(len(labels)):
            if (name := ".".join(labels[start:])) in self.plan.domains:
                return name
        return None

    def is_external(self, host: str) -> bool:
        """Is ``host``, or a domain above it, listed as outside the plan?"""
        return any(host == domain or host.endswith(f".{domain}") for domain in self.plan.external)

    def resolve(
        self, host: str, protocol: Protocol, port: int | None, transport: Transport | None = None
    ) -> list[HostTarget]:
        """Where ``host`` leads, the preferred target first; empty if the plan has no address for it.

        SRV records are used only if the URI names no port (RFC 3263, 4.2): those of the ``transport`` that it
        requires (4.1), otherwise of UDP, or if there are none, of TCP.
        """
        key = (host, protocol, port, transport)
        if key not in self._resolved:
            self._resolved[key] = self._resolve(*key)
        return self._resolved[key]

    def _resolve(
        self, host: str, protocol: Protocol, port: int | None, transport: Transport | None
    ) -> list[HostTarget]:
        if is_address(host):
            return [HostTarget("address", host, host, port, self._engine(host, protocol, port))]
        found = [*self._by_srv(host, protocol, transport)] if port is None else []
        if not found and (address := self.addresses.get(host)) is not None:
            found = [HostTarget("A", host, address, port, self._engine(address, protocol, port, host))]
        return found

    def _by_srv(self, host: str, protocol: Protocol, transport: Transport | None) -> Iterator[HostTarget]:
        domain = self.plan.domains.get(host)
        listed = [*enumerate(domain.services)] if domain else []
        fitting = [(i, service) for i, service in listed if serves(service, protocol)]
        if protocol == "sip":
            offered = {service.transport for _, service in fitting}
            used = transport or ("udp" if "udp" in offered else "tcp")
            fitting = [(i, service) for i, service in fitting if service.transport == used]
        for i, service in sorted(fitting, key=lambda each: (each[1].priority, -each[1].weight, each[0])):
            address = self.addresses.get(service.target)
            if address is not None:
                engine = self._engine(address, protocol, service.port, service.target)
                place: Location = ("domains", host, "services", i)
                yield HostTarget("SRV", service.target, address, service.port, engine, place)

    def _engine(self, address: str, protocol: Protocol, port: int | None, host: str = "") -> str | None:
        """The engine at an address: by name, otherwise by port if several share it, otherwise the first."""
        engines = self.plan.engines
        here = [name for name in self._engines.get(address, []) if protocol in engines[name].speaks]
        by_host = [name for name in here if engines[name].host == host]
        by_port = [name for name in here if port in (None, engines[name].port(protocol))]
        return next(iter((*by_host, *by_port, *here, *self._engines.get(address, []))), None)


def serves(service: ServicePoint, protocol: Protocol) -> bool:
    """Is this a service point for calls by ``protocol``?"""
    return service.service in {"sip": ("sip", "sips"), "h323": ("h323cs", "h323ls"), "mgcp": ()}[protocol]


KAMAILIO_SERVICES: Final = ("e2u+sip", "e2u+h323")
"""ENUM services that proxies follow."""

FALL_BACK: Final = "(404|408|482|483|488|5[0-9][0-9])"
"""Answers after which a proxy tries the next target; a busy or declining callee has answered."""

BUSY: Final = 486
"""A busy callee has answered."""

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
        if not anchored or set("/\"'$") & set(rule.match.removesuffix("$") + rule.replace):
            return (
                "Weir writes only rules that begin with ^, end with $ and hold none of / \" ' for Kamailio; "
                "write it so"
            )
    if engine.kind == "gatekeeper":
        return "gatekeepers do not rewrite numbers; let the gateway or the proxy do it"
    known = exact(rule) is not None or (shape is not None and shape[0] and not shape[0].startswith("+"))
    if engine.kind == "gateway" and not known:
        return (
            r"Weir writes only rules for first digits, such as ^00(.*)$ to +\1, and for one number, such as "
            r"^(150)$ to +420\1, into dial plans of Asterisk; write it so, or let the proxy rewrite"
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
            "; write it with fewer"
        )
    if (most := max(substitution.references, default=0)) > _MOST_REFERENCE:
        return (
            f"Kamailio takes the groups \\1 to \\{_MOST_REFERENCE}, and this record refers to \\{most}"
            "; write a pattern that inserts only these"
        )
    number = f"+{entry.digits}" if entry.number is not None else f"+{entry.digits}{TAIL}"
    if unused := substitution.unused(number):
        return (
            f"Kamailio cannot insert \\{unused[0]}, as that group need not take part in the match; write a "
            "pattern of which every inserted group is used"
        )
    if substitution.replacement.lower().startswith("sips:"):
        return "sips: needs TLS, and proxies here speak UDP and TCP; write sip:"
    return ""


def number_of(text: str) -> str:
    """What an engine compares and passes on of the number that it gets: one spelling of it."""
    return text if DIALLED.fullmatch(text) or TAIL in text else spelling(text) or text


def can_be_routed(number: str, arriving: Protocol) -> bool:
    """Is this a number that an engine routes?

    H.323 and MGCP carry digits alone: none of them says whether the number is international. SIP does, and no
    country code begins with 0 (ITU-T E.164).
    """
    begin = r"\+[1-9" if arriving == "sip" else r"\+?[0-9"
    return re.fullmatch(rf"{begin}{TAIL}][0-9{TAIL}]*", number) is not None


def falls_back(engine: Engine, answer: int) -> bool:
    """Does ``engine`` try its next target after this answer?"""
    if engine.kind == "gateway":
        return answer != BUSY
    return engine.kind != "proxy" or re.fullmatch(FALL_BACK, str(answer)) is not None


def tree_limit(engine: Engine) -> str:
    """What keeps ``engine`` from asking its trees; empty if nothing does."""
    if engine.kind == "gateway" and engine.trees:
        return (
            "Weir writes no queries of trees into dial plans of Asterisk; let the proxy or gatekeeper do it"
        )
    return ""


def asks_trees(engine: Engine, digits: str) -> bool:
    """Does ``engine`` ask its trees for a number?"""
    if engine.kind == "proxy" and TAIL not in digits:
        return len(digits) <= MOST_DIGITS
    return not tree_limit(engine)


def after_limit(engine: Engine, route: PlanRoute) -> str:
    """What keeps ``engine`` from using a route after its trees; empty if nothing does."""
    if not route.after_trees or engine.kind == "proxy":
        return ""
    if engine.kind == "gatekeeper":
        return (
            "gatekeepers name one target and do not learn whether it answers (direct mode); let a proxy "
            "query the trees, or leave out after_trees"
        )
    return f"{route.at} queries no trees; leave out after_trees"


def strip_limit(engine: Engine, route: PlanRoute) -> str:
    """What keeps ``engine`` from changing numbers as a route says; empty if nothing does."""
    if engine.kind == "gatekeeper" and route.strip > len(route.prefix) - 1:
        return "GNU Gatekeeper rewrites prefixes: it cannot strip more digits than the prefix has"
    return ""
