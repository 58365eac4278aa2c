"""The server that runs the application until a request to stop."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, cast

import uvicorn
from starlette.types import ASGIApp

from weirlab.link.stopping import Stop
from weirlab.web.http.connections import ConnectionLimits, HttpConnection, HttpConnectionTable

_LOOK_S: Final = 0.1
_ACCEPTED_AT_ONCE: Final = 8
"""Connections, between which the event loop goes on with requests; more wait at the listener."""
_FAREWELL_S: Final = 3


def serve(
    app: ASGIApp,
    listener: socket.socket,
    stop: Stop,
    exempt: Callable[[str], bool] = lambda address: False,
    limits: ConnectionLimits | None = None,
) -> HttpConnectionTable:
    """Serve ``app`` until ``stop``; ``exempt`` and ``limits`` are as in :class:`HttpConnectionTable`."""
    files = _allow_files()
    # Some files are the application's own, and connections that are about to be accepted have one each.
    connections = HttpConnectionTable(
        limits or ConnectionLimits(most=min(ConnectionLimits.most, files // 2)), exempt
    )
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(HttpConnection, connections=connections)),
        interface="asgi3",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        # Not a line for each malformed request.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=_FAREWELL_S,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    asyncio.run(_serve(_Server(config, min(1024, files // 4)), listener, connections, stop))
    return connections


class _Server(uvicorn.Server):
    """A server that leaves signals to ``Stop``; ``backlog`` connections may wait to be accepted."""

    def __init__(self, config: uvicorn.Config, backlog: int) -> None:
        super().__init__(config)
        self._backlog = backlog

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # uvicorn has one number for those that wait and for those that are accepted at once.
            listener.listen(self._backlog)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(
    server: _Server, listener: socket.socket, connections: HttpConnectionTable, stop: Stop
) -> None:
    async def watch() -> None:
        while not stop.requested:
            await asyncio.sleep(_LOOK_S)
        server.should_exit = True

    tasks = [asyncio.create_task(each) for each in (watch(), connections.watch())]
    await server.serve([listener])
    for task in tasks:
        task.cancel()


def _is_news(record: logging.LogRecord) -> bool:
    """False for requests that are cancelled because the service ends."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and "graceful shutdown" not in str(record.msg)


def _allow_files() -> int:
    """Allow this process as many open files as it may have; returns how many."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
