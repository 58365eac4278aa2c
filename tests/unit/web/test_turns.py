"""Whose request goes on: a clock that the test sets, and no network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from weirlab.web.http import turns
from weirlab.web.http.connections import LOST
from weirlab.web.http.turns import LONGEST_TURN_S, MOST_TURNS, FairQueue, Turn, Turns, without_turn

HEAD: Message = {"type": "http.response.start", "status": 200, "headers": []}


class Queue:
    """A queue whose clock the test sets, and what it has granted."""

    def __init__(self) -> None:
        self.now = 0.0
        self.queue = FairQueue(lambda: self.now)
        self.granted: list[Turn] = []

    def add(self, client: str) -> Turn:
        turn = Turn(client, lambda: self.granted.append(turn))
        self.queue.add(turn)
        return turn

    def work(self, seconds: float = LONGEST_TURN_S / 5) -> Turn:
        """End the turn that began first, after ``seconds``."""
        self.now += seconds
        turn = self.granted.pop(0)
        self.queue.end(turn)
        return turn


def test_a_client_with_one_request_waits_for_a_turn_and_not_for_the_thousand_of_others() -> None:
    queue = Queue()
    for number in range(1000):
        queue.add(f"192.0.2.{number % 16}")
    for _ in range(100):
        queue.work()
    mine = queue.add("198.51.100.1")
    queue.work()
    assert queue.granted[-1] is mine


def test_clients_get_the_same_time_whatever_their_requests_cost() -> None:
    queue, cost, had = (
        Queue(),
        {"cheap": LONGEST_TURN_S / 50, "dear": LONGEST_TURN_S / 2},
        {"cheap": 0.0, "dear": 0.0},
    )
    for client in cost:
        for _ in range(100):
            queue.add(client)
    for _ in range(5000):
        ends = {turn: turn.began_s + cost[turn.client] for turn in queue.granted}
        first = min(ends, key=lambda turn: ends[turn])
        queue.now = ends[first]
        queue.granted.remove(first)
        queue.queue.end(first)
        had[first.client] += cost[first.client]
        queue.add(first.client)
    assert had["cheap"] == pytest.approx(had["dear"], rel=0.1)


def test_time_without_requests_gives_no_credit() -> None:
    queue = Queue()
    for _ in range(300):
        queue.add("192.0.2.1")
    for _ in range(100):
        queue.work()
    for _ in range(100):
        queue.add("192.0.2.2")
    clients = [queue.work().client for _ in range(100)]
    assert 40 <= clients.count("192.0.2.1") <= 60


def test_a_request_that_goes_away_makes_room_for_the_next() -> None:
    queue = Queue()
    running = [queue.add("192.0.2.1") for _ in range(MOST_TURNS)]
    waiting, last = queue.add("192.0.2.1"), queue.add("192.0.2.1")
    queue.queue.end(waiting)
    queue.queue.end(waiting)
    queue.queue.end(running[0])
    queue.queue.end(running[0])
    assert queue.granted == [*running, last]


def test_clients_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_MOST_REMEMBERED", 100)
    queue = Queue()
    for number in range(10_000):
        queue.add(f"2001:db8:0:{number:x}::/64")
        queue.work()
    assert len(queue.queue._shares) <= 101


class Service:
    """An application behind turns; each of its requests does ``work``."""

    def __init__(self, work: Callable[[Receive, Send], Awaitable[None]]) -> None:
        self.running = 0
        self.most = 0
        self._work = work
        self.turns = Turns(self._app)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self._work(receive, send)
        finally:
            self.running -= 1

    async def ask(
        self,
        address: str,
        messages: asyncio.Queue[Message] | None = None,
        sent: list[Message] | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        scope = {"type": "http", "client": (address, 50_000), "state": {} if state is None else state}
        source: asyncio.Queue[Message] = asyncio.Queue() if messages is None else messages

        async def send(message: Message) -> None:
            if sent is not None:
                sent.append(message)

        await self.turns(scope, source.get, send)


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_few_requests_are_carried_out_at_a_time() -> None:
    async def test() -> None:
        async def work(receive: Receive, send: Send) -> None:
            await asyncio.sleep(0)
            await send(HEAD)

        service = Service(work)
        await asyncio.gather(*(service.ask("192.0.2.1") for _ in range(100)))
        assert (service.most, service.running) == (MOST_TURNS, 0)

    asyncio.run(test())


def test_requests_that_wait_for_their_client_keep_nobody_waiting() -> None:
    async def test() -> None:
        async def work(receive: Receive, send: Send) -> None:
            while (await receive()).get("more_body"):
                pass
            await send(HEAD)

        service = Service(work)
        bodies = [asyncio.Queue[Message]() for _ in range(3 * MOST_TURNS)]
        slow = [asyncio.create_task(service.ask("192.0.2.1", each)) for each in bodies]
        await settle()
        assert service.running == len(slow)
        whole: asyncio.Queue[Message] = asyncio.Queue()
        whole.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        sent: list[Message] = []
        await service.ask("192.0.2.2", whole, sent)
        assert sent == [HEAD]
        for body in bodies:
            body.put_nowait({"type": "http.request", "body": b"x", "more_body": True})
            body.put_nowait({"type": "http.request", "body": b"x", "more_body": False})
        await asyncio.gather(*slow)

    asyncio.run(test())


def test_a_request_that_takes_long_loses_its_turn_and_gets_another_before_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "LONGEST_TURN_S", 0.0)

    async def test() -> None:
        go_on = asyncio.Event()

        async def work(receive: Receive, send: Send) -> None:
            await go_on.wait()
            await send(HEAD)

        service, sent = Service(work), []
        long = [asyncio.create_task(service.ask("192.0.2.1", None, sent)) for _ in range(3 * MOST_TURNS)]
        while service.running < len(long):
            await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*long)
        assert len(sent) == len(long)

    asyncio.run(test())


def test_a_request_that_waits_for_something_else_has_no_turn_meanwhile() -> None:
    async def test() -> None:
        ended = asyncio.get_running_loop().create_future()

        async def work(receive: Receive, send: Send) -> None:
            await without_turn(asyncio.shield(ended))
            await send(HEAD)

        service = Service(work)
        tasks = [asyncio.create_task(service.ask("192.0.2.1")) for _ in range(3 * MOST_TURNS)]
        await settle()
        assert service.running == len(tasks)
        ended.set_result(None)
        await asyncio.gather(*tasks)

    asyncio.run(test())


def test_a_stream_has_a_turn_for_each_of_its_parts() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def work(receive: Receive, send: Send) -> None:
            await send(HEAD)
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await go_on.wait()
            await send({"type": "http.response.body", "body": b"x", "more_body": False})

        service = Service(work)
        tasks = [asyncio.create_task(service.ask("192.0.2.1")) for _ in range(3 * MOST_TURNS)]
        await settle()
        assert service.running == len(tasks)
        go_on.set()
        await asyncio.gather(*tasks)

    asyncio.run(test())


def test_a_request_whose_client_has_gone_is_not_carried_out() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def work(receive: Receive, send: Send) -> None:
            await go_on.wait()
            await send(HEAD)

        service = Service(work)
        first = [asyncio.create_task(service.ask("192.0.2.1")) for _ in range(MOST_TURNS)]
        state: dict[str, Any] = {}
        sent: list[Message] = []
        gone = asyncio.create_task(service.ask("192.0.2.2", None, sent, state))
        await settle()
        state[LOST]()
        await gone
        go_on.set()
        await asyncio.gather(*first)
        assert (sent, service.most) == ([], MOST_TURNS)

    asyncio.run(test())


def test_a_cancelled_request_leaves_its_turn_to_others() -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def work(receive: Receive, send: Send) -> None:
            await go_on.wait()

        service = Service(work)
        tasks = [asyncio.create_task(service.ask("192.0.2.1")) for _ in range(2 * MOST_TURNS)]
        await settle()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        go_on.set()
        await asyncio.wait_for(service.ask("192.0.2.1"), LONGEST_TURN_S * 100)

    asyncio.run(test())


def test_an_answer_that_is_sent_while_the_request_is_received_has_one_turn() -> None:
    async def test() -> None:
        async def work(receive: Receive, send: Send) -> None:
            await asyncio.gather(receive(), send(HEAD), send(HEAD))

        service = Service(work)
        for _ in range(3 * MOST_TURNS):
            whole: asyncio.Queue[Message] = asyncio.Queue()
            whole.put_nowait({"type": "http.request", "body": b"", "more_body": False})
            sent: list[Message] = []
            await service.ask("192.0.2.1", whole, sent)
            assert sent == [HEAD, HEAD]

    asyncio.run(test())
