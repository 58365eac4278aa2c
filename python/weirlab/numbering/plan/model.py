"""The models of a numbering plan: one pydantic model per section, with defaults.

Numbers and prefixes are international, ``+420224355289``, and in quotes: YAML reads ``+420`` as 420.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from weirlab.numbering.plan import values
from weirlab.numbering.plan.values import (
    Address,
    Calls,
    Codec,
    Day,
    Dialled,
    Digits,
    Email,
    Host,
    Kind,
    Length,
    Line,
    MgcpLine,
    Name,
    Number,
    Port,
    Prefix,
    Protocol,
    Seconds,
    Serial,
    Short,
    Transport,
    Visibility,
    as_list,
)


class PlanElement(BaseModel):
    """A section, which refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ValidityPeriod(PlanElement):
    """A piece of a plan that is valid from one day until another."""

    valid_from: Day | None = None
    """The first day on which this is valid, such as 2026-01-31; without it, there is no first day."""
    valid_until: Day | None = None
    """The last day on which this is valid."""

    def holds(self, day: date) -> bool:
        """Is it valid on ``day``?"""
        return (self.valid_from is None or self.valid_from <= day) and not self.expired(day)

    def expired(self, day: date) -> bool:
        """Is ``day`` after the last one?"""
        return self.valid_until is not None and self.valid_until < day

    def meets(self, other: ValidityPeriod) -> bool:
        """Is there a day on which both are valid?"""
        start = max(self.valid_from or date.min, other.valid_from or date.min)
        return start <= min(self.valid_until or date.max, other.valid_until or date.max)


class Contact(PlanElement):
    """Whom to contact."""

    name: Line
    """Person or desk."""
    role: Line = ""
    """What for: technical, administrative, ..."""
    email: Email | None = None
    """E-mail address."""
    phone: Number | None = None
    """Telephone number."""


class Organisation(PlanElement):
    """An operator, university or company that owns numbers and runs engines."""

    title: Line = ""
    """Its full name."""
    contacts: tuple[Contact, ...] = ()
    """Whom to contact."""
    admits: tuple[Name, ...] | None = None
    """Organisations that its engines take calls from, besides its own; without it, calls from any address."""
    may_call: tuple[Prefix, ...] | None = None
    """What its callers may call; without it, every number."""
    barred: tuple[Prefix, ...] = ()
    """What its callers may not call; the longest prefix of may_call and barred decides."""
    most_calls: Calls | None = None
    """Most calls that its callers may have at once at each home engine; without it, there is no limit."""


class Range(ValidityPeriod):
    """Numbers and who owns them."""

    prefix: Prefix
    """What the numbers begin with."""
    owner: Name
    """The organisation."""
    digits: Length | None = None
    """Digits of a whole number, country code included."""
    delegated_by: Name | None = None
    """The organisation whose larger range contains these numbers."""


class Rewrite(PlanElement):
    """A rule that changes a number on arrival at an engine."""

    match: Line
    """POSIX extended regular expression that is matched against the dialled number."""
    replace: Line
    r"""What replaces the whole number; \1 to \9 are the groups."""


_SPEAKS: dict[Kind, tuple[Protocol, ...]] = {"proxy": ("sip",), "gatekeeper": ("h323",)}


class Engine(PlanElement):
    """Something that handles calls: a proxy, gateway or gatekeeper, or an endpoint of calls."""

    kind: Kind
    """proxy (SIP, routes), gateway (translates and routes), gatekeeper (H.323, routes), endpoint."""
    protocols: tuple[Protocol, ...] = ()
    """Protocols that it speaks, the preferred one first; a proxy speaks sip, a gatekeeper h323."""
    address: Address | None = None
    """IP address."""
    host: Host | None = None
    """Host name in the DNS."""
    ports: dict[Protocol, Port] = {}
    """Ports other than the usual ones: 5060 for sip, 1720 for h323, 2427 for mgcp."""
    organisation: Name | None = None
    """The organisation that runs it."""
    codecs: tuple[Codec, ...] = ()
    """Codecs that it offers and accepts, the preferred one first; without it, codecs are not checked."""
    admits: tuple[Name, ...] | None = None
    """Organisations that it takes calls from, besides its own; without it, those that its own one admits."""
    transcodes: bool = True
    """The gateway transcodes between its codecs."""
    trees: tuple[Name, ...] = ()
    """ENUM trees that it queries, in this order, if none of its routes matches."""
    hand_over: dict[Protocol, Name] = {}
    """Gateways that take numbers whose ENUM record names a protocol that this engine does not speak."""
    rewrite: tuple[Rewrite, ...] = ()
    """Rules for arriving numbers; the first that matches is applied."""
    home: Name | None = None
    """Where an endpoint sends its calls."""
    line: MgcpLine = "aaln/1"
    """MGCP endpoint name (RFC 3435, 2.1.2) of an endpoint's line."""
    transport: Transport = "udp"
    """How an endpoint sends and receives SIP; proxies use both."""
    early_media: bool = False
    """The endpoint sends speech before it answers (183 with a session description)."""
    forwards_to: Number | None = None
    """The endpoint forwards all calls to this number (302)."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        own = _SPEAKS.get(self.kind)
        if own is not None and self.protocols not in ((), own):
            raise ValueError(f"a {self.kind} speaks {own[0]} only; a gateway translates")
        if own is None and not self.protocols:
            raise ValueError(f"list under protocols what the {self.kind} speaks, e.g. [sip]")
        routes = self.trees or self.hand_over or self.rewrite or self.admits is not None
        if self.kind == "endpoint" and routes:
            raise ValueError("an endpoint does not route: leave out trees, hand_over, rewrite and admits")
        if self.kind != "endpoint" and self.home is not None:
            raise ValueError("home is for endpoints; other engines have routes")
        if self.kind != "endpoint" and (self.transport != "udp" or self.early_media or self.forwards_to):
            raise ValueError("transport, early_media and forwards_to are for endpoints")
        return self

    @property
    def speaks(self) -> tuple[Protocol, ...]:
        """Its protocols, including those that follow from its kind."""
        return self.protocols or _SPEAKS[self.kind]

    def port(self, protocol: Protocol) -> int:
        """The port at which it listens for ``protocol``."""
        usual: dict[Protocol, int] = {"sip": 5060, "h323": 1720, "mgcp": 2427}
        return self.ports.get(protocol, usual[protocol])


class PlanTree(PlanElement):
    """An ENUM tree: numbers as names below a domain."""

    suffix: Host
    """The domain below which numbers are looked up, such as e164.arpa."""
    zone: Host | None = None
    """The zone to write, such as 0.2.4.e164.arpa for +420; without it, the suffix, others' numbers too."""
    visibility: Visibility = "public"
    """public: in the public DNS; private: only for the plan's engines."""
    fill_holes: bool = True
    """Repeat a wildcard where a longer name hides it (RFC 4592); false: as in a hand-written zone."""
    ttl: Seconds | None = None
    """Time to live of the records, in s; without it, that of dns."""

    @property
    def origin(self) -> str:
        """The zone's name."""
        return self.zone or self.suffix


class Naptr(PlanElement):
    """A NAPTR record of ENUM (RFC 6116): one that gives a URI, or one that refers to another tree."""

    order: Short = 100
    """Lower ones come first."""
    preference: Short = 10
    """Among records of one order, lower ones come first."""
    service: Line = ""
    """ENUM service, such as E2U+sip or E2U+h323."""
    regexp: Line | None = None
    r"""Substitution expression, such as !^\+(.*)$!sip:+\1@example.net!"""
    uri: Line | None = None
    r"""Instead of regexp: the URI, in which \1 is the number without +, as in sip:+\1@example.net."""
    refer: Name | None = None
    """Instead of all of these: the tree to query next, by a non-terminal record (RFC 3403, 4.1)."""

    @model_validator(mode="after")
    def _one_of_all(self) -> Self:
        if [self.regexp, self.uri, self.refer].count(None) != 2:
            raise ValueError("give either uri, regexp or refer")
        if (self.refer is None) != bool(self.service):
            raise ValueError("give a service such as E2U+sip with uri or regexp, but none with refer")
        if self.uri is not None and "!" in self.uri:
            raise ValueError(
                "an exclamation mark ends an expression; write a whole regexp with another delimiter"
            )
        return self

    @property
    def expression(self) -> str:
        """The substitution expression; empty for a record that refers to another tree."""
        if self.refer is not None:
            return ""
        return self.regexp if self.regexp is not None else rf"!^\+(.*)$!{self.uri}!"


class EnumEntry(ValidityPeriod):
    """What a tree answers for a number, or for longer numbers that begin with a prefix."""

    tree: Name
    """The ENUM tree that has the entry."""
    number: Number | None = None
    """This number only."""
    prefix: Prefix | None = None
    """Longer numbers that begin with it, unless a longer prefix or a number matches."""
    naptr: Annotated[tuple[Naptr, ...], Field(min_length=1)]
    """What it answers, by order and preference."""
    owner: Name | None = None
    """The organisation that requested the entry."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.number is None) == (self.prefix is None):
            raise ValueError("give either number or prefix")
        if self.number is None and any(record.refer for record in self.naptr):
            # The name to query next belongs to a single number.
            raise ValueError("refer is for the records of a number, not of a prefix")
        return self

    @property
    def digits(self) -> str:
        """Of the number or the prefix."""
        return (self.number or self.prefix or "+")[1:]

    @property
    def key(self) -> str:
        """``number`` or ``prefix``."""
        return "number" if self.number is not None else "prefix"


class PlanRoute(ValidityPeriod):
    """Where an engine sends numbers that begin with a prefix, before it queries its trees or after."""

    at: Name
    """The engine that decides."""
    prefix: Prefix
    """What the numbers begin with; the longest prefix decides. "+" stands for all numbers."""
    to: Annotated[tuple[Name, ...], BeforeValidator(as_list), Field(min_length=1)]
    """Engines in the order of preference; the next one is tried if one fails."""
    arriving: Protocol | None = None
    """Only for calls that arrive over this protocol."""
    by: Protocol | None = None
    """The outgoing protocol; without it, the target's first one that the engine also speaks."""
    strip: Annotated[int, Field(strict=True, ge=0, le=values.MOST_DIGITS)] = 0
    """Number of leading digits to remove, after the +."""
    prepend: Digits = ""
    """Digits to put in front after stripping."""
    after_trees: bool = False
    """Only if no tree has the number, or all its ENUM records fail: for carriers, at proxies."""


class ServicePoint(PlanElement):
    """A service point: an SRV record (RFC 2782)."""

    service: Literal["sip", "sips", "h323cs", "h323ls", "h323rs"] = "sip"
    """Offered service."""
    transport: Literal["udp", "tcp"] = "udp"
    """Its transport."""
    priority: Short = 100
    """Lower ones come first."""
    weight: Short = 10
    """Share of the calls among targets of one priority."""
    port: Port = 5060
    """Port of the target."""
    target: Host
    """Name of the host."""


class Domain(PlanElement):
    """A zone of names, with its hosts and service points; hosts of engines are added."""

    hosts: dict[Host, Address] = {}
    """Further hosts: whole names and their addresses."""
    services: tuple[ServicePoint, ...] = ()
    """Service points."""
    ttl: Seconds | None = None
    """Time to live, in s; without it, that of dns."""


class Dns(PlanElement):
    """What every zone begins with (RFC 1035)."""

    primary: Host
    """The primary name server."""
    secondaries: tuple[Host, ...] = ()
    """Secondary name servers."""
    contact: Email
    """E-mail address of whoever is responsible for the zones."""
    ttl: Seconds = 300
    """Time to live, in s."""
    refresh: Seconds = 3600
    """After how many seconds a secondary asks for changes."""
    retry: Seconds = 900
    """After how many seconds it asks again."""
    expire: Seconds = 604800
    """After how many seconds it gives up."""
    negative_ttl: Seconds = 300
    """How long an answer "no such number" may be kept, in s (RFC 2308)."""


class Test(PlanElement):
    """A test number and the expected result of a call to it."""

    number: Dialled
    """What is dialled."""
    caller: Name | None = None
    """The endpoint that calls; without it, the plan's caller."""
    answer: Annotated[int, Field(strict=True, ge=200, le=699)] = 200
    """The final answer as a SIP status: 200, or 404 for a number without a route."""
    via: Name | None = None
    """The tree by which the first engine on the way must decide, or "static" for a route."""
    ends_at: Name | None = None
    """The endpoint that must answer."""
    meanwhile: Annotated[int, Field(strict=True, ge=0, le=20)] = 0
    """Calls to the same number that the caller already has."""
    note: Line = ""
    """What is tested."""


class NumberingPlan(PlanElement):
    """A numbering plan."""

    plan: Name
    """Its name."""
    serial: Serial = 1
    """Of the zones; raise it with every change, as in 2026013101."""
    caller: Name
    """The endpoint that calls if no other is named."""
    dns: Dns | None = None
    """What every zone begins with; no zones can be written without it."""
    organisations: dict[Name, Organisation] = {}
    """The organisations that take part."""
    ranges: tuple[Range, ...] = ()
    """Numbers and who owns them."""
    engines: dict[Name, Engine]
    """Engines that handle calls."""
    trees: dict[Name, PlanTree] = {}
    """ENUM trees."""
    enum: tuple[EnumEntry, ...] = ()
    """What the trees answer."""
    routes: tuple[PlanRoute, ...] = ()
    """Where engines send calls by prefix."""
    domains: dict[Host, Domain] = {}
    """Zones of names."""
    external: tuple[Host, ...] = ()
    """Domains outside the plan to which URIs may lead."""
    emergency: tuple[Dialled, ...] = ("112", "911")
    """Emergency numbers as they are dialled, such as "112"; every telephone should be able to dial them."""
    tests: tuple[Test, ...] = ()
    """Test numbers."""
    tables: tuple[Line, ...] = ()
    """CSV files with more ranges, routes and ENUM entries, beside this file."""
