"""The kernel's table of tracked connections."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from pyroute2 import NFCTSocket

_STATISTICS: Final = Path("/proc/thread-self/net/stat/nf_conntrack")
_DROPPED: Final = ("drop", "early_drop")


def parse_dropped(text: str) -> int:
    """Connections that the kernel's statistics count as refused or given up because the table was full."""
    names, *rows = (line.split() for line in text.splitlines())
    return sum(int(row[names.index(name)], 16) for row in rows for name in _DROPPED)


def dropped_connections() -> int:
    """Those of the calling thread's namespace so far; 0 if nothing counts them."""
    return parse_dropped(_STATISTICS.read_text()) if _STATISTICS.exists() else 0


def forget_connections() -> None:
    """Drop every tracked connection of the calling thread's namespace, of both IP versions."""
    with NFCTSocket(nfgen_family=socket.AF_UNSPEC) as table:
        table.flush()
