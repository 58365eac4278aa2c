"""Network namespaces for a benchmark, made by commands of ip(8)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def namespaces(names: Sequence[str], commands: Sequence[str]) -> Iterator[None]:
    """The namespaces ``names``, set up by ``commands``; leftovers of an earlier run are removed first."""
    _remove(names)
    try:
        for command in (*(f"netns add {name}" for name in names), *commands):
            subprocess.run(["ip", *command.split()], check=True)
        yield
    finally:
        _remove(names)


def _remove(names: Sequence[str]) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


def inside(name: str, *words: str) -> list[str]:
    """A command in a namespace; control groups stay visible, as they do not with ip netns exec."""
    return ["nsenter", f"--net=/run/netns/{name}", *words]
