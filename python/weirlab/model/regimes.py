"""Which trials were in overload, which were not, and whether there are enough of each to judge a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import ModelError
from weirlab.base.quantities import percent
from weirlab.model import trials
from weirlab.model.base import F64, Bool, ObservationTable
from weirlab.model.wording import pps
from weirlab.records import Observation

OVERLOAD_LOSS: Final = 0.005
"""Loss ratio above which a trial counts as overloaded: stolen CPU time alone costs less."""

CLEAR_LOSS: Final = 0.05
NO_LOSS: Final = 5e-4
PASSED: Final = 0.95
"""Quantile of the lossless trials' rates that surely passes: one lucky trial proves nothing."""
AT_THRESHOLD: Final = 0.98
"""A load below this share of the threshold is no overload, whatever was lost."""
NEAR: Final = 0.9
"""Below this share of the threshold a trial is clearly not in overload."""


@dataclass(frozen=True)
class ProfiledSetting:
    """One matching position and mean frame size of a profile; ``rows`` are its trials."""

    position: float
    frame_bytes: float
    rows: npt.NDArray[np.intp]

    def __str__(self) -> str:
        return f"position {self.position:g} with {self.frame_bytes:.4g} B frames"


@dataclass(frozen=True)
class Regimes:
    """Trials sorted by regime; a trial that fits neither (loss without overload) is in neither mask.

    ``reference_pps`` has an element per trial: what the device forwards at its setting; 0 if unknown.
    """

    overload: Bool
    below: Bool
    settings: list[ProfiledSetting]
    reference_pps: F64

    def unsteady(self, table: ObservationTable) -> Bool:
        """Trials in overload that forward less than 90 % of what the device otherwise forwards there."""
        return self.overload & (table.forwarding_pps < NEAR * self.reference_pps)

    def late(self, table: ObservationTable) -> Bool:
        """Trials below the threshold at whose end packets were still queued: long delays, and no loss."""
        return self.below & _behind(table)

    def threshold_pps(self, table: ObservationTable) -> F64:
        """Measured threshold per setting: the median forwarding rate in overload; NaN without overload."""
        return np.array([_threshold(table, s.rows[self.overload[s.rows]]) for s in self.settings])


def sort(table: ObservationTable) -> Regimes:
    """Separate the trials in overload from the others.

    The offered load decides, not how much was forwarded: a device that forwards little of a load beyond its
    threshold is in overload, however much more it forwards in other trials. A trial that loses packets at a
    load below what clearly overloaded trials at the same setting forward, or what went through without loss
    in another trial, lost them for another reason. A device with an endless queue loses nothing, and sends
    the rest later.
    """
    overload = table.loss_ratio > OVERLOAD_LOSS
    overload |= _behind(table)
    below = ~overload
    keys = np.stack([table.position, np.round(table.frame_bytes, 1)], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    settings = [
        ProfiledSetting(float(position), float(frame), np.flatnonzero(inverse.ravel() == i))
        for i, (position, frame) in enumerate(unique)
    ]
    references = np.zeros(len(table))
    for setting in settings:
        over = setting.rows[overload[setting.rows]]
        clear = over[_behind(table)[over]]
        lossless = setting.rows[(table.loss_ratio[setting.rows] < NO_LOSS) & below[setting.rows]]
        # Something that went through without loss cannot have exceeded the threshold.
        passed = float(np.quantile(table.forwarding_pps[lossless], PASSED)) if len(lossless) else 0.0
        reference = max(float(np.median(table.forwarding_pps[clear])) if len(clear) else 0.0, passed)
        least = AT_THRESHOLD if len(clear) else NEAR
        overload[over[table.rate_pps[over] < least * reference]] = False
        references[setting.rows] = reference
    # Nothing tells a trial whose packets came late from the others below the threshold but its result.
    return Regimes(overload, ~overload & (table.loss_ratio <= OVERLOAD_LOSS), settings, references)


def _behind(table: ObservationTable) -> Bool:
    return np.asarray(table.forwarding_pps < (1 - CLEAR_LOSS) * table.rate_pps)


def require(
    table: ObservationTable, regimes: Regimes, model: str, least_below: int, least_positions: int
) -> None:
    """Raise ``ModelError`` that names the missing trials.

    A profile of a single position needs overload only there; otherwise overload must have
    been seen at ``least_positions`` positions.
    """
    if not len(table):
        raise ModelError(
            f"no usable trials to fit the {model} model to: measure a profile with loads from low to beyond "
            "overload (weir profile)"
        )
    positions = np.unique(table.position)
    overloaded = np.unique(table.position[regimes.overload])
    missing: list[str] = []
    wanted = min(least_positions, len(positions))
    if len(overloaded) < wanted:
        without = [p for p in positions if p not in overloaded]
        highest = {p: table.forwarding_pps[table.position == p].max() for p in without}
        missing.append(
            f"overload (loss above {percent(OVERLOAD_LOSS)}) at {wanted} matching position(s), found at "
            f"{len(overloaded)}: add loads above "
            + ", ".join(f"{highest[p]:,.0f} pps at position {p:g}" for p in without)
        )
    # Achieved loads of repetitions differ a little; loads 5 % apart are different.
    loads = len(np.unique(np.round(np.log(table.rate_pps[regimes.below]) / 0.05)))
    if loads < least_below:
        lowest = float(table.rate_pps.min())
        missing.append(
            f"{least_below} different loads without loss, found {loads}: add loads below {lowest:,.0f} pps"
        )
    if missing:
        raise ModelError(f"the {model} model needs " + "; and ".join(missing))


def _threshold(table: ObservationTable, rows: npt.NDArray[np.intp]) -> float:
    return float(np.median(table.forwarding_pps[rows])) if len(rows) else float("nan")


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
    groups = trials.group(table)
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
    over = table.where(sort(table).overload)
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
    error = scatter * trials.median_error(counts)
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
