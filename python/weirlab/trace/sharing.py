"""One capture read by several processes: each reads all of it, and follows a share of its TCP connections.

Everything else (voice streams, ESP, counts) each of them finds in full: it takes little memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from weirlab.base.errors import InputError
from weirlab.trace.analysis import KEEP, TraceSettings, analyse
from weirlab.trace.facts import Analysis, Selection

_OF_ALL = "truncated"
"""Of ``tcp_limits``, what is counted for all connections; the others are those of the share."""


class SharedAnalysis(TypedDict):
    """What one process found."""

    analysis: dict[str, Any]
    """As :class:`Analysis`, without connections."""
    limits: dict[str, int]
    connections: bytes


def analyse_share(paths: Sequence[str], settings: TraceSettings, share: tuple[int, int]) -> SharedAnalysis:
    """Read the captures, and follow the connections of ``share``; raises as :func:`analyse` does."""
    mine: TraceSettings = {**settings, "share": share}
    found = analyse(paths, **mine)
    connections = cast(Any, found["connections"]).source.packed()
    limits = cast(Any, found["capture"]).pop("tcp_limits")
    return SharedAnalysis(analysis={**found, "connections": None}, limits=limits, connections=connections)


def merge(shares: Sequence[SharedAnalysis], paths: Sequence[Path], keep: int = KEEP) -> Analysis:
    """The answer of :func:`analyse` from those of all shares; raises ``InputError`` if captures differed."""
    from weirlab import _engine

    whole, capture = shares[0]["analysis"], shares[0]["analysis"]["capture"]
    if any(one["analysis"]["capture"] != capture for one in shares):
        raise InputError("workers read different captures at the same paths, or one that is still growing")
    files = [{**file, "path": str(path)} for file, path in zip(capture["files"], paths, strict=True)]
    limits = {name: sum(one["limits"][name] for one in shares) for name in shares[0]["limits"]}
    limits[_OF_ALL] = shares[0]["limits"][_OF_ALL]
    connections, left_out = _engine.Connections.merged([one["connections"] for one in shares], keep)
    answer = {
        **whole,
        "capture": {**capture, "files": files, "tcp_limits": limits},
        "connections": Selection(cast(Any, connections)),
        "connections_left_out": left_out,
        "elapsed_ns": max(one["analysis"]["elapsed_ns"] for one in shares),
    }
    return cast(Analysis, answer)
