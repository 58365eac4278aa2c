"""Whether a profile has enough evidence for a verdict on its model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.model import regimes, repeats
from weirlab.model.base import ObservationTable
from weirlab.model.wording import pps
from weirlab.records import Observation

_REPEATED: Final = 0.5
"""Share of the settings and loads that must have a valid repetition."""
_RISE: Final = 0.10
"""Rise of the forwarding rate with the matching position beyond what scatter causes in a fair profile."""
_PROVEN: Final = 3.0
"""Number of standard errors above which such a rise is the device's own."""


@dataclass(frozen=True)
class ModelEvidence:
    """What the valid trials of a profile are worth."""

    settings: int
    """Settings and loads with a valid trial."""
    repeated: int
    """How many of them have more than one."""
    too_little: tuple[str, ...]
    """Why the trials say too little about the device, one clause per reason; empty if they say enough."""

    @property
    def enough(self) -> bool:
        return not self.too_little


def evidence(observations: Iterable[Observation]) -> ModelEvidence:
    """Judge the valid trials of a profile, before any model is judged."""
    table = ObservationTable.of(observations)
    groups = repeats.group(table)
    repeated = sum(len(rows) > 1 for rows in groups)
    reasons = []
    if repeated < _REPEATED * len(groups) or not groups:
        reasons.append(
            f"only {repeated} of {len(groups)} settings and loads have more than one valid trial, so scatter "
            "cannot be told from what rules and loads do"
        )
    return ModelEvidence(len(groups), repeated, (*reasons, *_rises(table)))


def _rises(table: ObservationTable) -> Iterator[str]:
    """Per frame size and kind of gaps the largest unproven rise of the forwarding rate in overload."""
    over = table.where(regimes.sort(table).overload)
    if not len(over):
        return
    keys = np.stack([over.gap_scv, np.round(over.frame_bytes, 1), over.position])
    places, inverse = np.unique(keys, axis=1, return_inverse=True)
    rows = [np.flatnonzero(inverse.ravel() == i) for i in range(places.shape[1])]
    typical = np.array([np.median(over.forwarding_pps[row]) for row in rows])
    counts = np.array([len(row) for row in rows])
    off = np.log(over.forwarding_pps / typical[inverse.ravel()])
    again = int((counts - 1).sum())
    scatter = np.sqrt((off**2).sum() / again) if again else np.inf
    error = scatter * repeats.median_error(counts)
    found: dict[tuple[float, float], tuple[float, int, int]] = {}
    # Places are in order of position within each kind of gaps and size.
    for i, j in itertools.combinations(range(len(rows)), 2):
        kind = (float(places[0, i]), float(places[1, i]))
        rise = float(np.log(typical[j] / typical[i]))
        same = (places[:2, i] == places[:2, j]).all()
        if same and _RISE < rise < _PROVEN * np.hypot(error[i], error[j]):
            found[kind] = max(found.get(kind, (0.0, 0, 0)), (rise, i, j))
    for (_, frame), (_, i, j) in found.items():
        yield (
            f"with {frame:g} B frames the device seems to forward more at matching position {places[2, j]:g} "
            f"({pps(typical[j])}) than at {places[2, i]:g} ({pps(typical[i])}), within what trials scatter"
        )
