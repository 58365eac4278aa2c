"""Delays whose mean and quantiles are known: the sum of several, and a mixture of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import numpy as np

from weirlab.model.base import DELAYS, F64

QUANTILES: Final = {"delay_p50_ns": 0.5, "delay_p90_ns": 0.9, "delay_p99_ns": 0.99, "delay_p999_ns": 0.999}
_DEEPEST: Final = 14.0
"""Of -ln(1 - q): one packet in a million is beyond."""
_NODES: Final[F64] = np.asarray((np.arange(700) + 0.5) * (_DEEPEST / 700), dtype=np.float64)
"""Of -ln(1 - q)."""
_WEIGHTS: Final[F64] = np.exp(-_NODES) / np.exp(-_NODES).sum()
_REACHED: Final[F64] = np.cumsum(_WEIGHTS) - _WEIGHTS / 2


def sum_quantiles(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The quantiles of the sum of independent delays, each with a value for every name in ``DELAYS``."""

    def added(one: F64, other: F64) -> F64:
        shares = np.multiply.outer(_WEIGHTS, _WEIGHTS).ravel()
        return _at_nodes(np.add.outer(one, other).ravel(), shares)

    total = reduce(added, (_spread(part) for part in parts))
    return {name: float(np.interp(q, _REACHED, total)) for name, q in QUANTILES.items()}


def mixture_quantiles(parts: Sequence[Mapping[str, F64]], shares: Sequence[F64]) -> dict[str, F64]:
    """The quantiles of a delay that is one of ``parts``, with these probabilities; arrays of one shape."""
    if len(parts) == 1:
        return {name: np.asarray(parts[0][name]) for name in QUANTILES}
    shape = np.shape(shares[0])
    found = {name: np.empty(shape) for name in QUANTILES}
    for place in np.ndindex(shape):
        here = ({name: float(part[name][place]) for name in DELAYS} for part in parts)
        weights = np.concatenate([_WEIGHTS * share[place] for share in shares])
        mixed = _at_nodes(np.concatenate([_spread(part) for part in here]), weights)
        for name, q in QUANTILES.items():
            found[name][place] = np.interp(q, _REACHED, mixed)
    return found


def _at_nodes(delays: F64, shares: F64) -> F64:
    """The delay at each of the nodes, of ``delays`` that have these shares of all packets."""
    order = np.argsort(delays)
    return np.asarray(np.interp(_REACHED, np.cumsum(shares[order]) - shares[order] / 2, delays[order]))


def _spread(part: Mapping[str, float]) -> F64:
    """The delay at each of the nodes: straight lines between the known quantiles.

    Below the median, the line begins where the mean is right, if that is between 0 and the median.
    """
    known = [-math.log(1.0 - q) for q in QUANTILES.values()]
    delays = [part[name] for name in QUANTILES]
    delays = np.maximum.accumulate([value for value in delays if math.isfinite(value)]).tolist()
    known = known[: len(delays)]
    slope = (delays[-1] - delays[-2]) / (known[-1] - known[-2])
    ends = [*known, _DEEPEST + 1.0]
    tail = [*delays, delays[-1] + slope * (ends[-1] - known[-1])]

    def mean(least: float) -> float:
        return float((np.interp(_NODES, [0.0, *ends], [least, *tail]) * _WEIGHTS).sum())

    # The mean is linear in the least delay.
    at_nothing, at_median = mean(0.0), mean(delays[0])
    per_ns = (at_median - at_nothing) / delays[0] if delays[0] > 0 else 0.0
    least = (part["delay_mean_ns"] - at_nothing) / per_ns if per_ns > 0 else 0.0
    return np.asarray(np.interp(_NODES, [0.0, *ends], [min(max(least, 0.0), delays[0]), *tail]))
