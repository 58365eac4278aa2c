"""Experiments in which the rate or the position changes while packets are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from weirlab.base.quantities import significant
from weirlab.devices.prediction import modelling
from weirlab.model import LohmillerModel
from weirlab.model.base import F64
from weirlab.model.spike import Spike
from weirlab.model.transient.compare import StepObservation, binned, with_spike
from weirlab.publications import PublishedExperiment, publication
from weirlab.report.figure import Figure
from weirlab.reproduction import claims
from weirlab.reproduction.charts import CourseText, Points, courses
from weirlab.reproduction.contract import Answer, Runs
from weirlab.reproduction.firewall import measured
from weirlab.reproduction.firewall.measured import US, MeasuredProfile, SteppedTrial, middle, us
from weirlab.reproduction.firewall.scenarios import MIDDLE, FirewallExperiment, series
from weirlab.store.steps import StepSeries

_AT_S: Final = 0.06
"""When steps happen in a quick run; in a full one after half a second instead of a second.

Longer trials are rarely undisturbed."""
_SPIKE_NS: Final = 5e6
"""Time after a step in which a spike is sought: some 200 packets."""
_COURSES: Final = ("course", "fast course")
_SPEEDS: Final[Mapping[bool, Sequence[int]]] = {True: (100,), False: (1, 10)}
"""How much faster than the published one the courses are, by whether the run is quick. The published one
lasts so long that the host may disturb every trial of it; the fast one is for then."""
_AROUND_MS: Final = (-10.0, 40.0)
"""What is drawn of a step, from it."""


def _published_course(speed: int) -> Mapping[str, Any]:
    """The published course of rates, ``speed`` times as fast."""
    asked = publication("lohmiller-2022").experiments[RateChange.key].settings["course"]
    first, last, by = asked["mbit_s"]
    begin_s, every_s, whole_s = (asked[name] / speed for name in ("first_step_s", "every_s", "whole_s"))
    rates = range(first, last + 1, by)
    return {
        "name": "course",
        "rate": f"{first}Mbit/s",
        "sizes": MIDDLE,
        "trial_s": round(whole_s, 3),
        "steps": [
            {"at_s": round(begin_s + i * every_s, 3), "rate": f"{rate}Mbit/s"}
            for i, rate in enumerate(rates[1:])
        ],
    }


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
    deviations = (
        "Rates and positions change earlier. A full run has the course of eight steps as published and, in "
        "addition, ten times as fast; a quick run has it a hundred times as fast.",
    )
    shared = ("iptables",)

    def own(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """One step, repeated, and the course of several."""
        return {
            "step": series([_stepped("step", quick, {"rate": "200Mbit/s"})], 15, quick),
            **{
                name: series([_published_course(speed)], 1 if speed == 1 else 5, quick)
                for name, speed in zip(_COURSES, _SPEEDS[quick], strict=False)
            },
        }

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """See :class:`weirlab.reproduction.contract.ReproducedExperiment`."""
        if "step" in runs:
            yield from self._step(measured.stepped(runs["step"]).get("step", []), published)
        seen = [modelling.seen_in(trial) for name in _COURSES for trial in _trials(runs, name)]
        if seen and "iptables" in runs:
            yield from self._course(seen, *_taught(runs))

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

    def _course(
        self, seen: Sequence[StepObservation], model: LohmillerModel, spike: Spike, steps: int
    ) -> Iterator[Answer]:
        rule = (
            "the model has a spike, learnt from single steps, so that its prediction jumps at each of 8 steps"
        )
        count = len(seen[0].phases) - 1
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
                errors,
                "error in the 5 ms after a step in µs, at least 5 % smaller with the rate before",
                slack=-0.05,
            ),
        )

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Latency around the step, and over the courses, beside their predictions."""
        models: dict[str, LohmillerModel] = {}
        if "iptables" in runs and any(name in runs for name in ("step", *_COURSES)):
            model, spike, _ = _taught(runs)
            models = {"predicted": model.with_spike(spike), "predicted without history": model}
        found: list[Figure] = []
        if "step" in runs:
            trials = {"measured": measured.stepped(runs["step"]).get("step", [])}
            expected = {
                name: list(zip(_since_ms(one), _delays(model, one) / US, strict=True))
                for one in _trials(runs, "step")
                for name, model in models.items()
            }
            title = "Mean latency around the step of the rate, by departure."
            found += _around("rate-step", self.key, title, trials, expected)
        for name in _COURSES:
            for one in _trials(runs, name):
                text = CourseText(
                    f"rate-{name.replace(' ', '-')}", self.key, name,
                    "Mean latency while the rate rises in steps.", "Time, s", "Mean latency, µs",
                    "After each step, every millisecond; elsewhere, several of them together.",
                )  # fmt: skip
                lines = {"measured": measured.thinned(one, one.delay_mean_ns)}
                if models:
                    lines["predicted"] = measured.thinned(one, _delays(models["predicted"], one))
                found += courses(text, lines)
        return found


def _trials(runs: Runs, name: str) -> Sequence[StepSeries]:
    """The repetitions of a scenario's trials with steps, joined."""
    return modelling.series_of(runs[name]) if name in runs else ()


def _taught(runs: Runs) -> tuple[LohmillerModel, Spike, int]:
    """The model of the profile, the spike that single steps teach, and how many kinds of those there were."""
    model = LohmillerModel.fit(MeasuredProfile.of(runs["iptables"]).observations)
    source = next(name for name in ("step", *_COURSES) if name in runs)
    taught = [modelling.seen_in(trial) for trial in _trials(runs, source)]
    _, spike = with_spike(model, taught)
    return model, spike, len(taught)


def _delays(model: LohmillerModel, trial: StepSeries) -> F64:
    """The mean delay that ``model`` predicts for each bin of ``trial``, in ns."""
    seen = modelling.seen_in(trial)
    return binned(model, seen.phases, seen.edges_ns).delay_mean_ns


def _since_ms(trial: StepSeries) -> F64:
    """When each bin of ``trial`` begins, from its first step."""
    return np.asarray(trial.start_ns / 1e6 - 1e3 * trial.spec.traffic.steps[0].at_s)


def _around(
    key: str,
    section: str,
    title: str,
    trials: Mapping[str, Sequence[SteppedTrial]],
    expected: Mapping[str, Points] = MappingProxyType({}),
) -> Sequence[Figure]:
    """``trials`` by the millisecond around their first step, and what is ``expected``."""
    text = CourseText(
        key, section, "step", title, "Time from the step, ms", "Mean latency, µs", "Bins of 1 ms."
    )
    lines = {name: measured.by_bin(own, own[0].at_ns[0]) if own else [] for name, own in trials.items()}
    first, last = _AROUND_MS
    near = {
        name: [(at, delay) for at, delay in points if first <= at <= last]
        for name, points in {**lines, **expected}.items()
    }
    return courses(text, near)


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
