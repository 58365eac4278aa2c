"""From evidence to the tables that the charts draw; each is also what the CSV export writes.

Units are in the column names: ``load_kpps``, ``p50_us``, ``loss_percent``. Measured rows
have ``source`` = ``trial``, a model's rows its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.devices.profile.page.source import TRIAL, as_floats, finite
from weirlab.model.base import Predictor
from weirlab.report.numbers import rounded
from weirlab.report.palette import CPU_STATES

BAND_PERCENT: Final = 90
"""Level of the intervals that charts show."""

_MANY_POINTS: Final = 900
_GRID: Final = 48
_AROUND_THRESHOLD: Final = (0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1.001, 1.005, 1.01, 1.03)


@dataclass(frozen=True)
class LossFreeLoad:
    """Up to which load a setting forwards without loss, and what happens at the next load tested."""

    position: float
    setup: str
    words: str
    """The setting in a sentence: ``1,000 rules``."""
    loss_free_pps: float
    """0 if the device lost packets even at the lowest load tested."""
    next_pps: float
    """The next load tested; NaN if even the highest load was carried."""
    next_loss_ratio: float
    trials: int
    """Valid trials at the loss-free load."""


def nominal_pps() -> pl.Expr:
    """The load that was asked for; what was achieved where that was "as fast as possible"."""
    return pl.when(pl.col("offered_pps").is_finite()).then("offered_pps").otherwise("achieved_pps")


def by_load(trials: pl.DataFrame) -> pl.DataFrame:
    """Repetitions of one setting and load as one row of medians, sorted by position and load.

    ``lossless`` is the share of repetitions that lost nothing.
    """
    if not trials.height:
        return pl.DataFrame()
    values = ("achieved_pps", "loss_ratio", "delay_mean_ns", "delay_p50_ns", "delay_p99_ns")
    return (
        trials.with_columns(nominal=nominal_pps().round_sig_figs(3))
        .group_by("panel", "frame_bytes", "position", "setup", "words", "nominal")
        .agg(
            *(pl.col(name).median() for name in values),
            overload=pl.col("overload").mean() > 0.5,
            lossless=(pl.col("lost") == 0).mean(),
            trials=pl.len(),
        )
        .sort("frame_bytes", "position", "setup", "achieved_pps")
    )


def loss_free(trials: pl.DataFrame) -> list[LossFreeLoad]:
    """One entry per setting of ``trials`` (of one panel), by position."""
    found = []
    loads = by_load(trials)
    if not loads.height:
        return []
    keys = ("position", "setup", "words")
    for (position, setup, phrase), rows in loads.group_by(*keys, maintain_order=True):
        pps, loss = rows["achieved_pps"].to_numpy(), rows["loss_ratio"].to_numpy()
        overload = np.flatnonzero(rows["overload"].to_numpy())
        below = int(overload[0]) if overload.size else len(loss)
        carried = np.flatnonzero(rows["lossless"].to_numpy()[:below] >= 0.5)
        best = int(carried[-1]) if carried.size else -1
        after = best + 1 if best + 1 < len(loss) else -1
        found.append(
            LossFreeLoad(
                position=float(str(position)),
                setup=str(setup),
                words=str(phrase),
                loss_free_pps=float(pps[best]) if best >= 0 else 0.0,
                next_pps=float(pps[after]) if after >= 0 else math.nan,
                next_loss_ratio=float(loss[after]) if after >= 0 else math.nan,
                trials=int(rows["trials"][best]) if best >= 0 else 0,
            )
        )
    return found


def thresholds(trials: pl.DataFrame) -> pl.DataFrame:
    """Measured thresholds per panel and setting: the forwarding rate in overload, with its spread."""
    kpps = pl.col("forwarding_pps") / 1e3
    return (
        trials.filter("overload")
        .group_by("panel", "frame_bytes", "position", "setup", "words")
        .agg(
            threshold_kpps=kpps.median(),
            low_kpps=kpps.min(),
            high_kpps=kpps.max(),
            trials=pl.len(),
            delay_p50_us=pl.col("delay_p50_ns").median() / 1e3,
        )
        .sort("frame_bytes", "position", "setup")
    )


def within_chart(trials: pl.DataFrame) -> pl.DataFrame:
    """Trials up to twice the highest threshold: beyond lies only more of the same overload.

    Scouting in overload sends as fast as possible; charts up to there would squeeze all else.
    """
    limits = thresholds(trials)
    if not limits.height:
        return trials
    return trials.filter(pl.col("achieved_pps") <= 2e3 * float(limits["threshold_kpps"].to_numpy().max()))


def with_shares(frame: pl.DataFrame, trials: pl.DataFrame) -> pl.DataFrame:
    """``frame`` of :func:`over_load` with ``load_percent``, of the threshold measured in ``trials``.

    Unchanged if a setting has no threshold, because it was not driven into overload.
    """
    limits = thresholds(trials)
    if not limits.height or not set(frame["setup"]) <= set(limits["setup"]):
        return frame
    share = 100 * pl.col("load_kpps") / pl.col("threshold_kpps")
    joined = frame.join(
        limits.select("setup", "threshold_kpps"), on="setup", how="left", maintain_order="left"
    )
    return joined.with_columns(load_percent=share.round_sig_figs(4)).drop("threshold_kpps")


def over_load(trials: pl.DataFrame, models: Mapping[str, Predictor]) -> pl.DataFrame:
    """Delay and loss over load for one panel: each trial, and each model over the trials' range."""
    points = by_load(trials) if trials.height > _MANY_POINTS else trials
    rows = [_of_trial(row) for row in points.sort("position", "achieved_pps").iter_rows(named=True)]
    # Models know no state: where a position was tested with and without, one line serves both.
    settings = trials.sort("position", "stateful").unique("position", keep="first", maintain_order=True)
    for setting in settings.iter_rows(named=True):
        n, frame_bytes = float(setting["position"]), float(setting["frame_bytes"])
        loads = trials.filter(pl.col("position") == setting["position"])["achieved_pps"].to_numpy()
        for name, model in models.items():
            limit = as_floats(model.threshold_pps(n, frame_bytes), 1)[0]
            pps = _grid(float(loads.min()), float(loads.max()), limit)
            expected = _expected(model, pps, frame_bytes, n, setting["gap_scv"], with_bands=True)
            rows += [
                {"source": name, "setup": setting["setup"], "position": n, "load_kpps": rounded(load / 1e3)}
                | {key: values[i] for key, values in expected.items()}
                for i, load in enumerate(pps)
            ]
    return pl.DataFrame(rows, schema=_POINT)


def threshold_curves(
    profile: pl.DataFrame, heldout: pl.DataFrame, models: Mapping[str, Predictor]
) -> pl.DataFrame:
    """Threshold over the models' position for one panel: profiled, held out, and each model's curve."""
    seen = set(profile["position"].to_list())
    both = thresholds(pl.concat([profile, heldout.filter(~pl.col("position").is_in(list(seen)))]))
    rows: list[dict[str, Any]] = []
    for row in both.iter_rows(named=True):
        kind = "profiled" if row["position"] in seen else "held out"
        rows.append(
            {"source": TRIAL, "kind": kind, "position": float(row["position"]), "trials": row["trials"]}
            | {key: rounded(row[key]) for key in ("threshold_kpps", "low_kpps", "high_kpps")}
        )
    positions = [float(p) for p in pl.concat([profile, heldout])["position"].unique().to_list()]
    if positions and max(positions) > min(positions):
        grid = np.linspace(min(positions), max(positions), 121)
        frame_bytes = float(pl.concat([profile, heldout])["frame_bytes"].to_numpy().mean())
        for name, model in models.items():
            values = as_floats(model.threshold_pps(grid, frame_bytes), len(grid))
            rows += [
                {"source": name, "kind": "model", "position": float(n), "trials": None,
                 "threshold_kpps": rounded(v / 1e3), "low_kpps": None, "high_kpps": None}
                for n, v in zip(grid, values, strict=True)
            ]  # fmt: skip
    return pl.DataFrame(rows, schema=_THRESHOLD)


def held_out(profile: pl.DataFrame, heldout: pl.DataFrame, models: Mapping[str, Predictor]) -> pl.DataFrame:
    """Each held-out trial beside each model's prediction for the load that was really sent."""
    known = set(profile["position"].to_list())
    rows: list[dict[str, Any]] = []
    for name, model in models.items():
        if not heldout.height:
            break
        columns = (heldout[c].to_numpy() for c in ("achieved_pps", "frame_bytes", "position", "gap_scv"))
        predicted = _expected(model, *columns)
        for i, row in enumerate(heldout.iter_rows(named=True)):
            observed = _of_trial(row)
            entry = {
                "model": name,
                "setup": row["setup"],
                "position": float(row["position"]),
                "panel": row["panel"],
                "held_out": "load" if row["position"] in known else "setting",
                "regime": "overload" if row["overload"] else "below the threshold",
                "load_kpps": observed["load_kpps"],
            }
            for key, values in predicted.items():
                entry[f"trial_{key}"] = observed[key]
                entry[f"predicted_{key}"] = values[i]
            rows.append(entry)
    return pl.DataFrame(rows, schema=_HELD_OUT)


def cpu_states(trials: pl.DataFrame) -> pl.DataFrame:
    """Share of time per CPU state on the device's core over load, for one panel and setting."""
    states = [s for s in CPU_STATES if f"dut_{s}_s" in trials.columns]
    if not states or not trials.height:
        return pl.DataFrame(schema=_CPU)
    total = pl.sum_horizontal([pl.col(f"dut_{s}_s").fill_null(0.0) for s in states])
    shares = (
        trials.with_columns(total=total, nominal=nominal_pps().round_sig_figs(3))
        .filter(pl.col("total") > 0)
        .group_by("nominal")
        .agg(
            (pl.col("achieved_pps").median() / 1e3).alias("load_kpps"),
            *((pl.col(f"dut_{s}_s") / pl.col("total") * 100).mean().alias(s) for s in states),
        )
        .sort("nominal")
    )
    long = shares.unpivot(states, index=["load_kpps"], variable_name="state", value_name="share_percent")
    used = long.group_by("state").agg(pl.col("share_percent").max()).filter(pl.col("share_percent") >= 0.05)
    return (
        long.filter(pl.col("state").is_in(used["state"].implode()))
        .with_columns(
            load_kpps=pl.col("load_kpps").round_sig_figs(4),
            share_percent=pl.col("share_percent").round(2),
            order=pl.col("state").replace_strict(
                {s: i for i, s in enumerate(CPU_STATES)}, return_dtype=pl.Int64
            ),
        )
        .select(list(_CPU))
        .sort("load_kpps", "order")
    )


def _grid(low: float, high: float, threshold: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Loads to draw a model at: even steps, denser where the curve bends."""
    near = [threshold * share for share in _AROUND_THRESHOLD] if math.isfinite(threshold) else []
    even = np.linspace(low, high, _GRID)
    return np.unique(np.concatenate([even, [v for v in near if low < v < high]]))


def _of_trial(row: Mapping[str, Any]) -> dict[str, Any]:
    values = {key: row[column] for key, (column, _) in _VALUES.items()}
    return {
        "source": TRIAL,
        "setup": row["setup"],
        "position": float(row["position"]),
        "load_kpps": rounded(row["achieved_pps"] / 1e3),
    } | {key: None if value is None else rounded(value * _VALUES[key][1]) for key, value in values.items()}


def banded(frame: pl.DataFrame) -> str:
    """The model in a table of :func:`over_load` whose intervals are drawn: the first that has any."""
    known = frame.filter(pl.any_horizontal(pl.col("^.*_high$").is_not_null()))
    return str(known["source"][0]) if known.height else ""


def _expected(
    model: Predictor,
    rate_pps: Any,
    frame_bytes: Any,
    position: Any,
    gap_scv: Any,
    *,
    with_bands: bool = False,
) -> dict[str, list[float | None]]:
    """What ``model`` predicts, in the columns and units of the charts."""
    found = model.predict(rate_pps, frame_bytes, position, gap_scv)
    n = len(rate_pps)
    values = {key: (getattr(found, column), factor) for key, (column, factor) in _VALUES.items()}
    for key, (column, factor) in _VALUES.items() if with_bands else ():
        band = found.intervals.get(column, {}).get(BAND_PERCENT)
        if band is not None:
            values |= {f"{key}_low": (band.low, factor), f"{key}_high": (band.high, factor)}
    return {
        key: [rounded(value * factor) for value in as_floats(array, n)]
        for key, (array, factor) in values.items()
    }


def span(frame: pl.DataFrame, column: str) -> tuple[float, float] | None:
    """Smallest and largest finite value of ``column``; None without any."""
    values = finite(frame[column].to_list()) if column in frame.columns else []
    return (min(values), max(values)) if values else None


_VALUES: Final = {
    "loss_percent": ("loss_ratio", 100.0),
    "p50_us": ("delay_p50_ns", 1e-3),
    "p99_us": ("delay_p99_ns", 1e-3),
    "mean_us": ("delay_mean_ns", 1e-3),
}
_POINT: Final = {
    "source": pl.String,
    "setup": pl.String,
    "position": pl.Float64,
    "load_kpps": pl.Float64,
    "loss_percent": pl.Float64,
    "p50_us": pl.Float64,
    "p99_us": pl.Float64,
    "mean_us": pl.Float64,
    **{f"{key}_{end}": pl.Float64 for key in _VALUES for end in ("low", "high")},
}
_THRESHOLD: Final = {
    "source": pl.String,
    "kind": pl.String,
    "position": pl.Float64,
    "threshold_kpps": pl.Float64,
    "low_kpps": pl.Float64,
    "high_kpps": pl.Float64,
    "trials": pl.Int64,
}
_CPU: Final = {"load_kpps": pl.Float64, "state": pl.String, "share_percent": pl.Float64, "order": pl.Int64}
_HELD_OUT: Final = {
    "model": pl.String,
    "setup": pl.String,
    "position": pl.Float64,
    "panel": pl.String,
    "held_out": pl.String,
    "regime": pl.String,
    "load_kpps": pl.Float64,
    **{f"{side}_{key}": pl.Float64 for key in _VALUES for side in ("trial", "predicted")},
}
