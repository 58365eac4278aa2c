"""Transfers by ndt7 (m-lab/ndt-server, ``spec/ndt7-protocol.md``, v0.9.0): one way, over a WebSocket.

``frames`` and ``messages`` are pure; ``transfer`` moves data at either end, and reports events like those of
the engine; ``client`` connects to a server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.transfers.tcp.ndt7.messages import LASTS_S
from weirlab.transfers.tcp.settings import PORT, TransferSettings

PORTS: Final = {"ws": 80, "wss": 443}


def of(settings: TransferSettings) -> TransferSettings:
    """``settings`` for an ndt7 server, whose ``host`` may be ``ws://192.0.2.1:29180``.

    Raises
    ------
    InputError
        The host is not understood, or ndt7 has no such transfer.
    """
    plain = TransferSettings("")
    for unfit, why in (
        (settings.up + settings.down != 1, "a test has one connection, one way"),
        (settings.via is not None, "this host is the client"),
        (settings.total_bytes is not None, "a test ends after a time, not after bytes"),
        ((settings.lasts_s or 0) > LASTS_S, f"a test lasts at most {LASTS_S:g} s"),
        (settings.block_bytes != plain.block_bytes, "messages have sizes of their own"),
        (settings.options != (), "sockets get no options"),
        (bool(settings.rate_bps and settings.down), "the server sends as fast as it may"),
    ):
        if unfit:
            raise InputError(f"--ndt7: {why}; see weir tcp measure --help")
    scheme, host, port = endpoint(settings.host, settings.port)
    return replace(settings, ndt7=scheme, host=host, port=port, token="")


def endpoint(text: str, port: int = PORT) -> tuple[str, str, int]:
    """Scheme, host and port of ``ws://192.0.2.1:29180``; ``HOST`` alone is ``wss://HOST``.

    ``port`` counts if it is not that of ``weir tcp serve`` and ``text`` has none. Raises ``InputError``.
    """
    wrong = InputError(
        f"--ndt7: {quoted(text)} is no server; give HOST, wss://HOST:PORT or, without TLS, ws://HOST:PORT"
    )
    if "://" not in text and text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    try:
        parts = urlsplit(text if "://" in text else f"wss://{text}")
        host, named = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in PORTS or not host or parts.path.strip("/") or parts.query or parts.username:
        raise wrong
    usual = PORTS[parts.scheme] if port == PORT else port
    return parts.scheme, host, usual if named is None else named
