"""How far one setting can go before a device misses a limit.

The whole grid is judged at once and the first step that fails is refined, so that nothing
has to be monotone: the answer is the end of the stretch that begins at the lowest setting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from weirlab.base.units import MAX_FRAME_BYTES, MIN_FRAME_BYTES
from weirlab.model.base import F64
from weirlab.model.planning.judge import DeviceVerdict, Judge, OperatingPoints
from weirlab.model.planning.requirements import QuantityLimit

RATES_PPS: Final[F64] = np.geomspace(10.0, 1e8, 1401)
"""Loads tried, 200 per factor of ten."""

POSITIONS: Final[F64] = np.unique(np.concatenate([np.arange(200.0), np.round(np.geomspace(200, 1e6, 801))]))
"""Rule counts tried; between neighbours a step is refined to single rules."""

FRAMES_BYTES: Final[F64] = np.arange(MIN_FRAME_BYTES, MAX_FRAME_BYTES + 1.0)

_REFINEMENTS: Final = 4
_STEPS: Final = 65

Ended = Literal["limit", "profile", "search"]
"""Why a search ended: a limit is missed beyond, the profile ends, or larger values were not tried."""


@dataclass(frozen=True)
class Reach:
    """How far a setting can go; ``value`` is None if not even the lowest one will do."""

    value: float | None
    ended: Ended
    binding: QuantityLimit | None
    """The limit that is missed just beyond ``value`` (or at the lowest setting); None if there is none."""
    lowest: float | None
    """The lowest setting inside the profiled range; None if there is none."""
    why: tuple[str, ...] = ()
    """For ``profile``: in which way the profile ends there."""


def reach(judge: Judge, grid: F64, place: Callable[[F64], OperatingPoints], *, whole: bool = False) -> Reach:
    """How far along ``grid`` the limits hold.

    Parameters
    ----------
    grid:
        Ascending values of what is searched for.
    place:
        From such values to settings.
    whole:
        Only whole numbers are answers.
    """
    verdict = judge.at(place(grid))
    inside = ~verdict.outside | judge.extrapolate
    if not inside.any():
        return Reach(None, "profile", None, None, _common_reasons(judge, grid, place))
    first = int(np.argmax(inside))
    lowest = float(grid[first])
    if not verdict.met[first]:
        return Reach(None, "limit", judge.limits[int(verdict.binding[first])], lowest)
    fails = ~(verdict.met & inside)
    fails[:first] = False
    if not fails.any():
        return Reach(float(grid[-1]), "search", None, lowest)
    beyond = int(np.argmax(fails))
    good, bad = float(grid[beyond - 1]), float(grid[beyond])
    for _ in range(_REFINEMENTS):
        if whole and bad - good <= 1:
            break
        steps = _steps_between(good, bad, whole)
        held = judge.at(place(steps))
        missed = ~(held.met & (~held.outside | judge.extrapolate))
        missed[-1] = True
        index = int(np.argmax(missed))
        good = float(steps[index - 1]) if index else good
        bad = float(steps[index])
    at_bad = judge.at(place(np.array([bad])))
    return _ended(judge, at_bad, good, lowest, place(np.array([bad])))


def stretches(judge: Judge, grid: F64, place: Callable[[F64], OperatingPoints]) -> list[tuple[float, float]]:
    """First and last value of every unbroken stretch of ``grid`` that meets the limits."""
    verdict = judge.at(place(grid))
    good = np.concatenate([[False], verdict.met & (~verdict.outside | judge.extrapolate), [False]])
    edges = np.flatnonzero(good[1:] != good[:-1])
    return [(float(grid[a]), float(grid[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _steps_between(good: float, bad: float, whole: bool) -> F64:
    steps = np.linspace(good, bad, _STEPS)[1:]
    if whole:
        steps = np.unique(np.round(steps))
        steps = steps[steps > good]
    return np.asarray(steps)


def _ended(judge: Judge, at_bad: DeviceVerdict, good: float, lowest: float, bad: OperatingPoints) -> Reach:
    if not at_bad.met[0]:
        return Reach(good, "limit", judge.limits[int(at_bad.binding[0])], lowest)
    return Reach(good, "profile", None, lowest, tuple(judge.reasons(bad)))


def _common_reasons(judge: Judge, grid: F64, place: Callable[[F64], OperatingPoints]) -> tuple[str, ...]:
    """Reasons that hold all along the grid; if there is none, those at its middle."""
    probes = [judge.reasons(place(np.array([grid[i]]))) for i in (0, len(grid) // 2, len(grid) - 1)]
    common = tuple(reason for reason in probes[0] if all(reason in other for other in probes[1:]))
    return common or tuple(probes[1])
