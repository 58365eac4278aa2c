"""Captures of a connection at its two ends, made up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weirlab.diagnosis.both.crossing import CaptureLeg

MS = 1_000_000
Segment = tuple[float, int, int, int]
"""Time in ms, sequence number, payload, and what of that is new."""


def leg(data: Sequence[Segment], acks: Sequence[tuple[float, int]] = (), whole: bool = True) -> CaptureLeg:
    time, seq, payload, new = np.array(data, dtype=np.float64).reshape(-1, 4).T
    at, ack = np.array(acks, dtype=np.float64).reshape(-1, 2).T
    columns = (time * MS, seq, payload, new, at * MS, ack)
    return CaptureLeg(*(np.rint(each).astype(np.int64) for each in columns), whole)
