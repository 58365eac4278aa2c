"""Who may send requests, and what browsers may do with the answers.

Without a token the service listens on loopback, and must not serve web pages that the user visits: their
requests name another host (DNS rebinding) or another origin. With a token everything but the page's own files
needs it, as a bearer token or as the cookie that the first use of the token sets.
"""

from __future__ import annotations

import hmac
import secrets
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weirlab.web.settings import Settings

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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
_SAFE: Final = ("GET", "HEAD")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
SESSION: Final = "/api/session"
UPLOAD: Final = "/api/captures"
_MOST_FORM_BYTES: Final = 65_536


class Keys:
    """The token, and the cookie of this process for browsers that have shown it."""

    def __init__(self, settings: Settings) -> None:
        self._token = settings.token
        self._session = secrets.token_urlsafe(32)
        # Cookies ignore ports: two services on one host would overwrite each other's.
        self.cookie_name = f"weir-{settings.port}"

    @property
    def needed(self) -> bool:
        return bool(self._token)

    def fits(self, token: str) -> bool:
        """Whether this is the token, in constant time."""
        return self.needed and hmac.compare_digest(token.encode(), self._token.encode())

    def admits(self, request: Request) -> bool:
        """Whether the sender of ``request`` has shown the token, now or before."""
        if not self.needed:
            return True
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.fits(value.strip()):
            return True
        cookie = request.cookies.get(self.cookie_name, "")
        return hmac.compare_digest(cookie.encode(), self._session.encode())

    def give(self, response: Response, *, secure: bool) -> None:
        """Set the cookie, which the browser keeps until it closes."""
        response.set_cookie(
            self.cookie_name, self._session, httponly=True, samesite="strict", secure=secure, path="/"
        )


class Guard:
    """ASGI middleware: refuses what is not allowed, and adds security headers to every answer."""

    def __init__(self, app: ASGIApp, keys: Keys, settings: Settings) -> None:
        self._app = app
        self._keys = keys
        self._hosts = {*_LOOPBACK, settings.address}

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
                own = scope["path"].startswith("/api/") or scope["path"] == "/metrics"
                headers.setdefault("Cache-Control", "no-store" if own else "no-cache")
            await send(message)

        request = Request(scope)
        refusal = self._refusal(request)
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        if not self._keys.needed and _host(request) not in self._hosts:
            return refused(
                403, "This service answers only to localhost and its own address, not to other names."
            )
        if request.method not in _SAFE and not _own_page(request):
            return refused(403, "The request came from another web site.")
        path = request.url.path
        if path.startswith(("/api/", "/metrics")) and path != SESSION and not self._keys.admits(request):
            return refused(401, "This needs the token that weir web was started with.")
        if request.method not in _SAFE and path != UPLOAD:
            length = request.headers.get("content-length", "")
            if not length.isdecimal() or int(length) > _MOST_FORM_BYTES:
                return refused(413, "The request is larger than any form of this page.")
        return None


def refused(status: int, message: str, kind: str = "Refused") -> JSONResponse:
    """An error answer with the reason."""
    content: dict[str, Any] = {"error": {"kind": kind, "message": message}}
    return JSONResponse(content, status)


def elsewhere(request: Request) -> str:
    """The address that ``request`` comes from; empty if that is this host."""
    address = "" if request.client is None else request.client.host
    try:
        return "" if ip_address(address).is_loopback else address
    except ValueError:
        return ""


def _host(request: Request) -> str:
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _own_page(request: Request) -> bool:
    """Whether ``request`` comes from this service's page, or not from a browser."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
