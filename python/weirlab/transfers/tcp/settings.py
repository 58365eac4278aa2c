"""What a transfer is: where to, how much, and how it is reported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.base.errors import InputError

PORT: Final = 29100
"""TCP port of ``weir tcp serve`` (``weir_tcp::bulk::PORT``)."""
MOST_CONNECTIONS: Final = 128
"""Most connections in one direction (``weir_tcp::control::MOST_CONNECTIONS``)."""
BLOCK_BYTES: Final = 131_072
LEAST_BLOCK_BYTES: Final = 24
"""The header of a block."""
MOST_BLOCK_BYTES: Final = 4 << 20
LASTS_S: Final = 10.0


def block_bytes(text: str, option: str) -> int:
    """Bytes of each write; ``InputError`` if ``text`` is none of the sizes that are possible."""
    from weirlab.base.amounts import parse_size

    found = parse_size(text, option)
    if not LEAST_BLOCK_BYTES <= found <= MOST_BLOCK_BYTES:
        raise InputError(f"{option} {text}: a block has 24 bytes (its header) or more, up to 4 MiB")
    return found


@dataclass(frozen=True)
class RemoteClient:
    """A server that acts as the client."""

    host: str
    port: int = PORT
    token: str = ""


@dataclass(frozen=True)
class CaptureFetch:
    """A capture that another host is to make, and the new file to write it to.

    ``must``: without it there is no transfer. ``most_bytes``: the largest capture that is accepted.
    """

    file: Path
    must: bool
    most_bytes: int


@dataclass(frozen=True)
class Reading:
    """How an end reads: slower than data arrive, on purpose, so that its window closes."""

    bytes_per_s: int | None = None
    """At most, over all connections of a transfer together."""
    pause_ns: tuple[int, int] | None = None
    """When it stops reading after the start, and for how long."""


AT_ONCE: Final = Reading()
"""Whatever has arrived."""


@dataclass(frozen=True)
class TransferSettings:
    """A transfer. If ``lasts_s`` and ``total_bytes`` (per direction) are None, it lasts until Ctrl-C."""

    host: str
    port: int = PORT
    token: str = ""
    up: int = 1
    down: int = 0
    block_bytes: int = BLOCK_BYTES
    lasts_s: float | None = None
    total_bytes: int | None = None
    rate_bps: float | None = None
    interval_s: float = 1.0
    congestion: str = ""
    options: tuple[tuple[str, str], ...] = ()
    local: str | None = None
    local_port: int | None = None
    every_block: bool = False
    names: tuple[str, ...] = ()
    """Fields of the kernel that intervals and blocks report."""
    reading: Reading = AT_ONCE
    """How this end reads what the server sends."""
    via: RemoteClient | None = None
    """The client; None: this host."""
    fetch: CaptureFetch | None = None
    """The server's capture."""
    fetch_via: CaptureFetch | None = None
    """The capture of ``via``."""
    ndt7: str = ""
    """``ws`` or ``wss``: the server speaks ndt7, without or with TLS."""

    @property
    def endless(self) -> bool:
        return self.lasts_s is None and self.total_bytes is None
