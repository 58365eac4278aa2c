"""``weir psock cat``: bytes both ways between a session and two descriptors."""

from __future__ import annotations

import hashlib
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import TrialError
from weirlab.link.stopping import Stop
from weirlab.trace.quantities import duration, size
from weirlab.transfers.psock.copying import CHUNK_BYTES, strangers
from weirlab.transfers.psock.tables import plain_session

if TYPE_CHECKING:
    from weirlab._engine import ParallelListener, ParallelSocket

_LOOK_S: Final = 0.1


@dataclass(frozen=True)
class ExchangeResult:
    """A session at its end: bytes of each direction, and their SHA-256."""

    peer: str
    sent_bytes: int
    sent_sha256: str
    received_bytes: int
    received_sha256: str
    seconds: float
    report: Mapping[str, Any]

    def sentence(self) -> str:
        """The exchange in a sentence."""
        return (
            f"{size(self.sent_bytes)} sent and {size(self.received_bytes)} received in "
            f"{duration(self.seconds * 1e9)}."
        )

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"kind": "psock cat", **vars(self), "report": plain_session(self.report)}


def exchange(
    made: ParallelSocket, peer: str, source: int, put: Callable[[bytes], object], stop: Stop
) -> ExchangeResult:
    """Send what the descriptor ``source`` gives and pass on what arrives, until both directions have ended.

    Raises
    ------
    TrialError
        The session failed, or ``stop`` was requested before its end.
    """
    sent, received = hashlib.sha256(), hashlib.sha256()
    sent_bytes = received_bytes = 0
    pending, is_read, is_told, has_all = b"", False, False, False
    begun, poll = time.monotonic(), made.fileno()
    while not (is_told and has_all):
        if stop.requested:
            made.abort()
            raise TrialError(f"interrupted after {sent_bytes} bytes sent and {received_bytes} received")
        readers = [*([] if has_all else [poll]), *([] if pending or is_read else [source])]
        ready, _, _ = select.select(readers, [poll] if pending else [], [], _LOOK_S)
        if not has_all and (data := made.read(CHUNK_BYTES, 0.0)) is not None:
            has_all = not data
            put(data)
            received.update(data)
            received_bytes += len(data)
        if source in ready:
            pending = os.read(source, CHUNK_BYTES)
            is_read = not pending
            sent.update(pending)
        if pending and (taken := made.write(pending, 0.0)):
            pending = pending[taken:]
            sent_bytes += taken
        if is_read and not is_told:
            made.finish()
            is_told = True
    while not made.close(_LOOK_S):
        if stop.requested:
            raise TrialError("interrupted before the other end had everything")
    return ExchangeResult(
        peer,
        sent_bytes,
        sent.hexdigest(),
        received_bytes,
        received.hexdigest(),
        time.monotonic() - begun,
        made.report(),
    )


def accept(
    listener: ParallelListener, stop: Stop, tell: Callable[[str], None]
) -> tuple[ParallelSocket, tuple[str, int]]:
    """The first session and the address of its peer; ``tell`` is called for each peer rejected before.

    Raises ``TrialError`` if ``stop`` was requested before a session came.
    """
    while not stop.requested:
        strangers(listener, tell)
        if (accepted := listener.accept(_LOOK_S)) is not None:
            return accepted
    raise TrialError("interrupted before anybody connected")
