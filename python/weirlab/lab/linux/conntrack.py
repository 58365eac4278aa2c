"""The kernel's table of tracked connections."""

from __future__ import annotations

import socket

from pyroute2 import NFCTSocket


def forget_connections() -> None:
    """Drop every tracked connection of the calling thread's namespace, of both IP versions."""
    with NFCTSocket(nfgen_family=socket.AF_UNSPEC) as table:
        table.flush()
