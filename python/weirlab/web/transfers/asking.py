"""The form of a transfer, and its settings."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from weirlab.base.amounts import parse_line, parse_size
from weirlab.base.errors import InputError
from weirlab.transfers.tcp.connections import USUAL
from weirlab.transfers.tcp.settings import (
    BLOCK_BYTES,
    LASTS_S,
    LEAST_BLOCK_BYTES,
    PORT,
    RemoteClient,
    TransferSettings,
    block_bytes,
)

MOST_TOTAL_BYTES: Final = 1_000_000_000_000
LEAST_S: Final = 0.01
_Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=253)]
_Size = Annotated[_Text, StringConstraints(max_length=20)]
_Token = Annotated[str, StringConstraints(max_length=1000)]


class TransferRequest(BaseModel):
    """The form. Either ``lasts_s`` or ``total_bytes`` ends the transfer; ``rate`` is text with its unit.

    Without a ``client`` this host is the client.
    """

    model_config = ConfigDict(extra="forbid")

    host: Annotated[_Text, StringConstraints(min_length=1)]
    port: Annotated[int, Field(ge=1, le=65535)] = PORT
    token: _Token = ""
    client: _Text = ""
    client_port: Annotated[int, Field(ge=1, le=65535)] = PORT
    client_token: _Token = ""
    direction: Literal["up", "down", "both"] = "up"
    connections: Annotated[int, Field(ge=1, le=32)] = 1
    lasts_s: Annotated[float, Field(ge=LEAST_S)] | None = 10.0
    total_bytes: Annotated[int, Field(ge=1, le=MOST_TOTAL_BYTES)] | None = None
    interval_ms: Annotated[int, Field(ge=10, le=10_000)] = 100
    rate: Annotated[_Text, StringConstraints(max_length=40)] = ""
    congestion: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{0,15}$")] = ""
    block: _Size = ""
    buffer: _Size = ""
    """Socket buffer of this host's end; empty: the system's, which grows."""
    capture: bool = False
    """Record the packets at both ends, where that is allowed."""

    def name(self) -> str:
        """The name of the test."""
        return f"TCP test from {self.client} to {self.host}" if self.client else f"TCP test to {self.host}"

    def public(self) -> dict[str, Any]:
        """What may be kept and shown: all but the tokens."""
        return self.model_dump(exclude={"token", "client_token"})


def settings(asked: TransferRequest, most_s: float) -> TransferSettings:
    """The settings that ``weir tcp send`` would get.

    Raises
    ------
    InputError
        The transfer would last longer than ``most_s`` or have too few bytes, or the rate, the
        block or the buffer is invalid.
    """
    if asked.lasts_s is not None and asked.total_bytes is not None:
        raise InputError("A transfer ends after a time or after some bytes; give one of them.")
    lasts_s = asked.lasts_s
    if lasts_s is not None and lasts_s > most_s:
        raise InputError(f"A transfer may last at most {most_s:g} s here.")
    least_bytes = asked.connections * LEAST_BLOCK_BYTES
    if asked.total_bytes is not None and asked.total_bytes < least_bytes:
        raise InputError(f"A transfer over {asked.connections} connections has at least {least_bytes} bytes.")
    if asked.buffer and asked.client:
        raise InputError("A socket buffer applies to this host, and here another host is the client.")
    sends, receives = asked.direction in ("up", "both"), asked.direction in ("down", "both")
    return TransferSettings(
        host=asked.host.strip("[]"),
        port=asked.port,
        token=asked.token,
        up=asked.connections if sends else 0,
        down=asked.connections if receives else 0,
        lasts_s=lasts_s if lasts_s is not None or asked.total_bytes is not None else LASTS_S,
        total_bytes=asked.total_bytes,
        rate_bps=parse_line(asked.rate) if asked.rate else None,
        block_bytes=block_bytes(asked.block, "a block") if asked.block else BLOCK_BYTES,
        options=tuple(
            (name, str(parse_size(asked.buffer, "the buffer")))
            for name, needed in (("SO_SNDBUF", sends), ("SO_RCVBUF", receives))
            if needed and asked.buffer
        ),
        interval_s=asked.interval_ms / 1e3,
        congestion=asked.congestion,
        names=USUAL,
        via=RemoteClient(asked.client.strip("[]"), asked.client_port, asked.client_token)
        if asked.client
        else None,
    )
