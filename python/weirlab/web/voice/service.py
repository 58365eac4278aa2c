"""The state of zone management: the plan's database, the accounts, and where zones go."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from starlette.requests import Request

from weirlab.base.errors import InputError
from weirlab.numbering.managing import publishing
from weirlab.numbering.managing.accounts import Accounts, NotSignedIn, UserSession
from weirlab.numbering.managing.database import opened
from weirlab.numbering.managing.publishing import (
    PublicationPlanner,
    PublicationResult,
    PublicationServer,
    PublicationTarget,
    publish,
    serials,
)
from weirlab.numbering.managing.register import Register
from weirlab.numbering.managing.state import PlanState
from weirlab.numbering.zones import is_higher
from weirlab.web.access.proxies import BY_PROXY
from weirlab.web.settings import VoiceSettings
from weirlab.web.voice.asking import ServerZone
from weirlab.web.voice.attempts import Attempts


class Checker:
    """Checks states in a thread, which ends when there is nothing left to check."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: PlanState | None = None
        self._works = False

    def check(self, state: PlanState) -> None:
        """Check ``state`` soon, instead of waiting states."""
        with self._lock:
            self._next = state
            if self._works:
                return
            self._works = True
        threading.Thread(target=self._work, name="weir-voice-checks", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                state, self._next = self._next, None
                if state is None:
                    self._works = False
                    return
            state.complete()


FORM_HEADER: Final = "x-weir-form"


class VoiceService:
    """A plan's register and accounts."""

    def __init__(self, settings: VoiceSettings, port: int) -> None:
        self.settings = settings
        self._database = opened(settings.database)
        self.register = Register(self._database, large=Checker().check)
        self.accounts = Accounts(self.register)
        self.attempts = Attempts()
        self.outlook = PublicationPlanner(self.register)
        # Cookies do not distinguish ports.
        self.cookie_name = f"weir-voice-{port}"
        self._publishing = threading.Lock()
        # Fails at once if there is no plan.
        self.register.state()

    def close(self) -> None:
        """End the threads, and close the connections to the database."""
        self.attempts.close()
        self._database.close()

    @property
    def target(self) -> PublicationTarget | None:
        """Where zones are published; None for nowhere."""
        settings = self.settings
        if not settings.zones:
            return None
        rndc = Path(settings.rndc) if settings.rndc else None
        servers = tuple(PublicationServer(*server) for server in settings.servers)
        return PublicationTarget(Path(settings.zones), rndc, servers, settings.catalog)

    def vouched(self, request: Request) -> bool:
        """Does a trusted proxy name the user?"""
        header = self.settings.user_header
        return bool(header and request.scope["state"].get(BY_PROXY) and request.headers.get(header))

    def user(self, request: Request) -> UserSession | None:
        """The user of a request; None if not signed in.

        Raises
        ------
        NotSignedIn
            A proxy names a user without an account.
        """
        if self.vouched(request):
            return self.accounts.vouched_for(request.headers[self.settings.user_header])
        return self.accounts.signed_in(self.key(request))

    def key(self, request: Request) -> str:
        """The key of the session; empty for none."""
        return request.cookies.get(self.cookie_name, "")

    def address(self, request: Request) -> str:
        """The address of a request."""
        return request.client.host if request.client is not None else "nowhere"

    def signed_in(self, request: Request) -> UserSession:
        """The user of a request; raises ``NotSignedIn`` if there is none."""
        found = self.user(request)
        if found is None:
            raise NotSignedIn("not signed in, or the session has ended: sign in first")
        return found

    def publish(self, who: UserSession, head: int) -> PublicationResult:
        """Publish, one at a time."""
        target = self.target
        if target is None:
            raise InputError("this service has no folder for zones: start weir web with --voice-zones DIR")
        with self._publishing:
            return publish(self.outlook, who.account, head, target)

    def served(self) -> list[ServerZone]:
        """The serials at the name servers."""
        target = self.target
        with self.register.database.reading() as on:
            published = on.publication()
        if target is None or published is None:
            return []
        state = self.register.state()
        signed = publishing.signed_zones(state)
        found = []
        for server, zone, serial in serials(target.servers, target.origins(state)):
            # If BIND signs a zone, it counts on from the published serial.
            current = serial == published.serial or (
                serial is not None and zone in signed and is_higher(serial, published.serial)
            )
            found.append(ServerZone(str(server), zone, serial, current))
        return found
