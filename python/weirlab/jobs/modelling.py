"""Fitting models to a run, and asking them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.errors import InputError, ModelError
from weirlab.jobs.profiles import named
from weirlab.model import Model, Queueing, fit_all, load, save
from weirlab.model.base import QUANTITIES
from weirlab.model.io import from_document, to_document
from weirlab.store import Run, Store
from weirlab.traffic.load import describe_rate, rate_pps
from weirlab.traffic.sizes import SizeMix, describe, mean_bytes
from weirlab.traffic.spec import Rate

MODEL: Final = "model"
"""Name under which a run keeps its fitted models."""

Models = dict[str, Model]


@dataclass(frozen=True)
class FitOutcome:
    """Models fitted to a run."""

    run: Run
    models: Models
    path: Path
    """The model file."""

    @property
    def queueing(self) -> Queueing | None:
        """The model with physical parameters."""
        model = self.models.get(Queueing.name)
        return model if isinstance(model, Queueing) else None

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        model = self.queueing
        return {
            "kind": "fit",
            "run_id": self.run.run_id,
            "path": self.path,
            "models": list(self.models),
            "parameters": model.parameters() if model else [],
            "in_words": model.in_words() if model else [],
        }


def fit(store: Store, run_id: str, *, out: Path | None = None) -> FitOutcome:
    """Fit every model to the profile in ``run_id`` and keep them with it; also in ``out`` if given.

    Raises
    ------
    ModelError
        The profile does not determine a model; nothing is changed then.
    """
    run = named(store, run_id)
    models = fit_run(run)
    path = path_in(run)
    if out is not None:
        save(models, out)
        path = out
    return FitOutcome(run, models, path)


def fit_run(run: Run) -> Models:
    """Fit every model to the profile in ``run`` and keep them with it."""
    observations = run.observations("profile")
    if not observations:
        raise ModelError(
            f"run {run.run_id} has no valid trial of a profile to fit to; 'weir profile' measures one, "
            f"'weir show {run.run_id}' says why trials are invalid"
        )
    models = fit_all(observations)
    keep(run, models)
    return models


def keep(run: Run, models: Models) -> None:
    """Keep ``models`` with ``run``, in place of earlier ones."""
    run.put_json(MODEL, to_document(models))


def path_in(run: Run) -> Path:
    """The model file in the folder of ``run``."""
    return run.path / f"{MODEL}.json"


def models_of(run: Run) -> Models:
    """The models kept with ``run``; none if it was not fitted."""
    if not run.has(MODEL):
        return {}
    return from_document(run.get_json(MODEL), str(path_in(run)))


def find(store: Store, source: str) -> tuple[Models, Run | None]:
    """The models in the file ``source``, or those of the run ``source`` with the run.

    Raises
    ------
    ModelError
        The run has not been fitted, or the file is none.
    """
    if is_file(source):
        return load(Path(source)), None
    run = named(store, source)
    models = models_of(run)
    if not models:
        raise ModelError(f"run {run.run_id} has no fitted models; make them with: weir fit {run.run_id}")
    return models, run


def is_file(source: str) -> bool:
    """Does ``source`` name a model file rather than a run?"""
    return source.endswith(".json") or "/" in source or Path(source).is_file()


@dataclass(frozen=True)
class PredictionOutcome:
    """What each model predicts for one setting."""

    rate_text: str
    rate_pps: float
    sizes_text: str
    frame_bytes: float
    position: float
    predictions: dict[str, dict[str, float]]
    """By model: ``threshold_pps, loss_ratio, delay_*_ns, jitter_ns``."""
    outside: tuple[str, ...]
    """Why this extrapolates; empty inside the profiled range."""

    def document(self) -> dict[str, Any]:
        """For ``--json``: the first model's numbers on top, all models' below ``models``."""
        first = next(iter(self.predictions))
        return {
            "kind": "prediction",
            "rate": self.rate_text,
            "rate_pps": self.rate_pps,
            "sizes": self.sizes_text,
            "frame_bytes": self.frame_bytes,
            "position": self.position,
            "model": first,
            **self.predictions[first],
            "extrapolated": bool(self.outside),
            "why_extrapolated": self.outside,
            "models": self.predictions,
        }




def predict(store: Store, source: str, rate: Rate, sizes: SizeMix, position: int) -> PredictionOutcome:
    """What the models of ``source`` (file or run) say about one setting."""
    models, _ = find(store, source)
    pps = rate_pps(rate, sizes)
    if not math.isfinite(pps):
        raise InputError("a prediction needs a load in numbers, not 'max'; e.g. --rate 300kpps")
    frame_bytes = mean_bytes(sizes)
    predictions: dict[str, dict[str, float]] = {}
    outside: dict[str, None] = {}
    for name, model in models.items():
        found = model.predict(pps, frame_bytes, position)
        predictions[name] = {quantity: float(getattr(found, quantity)) for quantity in QUANTITIES}
        outside.update(dict.fromkeys(found.why))
    return PredictionOutcome(
        describe_rate(rate), pps, describe(sizes), frame_bytes, position, predictions, tuple(outside)
    )
