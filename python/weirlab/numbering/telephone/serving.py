"""A telephone with its sockets: registration, calls made and taken, orders."""

from __future__ import annotations

import random
import secrets
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from weirlab.numbering.gatekeeper import ras
from weirlab.numbering.gatekeeper.ras import Address, RasMessage
from weirlab.numbering.telephone import h225
from weirlab.numbering.telephone.call import Call
from weirlab.numbering.telephone.h225 import H225Message
from weirlab.numbering.telephone.registering import Registration
from weirlab.numbering.telephone.session import (
    CallSession,
    ConnectionLoss,
    Tell,
    TpktConnection,
    bound,
    datagrams,
    listening,
)
from weirlab.numbering.telephone.settings import Client, Order, TelephoneSettings

_BUSY_S: Final = 0.005
_IDLE_S: Final = 0.1
"""Polling intervals with and without calls."""
_SETUP_S: Final = 5.0
"""A connection without a Setup is closed after this time."""
MOST_STRANGERS: Final = 32
"""Connections without a Setup; if there are more, the oldest is closed."""
MOST_CALLS: Final = 200
"""Calls at once, four sockets each; further connections are closed. There are 400 ports for speech."""
_ACCEPTS: Final = 16
"""Most connections that are accepted at once, so that calls get their turn."""
_DATAGRAMS: Final = 64
"""Most datagrams of RAS that are read at once."""

CAUSES: Final = {
    "calledPartyNotRegistered": 1, "incompleteAddress": 28, "requestDenied": h225.REJECTED,
    "callerNotRegistered": h225.REJECTED, "invalidEndpointIdentifier": h225.REJECTED,
    "securityDenial": h225.REJECTED, "resourceUnavailable": h225.NO_RESOURCE,
    "exceedsCallCapacity": h225.NO_RESOURCE,
}  # fmt: skip
"""Causes for a gatekeeper's reasons to reject a call (H.225.0, AdmissionRejectReason)."""


@dataclass
class _ActiveCall:
    """A call in progress, and the client that ordered it."""

    session: CallSession
    client: Client | None
    """The client that ordered it; for an incoming call, the client that has calls taken."""
    begun_s: float
    limit_s: float
    hold_s: float | None = None
    admitted: bool = False
    answered: bool = False


class Telephone:
    """The program, but for its loop; ``tell`` takes lines for the log."""

    def __init__(self, settings: TelephoneSettings, tell: Tell) -> None:
        self.settings, self._tell = settings, tell
        self._listener = listening(Address(settings.address, settings.port))
        here = Address(settings.address, self._listener.getsockname()[1])
        self._own = replace(settings.own, signalling=here)
        self._ras = datagrams(Address(settings.address, 0))
        self._orders = _ordered(Path(settings.orders))
        self._registration: Registration | None = None
        if settings.gatekeeper is not None:
            own = Address(settings.address, self._ras.getsockname()[1])
            self._registration = Registration(settings.gatekeeper.place, settings.telephone, here, own)
        self._now_s = 0.0
        self._clients: list[Client] = []
        self._talks: list[_ActiveCall] = []
        self._wanting: list[tuple[Client, Order, float]] = []
        """Orders that wait for the registration, and their deadlines."""

    @property
    def signalling(self) -> Address:
        """Where it takes calls."""
        return self._own.signalling

    def run(self) -> None:
        """For ever."""
        while True:
            self.turn(time.monotonic())
            self._wait()

    def turn(self, now_s: float) -> None:
        """Do what is due."""
        self._now_s = now_s
        self._accept(now_s)
        for client in [*self._clients]:
            order = client.read()
            if order is not None:
                self._obey(client, order, now_s)
        self._register(now_s)
        for talk in [*self._talks]:
            self._turn(talk, now_s)
        for client, _, limit_s in self._wanting:
            if now_s > limit_s:
                client.say(f"over: cause {h225.NO_CIRCUIT}, it is not registered with a gatekeeper")
                client.gone = True
        self._wanting = [each for each in self._wanting if not each[0].gone]
        for client in [each for each in self._clients if each.gone]:
            client.close()
            self._clients.remove(client)

    def close(self) -> None:
        """Hang up, unregister, close everything."""
        for talk in [*self._talks]:
            if talk.session.call is not None:
                talk.session.call.hang_up()
            self._end(talk)
        if self._registration is not None:
            self._registration.leave()
            self._send()
        for each in (self._listener, self._ras, self._orders, *(client.socket for client in self._clients)):
            each.close()

    def _wait(self) -> None:
        # select() cannot wait for a descriptor above 1023.
        waiting = select.poll()
        for each in (self._listener, self._ras, self._orders, *(client.socket for client in self._clients)):
            waiting.register(each, select.POLLIN)
        for talk in self._talks:
            reads, writes = talk.session.waited_for
            for each in {*reads, *writes}:
                wanted = (select.POLLIN if each in reads else 0) | (select.POLLOUT if each in writes else 0)
                waiting.register(each, wanted)
        waiting.poll(1000 * (_BUSY_S if self._talks else _IDLE_S))

    # With the gatekeeper.

    def _register(self, now_s: float) -> None:
        if self._registration is None:
            self._ready()
            return
        for _ in range(_DATAGRAMS):
            try:
                content, source = self._ras.recvfrom(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                # Nobody waits there.
                continue
            if self.settings.gatekeeper is not None and source[0] == self.settings.gatekeeper.address:
                self._registration.received(content, now_s)
        self._registration.due(now_s)
        self._send()
        if self._registration.endpoint:
            self._ready()

    def _send(self) -> None:
        registration, keeper = self._registration, self.settings.gatekeeper
        if registration is None or keeper is None:
            return
        for content in registration.out:
            with suppress(OSError):
                self._ras.sendto(content, keeper.place)
        registration.out.clear()
        for line in registration.news:
            self._tell(line)
        registration.news.clear()

    def _ready(self) -> None:
        wanting, self._wanting = self._wanting, []
        for client, order, _ in wanting:
            if order.takes:
                client.say("ready")
            for _ in range(order.times if order.calls else 0):
                self._call(client, order, self._now_s)

    # With those who give orders.

    def _accept(self, now_s: float) -> None:
        with suppress(BlockingIOError):
            self._clients.append(Client(self._orders.accept()[0]))
        for _ in range(_ACCEPTS):
            try:
                connected, peer = self._listener.accept()
            except OSError:
                # Nobody is waiting, or has gone meanwhile.
                break
            self._called(TpktConnection(connected, Address(*peer[:2])), now_s)

    def _obey(self, client: Client, order: Order, now_s: float) -> None:
        limit_s = float("inf") if order.takes else now_s + order.longest_s
        self._wanting.append((client, order, limit_s))

    # Calls.

    def _session(self) -> CallSession:
        return CallSession(self.settings.address, self.settings.speech, self._tell)

    def _called(self, connection: TpktConnection, now_s: float) -> None:
        """Accept a connection, if there is room for another call."""
        strangers = [each for each in self._talks if each.session.call is None]
        if len(strangers) >= MOST_STRANGERS:
            self._tell(f"{len(strangers)} connections have no Setup: the oldest is closed")
            self._end(strangers[0])
        try:
            if len(self._talks) >= MOST_CALLS:
                raise OSError(f"there are {MOST_CALLS} calls already")
            session = self._session()
        except OSError as error:
            self._tell(f"a connection from {connection.peer.host} is refused: {error}")
            connection.close()
            return
        session.signalling = connection
        # The last one, because earlier ones may have gone unnoticed.
        takers = (
            client for client in reversed(self._clients) if client.order is not None and client.order.takes
        )
        taking = next(takers, None)
        talk = _ActiveCall(session, taking, now_s, now_s + _SETUP_S)
        session.on_setup = lambda setup: self._taken(talk, setup)
        self._talks.append(talk)

    def _taken(self, talk: _ActiveCall, setup: H225Message) -> None:
        order = None if talk.client is None else talk.client.order
        session = talk.session
        call = Call.taken(self._own, session.media, session.control, setup)
        session.call, talk.limit_s = call, float("inf")
        if cause := h225.NO_USER if order is None else order.refuses:
            call.hang_up(cause, "calls are refused")
            return
        self._ask(talk, call, answers=True, then=lambda place, number: call.admitted(self._now_s))

    def _call(self, client: Client, order: Order, now_s: float) -> None:
        try:
            session = self._session()
        except OSError as error:
            client.say(f"over: cause {h225.NO_CIRCUIT}, {error}")
            return
        reference, identifier = random.randrange(1, 1 << 15), secrets.token_hex(16)
        call = Call(self._own, session.media, session.control, identifier, reference, order.calls)
        session.call = call
        talk = _ActiveCall(session, client, now_s, now_s + order.longest_s, order.hold_s)
        self._talks.append(talk)
        home = self.settings.home
        if home is not None:
            self._begin(talk, call, home.place, call.number)
        else:
            self._ask(
                talk, call, answers=False, then=lambda place, number: self._begin(talk, call, place, number)
            )

    def _ask(
        self, talk: _ActiveCall, call: Call, *, answers: bool, then: Callable[[Address, str], None]
    ) -> None:
        """Ask the gatekeeper about a call; without one, taking calls needs no permission."""

        def done(answer: RasMessage | None) -> None:
            if call.over:
                if isinstance(answer, ras.AdmissionConfirm) and self._registration is not None:
                    self._registration.over(call)
                return
            match answer:
                case ras.AdmissionConfirm():
                    talk.admitted = True
                    then(answer.destination, answer.digits or call.number)
                case ras.AdmissionReject():
                    cause = CAUSES.get(answer.reason, h225.NO_CIRCUIT)
                    call.hang_up(cause, f"the gatekeeper rejects the call: {answer.reason}")
                case None:
                    # The answer may be lost or late, so tell the gatekeeper that the call is over.
                    talk.admitted = True
                    call.hang_up(h225.NO_CIRCUIT, "the gatekeeper does not answer")

        if self._registration is not None:
            self._registration.admission(call, answers=answers, done=done)
        elif answers:
            then(call.own.signalling, call.number)
        else:
            call.hang_up(h225.NO_CIRCUIT, "there is neither a gatekeeper nor a gateway for its calls")

    def _begin(self, talk: _ActiveCall, call: Call, place: Address, number: str) -> None:
        call.number = number
        try:
            talk.session.signalling = TpktConnection.to(place)
        except ConnectionLoss as gone:
            call.closed(str(gone))
            return
        call.begin(self._now_s)

    def _turn(self, talk: _ActiveCall, now_s: float) -> None:
        session = talk.session
        session.turn(now_s)
        call = session.call
        if call is None:
            if session.signalling is None or now_s > talk.limit_s:
                self._tell("a connection without a Setup has ended")
                self._end(talk)
            return
        if call.connected and call.speaks_to is not None and not talk.answered:
            talk.answered = True
            if talk.client is not None:
                talk.client.say("answered")
        held = talk.hold_s is not None and call.heard_s is not None and now_s >= call.heard_s + talk.hold_s
        if held or (talk.client is not None and talk.client.gone):
            call.hang_up()
        elif now_s > talk.limit_s and call.heard_s is None:
            what = "nothing is heard" if call.connected else "no answer"
            call.hang_up(h225.NO_ANSWER, f"{what} in time")
        session.say()
        if call.over:
            self._end(talk)

    def _end(self, talk: _ActiveCall) -> None:
        if talk not in self._talks:
            return
        self._talks.remove(talk)
        call = talk.session.call
        talk.session.close()
        if call is None:
            return
        if talk.admitted and self._registration is not None:
            self._registration.over(call)
            self._send()
        told = f"over: cause {call.cause}" + (f", {call.why}" if call.why else "")
        self._tell(f"call {call.number or call.identifier} {told}")
        client = talk.client
        if client is not None and client.order is not None and client.order.calls:
            client.say(told)
            if all(each.client is not client for each in self._talks):
                client.gone = True


def _ordered(path: Path) -> socket.socket:
    """The socket for orders; it replaces one that an earlier telephone has left."""
    path.unlink(missing_ok=True)
    return bound(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), str(path), listens=True)
