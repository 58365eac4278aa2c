"""How many requests of a client are carried out at a time."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope, Send

from weirlab.web.access.guard import MOST_OF_CLIENT, RequestLimiter


def test_a_client_with_too_many_requests_is_refused_at_once_and_others_are_not() -> None:
    go_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def test() -> None:
        shares = RequestLimiter(app)
        statuses: list[tuple[int, dict[bytes, bytes]]] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append((message["status"], dict(message["headers"])))

        async def receive() -> Message:
            await asyncio.Future()
            raise AssertionError

        def ask(address: str) -> asyncio.Task[None]:
            scope = {"type": "http", "client": (address, 50_000)}
            return asyncio.create_task(shares(scope, receive, send))

        tasks = [ask(f"2001:db8::{number}") for number in range(MOST_OF_CLIENT)]
        await asyncio.sleep(0)
        await ask("2001:db8::ffff")
        ((status, headers),) = statuses
        assert (status, headers[b"retry-after"]) == (429, b"1")
        tasks.append(ask("2001:db8:0:1::1"))
        go_on.set()
        await asyncio.gather(*tasks)
        assert [status for status, _ in statuses[1:]] == [200] * (MOST_OF_CLIENT + 1)
        await ask("2001:db8::1")
        assert statuses[-1][0] == 200

    asyncio.run(test())
