"""Writes a part of captures to a new file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import fspath
from pathlib import Path
from typing import BinaryIO

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.trace.analysis import PathText, refuse_inputs
from weirlab.trace.facts import Connection
from weirlab.trace.quantities import Window


@dataclass(frozen=True)
class ExcerptResult:
    """What was written: ``packets`` out of ``read``, and the ``bytes`` of the file; times: ns since 1970."""

    path: Path
    packets: int
    read: int
    bytes: int
    first_ns: int
    last_ns: int
    interfaces: int
    cut_short: bool
    """A capture ends inside a packet."""


def check(paths: PathText | Sequence[PathText], out: Path, option: str = "out") -> None:
    """Raise ``InputError`` for anything that :func:`cut` refuses before it reads."""
    listed = _listed(paths)
    refuse_inputs([out], listed, option)
    files.check_output(out, option)
    for path in map(Path, listed):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(f"{option}: {files.shown(path)} can be read only once; save it to a file first")


def _listed(paths: PathText | Sequence[PathText]) -> list[PathText]:
    return [paths] if isinstance(paths, str) or not isinstance(paths, Sequence) else list(paths)


def cut(
    paths: PathText | Sequence[PathText],
    out: Path,
    *,
    filter: str = "",
    window: Window = Window(),  # noqa: B008  (frozen)
    option: str = "out",
) -> ExcerptResult:
    """Write packets of captures to ``out`` as pcapng, with their interfaces, directions and losses.

    Parameters
    ----------
    paths
        pcap or pcapng, plain or compressed; several are one capture, in this order.
    filter
        Expression of libpcap (pcap-filter(7)); only packets that it accepts.
    window
        Only packets of this time.
    option
        The name of ``out`` in messages.

    Raises
    ------
    InputError
        A capture cannot be read, no packet is left, or ``out`` is one of the captures.
    StoreError
        The file cannot be written.
    """
    from weirlab import _engine

    check(paths, out, option)
    listed = _listed(paths)
    found: list[ExcerptResult] = []

    def fill(file: BinaryIO) -> None:
        told = _engine.cut_captures(
            [fspath(path) for path in listed],
            out=file.fileno(),
            filter=filter,
            from_ns=window.from_ns,
            to_ns=window.to_ns,
            relative=window.relative,
        )
        if not told["written"]:
            raise InputError(
                f"{option} {files.shown(out)}: none of {told['read']:,} packets was selected; not written"
            )
        found.append(
            ExcerptResult(
                path=out,
                packets=told["written"],
                **{
                    name: told[name]
                    for name in ("read", "bytes", "first_ns", "last_ns", "interfaces", "cut_short")
                },
            )
        )

    # Users who may read the copy may not be the ones who may read the capture.
    files.write(out, fill, private=True)
    return found[0]


def of(connection: Connection) -> str:
    """The filter that accepts the packets of ``connection``, and of others between the same two ends."""
    a, b = connection["a"], connection["b"]
    ways = " or ".join(
        f"(src host {one['addr']} and src port {one['port']} and dst host {other['addr']} "
        f"and dst port {other['port']})"
        for one, other in ((a, b), (b, a))
    )
    # Each "vlan" applies the rest of the filter behind one more tag.
    tags = "".join(f"vlan {number} and " for number in re.findall(r"\d+", connection["vlan"]))
    return f"{tags}tcp and ({ways})"
