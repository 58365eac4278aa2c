"""The socket that the service listens on; opened before the service gives up its rights."""

from __future__ import annotations

import socket
from typing import Final

from weirlab.base.errors import LabError
from weirlab.web.settings import WebSettings

_STALL_S: Final = 30
"""How long a client may take nothing of an answer, or not confirm that it is still there."""


def listen(settings: WebSettings) -> socket.socket:
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
