"""Observations as a table, with labels that say which of them belong together, and repetitions among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.model.base import F64, ObservationTable
from weirlab.model.robust import MEDIAN_EFFICIENCY
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


SAME_LOAD: Final = 0.02
"""Achieved loads closer than this (relative) are repetitions of one."""

"""Standard deviations by which two loads that were meant to be the same may differ."""

_DOUBT: Final = 10.0
"""Number of repetitions that count as much as the law."""

Groups = list[npt.NDArray[np.intp]]


def group(table: ObservationTable) -> Groups:
    """Row indices of the repetitions of each position, size, kind of gaps and load."""
    if not len(table):
        return []
    frame_bytes = np.round(table.frame_bytes, 1)
    order = np.lexsort((table.rate_pps, table.gap_scv, frame_bytes, table.position))
    rows = table.where(order)
    # Varying gaps make the achieved load of repetitions vary, too.
    varies = _SIGMAS * np.sqrt(rows.gap_scv / np.maximum(rows.packets, 1.0))
    same = np.maximum(SAME_LOAD, np.where(rows.packets > 0, varies, 0.0))
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (
        (np.diff(rows.position) != 0)
        | (np.diff(frame_bytes[order]) != 0)
        | (np.diff(rows.gap_scv) != 0)
        | (np.diff(np.log(rows.rate_pps)) > same[1:])
    )
    return np.split(order, np.flatnonzero(new)[1:])


def medians(table: ObservationTable, groups: Groups) -> ObservationTable:
    """One row per group: the median of each column."""
    columns = np.stack([getattr(table, name) for name in ObservationTable.__dataclass_fields__])
    middle = np.array([np.median(columns[:, rows], axis=1) for rows in groups]).reshape(-1, len(columns)).T
    for row, column in zip(middle, columns, strict=True):
        # A trial too short for a quantity must not remove it from its repetitions.
        for i in np.flatnonzero(np.isnan(row)):
            known = column[groups[i]][np.isfinite(column[groups[i]])]
            row[i] = np.median(known) if len(known) else np.nan
    return ObservationTable(*middle.copy())


def log_scatter(values: F64, groups: Groups) -> F64:
    """Standard deviation of ``ln values`` inside each group, shape (len(groups),); NaN for a single trial."""
    logs = np.log(np.where(values > 0, values, np.nan))
    known = [logs[rows][np.isfinite(logs[rows])] for rows in groups]
    return np.array([np.std(each, ddof=1) if len(each) > 1 else np.nan for each in known])


def trial_variance(variance: npt.ArrayLike, repeated: int, left: F64) -> F64:
    """Variance of a single trial: that of ``repeated`` repetitions, as far as there are any.

    ``left`` is what a law leaves unexplained at each setting, NaN if that was not measured. All of it
    counts as scatter until repetitions show otherwise.
    """
    known = left[np.isfinite(left)]
    doubt = float(np.mean(known**2)) if len(known) else 0.0
    return np.asarray((_DOUBT * doubt + repeated * np.asarray(variance)) / (_DOUBT + repeated))


def median_error(counts: npt.NDArray[np.intp]) -> F64:
    """Standard error of the median of ``counts`` repetitions, in units of their standard deviation."""
    return np.where(counts > 2, MEDIAN_EFFICIENCY, 1.0) / np.sqrt(counts)
