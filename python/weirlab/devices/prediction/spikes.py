"""The trials with steps of a run, and the spikes that models learn from them."""

from __future__ import annotations

from weirlab.model import Model
from weirlab.model.transient.compare import DelayBins
from weirlab.model.transient.phases import phases_of
from weirlab.model.transient.spiking import StepObservation, with_spike
from weirlab.store import Run
from weirlab.store.steps import StepSeries, step_series


def series_of(run: Run) -> list[StepSeries]:
    """The valid trials with steps in ``run``."""
    return step_series(run.trials(), run.series())


def seen_in(series: StepSeries) -> StepObservation:
    """``series`` as models take it."""
    phases = phases_of(series.spec.traffic, series.spec.rules.mean_position)
    return StepObservation(phases, series.edges_ns, DelayBins(series.delay_mean_ns, series.loss_ratio))


def learn_spikes(models: dict[str, Model], run: Run) -> dict[str, Model]:
    """``models`` with the spikes that the trials with steps in ``run`` show; without such trials, none.

    Trials with cross traffic are left out, as they are when models are fitted.
    """
    seen = [seen_in(series) for series in series_of(run) if not series.spec.cross_traffic]
    return {name: with_spike(model, seen)[0] for name, model in models.items()}
