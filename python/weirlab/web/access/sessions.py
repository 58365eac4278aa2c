"""The token of the service, and the sessions of browsers that have shown it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from weirlab.web.settings import WebSettings

_MOST_SESSIONS: Final = 1000
"""The session that was used longest ago makes room for a new one."""


class Sessions:
    """The token, and a secret for each browser that has shown it, until it logs out or the service ends."""

    def __init__(self, settings: WebSettings) -> None:
        self._token = settings.token.encode()
        # Digests, so that looking one up takes no time that depends on the secret.
        self._open: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()
        # Cookies ignore ports: two services on one host would overwrite each other's.
        self.cookie_name = f"weir-{settings.port}"

    @property
    def needed(self) -> bool:
        """Whether there is a token."""
        return bool(self._token)

    def fits(self, token: bytes) -> bool:
        """Whether this is the token, in constant time."""
        return self.needed and hmac.compare_digest(token, self._token)

    def admits(self, request: Request) -> bool:
        """Whether the sender of ``request`` has shown the token, now or before."""
        if not self.needed:
            return True
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        # Starlette decodes headers as Latin-1.
        return (kind.lower() == "bearer" and self.fits(value.strip().encode("latin-1"))) or self.holds(
            request
        )

    def holds(self, request: Request) -> bool:
        """Whether ``request`` has the cookie of an open session."""
        key = self._key(request)
        with self._lock:
            if key not in self._open:
                return False
            self._open.move_to_end(key)
            return True

    def begin(self, response: Response, *, secure: bool) -> None:
        """Open a session; ``response`` sets its cookie, which the browser keeps until it closes."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._open[_digest(secret)] = None
            if len(self._open) > _MOST_SESSIONS:
                self._open.popitem(last=False)
        response.set_cookie(
            self.cookie_name, secret, httponly=True, samesite="strict", secure=secure, path="/"
        )

    def end(self, request: Request, response: Response) -> None:
        """Close the session of ``request``; ``response`` deletes its cookie."""
        with self._lock:
            self._open.pop(self._key(request), None)
        response.delete_cookie(self.cookie_name, path="/")

    def _key(self, request: Request) -> bytes:
        return _digest(request.cookies.get(self.cookie_name, ""))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
