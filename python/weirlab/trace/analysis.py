"""Which connections are wanted, the call into the engine, and the checks before it.

One capture may be read by several processes: each reads all of it, and follows a share of its TCP
connections. Everything else (voice streams, ESP, counts) each of them finds in full: it takes little memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.trace.facts import Analysis, Connection, Selection, Side
from weirlab.trace.quantities import Window

if TYPE_CHECKING:
    from weirlab._engine import ConnectionRows


@dataclass(frozen=True)
class FlowEnd:
    """An address, a port, both, or (empty and 0) anything."""

    addr: str = ""
    port: int = 0

    def fits(self, side: Side) -> bool:
        return self.addr in ("", side["addr"]) and self.port in (0, side["port"])


@dataclass(frozen=True)
class Flow:
    """Two ends; it does not matter which of them opened the connection."""

    one: FlowEnd
    other: FlowEnd = FlowEnd()

    def fits(self, connection: Connection) -> bool:
        a, b = connection["a"], connection["b"]
        return (self.one.fits(a) and self.other.fits(b)) or (self.one.fits(b) and self.other.fits(a))


def parse_flow(text: str, option: str = "--flow") -> Flow:
    """Read ``10.0.0.1:40000-192.0.2.1:443``, ``10.0.0.1``, ``:443``, ``[2001:db8::1]:443-2001:db8::2``.

    Raises
    ------
    InputError
        ``text`` is none of these; the message names ``option``.
    """
    one, dash, other = text.strip().partition("-")
    try:
        if not one or (dash and not other):
            raise ValueError
        return Flow(_end(one), _end(other) if dash else FlowEnd())
    except ValueError:
        raise InputError(
            f"{option} {quoted(text)} not understood; accepted are two ends "
            "(10.0.0.1:40000-192.0.2.1:443) or one, "
            "and an end is an address, :PORT or both, IPv6 as [2001:db8::1]:443"
        ) from None


def select_flows(connections: Sequence[Connection], flows: Sequence[Flow]) -> Selection:
    """The connections that match one of ``flows``; all of them if ``flows`` is empty."""
    every = Selection(connections)
    return every.where(lambda one: any(flow.fits(one) for flow in flows)) if flows else every


def _end(text: str) -> FlowEnd:
    if text.startswith("["):
        addr, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError
        port = rest[1:]
    elif text.count(":") > 1:
        addr, port, rest = text, "", ""
    else:
        addr, rest, port = text.partition(":")
    if rest and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError
    return FlowEnd(str(ip_address(addr)) if addr else "", int(port or 0))


PERIOD_NS: Final = 100_000_000
KEEP: Final = 100_000
"""Most connections in an answer, less than 2 kB each; series have all."""

SERIES: Final = ("connections", "segments", "rtt", "sack", "periods", "streams")
"""Names of the files of series, each ``NAME.parquet``."""

PathText = str | PathLike[str]


class TraceSettings(TypedDict, total=False):
    """How captures are analysed."""

    filter: str
    """Expression of libpcap (pcap-filter(7)); other packets are skipped."""
    window: Window
    """Only packets of this time."""
    period_ns: int
    """Length of a row of ``periods.parquet``, ns; :data:`PERIOD_NS`."""
    decode_as: Sequence[tuple[int, int]]
    """Ranges of UDP ports, ends included, whose packets are treated as RTP without further evidence."""
    keep: int
    """Most connections that are returned: those with most bytes on the link; :data:`KEEP`."""
    rows: ConnectionRows | None
    """Takes the packets of connections, for their diagnosis."""
    share: tuple[int, int]
    """The number of a share of the connections, from 0, of several; only these are followed."""


def analyse(
    paths: PathText | Sequence[PathText],
    *,
    series: Path | None = None,
    **settings: Unpack[TraceSettings],
) -> Analysis:
    """Analyse capture files, one after the other as if they were one.

    Parameters
    ----------
    paths
        pcap or pcapng, plain or compressed with gzip, zstd, xz, lz4 or bzip2; for a rotated record all
        files, in order.
    series
        Folder, made if missing, for Parquet files of every packet and round trip; see ``docs/trace.md``.
    settings
        :class:`TraceSettings`.

    Returns
    -------
    Analysis
        ``capture``, ``connections``, ``streams`` and ``esp``, how many of each were left out, ``elapsed_ns``.

    Raises
    ------
    InputError
        A file is missing, is not a capture, or is damaged (with the offset); the filter is invalid;
        ``series`` cannot hold its files, or one of them is a capture to be read.
    StoreError
        ``series`` cannot be written.
    """
    from weirlab import _engine

    listed = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not listed:
        raise InputError("no capture file is given; give at least one")
    if series is not None:
        outputs = [series / f"{name}.parquet" for name in SERIES]
        refuse_inputs(outputs, listed, "--series")
        files.check_folder(series, "--series")
        files.sweep(series)
        files.make_folder(series)
        for output in outputs:
            files.check_output(output, "--series")
    window = settings.get("window", Window())
    answer = _engine.analyse(
        [fspath(path) for path in listed],
        filter=settings.get("filter", ""),
        from_ns=window.from_ns,
        to_ns=window.to_ns,
        relative=window.relative,
        series=None if series is None else str(series),
        period_ns=settings.get("period_ns", PERIOD_NS),
        decode_as=list(settings.get("decode_as", ())),
        keep=settings.get("keep", KEEP),
        rows=settings.get("rows"),
        share=settings.get("share"),
    )
    answer["connections"] = Selection(answer["connections"])
    for file, path in zip(answer["capture"]["files"], listed, strict=True):
        file["path"] = fspath(path)
    return cast(Analysis, answer)


def refuse_inputs(outputs: Sequence[Path], inputs: Sequence[PathText], option: str) -> None:
    """Raise ``InputError`` if a file to be written because of ``option`` is also one to be read."""
    for output in outputs:
        for given in inputs:
            if _same(output, Path(given)):
                raise InputError(
                    f"{option} would replace the capture {fspath(given)}; choose another name for it"
                )


def _same(one: Path, other: Path) -> bool:
    try:
        # This follows links.
        return one.samefile(other)
    except OSError:
        return False


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
