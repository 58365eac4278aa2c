"""The client of ndt7: ``weir tcp measure --ndt7``."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final
from urllib.parse import urlencode

from weirlab import __version__
from weirlab.base.errors import InputError, LabError, TrialError
from weirlab.base.quoting import printable, shortened
from weirlab.transfers.tcp.ndt7 import messages
from weirlab.transfers.tcp.ndt7.transfer import Ndt7Transfer, TransferPlan
from weirlab.transfers.tcp.settings import TransferSettings

_PATIENCE_S: Final = 10.0
"""For the connection, TLS and the handshake (the specification advises 5 to 10 s)."""
_MOST_ANSWER_BYTES: Final = 16_384
_ACCEPTS: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""


def accept(key: str) -> str:
    """What a server answers to ``Sec-WebSocket-Key``."""
    return base64.b64encode(hashlib.sha1(key.encode() + _ACCEPTS, usedforsecurity=False).digest()).decode()


def connect(settings: TransferSettings) -> Ndt7Transfer:
    """Begin a test with the server.

    Raises
    ------
    InputError
        The host is not known, or an option cannot be set.
    LabError
        There is no answer, or not one from an ndt7 server.
    TrialError
        The server refuses.
    """
    test: messages.Test = "upload" if settings.up else "download"
    where = f"{settings.host} port {settings.port}"
    with ExitStack() as stack:
        try:
            found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{settings.host} has no address: {why}; give its address") from error
        try:
            connection = stack.enter_context(_connected(found, settings))
            if settings.ndt7 == "wss":
                secure = ssl.create_default_context()
                connection = stack.enter_context(
                    secure.wrap_socket(connection, server_hostname=settings.host)
                )
            rest = _shaken(connection, settings, test)
        except ssl.SSLCertVerificationError as error:
            raise LabError(
                f"{where}: its certificate is not valid for it ({error.verify_message}); ws://HOST:PORT does "
                "without TLS"
            ) from error
        except TimeoutError as error:
            raise LabError(f"{where}: no answer within {_PATIENCE_S:g} s") from error
        except OSError as error:
            raise LabError(f"{where}: no ndt7 server answers ({error.strerror or error})") from error
        plan = TransferPlan(
            test=test,
            serves=False,
            lasts_s=messages.LASTS_S if settings.lasts_s is None else settings.lasts_s,
            every_s=settings.interval_s,
            bytes_per_s=None if settings.rate_bps is None else max(int(settings.rate_bps / 8), 1),
        )
        transfer = Ndt7Transfer(connection, plan, rest)
        stack.pop_all()
        return transfer


def _connected(found: Sequence[tuple[Any, ...]], settings: TransferSettings) -> socket.socket:
    """A connection to the first address that takes one."""
    for number, (family, kind, protocol, _, address) in enumerate(found):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_PATIENCE_S)
            if settings.congestion:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, settings.congestion.encode())
            connection.connect(address)
            return connection
        except OSError:
            connection.close()
            if number + 1 == len(found):
                raise
    raise ConnectionRefusedError


def _shaken(connection: socket.socket, settings: TransferSettings, test: messages.Test) -> bytes:
    """Ask for the test; returns what arrived behind the answer."""
    key = base64.b64encode(os.urandom(16)).decode()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    about = urlencode({"client_name": "weir", "client_version": __version__})
    lines = (
        f"GET {messages.PATH}{test}?{about} HTTP/1.1",
        f"Host: {host}:{settings.port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        f"Sec-WebSocket-Protocol: {messages.PROTOCOL}",
        f"User-Agent: weir/{__version__}",
    )
    connection.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = connection.recv(4096)
        if not part or len(answer) > _MOST_ANSWER_BYTES:
            raise LabError(f"{settings.host} port {settings.port} does not answer as an ndt7 server does")
        answer += part
    head, _, rest = answer.partition(b"\r\n\r\n")
    status, *headers = head.decode("latin-1").split("\r\n")
    named = {name.strip().lower(): value.strip() for name, _, value in (h.partition(":") for h in headers)}
    if status.split(" ")[1:2] != ["101"]:
        reason = printable(rest.decode(errors="replace")) or "no reason"
        raise TrialError(
            f"{settings.host} port {settings.port} refuses the test: {printable(status)}; {shortened(reason)}"
        )
    if named.get("sec-websocket-accept") != accept(key) or (
        named.get("sec-websocket-protocol") != messages.PROTOCOL
    ):
        raise LabError(f"{settings.host} port {settings.port} does not answer as an ndt7 server does")
    return rest
