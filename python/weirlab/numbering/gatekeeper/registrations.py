"""The registrations with a gatekeeper and their expiry. Pure: ``now_s`` is an argument."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from weirlab.numbering.gatekeeper.ras import (
    Address,
    RegistrationConfirm,
    RegistrationReject,
    RegistrationRequest,
    UnregistrationRequest,
)

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
