"""Experiments in which something changes or disturbs while packets are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.base.quantities import significant
from weirlab.devices.prediction import spikes
from weirlab.model import LohmillerModel
from weirlab.model.spike import Spike
from weirlab.model.transient.compare import binned
from weirlab.model.transient.spiking import with_spike
from weirlab.publications import PublishedExperiment
from weirlab.report.figure import Figure
from weirlab.report.rows import RowText
from weirlab.reproduction import claims
from weirlab.reproduction.charts import LETTERS, CourseText, courses, of_trials
from weirlab.reproduction.contract import Answer, Runs
from weirlab.reproduction.firewall import measured
from weirlab.reproduction.firewall.measured import US, MeasuredProfile, SteppedTrial, middle, us
from weirlab.reproduction.firewall.scenarios import MIDDLE, SMALL, FirewallExperiment, series
from weirlab.store import Run
from weirlab.traffic.places import mean_position, parse_places

_AT_S: Final = 0.06
"""When steps happen in a quick run; in a full one after half a second instead of a second.

Longer trials are rarely undisturbed."""
_SPIKE_NS: Final = 5e6
"""Time after a step in which a spike is sought: some 200 packets."""
_COURSE: Final = range(20, 821, 100)
"""Data rates of the course, in Mbit/s."""


def _stepped(name: str, quick: bool, step: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    at_s = _AT_S if quick else 0.5
    return {
        "name": name,
        "rate": "100Mbit/s",
        "sizes": MIDDLE,
        "trial_s": 2 * at_s,
        "steps": [{"at_s": at_s, **step}],
        **more,
    }


def _after(trials: Sequence[SteppedTrial], begin_ns: float, end_ns: float) -> list[float]:
    """Mean delays of each trial between times from its first step."""
    return [trial.mean(trial.at_ns[0] + begin_ns, trial.at_ns[0] + end_ns) for trial in trials]


class RateChange(FirewallExperiment):
    """The rate doubles; and a course of eight steps."""

    key = "rate-change"
    deviations = ("Rates and positions change earlier, and the course of eight steps is faster.",)
    shared = ("iptables",)

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """One step, repeated, and the course, ten times as fast, in a quick run a hundred times."""
        first, every = (0.04, 0.05) if quick else (0.4, 0.5)
        steps = [
            {"at_s": round(first + i * every, 3), "rate": f"{rate}Mbit/s"}
            for i, rate in enumerate(_COURSE[1:])
        ]
        course = {
            "name": "course",
            "rate": f"{_COURSE[0]}Mbit/s",
            "sizes": MIDDLE,
            "trial_s": round(first + every * len(steps) - every / 5, 3),
            "steps": steps,
        }
        return {
            "step": series([_stepped("step", quick, {"rate": "200Mbit/s"})], 15, quick),
            "course": series([course], 5, quick),
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "step" in runs:
            yield from self._step(measured.stepped(runs["step"]).get("step", []), published)
        if "course" in runs and "iptables" in runs:
            yield from self._course(runs["course"], *_taught(runs))

    def _step(self, trials: Sequence[SteppedTrial], published: PublishedExperiment) -> Iterator[Answer]:
        if not trials:
            return
        before = [float(t.sent[t.start_ns < t.at_ns[0]].sum()) * 1e9 / t.at_ns[0] for t in trials]
        after = [float(t.sent[t.start_ns >= t.at_ns[0]].sum()) * 1e9 / t.at_ns[0] for t in trials]
        yield claims.near(published.values["packets-before"], middle(before), 0.01)
        yield claims.near(published.values["packets-after"], middle(after), 0.01)
        spike = _after(trials, 0, _SPIKE_NS)
        rest = _after(trials, 4 * _SPIKE_NS, float("inf"))
        old = [t.mean(0, t.at_ns[0]) for t in trials]
        names = ("the first 5 ms after the step", "the time from 20 ms after it")
        yield Answer("spike", decision=claims.ratio(spike, rest, 1.05, float("inf"), names))
        yield Answer(
            "level",
            decision=claims.ratio(rest, old, 1.0, float("inf"), ("the mean after the step", "that before")),
        )

    def _course(self, course: Run, model: LohmillerModel, spike: Spike, steps: int) -> Iterator[Answer]:
        seen = [spikes.seen_in(trial) for trial in spikes.series_of(course)]
        rule = (
            "the model has a spike, learnt from single steps, so that its prediction jumps at each of 8 steps"
        )
        count = len(_COURSE) - 1
        yield Answer(
            "spikes-predicted",
            decision=claims.settled(
                bool(spike) if steps else None,
                rule,
                f"{significant(spike.ns_per_pps)} ns per pps, for {spike.decay_ns / 1e6:.3g} ms, {count}x"
                if spike
                else f"no spike in {steps} kinds of trials with steps",
            ),
        )
        errors = {}
        for name, own in (("without history", model), ("with it", model.with_spike(spike))):
            rest = []
            for trial in seen:
                expected = binned(own, trial.phases, trial.edges_ns).delay_mean_ns
                bins = np.zeros(len(expected), dtype=np.bool_)
                at_ns = np.cumsum([phase.duration_ns for phase in trial.phases])[:-1]
                for at in at_ns:
                    bins |= (trial.edges_ns[:-1] >= at) & (trial.edges_ns[:-1] < at + _SPIKE_NS)
                rest += list(np.abs(trial.measured.delay_mean_ns - expected)[bins] / US)
            errors[name] = middle(rest)
        yield Answer(
            "history",
            decision=claims.ordered(
                errors, "error in the 5 ms after a step in µs, smaller with the rate before"
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Latency around the step, and over the course of eight."""
        found: list[Figure] = []
        if "step" in runs:
            trials = measured.stepped(runs["step"]).get("step", [])
            title = "Mean latency around the step of the rate, by departure."
            found += _around("rate-step", self.key, title, {"measured": trials})
        if "course" in runs:
            trials = measured.stepped(runs["course"]).get("course", [])
            text = CourseText(
                "rate-course", self.key, "course", "Mean latency while the rate rises in eight steps.",
                "Time, ms", "Mean latency, µs",
            )  # fmt: skip
            found += courses(text, {"measured": measured.by_bin(trials, 0.0), **_foretold(runs)})
        return found


def _taught(runs: Runs) -> tuple[LohmillerModel, Spike, int]:
    """The model of the profile, the spike that single steps teach, and how many kinds of those there were."""
    model = LohmillerModel.fit(MeasuredProfile.of(runs["iptables"]).observations)
    taught = [spikes.seen_in(trial) for trial in spikes.series_of(runs.get("step", runs["course"]))]
    _, spike = with_spike(model, taught)
    return model, spike, len(taught)


def _foretold(runs: Runs) -> Mapping[str, Sequence[tuple[float, float]]]:
    """The course as the model predicts it, with its spikes; nothing without a profile."""
    if "iptables" not in runs or not (series := spikes.series_of(runs["course"])):
        return {}
    model, spike, _ = _taught(runs)
    [course, *_] = [spikes.seen_in(trial) for trial in series]
    expected = binned(model.with_spike(spike), course.phases, course.edges_ns).delay_mean_ns
    return {"predicted": list(zip(course.edges_ns[:-1] / 1e6, expected / US, strict=True))}


def _around(
    key: str, section: str, title: str, trials: Mapping[str, Sequence[SteppedTrial]]
) -> Sequence[Figure]:
    text = CourseText(key, section, "step", title, "Time from the step, ms", "Mean latency, µs")
    series = {name: measured.by_bin(own, own[0].at_ns[0]) if own else [] for name, own in trials.items()}
    return courses(text, series)


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


class PositionChange(FirewallExperiment):
    """The matching rule moves from 1 to 2000."""

    key = "position-change"

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """With and without connection tracking; and behind a rule for known connections."""
        changes = [
            _stepped(name, quick, {"position": 2000}, position=1, stateful=name == "stateful")
            for name in ("stateless", "stateful")
        ]
        known = [
            {"name": f"{rules}", "rate": "100Mbit/s", "sizes": MIDDLE, "position": rules}
            for rules in (1, 2000)
        ]
        return {
            "changes": series(changes, 8, quick),
            "known": series(known, 5, quick, traffic={"flows": 16, "answered": True}),
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "changes" in runs:
            trials = measured.stepped(runs["changes"])
            added = {}
            for name in ("stateless", "stateful"):
                own = trials.get(name, [])
                old = [trial.mean(0, trial.at_ns[0]) for trial in own]
                new = _after(own, 4 * _SPIKE_NS, float("inf"))
                yield Answer(f"{name}-before", middle(old))
                yield Answer(f"{name}-after", middle(new))
                added[name] = [after - before for before, after in zip(old, new, strict=True)]
                if name == "stateless":
                    first = _after(own, 0, _SPIKE_NS)
                    names = ("the mean behind the change", "that before")
                    yield Answer("higher", decision=claims.ratio(new, old, 1.0, float("inf"), names))
                    names = ("the first 5 ms after the change", "the time from 20 ms after it")
                    yield Answer("no-spike", decision=claims.ratio(first, new, 0.0, 1.05, names))
            names = ("the rise with connection tracking", "that without")
            yield Answer(
                "no-shortcut", decision=claims.ratio(added["stateful"], added["stateless"], 0.7, 1.3, names)
            )
        if "known" in runs:
            known = measured.settings(runs["known"])
            names = ("known connections at 2000", "those at 1")
            yield Answer(
                "early-rule-helps",
                decision=claims.ratio(us(known.get("2000")), us(known.get("1")), 0.0, 1.1, names),
            )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Latency around the change, with and without connection tracking."""
        if "changes" not in runs:
            return ()
        title = "Mean latency around the change of the position from 1 to 2000, by departure."
        return _around("position-step", self.key, title, measured.stepped(runs["changes"]))


CHANGES: Final = (RateChange(), CrossTraffic(), AveragePosition(), PositionChange())
