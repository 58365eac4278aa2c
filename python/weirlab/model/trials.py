"""Observations as a table, with labels that say which of them belong together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.model.base import F64, ObservationTable
from weirlab.model.repeats import SAME_LOAD
from weirlab.records import Observation

Labels = npt.NDArray[np.intp]

_SIGMAS: Final = 3.0
"""Standard deviations by which two loads that were meant to be the same may differ."""


@dataclass(frozen=True)
class TrialTable:
    """Usable trials as rows of a table; labels of shape (n,) say what belongs together."""

    observations: tuple[Observation, ...]
    table: ObservationTable
    place: Labels
    """Trials with the same matching position, frame size and kind of traffic share a number."""
    cell: Labels
    """Trials that also have the same load share a number: repetitions of each other."""

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> TrialTable:
        """Sort observations; leaves out what :class:`weirlab.model.base.ObservationTable` cannot use."""
        usable = tuple(o for o in observations if len(ObservationTable.of((o,))))
        table = ObservationTable.of(usable)
        keys = [
            (o.position, round(o.frame_bytes, 1), round(o.gap_scv, 2), o.stateful, o.cross_traffic)
            for o in usable
        ]
        number = {key: i for i, key in enumerate(dict.fromkeys(sorted(keys)))}
        place = np.array([number[key] for key in keys], dtype=np.intp)
        packets = np.array([max(o.packets, 1) for o in usable], dtype=np.float64)
        # Varying gaps make the achieved load of repetitions vary, too.
        varies = np.where(packets > 1, _SIGMAS * np.sqrt(table.gap_scv / packets), 0.0)
        return cls(usable, table, place, _cells(place, table.rate_pps, np.maximum(SAME_LOAD, varies)))

    def __len__(self) -> int:
        return len(self.observations)


def members(labels: Labels) -> list[Labels]:
    """The rows of each label, in the labels' order."""
    if not len(labels):
        return []
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _cells(place: Labels, rate_pps: F64, same: F64) -> Labels:
    """A new cell begins where, in order of load, the next one is higher by more than ``same`` (relative)."""
    order = np.lexsort((rate_pps, place))
    new = np.ones(len(place), dtype=np.bool_)
    new[1:] = (np.diff(place[order]) != 0) | (np.diff(np.log(rate_pps[order])) > same[order][1:])
    cell = np.empty(len(place), dtype=np.intp)
    cell[order] = np.cumsum(new) - 1
    return cell
