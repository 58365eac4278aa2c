"""Which trials to leave out together, so that those left out imitate settings never profiled."""

from __future__ import annotations

from typing import Final

import numpy as np

from weirlab.model.base import Bool
from weirlab.model.trials import TrialTable

LEAST_POSITIONS: Final = 4
"""With fewer, a model without one of the positions between the ends is no longer the same model."""
POSITION_FOLDS: Final = 4
LOAD_FOLDS: Final = 3


def folds(trials: TrialTable) -> list[Bool]:
    """Masks of shape (n,): six of them for a profile of five positions, at most seven.

    Half of them leave out whole positions, with all their sizes and loads, but never an end,
    where a model would have to extrapolate. A new position lies closer to profiled ones than
    these do, so on their own they would be too severe. The others leave out every n-th load of
    the same positions with all its repetitions, so that they leave out each of these trials once.
    If a profile has few positions, they cover the loads of all, so that enough trials are judged.
    """
    position = trials.table.position
    distinct = np.unique(position)
    inner = distinct[1:-1] if len(distinct) >= LEAST_POSITIONS else distinct[:0]
    inside = np.isin(position, inner if len(inner) >= POSITION_FOLDS else distinct)
    # Neighbours get into different folds: cells are numbered by place, then load.
    masks = [np.isin(position, inner[i::POSITION_FOLDS]) for i in range(POSITION_FOLDS)]
    masks += [inside & (trials.cell % LOAD_FOLDS == i) for i in range(LOAD_FOLDS)]
    return [mask for mask in masks if mask.any()]
