"""When each cause held a transfer back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.causes import UNKNOWN
from weirlab.diagnosis.finding import CauseInterval
from weirlab.diagnosis.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weirlab.diagnosis.causes import Cause
    from weirlab.diagnosis.timeline import Floats

MOST: Final = 2000
"""Most intervals: more than a screen has columns."""


def intervals(timeline: Timeline, parts: Mapping[Cause, Floats]) -> tuple[CauseInterval, ...]:
    """The largest cause of each moment; ``parts`` has the share of each piece of time (0 to 1) by cause.

    What ``parts`` leave is not known. If causes alternate more than :data:`MOST` times, time is divided into
    as many equal bins, each with the cause that had most of it.
    """
    names = [*parts, UNKNOWN]
    shares = np.array([*parts.values()]).reshape(len(parts), len(timeline.lasts_s))
    shares = np.vstack([shares, 1 - shares.sum(axis=0)])
    edges = np.concatenate([[0.0], np.cumsum(timeline.lasts_s)])
    held = shares.argmax(axis=0)
    if np.count_nonzero(np.diff(held)) >= MOST:
        seconds = np.concatenate(
            [np.zeros((len(names), 1)), np.cumsum(shares * timeline.lasts_s, axis=1)], axis=1
        )
        bins = np.linspace(0.0, edges[-1], MOST + 1)
        held = np.diff([np.interp(bins, edges, each) for each in seconds], axis=1).argmax(axis=0)
        edges = bins
    first = np.flatnonzero(np.diff(held, prepend=-1))
    ends = edges[[*first[1:], len(held)]]
    return tuple(
        CauseInterval(names[held[at]], float(edges[at]), float(end))
        for at, end in zip(first, ends, strict=True)
    )
