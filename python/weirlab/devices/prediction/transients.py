"""Loads that change: what models predict over time, and how trials with steps compare."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from weirlab.base.documents import plain
from weirlab.base.errors import InputError, ModelError
from weirlab.devices.prediction.modelling import (
    Models,
    find,
    find_device,
    keep,
    learn_spikes,
    models_of,
    seen_in,
    series_of,
)
from weirlab.devices.prediction.outcome import position_of
from weirlab.jobs.machine import refuse_emulated
from weirlab.jobs.profiles import named
from weirlab.model.spike import NO_SPIKE, Spike
from weirlab.model.transient.compare import DelayBins, StepError, binned, step_errors
from weirlab.model.transient.course import trajectory
from weirlab.model.transient.phases import LoadPhase, TransientPrediction, phases_of
from weirlab.store import Store
from weirlab.store.rows import rate_text
from weirlab.store.steps import StepSeries
from weirlab.traffic.sizes import SizeMix, describe
from weirlab.traffic.spec import Arrivals, LoadStep, Rate, Traffic

LONGEST_SHOWN_S: Final = 1.0
"""How long to predict after the last step by default."""
_POINTS: Final = 400


@dataclass(frozen=True)
class StepComparison:
    """One trial with steps, its repetitions joined, and what each model predicts."""

    what: str
    """Load over time as text: ``100kpps, 200kpps from 1 s``."""
    setup: str
    series: StepSeries
    phases: tuple[LoadPhase, ...]
    predicted: Mapping[str, DelayBins]
    errors: Mapping[str, tuple[StepError, ...]]

    def document(self) -> dict[str, Any]:
        return {
            "traffic": self.what,
            "setup": self.setup,
            "trials": self.series.trial_ids,
            "bin_ns": self.series.bin_ns,
            "start_ns": self.series.start_ns,
            "measured": {"delay_mean_ns": self.series.delay_mean_ns, "loss_ratio": self.series.loss_ratio},
            "predicted": {name: asdict(values) for name, values in self.predicted.items()},
            "errors": {
                name: [{**asdict(error), "peak_error": error.peak_error} for error in errors]
                for name, errors in self.errors.items()
            },
        }


@dataclass(frozen=True)
class TransientsOutcome:
    """Every trial with steps of a run, with the models' predictions."""

    run_id: str
    comparisons: tuple[StepComparison, ...]
    spikes: Mapping[str, Spike]

    def document(self) -> dict[str, Any]:
        return {
            "kind": "transients",
            "run_id": self.run_id,
            "spikes": plain(self.spikes),
            "steps": [comparison.document() for comparison in self.comparisons],
        }


def compare_steps(
    store: Store, run_id: str, *, source: str | None = None, device: str | None = None
) -> TransientsOutcome:
    """Compare the trials with steps in ``run_id`` with its models, or those of ``source``.

    Models of the run itself learn its spikes first, see :func:`learn_spikes`.

    Raises
    ------
    InputError
        The run has no valid trial with steps.
    ModelError
        There are no models.
    """
    run = store.open(run_id) if source is not None else named(store, run_id)
    refuse_emulated(run.manifest.facts, f"run {run.run_id}")
    found = series_of(run)
    if not found:
        raise InputError(
            f"run {run.run_id} has no valid trial with steps; "
            "weir trial --rate 100kpps --step 1:200kpps makes one"
        )
    if source is not None:
        models, _ = find(store, source, device)
    else:
        models = models_of(run)
        if not models:
            raise ModelError(
                f"run {run.run_id} has no fitted models; make them with: weir fit {run.run_id}, "
                "or name others with --model"
            )
        models = learn_spikes(models, run)
        keep(run, models)
    return TransientsOutcome(
        run.run_id,
        tuple(_compared(models, series) for series in found),
        {name: getattr(model, "spike", NO_SPIKE) for name, model in models.items()},
    )


def _compared(models: Models, series: StepSeries) -> StepComparison:
    seen = seen_in(series)
    predicted = {name: binned(model, seen.phases, seen.edges_ns) for name, model in models.items()}
    errors = {
        name: tuple(step_errors(seen.phases, series.start_ns, series.bin_ns, seen.measured, values))
        for name, values in predicted.items()
    }
    spec = series.spec
    setup = f"{describe(spec.traffic.sizes)} B, position {spec.rules.mean_position:g}"
    return StepComparison(rate_text(spec.traffic), setup, series, tuple(seen.phases), predicted, errors)


@dataclass(frozen=True)
class OverTimeOutcome:
    """What each model predicts while the load changes."""

    rate_text: str
    sizes_text: str
    phases: tuple[LoadPhase, ...]
    predictions: Mapping[str, TransientPrediction]
    outside: tuple[str, ...]
    """Why this extrapolates; empty inside the profiled range."""
    device: str = ""
    simulated: bool = False
    """The models are those of a simulated device."""

    @property
    def steps_ns(self) -> tuple[float, ...]:
        """When the load changes."""
        return tuple(itertools.accumulate(phase.duration_ns for phase in self.phases[:-1]))

    def telling(self) -> Iterator[tuple[float, Mapping[str, Mapping[str, float]]]]:
        """A few instants for a table: before each step, after it in growing intervals, and at the end.

        Yields the time in ns and, by model, the values there.
        """
        end = sum(phase.duration_ns for phase in self.phases)
        wanted = {0.0, end}
        for begin, stop in zip(self.steps_ns, [*self.steps_ns[1:], end], strict=True):
            wanted.add(np.nextafter(begin, 0.0))
            decades = (begin + digit * 10.0**power for power in range(4, 11) for digit in (1, 3))
            wanted |= {begin, *(instant for instant in decades if instant < stop)}
        for instant in sorted(wanted):
            yield float(instant), {name: _at(course, instant) for name, course in self.predictions.items()}

    def document(self) -> dict[str, Any]:
        return {
            "kind": "prediction over time",
            "rate": self.rate_text,
            "sizes": self.sizes_text,
            "device": self.device,
            "simulated": self.simulated,
            "phases": [asdict(phase) for phase in self.phases],
            "extrapolated": bool(self.outside),
            "why_extrapolated": self.outside,
            "models": {name: asdict(course) for name, course in self.predictions.items()},
        }


@dataclass(frozen=True)
class LoadSchedule:
    """A load that changes by ``steps``; before the first one the device has long been under ``rate``."""

    rate: Rate
    sizes: SizeMix
    position: int | None
    """Before the first step; None: see :func:`weirlab.devices.prediction.outcome.usual_position`."""
    steps: tuple[LoadStep, ...]
    arrivals: Arrivals = "constant"
    duration_s: float | None = None
    """The end; by default a second after the last step."""

    def traffic(self) -> Traffic:
        """The traffic until the end; raises ``InputError`` if steps are not in order or after the end."""
        steps = self.steps
        end_s = steps[-1].at_s + LONGEST_SHOWN_S if self.duration_s is None else self.duration_s
        times_s = [step.at_s for step in steps]
        if any(b <= a for a, b in itertools.pairwise([*times_s, end_s])):
            shown = ", ".join(f"{t:g} s" for t in times_s)
            raise InputError(f"steps must follow each other before the end at {end_s:g} s, found {shown}")
        return Traffic(self.rate, self.sizes, arrivals=self.arrivals, steps=steps, duration_s=end_s)


def predict_steps(
    store: Store, source: str, course: LoadSchedule, *, device: str | None = None
) -> OverTimeOutcome:
    """What the models of ``source`` (file or run) say while the load changes.

    Raises
    ------
    InputError
        Steps are not in order or after the end, or a load is ``max``.
    """
    asked, _ = find_device(store, source, device)
    traffic = course.traffic()
    position = position_of(asked, course.position, None)
    phases = phases_of(traffic, position)
    outside: dict[str, None] = {}
    predictions = {}
    for name, model in asked.models.items():
        path = trajectory(model, phases)
        even = np.linspace(0.0, sum(phase.duration_ns for phase in phases), _POINTS)
        predictions[name] = path.at(np.unique(np.concatenate([path.instants_ns, even])))
        for phase in phases:
            found = model.predict(phase.rate_pps, phase.frame_bytes, phase.position, phase.gap_scv)
            outside.update(dict.fromkeys(found.why))
    return OverTimeOutcome(
        rate_text(traffic), describe(course.sizes), tuple(phases), predictions, tuple(outside), asked.name,
        asked.simulated,
    )  # fmt: skip


def _at(course: TransientPrediction, instant_ns: float) -> dict[str, float]:
    names = ("delay_mean_ns", "delay_p50_ns", "delay_p99_ns", "loss_ratio")
    return {name: float(np.interp(instant_ns, course.at_ns, getattr(course, name))) for name in names}
