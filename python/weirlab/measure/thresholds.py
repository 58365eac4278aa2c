"""What a device forwards in overload, and its delay below, as measured: from a table of trials."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import polars as pl
from scipy.special import stdtrit

from weirlab.model import regimes
from weirlab.model.base import ObservationTable


@dataclass(frozen=True)
class UsableTrials:
    """The valid trials with one matching position and no cross traffic of which something arrived."""

    plain: pl.DataFrame
    grid: pl.DataFrame
    """Those of the grid with the usual gaps, as :func:`in_overload` has them."""
    keys: tuple[str, ...]
    """The columns that tell their settings apart."""


def usable(trials: pl.DataFrame) -> UsableTrials:
    """Those of ``trials``, which are ``Run.trials()`` or a part of it.

    Where shares of new flows vary, ``position`` is the mean over the packets: the share ``new_share`` of
    them is compared with ``rules``.
    """
    answered = ("new_share", "rules") if trials["new_share"].drop_nulls().n_unique() > 1 else ()
    if answered:
        trials = trials.with_columns(rules=pl.col("position"), position=pl.col("mean_position"))
    chosen = pl.col("valid") & (pl.col("places") == "") & ~pl.col("cross_traffic") & (pl.col("received") > 0)
    plain = trials.filter(chosen).with_columns(
        arrivals=pl.col("spec").str.json_path_match("$.traffic.arrivals")
    )
    loads = plain.filter(_GRID)
    usual = loads["arrivals"].mode(maintain_order=True).first() if loads.height else None
    grid = in_overload(loads.filter(pl.col("arrivals").eq_missing(usual)))
    return UsableTrials(plain, grid, ("position", "stateful", "frame_bytes", "sizes_text", *answered))


def rates(trials: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The rows of :func:`thresholds`, :func:`delays` and :func:`irregular`, each under its name."""
    chosen = usable(trials)
    return {each.__name__: each(chosen).to_dicts() for each in (thresholds, delays, irregular)}


def thresholds(trials: UsableTrials) -> pl.DataFrame:
    """Measured thresholds: the median forwarding rate of the valid trials :func:`in_overload`; outside
    profiles, of those that lost more than 5 %.

    Columns: ``position, stateful, sizes_text, frame_bytes, threshold_pps, low_pps, high_pps`` (smallest and
    largest), ``n``, and ``interval_low_pps, interval_high_pps``, the 95 % interval of the threshold (null for
    a single trial); one row per setting that was overloaded at all.
    """
    # Bursts and searches are no grid of loads, in which regimes could be told apart.
    others = trials.plain.filter(~_GRID).with_columns(
        overload=pl.col("forwarding_pps") < (1 - regimes.CLEAR_LOSS) * pl.col("achieved_pps")
    )
    return (
        pl.concat([trials.grid, others], how="diagonal")
        .filter("overload")
        .group_by(trials.keys)
        .agg(
            threshold_pps=pl.col("forwarding_pps").median(),
            low_pps=pl.col("forwarding_pps").min(),
            high_pps=pl.col("forwarding_pps").max(),
            n=pl.len(),
            half=pl.col("forwarding_pps").log().map_batches(_half_interval, pl.Float64, returns_scalar=True),
        )
        .with_columns(
            interval_low_pps=pl.col("threshold_pps") * (-pl.col("half")).exp(),
            interval_high_pps=pl.col("threshold_pps") * pl.col("half").exp(),
        )
        .drop("half")
        .sort(trials.keys)
    )


def delays(trials: UsableTrials) -> pl.DataFrame:
    """Medians of the delays of a grid's valid trials below overload, one row per setting.

    Columns as in :func:`thresholds`, with ``delay_p50_ns, delay_p99_ns``; ``low_pps, high_pps`` are the
    smallest and the largest load.
    """
    return (
        trials.grid.filter("below")
        .group_by(trials.keys)
        .agg(
            pl.col("delay_p50_ns", "delay_p99_ns").median(),
            low_pps=pl.col("achieved_pps").min(),
            high_pps=pl.col("achieved_pps").max(),
            n=pl.len(),
        )
        .sort(trials.keys)
    )


def irregular(trials: UsableTrials) -> pl.DataFrame:
    """Valid trials of a grid that differ from the others: one row per trial, with ``why``.

    ``unsteady`` ones are in overload and count for the threshold; ``lossy`` ones lost packets at a load
    below it, and count neither for it nor for the fit of models, but for their intervals; ``late`` ones lost
    none there, but had packets queued at their end, and count.
    """
    lossy = ~pl.col("overload") & ~pl.col("below")
    return (
        trials.grid.filter(lossy | pl.col("unsteady") | pl.col("late"))
        .select(
            "index", "role", *trials.keys, "achieved_pps", "forwarding_pps", "loss_ratio",
            why=pl.when(lossy)
            .then(pl.lit("lossy"))
            .when("late")
            .then(pl.lit("late"))
            .otherwise(pl.lit("unsteady")),
        )
        .sort(*trials.keys, "role", "index")
    )  # fmt: skip


_REGIMES: Final = ("overload", "below", "unsteady", "late")
_GRID: Final = pl.col("role").is_in(["profile", "verify"])


def _half_interval(logarithms: pl.Series) -> float | None:
    """Half the width of the 95 % interval of a median, by Student's t.

    The standard error of the median of normal values is sqrt(pi / 2) times that of their mean (Kendall and
    Stuart, The Advanced Theory of Statistics, 1, 10.11). None for a single value.
    """
    n = len(logarithms)
    if n < 2:
        return None
    error = math.sqrt(math.pi / 2 / n) * float(logarithms.std())  # type: ignore[arg-type]
    return float(stdtrit(n - 1, 0.975)) * error


def in_overload(trials: pl.DataFrame) -> pl.DataFrame:
    """``trials`` with ``overload``, ``below``, ``unsteady`` and ``late``, as in :mod:`weirlab.model.regimes`.

    A trial that lost packets without overload is neither. Connection tracking makes another setting.
    """
    names = ("achieved_pps", "frame_bytes", "position", "forwarding_pps", "loss_ratio")
    usable = pl.all_horizontal(pl.col(*names).is_not_null()) & (pl.col("forwarding_pps") > 0)
    masks = {name: np.zeros(trials.height, dtype=np.bool_) for name in _REGIMES}
    for stateful in (False, True):
        chosen = trials.select(usable & (pl.col("stateful") == stateful)).to_series()
        if not len(rows := np.flatnonzero(chosen.to_numpy())):
            continue
        rates = (trials[rows][name].cast(pl.Float64).to_numpy() for name in names)
        # Nothing else tells regimes apart.
        rest = itertools.repeat(np.full(len(rows), math.nan), len(fields(ObservationTable)) - len(names))
        table = ObservationTable(*rates, *rest)
        found = regimes.sort(table)
        of_trials = (found.overload, found.below, found.unsteady(table), found.late(table))
        for name, mask in zip(_REGIMES, of_trials, strict=True):
            masks[name][rows] = mask
    return trials.with_columns(**{name: pl.Series(mask, dtype=pl.Boolean) for name, mask in masks.items()})
