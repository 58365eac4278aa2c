"""Experiments in which other packets pass, or packets match at several positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.base.quantities import significant
from weirlab.publications import PublishedExperiment
from weirlab.report.figure import Figure
from weirlab.report.rows import RowText
from weirlab.reproduction import claims
from weirlab.reproduction.charts import LETTERS, of_trials
from weirlab.reproduction.contract import Answer, Runs
from weirlab.reproduction.firewall import measured
from weirlab.reproduction.firewall.measured import middle, us
from weirlab.reproduction.firewall.scenarios import MIDDLE, SMALL, FirewallExperiment, series
from weirlab.traffic.places import mean_position, parse_places


class CrossTraffic(FirewallExperiment):
    """With and without a management session, without rules and with 100."""

    key = "cross-traffic"
    deviations = (
        "The management session reads counters and rules ten times a second instead of SSH by hand.",
    )

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """The published rates and sizes; trials long enough for two requests."""
        listed = [
            {
                "name": f"{rules} {'with' if session else 'without'}",
                "rate": rate,
                "sizes": sizes,
                "position": rules,
                "cross_traffic": session,
                "trial_s": 0.2,
            }
            for rules, rate, sizes in ((0, "700Mbit/s", SMALL), (100, "800Mbit/s", "poisson:300-1024"))
            for session in (False, True)
        ]
        return {"sessions": series(listed, 5, quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "sessions" not in runs:
            return
        run = runs["sessions"]
        trials = measured.settings(run)
        if len(trials) < 4:
            return
        shares = {
            rules: _outliers(run.histograms(), trials[f"{rules} without"], trials[f"{rules} with"])
            for rules in (0, 100)
        }
        rule = "more packets above Q3 + 3 (Q3 - Q1) of the trials without a session, with one"
        yield Answer(
            "adds-outliers",
            decision=claims.settled(
                all(there > without for without, there in shares.values()),
                rule,
                "; ".join(f"{rules} rules: {a:.3%} and {b:.3%}" for rules, (a, b) in shares.items()),
            ),
        )
        peaks = [
            [
                high - own
                for high, own in zip(us(rows, "delay_max_ns"), us(rows, "delay_p50_ns"), strict=False)
            ]
            for rows in (trials["100 with"], trials["0 with"])
        ]
        yield Answer(
            "rules-amplify",
            decision=claims.ratio(
                peaks[0],
                peaks[1],
                1.0,
                float("inf"),
                ("the highest latency over the median at 100 rules", "that without"),
            ),
        )
        apart = {
            rules: (middle(us(trials[f"{rules} without"])), middle(us(trials[f"{rules} with"])))
            for rules in (0, 100)
        }
        yield Answer(
            "mean-too-low",
            decision=claims.settled(
                all(there > without for without, there in apart.values()),
                "a higher mean with a session, at both rule counts",
                "; ".join(
                    f"{n} rules: {significant(a)} and {significant(b)} µs" for n, (a, b) in apart.items()
                ),
            ),
        )
        ratios = [_variation(us(rows, "jitter_ns")) / _variation(us(rows)) for rows in trials.values()]
        yield Answer(
            "jitter-unpredictable",
            decision=claims.settled(
                None if any(np.isnan(ratios)) else middle(ratios) >= 2,
                "between equal trials jitter varies at least twice as much as the mean, relative",
                f"{middle(ratios):.2g} times",
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """The highest latency of every trial, with a session and without."""
        if "sessions" not in runs:
            return ()
        trials = measured.settings(runs["sessions"])
        title = "The highest latency in each trial, with a management session and without."
        text = RowText("sessions", self.key, title, "Highest latency, µs", LETTERS)
        return of_trials(
            text,
            {
                f"{rules} rules, {session} a session": us(trials.get(f"{rules} {session}"), "delay_max_ns")
                for rules in (0, 100)
                for session in ("without", "with")
            },
        )


def _variation(values: Sequence[float]) -> float:
    return float(np.std(values) / np.mean(values)) if len(values) > 1 else float("nan")


def _outliers(histograms: pl.DataFrame, without: pl.DataFrame, there: pl.DataFrame) -> tuple[float, float]:
    """Shares of packets far above the quartiles of the trials ``without``, in these and in the others."""
    own = histograms.filter(pl.col("trial_id").is_in(without["trial_id"].to_list())).sort("lower_ns")
    counts = own["count"].cast(pl.Float64).cum_sum() / max(float(own["count"].sum() or 0), 1.0)
    low, high = (float(own.filter(counts >= share)["upper_ns"][0]) for share in (0.25, 0.75))
    limit = high + 3 * (high - low)
    found = []
    for rows in (without, there):
        mine = histograms.filter(pl.col("trial_id").is_in(rows["trial_id"].to_list()))
        far = mine.filter(pl.col("lower_ns") > limit)["count"].sum()
        found.append(float(far) / max(float(mine["count"].sum()), 1.0))
    return found[0], found[1]


class AveragePosition(FirewallExperiment):
    """All packets at one position, beside half before and half behind it."""

    key = "average-position"

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """The published positions."""
        listed = [
            {"name": name, "rate": "100Mbit/s", "sizes": MIDDLE, "places": places}
            for name, places in (("fixed", "50:100"), ("mixed", "1:50,99:50"))
        ]
        return {"places": series(listed, 20, quick)}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        yield claims.near(published.values["example-35"], mean_position(parse_places("20:25,40:75")), 0.0)
        yield claims.near(published.values["example-50"], mean_position(parse_places("1:50,100:50")), 0.0)
        if "places" not in runs:
            return
        trials = measured.settings(runs["places"])
        fixed, mixed = trials.get("fixed"), trials.get("mixed")
        yield Answer("fixed", middle(us(fixed)))
        yield Answer("mixed", middle(us(mixed)))
        names = ("half at 1 and half at 99", "all at 50")
        yield Answer("mean-suffices", decision=claims.ratio(us(mixed), us(fixed), 0.98, 1.02, names))
        yield Answer(
            "jitter-too",
            decision=claims.ratio(us(mixed, "jitter_ns"), us(fixed, "jitter_ns"), 0.9, 1.1, names),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """The mean of every trial, by positions."""
        if "places" not in runs:
            return ()
        trials = measured.settings(runs["places"])
        title = "Mean latency of each trial: all packets at position 50, or half at 1 and half at 99."
        text = RowText("places", self.key, title, "Mean latency, µs", LETTERS)
        return of_trials(
            text, {"all at 50": us(trials.get("fixed")), "half at 1, half at 99": us(trials.get("mixed"))}
        )


MIXTURES: Final = (CrossTraffic(), AveragePosition())
