"""The server that runs the application until a request to stop."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, cast

import uvicorn
from starlette.types import ASGIApp

from weirlab.errors import LabError
from weirlab.link.stopping import Stop
from weirlab.web.http.connections import Connection, Connections, Limits
from weirlab.web.settings import Settings

_LOOK_S: Final = 0.1
_FAREWELL_S: Final = 3
_STALL_S: Final = 30
"""How long a client may take nothing of an answer, or not confirm that it is still there."""


def listen(settings: Settings) -> socket.socket:
    """A listening socket; raises ``LabError`` if the address cannot be bound."""
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    try:
        listener = socket.create_server((settings.address, settings.port), family=family)
    except OSError as error:
        raise LabError(
            f"cannot serve {settings.url}: {error.strerror}; choose another address or port with --bind"
        ) from error
    # Connections inherit these (tcp(7)).
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _STALL_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALL_S * 1000)
    return listener


def serve(
    app: ASGIApp,
    listener: socket.socket,
    stop: Stop,
    exempt: Callable[[str], bool] = lambda address: False,
    limits: Limits | None = None,
) -> Connections:
    """Serve ``app`` until ``stop``; ``exempt`` and ``limits`` are as in :class:`Connections`."""
    files = _allow_files()
    # Some files are the application's own, and connections that are about to be accepted have one each.
    connections = Connections(limits or Limits(most=min(Limits.most, files // 2)), exempt)
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(Connection, connections=connections)),
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
        backlog=min(1024, files // 4),
        timeout_graceful_shutdown=_FAREWELL_S,
    )
    asyncio.run(_serve(_Server(config), listener, connections, stop))
    return connections


class _Server(uvicorn.Server):
    """A server that leaves signals to ``Stop``."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(server: _Server, listener: socket.socket, connections: Connections, stop: Stop) -> None:
    async def watch() -> None:
        while not stop.requested:
            await asyncio.sleep(_LOOK_S)
        server.should_exit = True

    tasks = [asyncio.create_task(each) for each in (watch(), connections.watch())]
    await server.serve([listener])
    for task in tasks:
        task.cancel()


def _allow_files() -> int:
    """Allow this process as many open files as it may have; returns how many."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
