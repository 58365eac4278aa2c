"""One sentence per figure that says what it shows, computed from the same data as the figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from weirlab.devices.profile.page.curves import LossFreeLoad, by_load, loss_free, thresholds
from weirlab.devices.profile.page.distributions import DistributionTrial
from weirlab.devices.profile.page.source import RULES, TRIAL, VariedSetting
from weirlab.report.numbers import duration, percent, plural, rate, rules, significant, words

KERNEL_STATES = ("system", "irq", "softirq")


def ends(items: Sequence[LossFreeLoad]) -> list[LossFreeLoad]:
    """The settings with the fewest and the most rules (one if they are the same)."""
    if not items:
        return []
    low, high = min(items, key=lambda e: e.position), max(items, key=lambda e: e.position)
    return [low] if low is high else [low, high]


def named(entry: LossFreeLoad) -> str:
    """``with no rules``, ``with 1,000 rules``."""
    return f"with {entry.words}"


def delay(trials: pl.DataFrame) -> str:
    loads = by_load(trials)
    calm = loads.filter((pl.col("loss_ratio") == 0) & pl.col("delay_p50_ns").is_not_null())
    limits = thresholds(trials)
    parts = []
    if calm.height:
        worst = float(calm["delay_p50_ns"].to_numpy().max())
        parts.append(f"Without loss the median delay stays within {duration(worst, 2)}")
    jumps = [(row["words"], row["delay_p50_us"] * 1e3) for row in _ends(limits) if row["delay_p50_us"]]
    if jumps:
        beyond = words([f"{duration(ns, 2)} with {phrase}" for phrase, ns in jumps])
        parts.append(f"{'in' if parts else 'In'} overload it is {beyond}")
    elif loads.height:
        top = float(loads["achieved_pps"].to_numpy().max())
        parts.append(f"the highest load tested, {rate(top)}, did not overload the device")
    return _sentence("; ".join(parts) or "No packet arrived, so there is no delay")


def loss(trials: pl.DataFrame) -> str:
    parts = [f"{named(entry)} {_carried(entry)}" for entry in ends(loss_free(trials))]
    return _sentence("; ".join(parts) or "No trial")


def threshold(trials: pl.DataFrame, heldout: pl.DataFrame, varied: VariedSetting = RULES) -> str:
    limits = thresholds(pl.concat([trials, heldout]))
    found = _ends(limits)
    if not found:
        return "No setting was driven into overload, so its threshold is unknown."
    first = f"{rate(found[0]['threshold_kpps'] * 1e3)} with {found[0]['words']}"
    if len(found) < 2:
        return f"The threshold is {first}."
    low, high = found
    verb = "falls" if high["threshold_kpps"] < low["threshold_kpps"] else "does not fall: it goes"
    cost = cost_ns(limits, varied)
    each = f": on average each {varied.unit} costs {duration(cost, 2)}" if cost > 0 else ""
    each += " per packet" if each and not varied.percents else ""
    last = f"{rate(high['threshold_kpps'] * 1e3)} with {high['words']}"
    return f"The threshold {verb} from {first} to {last}{each}."


def cost_ns(limits: pl.DataFrame, varied: VariedSetting = RULES) -> float:
    """Service time added per unit between the fewest and the most of what varied, in ns; NaN without both."""
    found = _ends(limits)
    if len(found) < 2:
        return math.nan
    low, high = found
    service = [1e6 / row["threshold_kpps"] for row in (low, high) if row["threshold_kpps"]]
    units = (high["position"] - low["position"]) / varied.positions
    return (service[1] - service[0]) / units if len(service) == 2 else math.nan


def scatter(pairs: pl.DataFrame, *, in_loss: bool = False) -> str:
    """How far each model was off in the median over the held-out trials."""
    if not pairs.height:
        return "There is no held-out trial."
    trials = plural(pairs.height // pairs["model"].n_unique(), "held-out trial")
    parts = []
    for (name,), rows in pairs.group_by("model", maintain_order=True):
        if in_loss:
            points = _float((rows["predicted_loss_percent"] - rows["trial_loss_percent"]).abs().mean())
            parts.append(f"{name} {significant(points, 2)}")
        else:
            parts.append(f"{name} {percent(median_error(rows), 2)}")
    if in_loss:
        return f"Loss on {trials}, mean error in percentage points: {words(parts)}."
    return f"Median delay on {trials}, typical (median) error: {words(parts)}."


def median_error(rows: pl.DataFrame, quantity: str = "p50_us") -> float:
    """Median of the relative error of ``quantity`` over trials, as a ratio; NaN without any."""
    known = rows.filter(pl.col(f"trial_{quantity}") > 0)
    error = (known[f"predicted_{quantity}"] / known[f"trial_{quantity}"] - 1).abs().median()
    return _float(error)


def held_out_curve(pairs: pl.DataFrame, varied: VariedSetting = RULES) -> str:
    """How well the models meet settings they have not seen: those that vary if there are any, else loads."""
    unseen = pairs.filter(pl.col("held_out") == "setting")
    chosen = unseen if unseen.height else pairs
    if not chosen.height:
        return "There is no held-out trial."
    calm = chosen.filter(pl.col("regime") != "overload")
    rows = calm if calm.height else chosen
    errors = [
        f"{percent(median_error(of_model), 2)} ({name})"
        for (name,), of_model in rows.group_by("model", maintain_order=True)
    ]
    where = "below the threshold" if calm.height else "in overload"
    settings = chosen.sort("position", maintain_order=True)["setup"].unique(maintain_order=True)
    held = f"{words(settings.to_list(), most=5)} {varied.name}"
    what = f"At {held}, which no model has seen," if unseen.height else "At loads that no model has seen,"
    return f"{what} the median delay {where} is typically off by {words(errors)}."


def distribution(chosen: Sequence[DistributionTrial], phrase: str) -> str:
    known = [trial for trial in chosen if math.isfinite(trial.delay_p99_ns)]
    calm = min((t for t in known if not t.overload), key=lambda t: abs(t.share - 0.5), default=None)
    hot = next((t for t in known if t.overload), None)
    parts = []
    if calm:
        at = f"{percent(calm.share)} of the threshold" if math.isfinite(calm.share) else calm.load
        parts.append(f"{duration(calm.delay_p99_ns, 2)} at {at}")
    if hot:
        parts.append(f"{duration(hot.delay_p99_ns, 2)} in overload")
    if not parts:
        return f"Delay distribution with {phrase}."
    return f"With {phrase}, 99\u00a0% of the packets took less than {words(parts)}."


def cpu(states: pl.DataFrame, phrase: str) -> str:
    kernel = (
        states.filter(pl.col("state").is_in(list(KERNEL_STATES)))
        .group_by("load_kpps")
        .agg(pl.col("share_percent").sum())
        .sort("load_kpps")
    )
    if kernel.height < 2:
        return f"CPU states of the device's core with {phrase}."
    low, high = kernel.row(0, named=True), kernel.row(kernel.height - 1, named=True)
    return (
        f"With {phrase}, the device's core spends {low['share_percent']:.0f} % of its time in the kernel "
        f"at {rate(low['load_kpps'] * 1e3)} and {high['share_percent']:.0f} % at "
        f"{rate(high['load_kpps'] * 1e3)}."
    )


def description(frame: pl.DataFrame, what: str, varied: VariedSetting = RULES) -> str:
    """Alternative text for a chart over load: what is drawn, over which range, for which settings."""
    trials = frame.filter(pl.col("source") == TRIAL)
    if not trials.height:
        return what
    loads = trials["load_kpps"].drop_nulls().to_numpy()
    settings = trials.unique("position").sort("position").select(varied.shown(pl.col("position"))).to_series()
    named = [f"{percent(n / 100)} new flows" if varied.percents else rules(n) for n in settings]
    ends = named if len(named) < 3 else [f"{len(named)} settings from {named[0]} to {named[-1]}"]
    return (
        f"{what} for {words(ends)}, at offered loads from "
        f"{rate(loads.min() * 1e3)} to {rate(loads.max() * 1e3)}; {plural(trials.height, 'point')}."
    )


def _carried(entry: LossFreeLoad) -> str:
    if entry.loss_free_pps == 0:
        return f"packets are lost even at the lowest load tested, {rate(entry.next_pps)}"
    if math.isnan(entry.next_pps):
        return f"nothing is lost up to {rate(entry.loss_free_pps)}, the highest load tested"
    lost = percent(entry.next_loss_ratio, 2)
    return f"nothing is lost up to {rate(entry.loss_free_pps)}, and {lost} at {rate(entry.next_pps)}"


def _ends(limits: pl.DataFrame) -> list[dict[str, Any]]:
    if not limits.height:
        return []
    ordered = limits.sort("position")
    first, last = ordered.row(0, named=True), ordered.row(ordered.height - 1, named=True)
    return [first] if first["position"] == last["position"] else [first, last]


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
