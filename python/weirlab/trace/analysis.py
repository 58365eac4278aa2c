"""The call into the engine, and what it needs checked before."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Final, cast

from weirlab import files
from weirlab.errors import InputError
from weirlab.trace.facts import Analysis
from weirlab.trace.times import Window

PERIOD_NS: Final = 100_000_000
KEEP: Final = 100_000
"""Connections that an answer holds at most, some 3 kB each; series have all."""

SERIES: Final = ("connections", "segments", "rtt", "sack", "periods", "streams")
"""Names of the files of series, each ``NAME.parquet``."""

PathText = str | PathLike[str]


def analyse(
    paths: PathText | Sequence[PathText],
    *,
    filter: str = "",
    window: Window = Window(),  # noqa: B008  (frozen)
    series: Path | None = None,
    period_ns: int = PERIOD_NS,
    decode_as: Sequence[tuple[int, int]] = (),
    keep: int = KEEP,
) -> Analysis:
    """Analyse capture files, one after the other as if they were one.

    Parameters
    ----------
    paths
        pcap or pcapng, bare or in gzip or zstd; of a rotated record all files, in order.
    filter
        Expression of libpcap (pcap-filter(7)); other packets are passed over.
    window
        Only packets of this time.
    series
        Folder, made if missing, for Parquet files of every packet and round trip; see ``docs/trace.md``.
    period_ns
        Length of a row of ``periods.parquet``, ns.
    decode_as
        Ranges of UDP ports, ends included, that are RTP without proof.
    keep
        At most so many connections are returned, those with most bytes on the link.

    Returns
    -------
    Analysis
        ``capture``, ``connections``, ``streams`` and ``esp``, of each what was left out, ``elapsed_ns``.

    Raises
    ------
    InputError
        A file is missing, is no capture, or is damaged (with the offset); the filter is not understood;
        ``series`` is no place for its files, or one of them is a capture that is to be read.
    StoreError
        The disk refuses ``series``.
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
    answer = _engine.analyse(
        [fspath(path) for path in listed],
        filter=filter,
        from_ns=window.from_ns,
        to_ns=window.to_ns,
        relative=window.relative,
        series=None if series is None else str(series),
        period_ns=period_ns,
        decode_as=list(decode_as),
        keep=keep,
    )
    for file, path in zip(answer["capture"]["files"], listed, strict=True):
        file["path"] = fspath(path)
    return cast(Analysis, answer)


def refuse_inputs(outputs: Sequence[Path], inputs: Sequence[PathText], option: str) -> None:
    """Raise ``InputError`` where a file that would be written, because of ``option``, is one to be read."""
    for output in outputs:
        for given in inputs:
            if _same(output, Path(given)):
                raise InputError(
                    f"{option} would replace the capture {fspath(given)}; choose another name for it"
                )


def _same(one: Path, other: Path) -> bool:
    try:
        # Also by way of links.
        return one.samefile(other)
    except OSError:
        return False
