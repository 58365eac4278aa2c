"""The gatekeeper's answer to every request, and who has registered.

It does no I/O: queries to others and the time, ``now_s``, are arguments.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from weirlab.numbering.ere import BadExpression, Substitution
from weirlab.numbering.gatekeeper import ras
from weirlab.numbering.gatekeeper.ras import (
    Address,
    RasMessage,
    RegistrationConfirm,
    RegistrationReject,
    RegistrationRequest,
    UnregistrationRequest,
)
from weirlab.numbering.gatekeeper.table import Caller, GatekeeperTable, GatekeeperTarget, NaptrRecord
from weirlab.numbering.routing.profiles import SCHEMES, Uri, leads_to

MOST: Final = 1000
"""Most registrations."""
MOST_OF_HOST: Final = 20
"""Most registrations of endpoints at one address."""
LIVE_S: Final = 60
"""Lifetime of a registration, before which endpoints renew it (H.225.0, 7.9.2, timeToLive)."""


@dataclass(frozen=True)
class EndpointRegistration:
    """A registered endpoint."""

    signalling: Address
    aliases: tuple[str, ...]
    until_s: float


class Registrations:
    """Registered endpoints, by the identifier that they were given.

    An endpoint is known by its address: ``source`` is where a message came from; nobody speaks for others.
    """

    def __init__(self, gatekeeper: str) -> None:
        self._gatekeeper = gatekeeper
        self._known: dict[str, EndpointRegistration] = {}

    def register(
        self, request: RegistrationRequest, source: str, now_s: float
    ) -> RegistrationConfirm | RegistrationReject:
        """Register an endpoint, or renew its registration."""
        self._known = {name: each for name, each in self._known.items() if now_s < each.until_s}
        if request.keeps_alive:
            known = self.known(request.endpoint, source, now_s)
            if known is None:
                return RegistrationReject(request.number, "fullRegistrationRequired")
            identifier, aliases, signalling = request.endpoint, known.aliases, known.signalling
        elif request.signalling is None or not same_host(request.signalling.host, source):
            return RegistrationReject(request.number, "invalidCallSignalAddress")
        else:
            aliases, signalling = request.aliases, request.signalling
            identifier = f"{signalling.host}:{signalling.port}"
            hosts = [each.signalling.host for each in self._known.values()]
            full = len(hosts) >= MOST or hosts.count(signalling.host) >= MOST_OF_HOST
            if full and identifier not in self._known:
                return RegistrationReject(request.number, "resourceUnavailable")
        self._known[identifier] = EndpointRegistration(signalling, aliases, now_s + LIVE_S)
        return RegistrationConfirm(request.number, self._gatekeeper, identifier, LIVE_S)

    def unregister(self, request: UnregistrationRequest, source: str) -> None:
        """Forget an endpoint, by its identifier or its address."""
        self._known = {
            identifier: each
            for identifier, each in self._known.items()
            if not same_host(each.signalling.host, source)
            or (identifier != request.endpoint and each.signalling != request.signalling)
        }

    def known(self, endpoint: str, source: str, now_s: float) -> EndpointRegistration | None:
        """An endpoint by its identifier; None if it is not registered there, or no longer."""
        found = self._known.get(endpoint)
        if found is None or now_s >= found.until_s or not same_host(found.signalling.host, source):
            return None
        return found

    def lives(self, endpoint: str, now_s: float) -> bool:
        """Is an endpoint registered?"""
        found = self._known.get(endpoint)
        return found is not None and now_s < found.until_s

    def is_at(self, place: Address, now_s: float) -> bool:
        """Is an endpoint registered that takes calls at ``place``?"""
        return any(each.signalling == place and now_s < each.until_s for each in self._known.values())


def same_host(one: str, other: str) -> bool:
    """Are these the same address, however they are written?"""
    if one == other:
        return True
    try:
        return ipaddress.ip_address(one) == ipaddress.ip_address(other)
    except ValueError:
        return False


MOST_HOPS: Final = 8
"""Most neighbours to which a location request is passed on."""

Records = Callable[[str, str], Awaitable[Sequence[NaptrRecord]]]
"""The NAPTR records of a number, digits, in the tree with a suffix."""
Places = Callable[[str, int | None], Awaitable[Sequence[Address]]]
"""The places where calls for a host and a port, if the URI has one, go; the preferred one first."""
Ask = Callable[[Address, str, int, tuple[str, ...]], Awaitable[Address | str | None]]
"""The location of a number by a neighbour, or why it rejects; None if it does not answer.

Its arguments are the neighbour, the number, how many others it may ask, and the callers.
"""

BARRED: Final = "requestDenied"
"""Reason for calls that admission rules forbid (AdmissionRejectReason, LocationRejectReason)."""
FULL: Final = "resourceUnavailable"
"""Reason for calls of an organisation that already has all the calls that it may have."""
NOWHERE: Final = "calledPartyNotRegistered"


class CallDestination(NamedTuple):
    """Where a number leads."""

    place: Address
    digits: str


class Gatekeeper:
    """One gatekeeper, of ``table``; ``tell`` is called with a line about every decision."""

    def __init__(
        self, table: GatekeeperTable, records: Records, places: Places, ask: Ask, tell: Callable[[str], None]
    ) -> None:
        self.table = table
        self.registrations = Registrations(table.gatekeeper)
        self._calls: dict[tuple[str, str, int], str] = {}
        """The callers' organisations of calls that were admitted and have not ended.

        By endpoint and by the call's identifier in its messages.
        """
        self._asking: dict[tuple[str, str, int], bool] = {}
        """Calls that are being admitted, and whether they are still wanted."""
        self._records, self._places, self._ask = records, places, ask
        self._tell = tell

    async def answer(self, asked: RasMessage, source: str, now_s: float) -> RasMessage | None:
        """The answer to a message from the address ``source``; None if it is not a request."""
        match asked:
            case ras.GatekeeperRequest():
                return ras.GatekeeperConfirm(asked.number, self.table.gatekeeper, self.table.ras)
            case ras.RegistrationRequest():
                answer = self.registrations.register(asked, source, now_s)
                if not asked.keeps_alive and isinstance(answer, ras.RegistrationConfirm):
                    self._tell(f"REGISTERED {answer.endpoint} {' '.join(asked.aliases)}")
                return answer
            case ras.UnregistrationRequest():
                self.registrations.unregister(asked, source)
                return ras.UnregistrationConfirm(asked.number)
            case ras.AdmissionRequest():
                call = (asked.endpoint, asked.call, asked.reference)
                if call in self._asking:
                    # A repetition: the answer to the first request is on its way.
                    return None
                self._asking[call] = True
                try:
                    return await self._admitted(asked, source, now_s)
                finally:
                    del self._asking[call]
            case ras.DisengageRequest():
                if self.registrations.known(asked.endpoint, source, now_s) is None:
                    return ras.DisengageConfirm(asked.number)
                call = (asked.endpoint, asked.call, asked.reference)
                self._calls.pop(call, None)
                if call in self._asking:
                    self._asking[call] = False
                return ras.DisengageConfirm(asked.number)
            case ras.BandwidthRequest():
                return ras.BandwidthConfirm(asked.number, asked.bandwidth)
            case ras.LocationRequest():
                return await self._located(asked, source, now_s)
            case ras.InfoRequestResponse():
                return self._informed(asked, source, now_s)
        return None

    def _informed(self, asked: ras.InfoRequestResponse, source: str, now_s: float) -> RasMessage | None:
        """The answer to a call's status, if the endpoint waits for one (H.225.0, 7.15.2)."""
        if not asked.needs_response:
            return None
        if self.registrations.known(asked.endpoint, source, now_s) is None:
            return ras.InfoRequestNak(asked.number, "notRegistered")
        return ras.InfoRequestAck(asked.number)

    async def _admitted(self, asked: ras.AdmissionRequest, source: str, now_s: float) -> RasMessage:
        known = self.registrations.known(asked.endpoint, source, now_s)
        if known is None:
            return ras.AdmissionReject(asked.number, "invalidEndpointIdentifier")
        if asked.answers:
            here = asked.destination or known.signalling
            return ras.AdmissionConfirm(asked.number, asked.bandwidth, here)
        if not asked.digits:
            return ras.AdmissionReject(asked.number, "incompleteAddress")
        caller = self.table.callers.get(known.signalling.host)
        call = (asked.endpoint, asked.call, asked.reference)
        if caller is None and self.table.closed:
            self._tell(f"REJECTED num={asked.digits} {known.signalling.host} is not admitted")
            return ras.AdmissionReject(asked.number, BARRED)
        if caller is not None and (why := self._forbidden(caller, asked.digits, call, now_s)):
            return ras.AdmissionReject(asked.number, why)
        callers = () if caller is None else (caller.engine,)
        found = await self._find(asked.digits, MOST_HOPS, callers, now_s)
        if isinstance(found, str):
            return ras.AdmissionReject(asked.number, found)
        if found.digits != asked.digits and not asked.maps:
            self._tell(f"{asked.endpoint} cannot call {found.digits} in place of {asked.digits}")
            return ras.AdmissionReject(asked.number, "undefinedReason")
        if caller is not None:
            # Others may have been admitted while a neighbour was asked.
            if why := self._full(caller, asked.digits, call, now_s):
                return ras.AdmissionReject(asked.number, why)
            if self._asking[call] and asked.digits not in caller.emergency:
                self._calls[call] = caller.organisation
        number = found.digits if found.digits != asked.digits else ""
        return ras.AdmissionConfirm(asked.number, asked.bandwidth, found.place, number)

    def _forbidden(self, caller: Caller, digits: str, call: tuple[str, str, int], now_s: float) -> str:
        """Why the rules of the plan forbid a call; empty if they do not."""
        if not caller.admitted:
            self._tell(f"REJECTED num={digits} {caller.organisation} is not admitted ({caller.place})")
            return BARRED
        if not caller.may(digits):
            self._tell(f"REJECTED num={digits} {caller.organisation} may not call it ({caller.place})")
            return BARRED
        return self._full(caller, digits, call, now_s)

    def _full(self, caller: Caller, digits: str, call: tuple[str, str, int], now_s: float) -> str:
        if caller.most_calls is None or digits in caller.emergency:
            return ""
        # The calls of endpoints that have gone silently are over.
        self._calls = {
            each: name for each, name in self._calls.items() if self.registrations.lives(each[0], now_s)
        }
        others = [name for each, name in self._calls.items() if each != call]
        if others.count(caller.organisation) < caller.most_calls:
            return ""
        self._tell(f"REJECTED {caller.organisation} has {caller.most_calls} calls ({caller.place})")
        return FULL

    async def _located(self, asked: ras.LocationRequest, source: str, now_s: float) -> RasMessage:
        if source not in self.table.neighbours:
            self._tell(f"{source} is no neighbour")
            return ras.LocationReject(asked.number, "requestDenied")
        if not asked.digits:
            return ras.LocationReject(asked.number, "incompleteAddress")
        hops = min(asked.hops or MOST_HOPS, MOST_HOPS)
        caller = self.table.named(asked.callers)
        if caller is not None and not caller.admitted:
            told = f"{caller.organisation} is not admitted ({caller.place})"
            self._tell(f"REJECTED num={asked.digits} {told}")
            return ras.LocationReject(asked.number, BARRED)
        found = await self._find(asked.digits, hops - 1, asked.callers, now_s)
        if found == BARRED:
            return ras.LocationReject(asked.number, BARRED)
        # The answer cannot hold another number.
        if isinstance(found, str) or found.digits != asked.digits:
            return ras.LocationReject(asked.number, "notRegistered")
        return ras.LocationConfirm(asked.number, found.place, self.table.ras)

    async def _find(
        self, digits: str, hops: int, callers: tuple[str, ...], now_s: float, *, dipped: bool = False
    ) -> CallDestination | str:
        """Resolve a number by a route, otherwise by the trees; neighbours may ask ``hops`` more.

        A number that a tree gave as that of a ported one is not asked for again (``dipped``, RFC 4694, 4.2).

        Returns the reason of an AdmissionReject if the number leads nowhere.
        """
        route = self.table.route(digits)
        if route is not None:
            names = "|".join(target.engine for target in route.targets)
            self._tell(f"ROUTE num={digits} via=static target={names}")
            leaving = route.leaving(digits)
            if not leaving:
                return "incompleteAddress"
            why = NOWHERE
            for target in self._preferred(route.targets, now_s):
                place: Address | str | None = target.place
                if target.neighbour:
                    place = await self._ask(target.place, leaving, hops, callers) if hops > 0 else None
                if isinstance(place, Address):
                    return CallDestination(place, leaving)
                why = BARRED if place == BARRED else why
            return why
        for tree in () if dipped else self.table.trees:
            for uri in usable(await self._records(digits, tree.suffix), digits, self.table.hand_over):
                if uri.scheme == "tel":
                    number = uri.routing_number or uri.number
                    if number is not None and hops > 0:
                        self._tell(f"ROUTE num={digits} via={tree.tree} target={uri.text}")
                        return await self._find(number[1:], hops - 1, callers, now_s, dipped=uri.is_dipped)
                    continue
                reached = await self._reached(uri)
                if reached is not None:
                    self._tell(f"ROUTE num={digits} via={tree.tree} target={uri.text}")
                    return CallDestination(reached, digits if uri.scheme != "h323" else _digits(uri, digits))
        self._tell(f"ROUTE num={digits} via=none")
        return NOWHERE

    def _preferred(self, targets: Sequence[GatekeeperTarget], now_s: float) -> list[GatekeeperTarget]:
        """``targets`` with those that have registered before those that have not."""
        there = [
            target for target in targets if target.neighbour or self.registrations.is_at(target.place, now_s)
        ]
        return [*there, *(target for target in targets if target not in there)]

    async def _reached(self, uri: Uri) -> Address | None:
        wanted = SCHEMES[uri.scheme]
        if wanted != "h323":
            return self.table.hand_over[wanted].place
        return next(iter(await self._places(uri.host, uri.port)), None)


def usable(
    records: Sequence[NaptrRecord], digits: str, hand_over: Mapping[str, GatekeeperTarget]
) -> list[Uri]:
    """The URIs of records for H.323, for protocols of gateways, or of other numbers, in their order."""
    found = []
    spoken = {"h323", "tel", *hand_over}
    for record in sorted(records, key=lambda each: (each.order, each.preference)):
        wanted = leads_to(record.service)
        if wanted not in spoken or record.replacement:
            continue
        try:
            text = Substitution.parse(record.expression).apply(f"+{digits}")
        except BadExpression:
            continue
        uri = Uri.parse(text) if text is not None else None
        if uri is not None and SCHEMES.get(uri.scheme) == wanted:
            found.append(uri)
    return found


def _digits(uri: Uri, digits: str) -> str:
    """The number in a URI; the requested one if it has none."""
    return (uri.number or f"+{digits}")[1:]
