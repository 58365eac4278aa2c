"""Experiments in which the rate or the position changes while packets are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from weirlab.base.quantities import significant
from weirlab.devices.prediction import spikes
from weirlab.model import LohmillerModel
from weirlab.model.spike import Spike
from weirlab.model.transient.compare import binned
from weirlab.model.transient.spiking import with_spike
from weirlab.publications import PublishedExperiment
from weirlab.report.figure import Figure
from weirlab.reproduction import claims
from weirlab.reproduction.charts import CourseText, courses
from weirlab.reproduction.contract import Answer, Runs
from weirlab.reproduction.firewall import measured
from weirlab.reproduction.firewall.measured import US, MeasuredProfile, SteppedTrial, middle, us
from weirlab.reproduction.firewall.scenarios import MIDDLE, FirewallExperiment, series
from weirlab.store import Run

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


CHANGES: Final = (RateChange(), PositionChange())
