"""What is refused before anything else looks at a request, and what browsers may do with the answers.

Without a token the service listens on loopback, and must not serve web pages that the user visits: their
requests name another host (DNS rebinding) or another origin. With a token everything but the page's own files
needs it, as a bearer token or as the cookie of a session.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weirlab.transfers.tcp.ndt7.messages import PATH, TESTS
from weirlab.web.access.sessions import Sessions
from weirlab.web.addresses import site
from weirlab.web.http.connections import KNOWN
from weirlab.web.settings import WebSettings

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


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:; frame-ancestors 'self'"
)
"""For a report, which may come from elsewhere: its own origin, and no network."""

_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SAFE: Final = ("GET", "HEAD")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
"""RFC 9110, 7.2, without names that are neither of DNS nor addresses."""
SESSION: Final = "/api/session"
UPLOAD: Final = "/api/captures"
_HASHED: Final = re.compile(r"/[A-Za-z]+-[A-Za-z0-9_-]{8}\.(?:js|css)")
"""Files whose names change with their content."""
_FOREVER: Final = "max-age=31536000, immutable"
_MOST_FORM_BYTES: Final = 65_536
_MOST_LENGTH: Final = 10**18


class Guard:
    """ASGI middleware: refuses what is not allowed, and adds security headers to every answer.

    It decides on ``scope["path"]``, as routing does. ``public`` are the paths of the page's own files.
    """

    def __init__(
        self, app: ASGIApp, sessions: Sessions, settings: WebSettings, public: Iterable[str]
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._hosts = {*LOOPBACK, settings.address}
        self._public = frozenset(public)
        # Any ndt7 client may test its connection, pages of other sites included; see security.md.
        self._tests = frozenset(() if settings.tests is None else (PATH + test for test in TESTS))
        self._open = {*self._public, *self._tests, SESSION}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # There are no web sockets here.
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Content-Security-Policy", POLICY)
                public = scope["path"] in self._public
                kept = _FOREVER if _HASHED.fullmatch(scope["path"]) else "no-cache"
                headers.setdefault("Cache-Control", kept if public else "no-store")
            await send(message)

        refusal = self._refusal(Request(scope), scope["path"])
        scope.setdefault("state", {})[KNOWN] = refusal is None and scope["path"] not in self._open
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request, path: str) -> Response | None:
        name = host(request)
        if name is None:
            return refused(400, "The request does not name its host as HTTP wants it (RFC 9110, 7.2).")
        if not self._sessions.needed and name not in self._hosts:
            return refused(
                403, "This service answers only to localhost and its own address, not to other names."
            )
        if "\0" in path or b"%00" in request.scope["query_string"]:
            return refused(400, "The address has a NUL character.")
        safe, public = request.method in SAFE, path in self._public or path in self._tests
        if not (safe and public) and not _same_origin(request):
            return refused(403, "The request came from another web site.")
        if path not in self._open and not self._sessions.admits(request):
            return refused(401, "This needs the token that weir web was started with.")
        if not safe and path != UPLOAD:
            length = content_length(request)
            if length is None or length > _MOST_FORM_BYTES:
                return refused(413, "The request is larger than any form of this page.")
        return None


def refused(status: int, message: str, kind: str = "Refused") -> JSONResponse:
    """An error answer with the reason."""
    content: dict[str, Any] = {"error": {"kind": kind, "message": message}}
    return JSONResponse(content, status)


def content_length(request: Request) -> int | None:
    """The announced length of the body, bytes, at most :data:`_MOST_LENGTH`; None for a chunked one."""
    text = request.headers.get("content-length", "")
    if not (text.isascii() and text.isdecimal()):
        return None
    return int(text) if len(text) < len(str(_MOST_LENGTH)) else _MOST_LENGTH


def elsewhere(request: Request) -> str:
    """The address that ``request`` comes from; empty if that is this host."""
    address = "" if request.client is None else request.client.host
    try:
        return "" if ip_address(address).is_loopback else address
    except ValueError:
        return ""


def host(request: Request) -> str | None:
    """The host that a request names, without its port; empty if it names none, None if that is malformed."""
    named = request.headers.getlist("host")
    if not named:
        # HTTP/1.0
        return ""
    found = _HOST.fullmatch(named[0])
    return None if found is None or len(named) > 1 else found[1] or found[2]


def _same_origin(request: Request) -> bool:
    """Whether ``request`` comes from this service's page, or not from a browser.

    Browsers send Sec-Fetch-Site to loopback addresses and by HTTPS; old ones, and by HTTP to other addresses,
    Origin alone, and not with every GET. Their cookies are not sent from other sites (SameSite).
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host", "")
