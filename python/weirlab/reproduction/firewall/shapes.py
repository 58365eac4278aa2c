"""Experiments about the shape of the published model, and its fit to the trials it was fitted to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from weirlab.base.quantities import significant
from weirlab.model import LohmillerModel, Model
from weirlab.model.base import F64, ObservationTable
from weirlab.model.lohmiller import VerificationFigures, size_groups, verification_figures
from weirlab.publications import PublishedExperiment
from weirlab.report.figure import Figure
from weirlab.reproduction import claims
from weirlab.reproduction.charts import CourseText, Points, courses
from weirlab.reproduction.contract import Answer, Decision, Runs
from weirlab.reproduction.firewall.measured import US, MeasuredProfile
from weirlab.reproduction.firewall.scenarios import FirewallExperiment


def _sigmoid(x: F64, low: float, high: float, at: float, width: float) -> F64:
    return np.asarray(low + (high - low) / (1 + np.exp(-np.clip((x - at) / width, -50, 50))))


def _fit_sigmoid(x: F64, y: F64, limit: float) -> F64:
    from scipy.optimize import least_squares

    start = [float(np.median(y[x <= limit])), float(np.median(y[x > limit])), limit, 0.02 * limit]
    bounds = ([-np.inf, -np.inf, 0.5 * limit, 1e-4 * limit], [np.inf, np.inf, 1.5 * limit, limit])

    def misfit(p: F64) -> F64:
        return np.asarray(_sigmoid(x, *p) - y)

    return np.asarray(least_squares(misfit, np.array(start), bounds=bounds, x_scale=np.abs(start)).x)


def _pieces(degree: int) -> Callable[[F64, F64, F64, float], F64]:
    """A polynomial below ``limit`` and a line above: predictions at ``at``."""

    def predicted(x: F64, y: F64, at: F64, limit: float) -> F64:
        below = np.polynomial.Polynomial.fit(x[x <= limit], y[x <= limit], degree)
        above = np.polynomial.Polynomial.fit(x[x > limit], y[x > limit], 1)
        return np.where(at <= limit, below(at), above(at))

    return predicted


def _of_sigmoid(x: F64, y: F64, at: F64, limit: float) -> F64:
    return _sigmoid(at, *_fit_sigmoid(x, y, limit))


_SHAPES: Final[Mapping[str, Callable[[F64, F64, F64, float], F64]]] = {
    "sigmoid": _of_sigmoid,
    "two lines": _pieces(1),
    "quadratic and line": _pieces(2),
}


class ModelShape(FirewallExperiment):
    """Kinds of curves for the base measurement, each compared on loads left out."""

    key = "model-shape"
    shared = ("iptables",)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "iptables" not in runs:
            return
        found = MeasuredProfile.of(runs["iptables"])
        table = found.table.where(found.table.position == 0)
        limit = found.thresholds(held_out=False).get(0.0)
        if limit is None:
            return
        x, y, limit = table.rate_pps / 1e6, table.delay_mean_ns / US, limit / 1e6
        low, high, at, _ = _fit_sigmoid(x, y, limit)
        yield Answer("sigmoid-low", float(low))
        yield Answer("sigmoid-high", float(high))
        yield Answer("sigmoid-ramp", float(at) * 1e6)
        loads = np.round(np.log(x), 2)
        errors = {name: [] for name in _SHAPES}  # type: dict[str, list[float]]
        for load in np.unique(loads):
            seen = loads != load
            for name, shape in _SHAPES.items():
                errors[name] += list((shape(x[seen], y[seen], x[~seen], limit) - y[~seen]) ** 2)
        rms = {name: float(np.sqrt(np.mean(own))) for name, own in errors.items()}
        best = min(rms, key=lambda name: rms[name])
        yield Answer(
            "quadratic-best",
            decision=claims.settled(
                best == "quadratic and line",
                "the smallest error at loads left out of the fit, one after the other",
                ", ".join(f"{name} {significant(value)} µs" for name, value in rms.items()),
            ),
        )
        yield Answer("early-line", decision=self._early(found))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """The base measurement, and what each kind of curve makes of it."""
        if "iptables" not in runs:
            return ()
        found = MeasuredProfile.of(runs["iptables"])
        limit = found.thresholds(held_out=False).get(0.0)
        table = found.table.where(found.table.position == 0)
        if limit is None:
            return ()
        x, y, at = table.rate_pps / 1e6, table.delay_mean_ns / US, _loads(table)
        shapes = {
            name: list(zip(at / 1e3, shape(x, y, at / 1e6, limit / 1e6), strict=True))
            for name, shape in _SHAPES.items()
        }
        title = "Mean latency without rules over the load, and three kinds of curves fitted to it."
        return courses(_over_load("shapes", self.key, title), {"measured": _medians(table), **shapes})

    def _early(self, found: MeasuredProfile) -> Decision:
        rule = "within 15 % of the threshold, no more trials are predicted 10 % too low than without it"
        model = LohmillerModel.fit(found.observations)
        table = found.everything
        share = table.rate_pps / model.threshold_pps(table.position, table.frame_bytes)
        near = table.where((share > 0.85) & (share < 1.15))
        if not len(near):
            return claims.settled(None, rule, "no trials")
        low = {}
        for name, own in (("with", model), ("without", _unextended(model))):
            predicted = own.predict(near.rate_pps, near.frame_bytes, near.position, near.gap_scv)
            low[name] = float(np.mean(predicted.delay_mean_ns < near.delay_mean_ns / 1.1))
        return claims.settled(
            low["with"] <= low["without"],
            rule,
            f"{low['with']:.0%} with it, {low['without']:.0%} without, of {len(near)} trials",
        )


def _unextended(model: LohmillerModel) -> LohmillerModel:
    from dataclasses import replace

    return replace(model, extension=1.0)


_POINTS: Final = 80
"""Of a curve."""


def _loads(table: ObservationTable) -> F64:
    """Loads from the lowest to the highest of ``table``, in pps."""
    return np.asarray(np.geomspace(table.rate_pps.min(), table.rate_pps.max(), _POINTS))


def _medians(table: ObservationTable) -> Points:
    """The median latency of the trials at each load, in µs by kpps."""
    near = np.round(np.log(table.rate_pps), 2)
    return [
        (float(np.median(table.rate_pps[own])) / 1e3, float(np.median(table.delay_mean_ns[own])) / US)
        for own in (near == load for load in np.unique(near))
    ]


def _over_load(key: str, section: str, title: str) -> CourseText:
    return CourseText(key, section, "", title, "Load, kpps", "Mean latency, µs", log=True)


class FitQuality(FirewallExperiment):
    """The model beside the trials that it was fitted to."""

    key = "fit"
    shared = ("iptables",)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "iptables" not in runs:
            return
        found = MeasuredProfile.of(runs["iptables"])
        plain = LohmillerModel.fit(found.observations)
        grouped = LohmillerModel.fit(found.observations, grouped=True)
        base = found.table.where(found.table.position == 0)
        own = _of_table(plain, base)
        below = found.below.where(found.below.position == 0)
        _, is_small, is_large = size_groups(below.frame_bytes)
        small, large = below.where(is_small), below.where(is_large)
        yield Answer("mean", own.mean)
        yield Answer("max", own.max)
        if not len(small) or not len(large):
            return
        of_small, of_large = _of_table(plain, small), _of_table(plain, large)
        yield Answer("small-mean", of_small.mean)
        sizes = np.unique(np.round(below.frame_bytes[is_small & is_large]))
        yield claims.near(published.values["overlap"], float(sizes[0]) if len(sizes) else math.nan, 0.01)
        yield Answer(
            "unbiased",
            decision=claims.settled(
                own.low <= 0 <= own.high and of_small.mean < 0,
                "the 95 % interval of the mean includes 0, and the mean of small frames is negative",
                f"{own.low:+.3g} to {own.high:+.3g} µs; small frames {of_small.mean:+.3g} µs",
            ),
        )
        yield Answer("shift", decision=_shift(plain, found))
        yield Answer(
            "large-slower",
            decision=claims.settled(
                of_large.mean > of_small.mean,
                "below overload large frames deviate more upwards from the common curve than small ones",
                f"{of_large.mean:+.3g} and {of_small.mean:+.3g} µs",
            ),
        )
        better = []
        for table in (small, large):
            one, two = _of_table(plain, table), _of_table(grouped, table)
            better.append((one, two))
        yield Answer(
            "groups-better",
            decision=claims.settled(
                all(two.std < one.std and abs(two.max) < abs(one.max) for one, two in better),
                "standard deviation and maximum below overload smaller in both groups",
                "; ".join(
                    f"{name} {one.std:.3g} to {two.std:.3g} µs, {one.max:+.3g} to {two.max:+.3g} µs"
                    for name, (one, two) in zip(("small", "large"), better, strict=True)
                ),
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """The smallest and the largest frames, and the model with one curve and with one for each group."""
        if "iptables" not in runs:
            return ()
        found = MeasuredProfile.of(runs["iptables"])
        base = found.table.where(found.table.position == 0)
        models = {
            "one curve": LohmillerModel.fit(found.observations),
            "own curve": LohmillerModel.fit(found.observations, grouped=True),
        }
        lines: dict[str, Points] = {}
        for size in (base.frame_bytes.min(), base.frame_bytes.max()):
            own = base.where(np.abs(base.frame_bytes - size) < 1)
            lines[f"{size:.0f} B, measured"] = _medians(own)
            at = _loads(own)
            for name, model in models.items():
                expected = model.predict(at, size, 0.0, float(own.gap_scv.mean())).delay_mean_ns / US
                lines[f"{size:.0f} B, {name}"] = list(zip(at / 1e3, expected, strict=True))
        title = "Mean latency without rules: measured, and by the model with one curve or one for each group."
        return courses(_over_load("groups", self.key, title), lines)


def _of_table(model: Model, table: ObservationTable) -> VerificationFigures:
    found = model.predict(table.rate_pps, table.frame_bytes, table.position, table.gap_scv)
    return verification_figures(found.delay_mean_ns / US, table.delay_mean_ns / US)


def _shift(model: LohmillerModel, found: MeasuredProfile) -> Decision:
    rule = "at 400 rules deviations have no trend over the load on either side (95 % interval of the slope)"
    shown, holds = [], True
    for name, whole in (("below", found.below), ("in overload", found.over)):
        table = whole.where(whole.position == 400)
        if len(table) < 4:
            return claims.settled(None, rule, f"{len(table)} trials {name}")
        expected = model.predict(table.rate_pps, table.frame_bytes, table.position, table.gap_scv)
        rest = (table.delay_mean_ns - expected.delay_mean_ns) / US
        x = table.rate_pps / 1e5
        (slope, _), covariance = np.polyfit(x, rest, 1, cov=True)
        error = 1.96 * float(np.sqrt(covariance[0, 0]))
        holds &= bool(abs(slope) <= error)
        shown.append(f"{name} {slope:+.3g} ± {error:.2g} µs per 100 kpps")
    return claims.settled(holds, rule, ", ".join(shown))


SHAPES: Final = (ModelShape(), FitQuality())
