"""Bins of times for histograms, on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

_LEAST_NS: Final = 100.0
_PER_DECADE: Final = 20
_DECADES: Final = 8
EDGES_NS: Final[F64] = np.concatenate(
    ([0.0], _LEAST_NS * 10 ** (np.arange(_PER_DECADE * _DECADES + 1) / _PER_DECADE))
)
"""Up to 100 ns, then 20 in every decade up to 10 s."""


def counted(values_ns: npt.ArrayLike) -> Iterator[tuple[float, float, int]]:
    """Bins with something in them: from (inclusive) and to, in ns, and how many of ``values_ns``.

    What is longer than all bins belongs into the last one.
    """
    found, _ = np.histogram(np.minimum(np.asarray(values_ns, np.float64), EDGES_NS[-1]), EDGES_NS)
    for place in np.flatnonzero(found):
        yield float(EDGES_NS[place]), float(EDGES_NS[place + 1]), int(found[place])
