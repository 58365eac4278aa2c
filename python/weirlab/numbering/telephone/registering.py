"""What passes between a telephone and its gatekeeper (H.225.0 RAS). No I/O: ``now_s`` is an argument."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from weirlab.base.quoting import printable, shortened
from weirlab.numbering.gatekeeper import datagrams, ras
from weirlab.numbering.gatekeeper.ras import Address, RasMessage
from weirlab.numbering.telephone.call import Call

AGAIN_S: Final = 1.0
MOST_SENT: Final = 3
"""A request is repeated after this time, at most this many times."""

_BANDWIDTH: Final = 1280
"""128 kbit/s in units of 100 bit/s: 64 kbit/s each way."""

Done = Callable[[RasMessage | None], None]
"""Called with an answer, or with None if there is none."""


@dataclass
class _OutstandingRequest:
    """A request that has not been answered yet."""

    content: bytes
    again_s: float
    times: int
    done: Done


class Registration:
    """A telephone at its gatekeeper. Datagrams to be sent are in ``out``, lines for the log in ``news``."""

    def __init__(self, gatekeeper: Address, name: str, signalling: Address, here: Address) -> None:
        self.out: list[bytes] = []
        self.news: list[str] = []
        self.endpoint = ""
        """Its identifier at the gatekeeper; empty while it is not registered."""
        self._gatekeeper = gatekeeper
        self._about = ras.RegistrationRequest(1, signalling, (name,), "", False, here)
        self._name = name
        self._numbers = itertools.cycle(range(1, 65536))
        self._asked: dict[int, _OutstandingRequest] = {}
        self._next_s: float | None = 0.0
        self._now_s = 0.0
        self._silent = False

    def received(self, content: bytes, now_s: float) -> None:
        """A datagram arrived."""
        self._now_s = now_s
        try:
            message = datagrams.read(content)
        except ras.NoMessage as error:
            self._say(f"gatekeeper {self._gatekeeper.host}: {error}")
            return
        waiting = self._asked.pop(message.number, None)
        if waiting is not None:
            waiting.done(message)

    def due(self, now_s: float) -> None:
        """Register, renew the registration, ask again."""
        self._now_s = now_s
        for number, asked in list(self._asked.items()):
            if now_s < asked.again_s:
                continue
            if asked.times >= MOST_SENT:
                del self._asked[number]
                asked.done(None)
                continue
            self.out.append(asked.content)
            asked.times, asked.again_s = asked.times + 1, now_s + AGAIN_S
        if self._next_s is not None and now_s >= self._next_s:
            self._next_s = None
            again = replace(self._about, endpoint=self.endpoint, keeps_alive=bool(self.endpoint))
            self._ask(again, self._registered)

    def admission(self, call: Call, *, answers: bool, done: Done) -> None:
        """May this call be made, or taken?"""
        if not self.endpoint:
            done(None)
            return
        number = "" if answers else call.number
        here = call.own.signalling if answers else None
        asked = ras.AdmissionRequest(
            1, self.endpoint, number, answers, _BANDWIDTH, here, False, call.identifier, call.reference,
            (self._name,),
        )  # fmt: skip
        self._ask(asked, done)

    def over(self, call: Call) -> None:
        """An admitted call has ended."""
        if self.endpoint:
            self._ask(
                ras.DisengageRequest(1, self.endpoint, call.identifier, call.reference), lambda answer: None
            )

    def leave(self) -> None:
        """Unregister, without waiting for the answer."""
        if self.endpoint:
            signalling = self._about.signalling
            self._ask(ras.UnregistrationRequest(1, self.endpoint, signalling), lambda answer: None)

    def _say(self, line: str) -> None:
        """``line`` for the log: a gatekeeper's words must not begin another one, nor be of any length."""
        self.news.append(shortened(printable(line).replace("\n", "\\n")))

    def _registered(self, answer: RasMessage | None) -> None:
        match answer:
            case ras.RegistrationConfirm():
                if not self.endpoint:
                    self._say(f"registered with {answer.gatekeeper} as {answer.endpoint}")
                self.endpoint, self._silent = answer.endpoint, False
                self._next_s = self._now_s + max(answer.live_s / 2, AGAIN_S)
                return
            case ras.RegistrationReject():
                if not self.endpoint:
                    self._say(f"gatekeeper {self._gatekeeper.host} rejects: {answer.reason}")
            case _ if not self._silent:
                self._silent = True
                self._say(f"gatekeeper {self._gatekeeper.host} does not answer")
        # A gatekeeper that has been restarted has no registrations.
        self.endpoint, self._next_s = "", self._now_s + AGAIN_S

    def _ask(self, message: RasMessage, done: Done) -> None:
        number = next(self._numbers)
        content = datagrams.written(replace(message, number=number))
        self._asked[number] = _OutstandingRequest(content, self._now_s + AGAIN_S, 1, done)
        self.out.append(content)
