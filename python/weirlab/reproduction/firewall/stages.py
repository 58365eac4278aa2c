"""What one stage of service, or two, make of the published thresholds. Computed from the data file.

One stage takes ``t0 + t1 n`` per packet; its threshold is the reciprocal. The two largest losses, at the
highest rate, say how much is forwarded in overload, and so give t0 and t1 without any threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weirlab.base.tables import Table
from weirlab.model.base import F64
from weirlab.publications import Publication

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
