"""Requests by way of trusted proxies: the client and the scheme are those that the proxy reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from weirlab.web.addresses import parsed
from weirlab.web.settings import Network

BY_PROXY: Final = "by_proxy"
"""Key of a request's state: true if a trusted proxy has sent it."""
_SCHEMES: Final = ("http", "https")


class Proxies:
    """The addresses of trusted proxies."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    def trusts(self, address: str) -> bool:
        """Whether there is a trusted proxy at ``address``."""
        found = parsed(address)
        return found is not None and any(found in network for network in self._networks)

    def client(self, peer: str, headers: Headers) -> str:
        """The client of a request that the proxy ``peer`` sent: the last address that is no trusted proxy's.

        What stands before it was sent by the client, or by proxies that nobody here knows. Without a usable
        address, or if the two headers differ (a proxy sets one, a client may set the other), it is ``peer``.
        """
        chains = [
            [part.strip() for line in headers.getlist("x-forwarded-for") for part in line.split(",")],
            [element.get("for", "") for element in _elements(headers)],
        ]
        clients = {self._last(peer, chain) for chain in chains if chain}
        return clients.pop() if len(clients) == 1 else peer

    def scheme(self, headers: Headers) -> str | None:
        """The scheme that a client of a proxy uses; None if the proxy does not say."""
        said = [line.rpartition(",")[2].strip() for line in headers.getlist("x-forwarded-proto")[-1:]]
        said += [element.get("proto", "").strip('"') for element in _elements(headers)[-1:]]
        return next((each.lower() for each in said if each.lower() in _SCHEMES), None)

    def _last(self, peer: str, chain: list[str]) -> str:
        last = peer
        for node in reversed(chain):
            address = _address(node)
            if not address:
                return last
            last = address
            if not self.trusts(address):
                return last
        return last


class ProxyHeaders:
    """ASGI middleware: gives requests of trusted proxies the client and scheme that the proxy reports."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            peer = (scope.get("client") or ("",))[0]
            by_proxy = self._proxies.trusts(peer)
            scope.setdefault("state", {})[BY_PROXY] = by_proxy
            if by_proxy:
                headers = Headers(scope=scope)
                scope["client"] = (self._proxies.client(peer, headers), 0)
                scope["scheme"] = self._proxies.scheme(headers) or scope["scheme"]
        await self._app(scope, receive, send)


def _elements(headers: Headers) -> list[dict[str, str]]:
    """The elements of the header Forwarded (RFC 7239), one for each proxy.

    No value of interest contains a comma or a semicolon; those of clients need not be understood.
    """
    return [
        {
            name.strip().lower(): value.strip()
            for name, _, value in (pair.partition("=") for pair in part.split(";"))
        }
        for line in headers.getlist("forwarded")
        for part in line.split(",")
    ]


def _address(node: str) -> str:
    """The address of ``192.0.2.1``, ``192.0.2.1:4711``, ``2001:db8::1``, ``[2001:db8::1]:4711``; or empty."""
    host = node.strip('"')
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    address = parsed(host)
    return "" if address is None else str(address)
