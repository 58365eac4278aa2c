"""A child process of :mod:`children`: it answers one request within limits, and ends with the service."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from weirlab import confinement
from weirlab.confinement import Confinement
from weirlab.errors import WeirError
from weirlab.web.children import NO_MEMORY

Deed = Callable[[dict[str, Any]], dict[str, Any]]
"""Handles a request, and returns the answer."""

ENVIRONMENT: Final = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""Address space is limited, and every thread takes some of it."""


def serve(deeds: Mapping[str, Deed], file: str) -> None:
    """Read the request, carry it out, and answer it.

    ``file`` in the request's folder is what the user knows by the request's ``name``.
    """
    request = json.loads(sys.stdin.buffer.readline())
    try:
        _confine(request)
    except WeirError as error:
        _tell(_failure(str(error)))
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    _limit(int(request["memory_bytes"]), int(request["most_s"]), int(request.get("file_bytes", 0)))
    _tell(answer(deeds, request, file))


def _confine(request: dict[str, Any]) -> None:
    """From here on, what strangers sent may come: it gets at nothing but its own folder."""
    read = tuple(Path(each) for each in request.get("read", ()))
    confinement.enter(Confinement(read, write=(Path(request["folder"]),)))


def _tell(answer: dict[str, Any]) -> NoReturn:
    # Not through a standard stream, which may be broken already.
    os.write(1, json.dumps(answer).encode())
    os._exit(0)


def answer(deeds: Mapping[str, Deed], request: dict[str, Any], file: str) -> dict[str, Any]:
    """The answer of a deed, or its failure."""
    try:
        return deeds[request["do"]](request)
    except MemoryError:
        return _failure(NO_MEMORY)
    except Exception as error:
        return _failure(_told(error, request, file), type(error).__name__)


def _told(error: Exception, request: dict[str, Any], file: str) -> str:
    """What failed, without the folders of this host."""
    from weirlab.quoting import printable, shortened

    text = str(error) if isinstance(error, WeirError) else f"unexpected {type(error).__name__}: {error}"
    path = str(Path(request["folder"]) / file)
    return shortened(printable(text.replace(path, request["name"]).replace(request["folder"], "...")))


def _failure(message: str, kind: str = "") -> dict[str, Any]:
    return {"error": {"message": message, "kind": kind}}


def _limit(memory_bytes: int, most_s: int, file_bytes: int) -> None:
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: most_s,
        # Per file: a capture of 1 GB in zstd may decompress to 100 GB.
        resource.RLIMIT_FSIZE: min(4 * memory_bytes, file_bytes or 4 * memory_bytes),
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        _, hard = resource.getrlimit(kind)
        least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (least, least))


def _end_with_the_service() -> None:
    """Standard input ends when the service does, however it ends."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(1)
