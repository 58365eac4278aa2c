"""An upload on its way to the disk."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from starlette.concurrency import run_in_threadpool

from weirlab.base import files
from weirlab.trace.quantities import size
from weirlab.web.measurements.space import NOTE_BYTES, SpaceReservation, TooLarge

_PART_BYTES: Final = 1 << 20
"""Written at once, with one switch to a thread per part."""


def too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The capture is larger than the {size(limit)} that are allowed here. Send a part of it, compress it "
        "with zstd, or analyse it on your own machine with: weir trace"
    )


async def receive(path: Path, chunks: AsyncIterator[bytes], limit: int, claim: SpaceReservation) -> int:
    """Write ``chunks`` to the new file ``path``; returns how many bytes there were.

    Raises
    ------
    TooLarge
        There are more than ``limit``.
    NoRoom
        The ``claim`` cannot grow to what comes.
    StoreError
        The file cannot be written.
    """
    written, part = 0, bytearray()
    with files.telling(path, "write"):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        async for chunk in chunks:
            written += len(chunk)
            if written > limit:
                raise too_large(limit)
            part += chunk
            if len(part) >= _PART_BYTES:
                await run_in_threadpool(_write, fd, path, bytes(part), written, claim)
                part.clear()
        await run_in_threadpool(_write, fd, path, bytes(part), written, claim, True)
    finally:
        os.close(fd)
    return written


def _write(
    fd: int, path: Path, content: bytes, written: int, claim: SpaceReservation, last: bool = False
) -> None:
    """Write ``content``, with which there are ``written`` bytes."""
    claim.need(written + NOTE_BYTES)
    claim.use(written + NOTE_BYTES)
    with files.telling(path, "write"):
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        if last:
            os.fsync(fd)
