"""Experiments about the number of rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from weirlab.base.quantities import significant
from weirlab.devices.profile.page import distributions
from weirlab.devices.profile.page.drawing import voice_panel
from weirlab.devices.profile.page.settings import machine
from weirlab.devices.profile.page.source import gather
from weirlab.model import regimes as regime
from weirlab.model.base import F64
from weirlab.model.curves import root
from weirlab.publications import PublishedExperiment
from weirlab.report.figure import Figure
from weirlab.reproduction import claims
from weirlab.reproduction.charts import CourseText, courses
from weirlab.reproduction.contract import Answer, Decision, Runs
from weirlab.reproduction.firewall import measured
from weirlab.reproduction.firewall.loads import JUMP
from weirlab.reproduction.firewall.measured import (
    LOST,
    US,
    MeasuredProfile,
    loss_percent,
    means,
    middle,
    neighbours,
    r_squared,
    us,
)
from weirlab.reproduction.firewall.scenarios import LOADS_MBIT_S, RULES, FirewallExperiment
from weirlab.reproduction.firewall.thresholds import Threshold
from weirlab.store import Run

_WITH_200: Final = tuple(sorted((*RULES, 200)))


def _loads(run: Run) -> Mapping[tuple[int, int], pl.DataFrame]:
    """The trials of the shared loads, by rules and Mbit/s."""
    trials = measured.settings(run)
    return {
        (rules, mbit): trials[name]
        for rules in _WITH_200
        for mbit in LOADS_MBIT_S
        if (name := f"{rules} rules, {mbit} Mbit/s") in trials
    }


class MatchingPosition(FirewallExperiment):
    """Latency and threshold over the matching position."""

    key = "matching-position"
    shared = ("iptables", "loads")

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "loads" in runs:
            loads = _loads(runs["loads"])
            known = [rules for rules in RULES if (rules, 500) in loads]
            delays = [middle(us(loads[rules, 500])) for rules in known]
            yield Answer("rises", decision=claims.monotone(known, delays))
        if "iptables" in runs:
            found = MeasuredProfile.of(runs["iptables"])
            limits, busy = found.thresholds(held_out=False), means(found.over)
            for rules in published.series("steep"):
                yield Answer(f"steep@{rules:g}", limits.get(rules, math.nan))
            falls = claims.monotone(list(limits), list(limits.values()), falling=True)
            rises = claims.monotone(list(busy), list(busy.values()))
            known_both = "cannot tell" not in (falls.verdict, rises.verdict)
            both = falls.verdict == rises.verdict == "holds"
            yield Answer(
                "earlier-and-higher",
                decision=claims.settled(
                    both if known_both else None,
                    "from point to point the threshold falls and the latency in overload rises",
                    f"thresholds {falls.found}; latencies {rises.found}",
                ),
            )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Latency over the load, for each rule count."""
        if "iptables" not in runs:
            return ()
        found = MeasuredProfile.of(runs["iptables"])
        table, thresholds = found.table, found.thresholds(held_out=False)
        if not thresholds:
            return ()
        counts, limits = list(thresholds), list(thresholds.values())
        smallest = np.abs(table.frame_bytes - table.frame_bytes.min()) < 1
        series = {
            f"{n:g} rules": [
                (rate / 1e3, delay / US)
                for rate, delay in zip(
                    table.rate_pps[smallest & (table.position == n)],
                    table.delay_mean_ns[smallest & (table.position == n)],
                    strict=True,
                )
            ]
            for n in np.unique(table.position)
        }
        text = CourseText(
            "rule-counts",
            self.key,
            "",
            f"Overload begins at {limits[0] / 1e3:.0f} kpps with {counts[0]:g} rules and at "
            f"{limits[-1] / 1e3:.0f} kpps with {counts[-1]:g}.",
            "Load, kpps",
            "Mean latency, µs",
            log=True,
        )
        return courses(text, series)


class OverloadLatency(FirewallExperiment):
    """Mean latency in overload over the rules."""

    key = "overload-latency"
    shared = ("iptables",)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "iptables" in runs:
            found = means(MeasuredProfile.of(runs["iptables"]).over)
            for rules in published.series("latency"):
                yield Answer(f"latency@{rules:g}", found.get(rules, math.nan))
            yield Answer("linear", decision=claims.fitted(list(found), list(found.values()), least=0.99))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """The mean over the rules, published and here."""
        if "iptables" not in runs:
            return ()
        here = means(MeasuredProfile.of(runs["iptables"]).over)
        text = CourseText(
            "overload-latency", self.key, "", "Mean latency in overload over the rules.", "Rules",
            "Mean latency, µs", log=True,
        )  # fmt: skip
        return courses(text, {"here": [*here.items()], "published": [*published.series("latency").items()]})


class LatencyBelow(FirewallExperiment):
    """Mean latency below overload over the rules."""

    key = "latency-below"
    shared = ("iptables",)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "iptables" not in runs:
            return
        found = MeasuredProfile.of(runs["iptables"])
        below, over = means(found.below), means(found.over)
        for rules in published.series("latency"):
            yield Answer(f"latency@{rules:g}", below.get(rules, math.nan))
        slopes = [float(np.polyfit(list(own), list(own.values()), 1)[0]) for own in (below, over)]
        yield Answer(
            "weaker",
            decision=claims.settled(
                0 < slopes[0] < slopes[1] / 5,
                "a line through the means rises, with less than a fifth of the slope in overload",
                f"{1e3 * slopes[0]:.3g} and {1e3 * slopes[1]:.3g} ns per rule",
            ),
        )
        falls, real = 0, 0
        for first, second in neighbours(below):
            a, b = (found.below.delay_mean_ns[found.below.position == n] for n in (first, second))
            error = math.hypot(a.std(ddof=1) / len(a) ** 0.5, b.std(ddof=1) / len(b) ** 0.5)
            falls += bool(b.mean() < a.mean())
            real += bool(b.mean() < a.mean() - 1.96 * error)
        yield Answer(
            "dips",
            decision=claims.settled(
                real == 0,
                "no fall of the mean from one rule count to the next beyond its 95 % interval",
                f"{falls} falls, {real} beyond",
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Letter values of packets at every rule count, as the profile's own page has them."""
        if "iptables" not in runs:
            return ()
        evidence = gather(runs["iptables"], {})
        return distributions.figures(evidence, voice_panel(evidence.telling))


class Processor(FirewallExperiment):
    """Clock and memory over the load."""

    key = "processor"
    shared = ("iptables",)

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "iptables" not in runs:
            return
        trials = runs["iptables"].trials().filter(pl.col("valid") & (pl.col("role") == "profile"))
        clock = trials["frequency_mhz"].drop_nulls().drop_nans().to_list()
        yield Answer("clock", middle(clock))
        yield Answer(
            "clock-constant",
            decision=claims.settled(
                (max(clock) - min(clock)) / middle(clock) < 0.002 if clock else None,
                "the clock varies by less than 0.2 % over all loads",
                f"{significant(min(clock))} to {significant(max(clock))} MHz"
                if clock
                else "no clock to be read",
            ),
        )
        memory = {
            name: middle(rows["memory_used_bytes"].drop_nulls().cast(pl.Float64).to_list())
            for name, rows in (
                ("in overload", trials.filter(pl.col("loss_ratio") > LOST)),
                ("below", trials.filter(pl.col("loss_ratio") <= LOST)),
            )
        }
        share = memory["in overload"] / memory["below"]
        yield Answer(
            "memory-suffices",
            decision=claims.settled(
                None if math.isnan(share) else share <= 1.05,
                "memory in use in overload at most 5 % above that below it",
                f"{100 * (share - 1):+.2f} %",
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Clock, temperature and memory over the load, as the profile's own page has them."""
        return tuple(machine.figures(gather(runs["iptables"], {}))) if "iptables" in runs else ()


class Loss(FirewallExperiment):
    """Loss over load and rules."""

    key = "loss"
    shared = ("iptables", "loads")

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "iptables" in runs:
            yield from self._profile(MeasuredProfile.of(runs["iptables"]))
        if "loads" in runs:
            yield from self._loads(_loads(runs["loads"]), published)

    def _profile(self, found: MeasuredProfile) -> Iterator[Answer]:
        limits = found.thresholds(held_out=False)
        yield Answer("begins@0", limits.get(0.0, math.nan))
        same, known = 0, 0
        table = found.table
        for setting in regime.sort(table).settings:
            rows = setting.rows[np.argsort(table.rate_pps[setting.rows])]
            base = float(np.median(table.delay_mean_ns[rows[: max(len(rows) // 2, 1)]]))
            lost = np.flatnonzero(table.loss_ratio[rows] > LOST)
            slow = np.flatnonzero(table.delay_mean_ns[rows] >= JUMP * base)
            if len(lost) and len(slow):
                known += 1
                loads = table.rate_pps[rows]
                between = np.unique(
                    np.round(np.log(loads[min(lost[0], slow[0]) : max(lost[0], slow[0]) + 1]), 1)
                )
                same += len(between) <= 2
        yield Answer(
            "begins-at-threshold",
            decision=claims.settled(
                same == known if known else None,
                "at every rule count and size, loss begins at the load with four times the latency below, "
                "or at the next",
                f"at {same} of {known}",
            ),
        )
        over = found.over
        forwarded = {
            n: over.forwarding_pps[
                (over.position == n) & (np.abs(over.frame_bytes - over.frame_bytes.min()) < 1)
            ]
            for n in limits
        }
        spans = {n: float(np.ptp(own) / own.mean()) for n, own in forwarded.items() if len(own) > 1}
        yield Answer(
            "forwarding-constant",
            decision=claims.settled(
                max(spans.values()) <= 0.1 if spans else None,
                "forwarding rates in overload within 10 % of each other at every rule count",
                ", ".join(f"{n:g} rules {span:.1%}" for n, span in spans.items()),
            ),
        )

    def _loads(
        self, loads: Mapping[tuple[int, int], pl.DataFrame], published: PublishedExperiment
    ) -> Iterator[Answer]:
        top = max(LOADS_MBIT_S)
        largest = {rules: loss_percent(loads.get((rules, top))) for rules in _WITH_200}
        for rules in published.series("largest"):
            yield Answer(f"largest@{rules:g}", largest.get(int(rules), math.nan))
        known = {n: loss for n, loss in largest.items() if not math.isnan(loss)}
        yield Answer("earlier-and-higher", decision=claims.monotone(list(known), list(known.values())))
        yield Answer("root", decision=_root(known))
        parabola, constant = [], []
        for rules in known:
            rows = [
                (middle(own["achieved_pps"].to_list()), loss_percent(own) / 100, own)
                for mbit in LOADS_MBIT_S
                if (own := loads.get((rules, mbit))) is not None
            ]
            over = [(pps, loss) for pps, loss, _ in rows if loss > LOST]
            if len(over) < 3:
                continue
            forwarded = [middle(own["forwarding_pps"].to_list()) for _, loss, own in rows if loss > LOST]
            g, (apex, most) = middle(forwarded), over[-1]
            for pps, loss in over[:-1]:
                left = (apex - pps) / (apex - g)
                parabola.append(most * (1 - min(left, 1.0) ** 2) - loss)
                constant.append(max(1 - g / pps, 0.0) - loss)
        errors = {
            "1 - threshold / load": float(np.sqrt(np.mean(np.square(constant)))) if constant else math.nan,
            "parabola": float(np.sqrt(np.mean(np.square(parabola)))) if parabola else math.nan,
        }
        yield Answer(
            "parabola",
            decision=claims.ordered(errors, "the parabola's error is no larger than that of a constant rate"),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Loss over the load, for each rule count."""
        if "loads" not in runs:
            return ()
        series: dict[str, list[tuple[float, float]]] = {}
        for (rules, _), rows in _loads(runs["loads"]).items():
            point = (middle(rows["achieved_pps"].to_list()) / 1e3, loss_percent(rows))
            series.setdefault(f"{rules} rules", []).append(point)
        ends = [max((loss for _, loss in series.get(f"{n} rules", [])), default=math.nan) for n in (0, 1000)]
        text = CourseText(
            "loss",
            self.key,
            "",
            f"At {max(LOADS_MBIT_S)} Mbit/s {ends[0]:.3g} % are lost without rules, "
            f"{ends[1]:.3g} % with 1000.",
            "Load, kpps",
            "Loss, %",
        )
        return courses(text, series)


def _root(known: Mapping[int, float]) -> Decision:
    rule = (
        "b n^a + c with a from 0 to 1 explains at least 95 % of the variance, and all losses are below 100 %"
    )
    if len(known) < 4:
        return claims.settled(None, rule, f"{len(known)} rule counts")
    from scipy.optimize import least_squares

    n, loss = np.array(list(known)) / max(known), np.array(list(known.values())) / 100

    def misfit(p: F64) -> F64:
        return np.asarray(root(n, *p) - loss)

    found = least_squares(misfit, np.array([0.5, 0.5, 0.1]), bounds=([0, 0.02, -1], [2, 4, 1])).x
    explained = r_squared(loss, root(n, *found))
    holds = explained >= 0.95 and 0 < found[1] < 1 and float(loss.max()) < 1
    return claims.settled(holds, rule, f"a {found[1]:.2g}, {explained:.1%}, at most {100 * loss.max():.3g} %")


RULES_EXPERIMENTS: Final = (
    MatchingPosition(),
    Threshold(),
    OverloadLatency(),
    LatencyBelow(),
    Processor(),
    Loss(),
)
