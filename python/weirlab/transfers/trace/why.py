"""Why connections of a capture were not faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from weirlab.diagnosis.connection import LEAST_SEGMENTS, LEAST_TIMEOUTS, worth_it
from weirlab.trace.facts import Analysis, Connection
from weirlab.trace.quantities import count

if TYPE_CHECKING:
    from weirlab._engine import ConnectionRows
    from weirlab.diagnosis.finding import Diagnosis

MOST_PACKETS: Final = 10_000_000
"""Packets, round trips and SACK blocks that are kept in memory, some 40 bytes each; ten times as many of
a single connection."""
MOST: Final = 20
"""Most connections that are diagnosed: those that are shown first."""


def packet_rows(number: int | None) -> ConnectionRows:
    """What takes the packets that diagnoses need, in the course of the analysis: those of connection
    ``number`` or of all connections that are worth it.
    """
    from weirlab import _engine

    return _engine.ConnectionRows(
        least_segments=LEAST_SEGMENTS,
        least_timeouts=LEAST_TIMEOUTS,
        most=MOST_PACKETS if number is None else 10 * MOST_PACKETS,
        only=number,
    )


def diagnosed(
    rows: ConnectionRows, shown: Sequence[Connection], target_bps: float | None = None, *, most: int = MOST
) -> dict[int, Diagnosis]:
    """Diagnoses by connection number, of the first ``most`` connections, if they have enough data."""
    found = {}
    for connection in shown[:most]:
        if not worth_it(connection):
            continue
        from weirlab.diagnosis import tracing

        found[connection["id"]] = tracing.read(rows, connection, target_bps=target_bps)
    return {number: diagnosis for number, diagnosis in found.items() if diagnosis is not None}


def reason_not(rows: ConnectionRows, analysis: Analysis) -> str | None:
    """Why there is no diagnosis although there is enough data; None if there is one."""
    if not rows.overflowed:
        return None
    many = f"the captures have {count(analysis['capture']['packets'])} packets"
    if rows.only is not None:
        return f"{many}, too many for a diagnosis; take a part of the time with --from and --to"
    return f"{many}; choose one with --connection"
