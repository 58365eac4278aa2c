"""The registrations with a gatekeeper and their expiry. Pure: ``now_s`` is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weirlab.studies.voice.gatekeeper.ras import (
    Address,
    RegistrationConfirm,
    RegistrationReject,
    RegistrationRequest,
    UnregistrationRequest,
)

LIVE_S: Final = 60
"""Lifetime of a registration, before which endpoints renew it (H.225.0, 7.9.2, timeToLive)."""


@dataclass(frozen=True)
class Registered:
    """A registered endpoint."""

    signalling: Address
    aliases: tuple[str, ...]
    until_s: float


class Registrations:
    """Registered endpoints, by the identifier that they were given."""

    def __init__(self, gatekeeper: str) -> None:
        self._gatekeeper = gatekeeper
        self._known: dict[str, Registered] = {}

    def register(
        self, request: RegistrationRequest, now_s: float
    ) -> RegistrationConfirm | RegistrationReject:
        """Register an endpoint, or renew its registration."""
        if request.keeps_alive:
            known = self.known(request.endpoint, now_s)
            if known is None:
                return RegistrationReject(request.number, "fullRegistrationRequired")
            identifier, aliases, signalling = request.endpoint, known.aliases, known.signalling
        elif request.signalling is None:
            return RegistrationReject(request.number, "invalidCallSignalAddress")
        else:
            aliases, signalling = request.aliases, request.signalling
            identifier = f"{signalling.host}:{signalling.port}"
        self._known[identifier] = Registered(signalling, aliases, now_s + LIVE_S)
        return RegistrationConfirm(request.number, self._gatekeeper, identifier, LIVE_S)

    def unregister(self, request: UnregistrationRequest) -> None:
        """Forget an endpoint, by its identifier or its address."""
        self._known = {
            identifier: each
            for identifier, each in self._known.items()
            if identifier != request.endpoint and each.signalling != request.signalling
        }

    def known(self, endpoint: str, now_s: float) -> Registered | None:
        """An endpoint by its identifier; None if it is not registered, or its registration has expired."""
        found = self._known.get(endpoint)
        return found if found is not None and now_s < found.until_s else None

    def is_at(self, place: Address, now_s: float) -> bool:
        """Is an endpoint registered that takes calls at ``place``?"""
        return any(each.signalling == place and now_s < each.until_s for each in self._known.values())
