"""Attempts to prove a password: how guessing is slowed down, and who is not."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable

import pytest

from weirlab.numbering.managing.accounts import NotSignedIn
from weirlab.web.voice import attempts
from weirlab.web.voice.attempts import MOST_OF_CLIENT, MOST_QUEUED, WINDOW_S, Attempts, TooManyAttempts

RIGHT, WRONG = "right", "wrong"


class Door:
    """Attempts at accounts that all have the password ``right``, at a time that only sleeping changes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.delays: list[float] = []
        self.attempts = Attempts(lambda: self.now, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        self.now += seconds

    async def knock(self, password: str, address: str, name: str = "ann") -> str:
        """``in``, ``out`` or ``throttled``."""

        def attempt(failures: int) -> None:
            if password != RIGHT:
                raise NotSignedIn("wrong")

        try:
            await self.attempts.make(name, address, attempt)
        except NotSignedIn:
            return "out"
        except TooManyAttempts:
            return "throttled"
        return "in"

    async def guess(self, times: int, address: str, name: str = "ann") -> None:
        for _ in range(times):
            assert await self.knock(WRONG, address, name) == "out"
        self.delays.clear()


def run(test: Callable[[Door], Awaitable[None]]) -> None:
    async def whole() -> None:
        door = Door()
        try:
            await test(door)
        finally:
            door.attempts.close()

    asyncio.run(whole())


def test_guessing_is_delayed_more_and_more_and_never_refused() -> None:
    async def test(door: Door) -> None:
        for _ in range(13):
            assert await door.knock(WRONG, "192.0.2.1") == "out"
        assert door.delays == [1, 2, 4, 8, 16, 30, 30, 30]
        # The password is right after all.
        assert await door.knock(RIGHT, "192.0.2.1") == "in"
        assert door.delays[-1] == 30

    run(test)


@pytest.mark.parametrize("others", ["192.0.2.2", "2001:db8:0:2::1"])
def test_guessing_at_an_account_delays_nobody_elsewhere(others: str) -> None:
    async def test(door: Door) -> None:
        await door.guess(50, "192.0.2.1")
        for number in range(20):
            await door.guess(5, f"198.51.100.{number}")
        assert await door.knock(RIGHT, others) == "in"
        assert door.delays == []

    run(test)


def test_the_addresses_of_one_ipv6_network_are_one_client() -> None:
    async def test(door: Door) -> None:
        for number in range(6):
            await door.knock(WRONG, f"2001:db8:0:1::{number}")
        assert door.delays == [1]
        await door.knock(WRONG, "2001:db8:0:2::1")
        await door.knock(WRONG, "::ffff:192.0.2.1")
        assert door.delays == [1]

    run(test)


def test_many_accounts_are_guessed_at_no_faster_than_one() -> None:
    async def test(door: Door) -> None:
        for number in range(7):
            await door.knock(WRONG, "192.0.2.1", f"user{number}")
        assert door.delays == [1, 2]

    run(test)


def test_where_a_user_has_signed_in_before_others_do_not_delay_it() -> None:
    async def test(door: Door) -> None:
        assert await door.knock(RIGHT, "192.0.2.1") == "in"
        await door.guess(50, "192.0.2.1", "bob")
        assert await door.knock(RIGHT, "192.0.2.1") == "in"
        assert door.delays == []
        # Signing in to an account of one's own does not help with guessing at others.
        await door.guess(1, "192.0.2.1", "bob")
        await door.knock(RIGHT, "192.0.2.1")
        await door.knock(WRONG, "192.0.2.1", "bob")
        assert door.delays == [30]

    run(test)


def test_failures_are_forgotten_after_some_time() -> None:
    async def test(door: Door) -> None:
        await door.guess(10, "192.0.2.1")
        door.now += WINDOW_S + 1
        await door.knock(WRONG, "192.0.2.1")
        assert door.delays == []

    run(test)


def test_the_memory_of_failures_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_MOST_REMEMBERED", 3)

    async def test(door: Door) -> None:
        for number in range(9):
            await door.guess(6, f"192.0.2.{number}")
        assert len(door.attempts._failures) == 3
        await door.knock(WRONG, "192.0.2.8")
        assert door.delays == [2]

    run(test)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_sixty_at_once_are_refused_at_once_but_for_a_few() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def attempt(failures: int) -> None:
        begun.release()
        go_on.wait()

    async def test(door: Door) -> None:
        tasks = [
            asyncio.create_task(door.attempts.make("ann", f"192.0.2.{number}", attempt))
            for number in range(60)
        ]
        await settle()
        refused = [task for task in tasks if task.done()]
        assert len(refused) == 60 - MOST_QUEUED
        assert all(isinstance(task.exception(), TooManyAttempts) for task in refused)
        # One password is checked at a time.
        assert begun.acquire()
        assert not begun.acquire(blocking=False)
        go_on.set()
        assert await asyncio.gather(*set(tasks) - set(refused)) == [None] * MOST_QUEUED
        assert await door.knock(RIGHT, "192.0.2.99") == "in"

    run(test)


def test_strangers_do_not_keep_a_known_user_waiting() -> None:
    go_on = threading.Event()

    async def test(door: Door) -> None:
        assert await door.knock(RIGHT, "192.0.2.1") == "in"
        tasks = [
            asyncio.create_task(door.attempts.make("bob", f"192.0.2.{number}", lambda _: go_on.wait()))
            for number in range(100, 110)
        ]
        await settle()
        assert await door.knock(RIGHT, "192.0.2.200") == "throttled"
        assert await door.knock(RIGHT, "192.0.2.1") == "in"
        go_on.set()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(test)


def test_a_client_has_few_attempts_at_a_time() -> None:
    asleep = asyncio.Event()

    async def test(door: Door) -> None:
        await door.guess(6, "192.0.2.1")

        async def sleep(seconds: float) -> None:
            await asleep.wait()

        door.attempts.sleep = sleep
        tasks = [asyncio.create_task(door.knock(WRONG, "192.0.2.1")) for _ in range(10)]
        await settle()
        assert [task.done() for task in tasks] == [False] * MOST_OF_CLIENT + [True] * (10 - MOST_OF_CLIENT)
        assert await door.knock(RIGHT, "192.0.2.2") == "in"
        asleep.set()
        assert sorted(await asyncio.gather(*tasks)) == ["out"] * MOST_OF_CLIENT + ["throttled"] * 6

    run(test)


def test_passwords_of_strangers_are_checked_with_a_lower_priority() -> None:
    def niceness(failures: int) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def twice() -> tuple[int, int]:
        attempts = Attempts()
        try:
            return await attempts.make("ann", "192.0.2.1", niceness), await attempts.make(
                "ann", "192.0.2.1", niceness
            )
        finally:
            attempts.close()

    stranger, user = asyncio.run(twice())
    assert user == os.getpriority(os.PRIO_PROCESS, 0)
    assert stranger == min(user + 10, 19)
