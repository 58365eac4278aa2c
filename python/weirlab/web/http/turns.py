"""Whose request goes on: few at a time, and every client gets as much of the service's time as any other.

An event loop runs what is ready in order of arrival. With a thousand requests in progress, each step of any
of them would wait for a step of all others. Requests therefore wait for a turn before they begin, and again
when they have waited for their client or their turn has lasted long. The next turn is that of the client that
has had the least time: start-time fair queueing (Goyal, Vin and Cheng, IEEE/ACM Transactions on Networking
5(5), 1997). So the request of a client with few does not wait for all those of clients with many.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weirlab.web.addresses import site
from weirlab.web.http.connections import LOST

MOST_TURNS: Final = 4
"""At a time."""
LONGEST_TURN_S: Final = 0.2
"""Longer ones end, lest requests that wait for something else keep all others waiting."""
_MOST_REMEMBERED: Final = 10_000

T = TypeVar("T")


class Stage(Enum):
    """Of a turn."""

    WAITING = auto()
    RUNNING = auto()
    OVER = auto()


@dataclass(eq=False)
class Turn:
    """A turn of ``client``; ``begin`` is called when it is granted."""

    client: str
    begin: Callable[[], object]
    stage: Stage = Stage.WAITING
    began_s: float = 0.0


@dataclass(eq=False)
class _Share:
    """What a client has had, and what it waits for."""

    start_s: float = 0.0
    """The virtual time at which its next turn begins at the earliest."""
    running: int = 0
    waiting: deque[Turn] = field(default_factory=deque)


class FairQueue:
    """Turns, :data:`MOST_TURNS` at a time. ``now`` is in s."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._virtual_s = 0.0
        self._running = 0
        self._shares: dict[str, _Share] = {}
        self._waiting: dict[str, _Share] = {}
        """Those of clients that wait."""

    def add(self, turn: Turn) -> None:
        """Grant ``turn`` now or later."""
        if len(self._shares) >= _MOST_REMEMBERED:
            self._forget()
        share = self._shares.setdefault(turn.client, _Share())
        share.waiting.append(turn)
        self._waiting[turn.client] = share
        self._grant()

    def end(self, turn: Turn) -> None:
        """End ``turn``, whether or not it has begun. May be called again."""
        share, stage = self._shares.get(turn.client), turn.stage
        turn.stage = Stage.OVER
        if share is None or stage is Stage.OVER:
            return
        if stage is Stage.WAITING:
            share.waiting.remove(turn)
            if not share.waiting:
                del self._waiting[turn.client]
            return
        self._running -= 1
        share.running -= 1
        # The longest was charged when it began.
        share.start_s -= max(LONGEST_TURN_S - (self._now() - turn.began_s), 0.0)
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self._running < MOST_TURNS:
            client, share = min(self._waiting.items(), key=lambda each: each[1].start_s)
            self._virtual_s = max(self._virtual_s, share.start_s)
            share.start_s = self._virtual_s + LONGEST_TURN_S
            turn = share.waiting.popleft()
            if not share.waiting:
                del self._waiting[client]
            self._running += 1
            share.running += 1
            turn.stage, turn.began_s = Stage.RUNNING, self._now()
            turn.begin()

    def _forget(self) -> None:
        """Forget what clients without requests have had: they may have many addresses."""
        self._shares = {
            client: share for client, share in self._shares.items() if share.running or share.waiting
        }


class Turns:
    """ASGI middleware: lets a request go on only in its turn."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._queue = FairQueue(lambda: asyncio.get_running_loop().time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Request(self._queue, scope)
        more_body = True

        async def receive_and_wait() -> Message:
            nonlocal more_body
            if not more_body:
                # Nothing comes but the end of the connection, for which responses wait while they are sent.
                return await receive()
            request.end()
            message = await receive()
            more_body = message.get("more_body", False)
            return message if await request.begin() else {"type": "http.disconnect"}

        async def wait_and_send(message: Message) -> None:
            await request.begin()
            await send(message)
            if message["type"] == "http.response.body":
                # The next part may take long to come.
                request.end()

        _REQUEST.set(request)
        try:
            if await request.begin():
                await self._app(scope, receive_and_wait, wait_and_send)
        finally:
            request.end()


async def without_turn(work: Awaitable[T]) -> T:
    """The result of ``work``, which needs none of this process's time, such as that of a child process.

    The request that awaits it has no turn meanwhile.
    """
    request = _REQUEST.get()
    if request is not None:
        request.end()
    result = await work
    if request is not None:
        await request.begin()
    return result


class _Request:
    """The turns of one request."""

    def __init__(self, queue: FairQueue, scope: Scope) -> None:
        self._queue = queue
        self._client = site((scope.get("client") or ("",))[0])
        self._state = scope.setdefault("state", {})
        self._turn: Turn | None = None
        self._lapse: asyncio.TimerHandle | None = None
        # A response may be sent while its request is received.
        self._lock = asyncio.Lock()

    async def begin(self) -> bool:
        """Wait for a turn, unless it is this request's; false if its client has gone."""
        async with self._lock:
            return self._turn is not None or await self._wait()

    def end(self) -> None:
        """End the turn if it is this request's."""
        if self._lapse is not None:
            self._lapse.cancel()
        if self._turn is not None:
            self._queue.end(self._turn)
        self._turn = self._lapse = None

    async def _wait(self) -> bool:
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[bool] = loop.create_future()

        def settle(value: bool) -> None:
            if not granted.done():
                granted.set_result(value)

        turn = Turn(self._client, lambda: settle(True))
        self._queue.add(turn)
        self._state[LOST] = lambda: settle(False)
        try:
            if not await granted:
                self._queue.end(turn)
                return False
        except BaseException:
            self._queue.end(turn)
            raise
        finally:
            del self._state[LOST]
        self._turn = turn
        self._lapse = loop.call_later(LONGEST_TURN_S, self.end)
        return True


_REQUEST: Final[ContextVar[_Request | None]] = ContextVar("request", default=None)
"""That of the current task."""
