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
"""Largest captures that are read again, packet by packet; larger ones only if a connection is chosen."""
MOST: Final = 20
"""Most connections that are diagnosed: those that are shown first."""


def worth(shown: Sequence[Connection], files: Sequence[Path]) -> list[Connection]:
    """The connections with enough data for a diagnosis; none if a capture no longer exists."""
    if not all(path.exists() for path in files):
        return []
    return [each for each in shown[:MOST] if worth_it(each)]


def reason_not(files: Sequence[Path], shown: Sequence[Connection]) -> str | None:
    """Why there is no diagnosis although there is enough data; None if there is one."""
    if any(path.exists() and not path.is_file() for path in files):
        return "FILE can be read only once"
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
    """Diagnoses by connection number; reads the captures again unless ``series`` has every packet."""
    from weirlab import trace
    from weirlab.diagnosis import tracing

    def of(read: trace.Trace) -> dict[int, Diagnosis]:
        found = {each["id"]: tracing.read(read, each, target_bps=target_bps) for each in shown}
        return {number: each for number, each in found.items() if each is not None}

    if series is not None:
        return of(trace.Trace(analysis, series))
    with trace.read(files, series=True, **settings) as read:
        return of(read)
