"""The experiment about the threshold over the rules, and what one stage of service, or two, make of it.

One stage takes ``t0 + t1 n`` per packet; its threshold is the reciprocal. The two largest losses, at the
highest rate, say how much is forwarded in overload, and so give t0 and t1 without any threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weirlab.base.tables import Table
from weirlab.model.base import F64
from weirlab.model.curves import MPPS, ThresholdCurve
from weirlab.model.lohmiller import fit_exponential, interpolated
from weirlab.publications import Publication, PublishedExperiment, publication
from weirlab.report.figure import Figure
from weirlab.reproduction import claims
from weirlab.reproduction.charts import CourseText, courses
from weirlab.reproduction.contract import Answer, Decision, Runs
from weirlab.reproduction.firewall.measured import MeasuredProfile
from weirlab.reproduction.firewall.scenarios import MORE_RULES, RULES, FirewallExperiment

S_NS = 1e9


@dataclass(frozen=True)
class StageFit:
    """One explanation of the thresholds."""

    name: str
    pps: F64
    """At the published rule counts."""


def thresholds(about: Publication) -> tuple[F64, F64]:
    """Rule counts and published thresholds in pps; the middle where a range is given."""
    published = about.experiments["threshold"]
    found = dict(published.series("measured"))
    for rules in (0, 1000):
        value = published.values[f"measured-{rules}"]
        found[float(rules)] = (value.low + value.high) / 2
    n = np.array(sorted(found))
    return n, np.array([found[rules] for rules in n])


def forwarded(about: Publication) -> dict[float, float]:
    """Packets per second that are not lost at the highest rate, by rule count."""
    highest = about.number("traffic", "pps-highest")
    return {n: highest * (1 - loss / 100) for n, loss in about.experiments["loss"].series("largest").items()}


def fits(about: Publication) -> Sequence[StageFit]:
    """The explanations, from the simplest."""
    n, pps = thresholds(about)
    busy = forwarded(about)
    (few, first), (many, last) = sorted(busy.items())
    fixed = S_NS / first
    per_rule = (S_NS / last - fixed) / (many - few)
    start = [fixed, per_rule]

    def fitted(law: Callable[..., F64], more: Sequence[float]) -> F64:
        """Thresholds by ``law``, fitted to the published ones by relative least squares."""
        from scipy.optimize import least_squares

        def misfit(p: F64) -> F64:
            return np.asarray(law(*p) * pps / S_NS - 1)

        scale = np.array([100.0, 1.0, *[100.0] * len(more)])
        found = least_squares(misfit, np.array([*start, *more]), x_scale=scale)
        return np.asarray(S_NS / law(*found.x))

    return (
        StageFit("one stage, from the largest losses", S_NS / (fixed + per_rule * n)),
        StageFit("one stage, fitted", fitted(lambda a, b: a + b * n, ())),
        StageFit(
            "the slower of two stages, one without rules",
            fitted(lambda a, b, c: np.maximum(a + b * n, c), (0.9 * fixed,)),
        ),
        StageFit(
            "a second stage that only rules bring, the same for any number",
            fitted(lambda a, b, c: a + b * n + c * (n > 0), (0.1 * fixed,)),
        ),
    )


def dropped_ns(about: Publication) -> dict[float, float]:
    """What a lost packet costs, by rule count, if the rate forwarded in overload differs from the threshold
    because of it."""
    highest = about.number("traffic", "pps-highest")
    limits = dict(zip(*thresholds(about), strict=True))
    return {n: (S_NS - rate * S_NS / limits[n]) / (highest - rate) for n, rate in forwarded(about).items()}


def table(about: Publication) -> Table:
    """Published thresholds beside those of each explanation, with deviations."""
    n, pps = thresholds(about)
    columns = ("Published thresholds explained by", *(f"{rules:g} rules" for rules in n))
    rows = [("measured", *(f"{rate / 1e3:.0f} kpps" for rate in pps))]
    rows += [
        (
            fit.name,
            *(
                f"{rate / 1e3:.0f} kpps ({rate / own - 1:+.0%})"
                for rate, own in zip(fit.pps, pps, strict=True)
            ),
        )
        for fit in fits(about)
    ]
    costs = dropped_ns(about)
    rows.append(
        (
            "cost of a lost packet, if it makes the difference",
            *(f"{costs[rules] / 1e3:.2f} µs" if rules in costs else "" for rules in n),
        )
    )
    return Table("Published thresholds and the stages of a packet filter", columns, rows)


def exponential_percent(
    limits: Mapping[float, float], *, points: bool
) -> tuple[float, ThresholdCurve, float]:
    """Mean deviation in percent of an exponential from ``limits`` (pps by rules), the curve, and its unit.

    ``points``: it is fitted to points interpolated between them, too.
    """
    n, pps = np.array(list(limits)), np.array(list(limits.values()))
    unit = float(n.max())
    curve = fit_exponential(*(interpolated(n / unit, pps / MPPS) if points else (n / unit, pps / MPPS)))
    return float(100 * np.mean(np.abs(curve.pps(n / unit) / pps - 1))), curve, unit


class Threshold(FirewallExperiment):
    """The threshold over the rules, and an exponential through it."""

    key = "threshold"
    shared = ("iptables",)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        yield claims.near(published.values["more-time"], 100 * (9 - len(RULES)) / len(RULES), 0.0)
        if "iptables" not in runs:
            return
        found = MeasuredProfile.of(runs["iptables"])
        limits = found.thresholds()
        for rules in published.series("measured"):
            yield Answer(f"measured@{rules:g}", limits.get(rules, math.nan))
        yield Answer("measured-0", limits.get(0.0, math.nan))
        yield Answer("measured-1000", limits.get(1000.0, math.nan))
        five = {n: limits[n] for n in map(float, RULES) if n in limits}
        held_out = [n for n in map(float, MORE_RULES) if n in limits]
        if len(five) < len(RULES):
            return
        bare, _, _ = exponential_percent(five, points=False)
        with_points, curve, unit = exponential_percent(five, points=True)
        complete = len(held_out) == len(MORE_RULES)
        nine = exponential_percent(limits, points=True)[0] if complete else math.nan
        yield Answer("deviation-5", bare)
        yield Answer("deviation-5-points", with_points)
        yield Answer("deviation-9", nine)
        errors = {n: float(curve.pps(np.array(n / unit))) / limits[n] - 1 for n in held_out}
        for rules in published.series("predicted"):
            yield Answer(f"predicted@{rules:g}", float(curve.pps(np.array(rules / unit))))
        yield Answer("convex", decision=_convex(limits))
        yield Answer(
            "points-help",
            decision=claims.settled(
                with_points <= bare / 2,
                "mean deviation at the five measured thresholds at most half of that without such points",
                f"{with_points:.3g} % and {bare:.3g} %",
            ),
        )
        yield Answer(
            "more-counts-do-not-help",
            decision=claims.settled(
                nine >= with_points if complete else None,
                "mean deviation with nine rule counts not below that with five",
                f"{nine:.3g} % and {with_points:.3g} %" if complete else "not all nine are measured",
            ),
        )
        shown = ", ".join(f"{n:g} rules {error:+.1%}" for n, error in errors.items())
        first = [float(n) for n in MORE_RULES[:2]]
        known = complete and all(n in errors for n in first)
        worst = max(errors, key=lambda n: abs(errors[n]), default=math.nan)
        yield Answer(
            "too-late",
            decision=claims.settled(
                all(errors[n] > 0 for n in first) and worst == first[0] if known else None,
                "the exponential lies above the thresholds at 200 and 300 rules, and is furthest off at 200",
                shown,
            ),
        )
        yield Answer(
            "error-shrinks",
            decision=claims.monotone(held_out, [abs(errors[n]) for n in held_out], falling=True),
        )
        yield from self._scatter(found, five, curve, unit)

    def _scatter(
        self, found: MeasuredProfile, five: Mapping[float, float], curve: ThresholdCurve, unit: float
    ) -> Iterator[Answer]:
        rates = {n: found.repeated(n) for n in five}
        spans = {n: float(np.ptp(own) / own.mean()) for n, own in rates.items() if len(own) > 1}
        few = [spans[n] for n in (0.0, 50.0, 100.0) if n in spans]
        yield Answer(
            "scatter-at-few-rules",
            decision=claims.settled(
                max(few) > spans[1000.0] if few and 1000.0 in spans else None,
                "largest relative range of repeated thresholds with 0 to 100 rules above that at 1000",
                ", ".join(f"{n:g} rules {span:.2%}" for n, span in spans.items()),
            ),
        )
        of_three = {
            n: float(own.std(ddof=1) / own.mean() / 3**0.5) for n, own in rates.items() if len(own) > 1
        }
        misfit = float(
            np.mean([abs(float(curve.pps(np.array(n / unit))) / pps - 1) for n, pps in five.items()])
        )
        worst = max(of_three.values(), default=math.nan)
        yield Answer(
            "three-suffice",
            decision=claims.settled(
                worst < misfit if of_three else None,
                "standard error of the mean of three thresholds below the mean misfit of the exponential",
                f"at most {worst:.2%}, misfit {misfit:.2%}",
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Thresholds here, and the exponential through those of the profile."""
        if "iptables" not in runs:
            return ()
        limits = MeasuredProfile.of(runs["iptables"]).thresholds()
        five = {n: pps for n, pps in limits.items() if n in RULES}
        if len(five) < len(RULES):
            return ()
        percent, curve, unit = exponential_percent(five, points=True)
        n = np.linspace(0, max(limits), 41)
        text = CourseText(
            "thresholds",
            self.key,
            "",
            f"The exponential is {percent:.3g} % off the five thresholds that it was fitted to.",
            "Rules",
            "Threshold, kpps",
        )
        series = {
            "measured": [(rules, pps / 1e3) for rules, pps in limits.items()],
            "exponential": list(zip(n, curve.pps(n / unit) / 1e3, strict=True)),
        }
        return courses(text, series)

    def tables(self, runs: Runs, published: PublishedExperiment) -> Sequence[Table]:
        """What one or two stages make of the published thresholds."""
        return (table(publication("lohmiller-2022")),)


def _convex(limits: Mapping[float, float]) -> Decision:
    n, pps = np.array(list(limits)), np.array(list(limits.values()))
    slopes = np.diff(pps) / np.diff(n)
    hyperbola = 1e9 / np.polyval(np.polyfit(n, 1e9 / pps, 1), n)
    exponential, _, _ = exponential_percent(limits, points=True)
    return claims.settled(
        bool((slopes < 0).all() and abs(slopes[-1]) < abs(slopes[0]) / 2),
        "falls from point to point, and at the end at less than half of its first slope",
        f"{int((slopes >= 0).sum())} steps up; an exponential is {exponential:.3g} % off, a hyperbola "
        f"{100 * float(np.mean(np.abs(hyperbola / pps - 1))):.3g} %",
    )
