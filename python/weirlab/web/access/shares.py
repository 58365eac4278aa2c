"""How many requests of a client the service works at, at a time."""

from __future__ import annotations

from collections import Counter
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from weirlab.web.access.guard import refused
from weirlab.web.addresses import site

MOST_OF_CLIENT: Final = 32
"""Fewer than the threads that carry requests out (40): no client has all. A browser sends 6 at a time."""


class RequestLimiter:
    """ASGI middleware: refuses requests of a client that has too many in progress."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = site((scope.get("client") or ("",))[0])
        if self._running[client] >= MOST_OF_CLIENT:
            refusal = refused(429, f"More than {MOST_OF_CLIENT} requests at a time come from your address.")
            refusal.headers["Retry-After"] = "1"
            await refusal(scope, receive, send)
            return
        self._running[client] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]
