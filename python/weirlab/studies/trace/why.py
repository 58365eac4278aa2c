"""Why connections of a capture were not faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weirlab.diagnosis.worth import worth_it
from weirlab.trace.facts import Analysis, Connection
from weirlab.trace.quantities import size

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis

MOST_BYTES: Final = 256_000_000
"""Of captures that are read again for it, packet by packet; larger ones if a connection is chosen."""
MOST: Final = 20
"""Connections that are diagnosed, those that are shown first."""


def worth(shown: Sequence[Connection], files: Sequence[Path]) -> list[Connection]:
    """Those with enough data to say anything, of captures that are still there."""
    if not all(path.exists() for path in files):
        return []
    return [each for each in shown[:MOST] if worth_it(each)]


def reason_not(files: Sequence[Path], shown: Sequence[Connection]) -> str | None:
    """Why nothing is said although there is something to say; None if it is said."""
    if any(path.exists() and not path.is_file() for path in files):
        return "FILE can be read once only"
    total = sum(path.stat().st_size for path in files)
    if total > MOST_BYTES and len(shown) > 1:
        return f"the captures have {size(total)}; choose one with --connection"
    return None


def diagnosed(
    files: Sequence[Path],
    analysis: Analysis,
    shown: Sequence[Connection],
    series: Path | None,
    settings: Mapping[str, Any],
    target_bps: float | None = None,
) -> dict[int, Diagnosis]:
    """By the number of the connection; reads the captures again unless ``series`` has every packet."""
    from weirlab import trace
    from weirlab.diagnosis import tracing

    def of(read: trace.Trace) -> dict[int, Diagnosis]:
        found = {each["id"]: tracing.read(read, each, target_bps=target_bps) for each in shown}
        return {number: each for number, each in found.items() if each is not None}

    if series is not None:
        return of(trace.Trace(analysis, series))
    with trace.read(files, series=True, **settings) as read:
        return of(read)
