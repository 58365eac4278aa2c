"""A child process of :mod:`children`: it answers one request within limits, and ends with the service."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from weirlab.base import confinement
from weirlab.base.confinement import Confinement
from weirlab.base.errors import WeirError
from weirlab.web.children import NO_MEMORY

Deed = Callable[[dict[str, Any]], dict[str, Any]]
"""Handles a request, and returns the answer."""

_NICENESS: Final = 10
_FOLDERS: Final = Confinement()
"""Nothing besides its folders."""


def serve(
    deeds: Mapping[str, Deed],
    file: str,
    memory: int = resource.RLIMIT_AS,
    kept: Confinement = _FOLDERS,
) -> None:
    """Read the request, carry it out, and answer it.

    The first argument of the process is the folder that it may write to, which becomes the request's
    ``folder``; the others are folders that it may read. ``file`` in its folder is what the user knows by the
    request's ``name``. ``memory`` is the kind of memory that is limited, and ``kept`` is what the
    process needs besides folders.
    """
    folder, *read = sys.argv[1:]
    # The service answers its users first.
    os.nice(_NICENESS)
    try:
        # From here on, what strangers sent may come: it gets at nothing but its own folder.
        confinement.enter(replace(kept, read_as_owner=tuple(map(Path, read)), write=(Path(folder),)))
    except WeirError as error:
        _tell(_failure(str(error)))
    request = {**json.loads(sys.stdin.buffer.readline()), "folder": folder}
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    _limit(
        memory,
        int(request["memory_bytes"]),
        int(request["most_s"]),
        int(request.get("file_bytes", 0)),
    )
    _tell(answer(deeds, request, file))


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
    from weirlab.base.quoting import printable, shortened

    text = str(error) if isinstance(error, WeirError) else f"unexpected {type(error).__name__}: {error}"
    path = str(Path(request["folder"]) / file)
    return shortened(printable(text.replace(path, request["name"]).replace(request["folder"], "...")))


def _failure(message: str, kind: str = "") -> dict[str, Any]:
    return {"error": {"message": message, "kind": kind}}


def _limit(memory: int, memory_bytes: int, most_s: int, file_bytes: int) -> None:
    limits = {
        memory: memory_bytes,
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
