"""Attempts to prove a password: guessing is slowed down, and few passwords are checked at a time.

Whoever guesses must not lock out others. So failures count by client (an address, or 64 bits of IPv6), never
by account. Where a user has signed in before, they count for that user alone, and a second thread checks the
passwords.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import Final, TypeVar

from weirlab.base.errors import InputError
from weirlab.numbering.managing.accounts import NotSignedIn, WrongPassword
from weirlab.web.addresses import site

FREE: Final = 5
"""Failures without consequences."""
MOST_DELAY_S: Final = 30.0
WINDOW_S: Final = 300.0
"""Failures are forgotten so long after the last one."""
MOST_OF_CLIENT: Final = 4
"""Attempts of a client at a time, those that are delayed included."""
MOST_DELAYED: Final = 100
"""Attempts that are delayed at a time, of all clients."""
MOST_QUEUED: Final = 8
"""Attempts that wait for a thread or have it, for each of the threads."""
_MOST_REMEMBERED: Final = 10_000
_NICENESS: Final = 10

T = TypeVar("T")
Client = tuple[str, ...]


class TooManyAttempts(InputError):
    """There are too many attempts at a time."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = max(1, round(wait_s))
        super().__init__(f"too many attempts to sign in; try again in {self.wait_s} s")


@dataclass
class Failures:
    """Failures of a client, each within :data:`WINDOW_S` of the one before it."""

    number: int = 0
    last_s: float = 0.0

    def delay_s(self) -> float:
        """How long the next attempt is delayed."""
        beyond = self.number - FREE
        return 0.0 if beyond < 0 else min(MOST_DELAY_S, 2.0 ** min(beyond, 10))


@dataclass
class Attempts:
    """Attempts of all clients. For one event loop; ``now`` and ``sleep`` are in s."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _failures: OrderedDict[Client, Failures] = field(default_factory=OrderedDict)
    _users: OrderedDict[Client, None] = field(default_factory=OrderedDict)
    """Names of accounts, and clients that have signed in to them."""
    _active: Counter[Client] = field(default_factory=Counter)
    _delayed: Counter[bool] = field(default_factory=Counter)
    """By whether the client is known, as the following."""
    _threads: dict[bool, ThreadPoolExecutor] = field(
        default_factory=lambda: {
            known: ThreadPoolExecutor(1, "weir-passwords", initializer=None if known else _step_back)
            for known in (False, True)
        }
    )
    _places: dict[bool, BoundedSemaphore] = field(
        default_factory=lambda: {known: BoundedSemaphore(MOST_QUEUED) for known in (False, True)}
    )

    async def make(self, name: str, address: str, attempt: Callable[[int], T]) -> T:
        """Call ``attempt`` in a thread with the number of failures before it, and return what it returns.

        It raises ``NotSignedIn`` or ``WrongPassword`` if the password of the account ``name`` is wrong.

        Raises
        ------
        TooManyAttempts
            There are too many attempts of this client, or of all.
        """
        user = (name, site(address))
        known = user in self._users
        client = user if known else user[1:]
        failures = self._recent(client)
        delay_s = failures.delay_s()
        if self._active[client] >= MOST_OF_CLIENT:
            raise TooManyAttempts(delay_s)
        self._active[client] += 1
        try:
            if delay_s:
                await self._delay(known, delay_s)
            made = await self._run(known, lambda: attempt(failures.number))
        except (NotSignedIn, WrongPassword):
            self._fail(client)
            raise
        finally:
            self._active[client] -= 1
            if not self._active[client]:
                del self._active[client]
        self._failures.pop(user, None)
        _remember(self._users, user, None)
        return made

    def close(self) -> None:
        """End the threads."""
        for thread in self._threads.values():
            thread.shutdown(cancel_futures=True)

    async def _delay(self, known: bool, delay_s: float) -> None:
        if self._delayed[known] >= MOST_DELAYED:
            raise TooManyAttempts(delay_s)
        self._delayed[known] += 1
        try:
            await self.sleep(delay_s)
        finally:
            self._delayed[known] -= 1

    async def _run(self, known: bool, work: Callable[[], T]) -> T:
        places = self._places[known]
        if not places.acquire(blocking=False):
            raise TooManyAttempts(1)
        future = self._threads[known].submit(work)
        # The place is taken until the work is over, even if nobody waits for it any more.
        future.add_done_callback(lambda _: places.release())
        return await asyncio.wrap_future(future)

    def _recent(self, client: Client) -> Failures:
        failures = self._failures.get(client)
        if failures is None or self.now() - failures.last_s > WINDOW_S:
            return Failures()
        return failures

    def _fail(self, client: Client) -> None:
        failures = self._recent(client)
        failures.number += 1
        failures.last_s = self.now()
        _remember(self._failures, client, failures)


def _step_back() -> None:
    """Lower the priority of this thread: the passwords of strangers wait for everything else."""
    # On Linux, a thread has a priority of its own.
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS)


def _remember(memory: OrderedDict[Client, T], client: Client, value: T) -> None:
    """Put ``value`` at the end; what was put there longest ago makes room."""
    memory[client] = value
    memory.move_to_end(client)
    if len(memory) > _MOST_REMEMBERED:
        memory.popitem(last=False)
