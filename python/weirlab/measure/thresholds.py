"""Measured thresholds: what a device forwards in overload, from a table of trials."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields

import numpy as np
import polars as pl
from scipy.special import stdtrit

from weirlab.model import regimes
from weirlab.model.base import ObservationTable


def thresholds(trials: pl.DataFrame) -> pl.DataFrame:
    """Measured thresholds: the median forwarding rate of the valid trials :func:`in_overload`; outside
    profiles, of those that lost more than 5 %.

    ``trials`` is ``Run.trials()`` or a part of it; those with traffic at several positions, with cross
    traffic on the device, or with other gaps than most are left out. Columns: ``position, stateful,
    sizes_text, frame_bytes, threshold_pps, low_pps, high_pps`` (smallest and largest), ``n``, and
    ``interval_low_pps, interval_high_pps``, the 95 % interval of the threshold (null for a single trial); one
    row per setting that was overloaded at all. Where shares of new flows vary, ``position`` is the mean over
    the packets: the share ``new_share`` of them is compared with ``rules``.
    """
    answered = ("new_share", "rules") if trials["new_share"].drop_nulls().n_unique() > 1 else ()
    if answered:
        trials = trials.with_columns(rules=pl.col("position"), position=pl.col("mean_position"))
    plain = trials.filter(
        pl.col("valid") & (pl.col("places") == "") & ~pl.col("cross_traffic") & (pl.col("received") > 0)
    )
    plain = plain.with_columns(arrivals=pl.col("spec").str.json_path_match("$.traffic.arrivals"))
    # Bursts and searches are no grid of loads, in which regimes could be told apart.
    grid = pl.col("role").is_in(["profile", "verify"])
    loads = plain.filter(grid)
    usual = loads["arrivals"].mode(maintain_order=True).first() if loads.height else None
    others = plain.filter(~grid).with_columns(
        overload=pl.col("forwarding_pps") < (1 - regimes.CLEAR_LOSS) * pl.col("achieved_pps")
    )
    return (
        pl.concat([in_overload(loads.filter(pl.col("arrivals").eq_missing(usual))), others])
        .filter("overload")
        .group_by("position", "stateful", "sizes_text", "frame_bytes", *answered)
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
        .sort("position", "stateful", "frame_bytes", "sizes_text", *answered)
    )


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
    """``trials`` with the column ``overload``, as models see it (:mod:`weirlab.model.regimes`)."""
    names = ("achieved_pps", "frame_bytes", "position", "forwarding_pps", "loss_ratio")
    usable = trials.select(
        pl.all_horizontal(pl.col(*names).is_not_null()) & (pl.col("forwarding_pps") > 0)
    ).to_series()
    rows = np.flatnonzero(usable.to_numpy())
    overload = np.zeros(trials.height, dtype=np.bool_)
    if len(rows):
        rates = (trials[rows][name].cast(pl.Float64).to_numpy() for name in names)
        # Nothing else tells regimes apart.
        rest = itertools.repeat(np.full(len(rows), math.nan), len(fields(ObservationTable)) - len(names))
        overload[rows] = regimes.sort(ObservationTable(*rates, *rest)).overload
    return trials.with_columns(overload=pl.Series(overload, dtype=pl.Boolean))
