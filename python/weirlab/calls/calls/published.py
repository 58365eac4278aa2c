"""How many calls a gigabit carries by the definition of Woernhard 2006. Pure.

He leaves out preamble and gap, and takes a gigabit as 2^30 bits: as many whole packets as fit, with FCS,
and as many calls as whole streams fit into these. His sizes are without FCS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from weirlab.base.units import FCS_BYTES
from weirlab.publications import publication
from weirlab.traffic.calls.spec import CallClass
from weirlab.traffic.calls.transport import calls_per_packet, frame_bytes


@dataclass(frozen=True)
class PublishedLine:
    """A row of the table; ``frame_bytes`` is without FCS."""

    frame_bytes: int
    max_pps: int
    calls: int


@cache
def published_bytes_per_s() -> int:
    """Bytes of the published gigabit in a second."""
    return int(publication("woernhard-2006").experiments["codec-table"].settings["gigabit_bytes_per_s"])


def published_line(kind: CallClass) -> PublishedLine:
    """The row of calls like ``kind``; trunks are counted in the same way, though the table has none."""
    per_packet = calls_per_packet(kind.stream, kind.transport, kind.trunk_calls)
    size = frame_bytes(kind.stream, kind.transport, per_packet)
    max_pps = published_bytes_per_s() // size
    streams = math.floor(max_pps / kind.stream.rate_pps * (1 + 1e-12))
    return PublishedLine(size - FCS_BYTES, max_pps, streams * per_packet)
