"""Fitting models to a run, and predicting with them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from weirlab.base import files
from weirlab.base.errors import InputError, ModelError
from weirlab.base.files import HOST_FILES, Inputs
from weirlab.jobs import machine, spoiled
from weirlab.jobs.models import MODEL, in_files, is_file
from weirlab.jobs.profiles import named
from weirlab.jobs.progress import Progress, SilentProgress
from weirlab.jobs.spoiled import more_trials, profile_words, profiled_run
from weirlab.model import DeviceModels, Model, QueueingModel, fit_all, load_devices, save_devices
from weirlab.model.drift import Drift, drifts
from weirlab.model.effects import Effect, effects
from weirlab.model.intervals.calibration import HostDrift
from weirlab.model.io import from_document, pick, require_distinct, to_document
from weirlab.model.regimes import ModelEvidence, evidence
from weirlab.model.transient.compare import DelayBins, StepObservation, with_spike
from weirlab.model.transient.phases import phases_of
from weirlab.records import Observation
from weirlab.store import Run, Store
from weirlab.store.steps import StepSeries, step_series

QUIET: Final = SilentProgress()

Models = dict[str, Model]


@dataclass(frozen=True)
class FitOutcome:
    """Models fitted to a run."""

    run: Run
    models: Models
    path: Path
    """The model file."""

    @property
    def queueing(self) -> QueueingModel | None:
        """The model with physical parameters."""
        model = self.models.get(QueueingModel.name)
        return model if isinstance(model, QueueingModel) else None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What connection tracking, cross traffic and mixed positions cost, as measured."""
        return effects(self.run.observations("profile"))

    @property
    def evidence(self) -> ModelEvidence:
        """Whether the profile says enough for its models to be judged."""
        return evidence(self.run.observations("profile", plain=True))

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """How the device changed during the profile; empty if it did not, as far as the trials can tell."""
        if self.run.simulated:
            return ()
        return tuple(drift for drift in drifts(self.run.observations("profile", plain=True)) if drift.proven)

    @property
    def unusable(self) -> str:
        """Why the run does not count; empty if it does."""
        return machine.refusal(self.run)

    def document(self) -> dict[str, Any]:
        model = self.queueing
        return {
            "kind": "fit",
            "run_id": self.run.run_id,
            "simulated": self.run.simulated,
            "unusable": self.unusable or None,
            "path": self.path,
            "models": list(self.models),
            "parameters": model.parameters() if model else [],
            "in_words": model.in_words(self.run.new_flow_rules) if model else [],
            "effects": self.effects,
            "evidence": self.evidence,
            "drifts": self.drifts,
        }


def fit(
    store: Store, run_id: str, *, out: Path | None = None, name: str | None = None, progress: Progress = QUIET
) -> FitOutcome:
    """Fit every model to the profile in ``run_id`` and keep them with it; also in ``out`` if given.

    ``name`` is what ``out`` calls the device (default: what the run calls it).

    Raises
    ------
    ModelError
        The profile does not determine a model; nothing is changed then.
    """
    if out is not None:
        files.check_output(out, "--out")
    run = _real(named(store, run_id))
    models = fit_run(run, progress)
    path = path_in(run)
    if out is not None:
        device = described(run, models)
        save_devices([replace(device, name=name or device.name)], out)
        path = out
    return FitOutcome(run, models, path)


@dataclass(frozen=True)
class DevicesOutcome:
    """Models fitted to several runs, a device each, in one file."""

    fits: tuple[FitOutcome, ...]
    names: tuple[str, ...]
    """What the file calls the devices, in the order of ``fits``."""
    path: Path

    def document(self) -> dict[str, Any]:
        devices = [{"name": name, **fit.document()} for name, fit in zip(self.names, self.fits, strict=True)]
        return {"kind": "devices", "path": self.path, "devices": devices}


def fit_devices(
    store: Store, run_ids: Sequence[str], out: Path, names: Sequence[str] = (), progress: Progress = QUIET
) -> DevicesOutcome:
    """Fit every model to each of the profiles ``run_ids`` and put them into the file ``out``.

    Without ``names`` the runs name their devices; where they agree, the run's ID is added.

    Raises
    ------
    InputError
        There is not one name for each run.
    ModelError
        A profile does not determine a model, or two devices would have one name.
    """
    if names and len(names) != len(run_ids):
        raise InputError(
            f"{len(names)} names for {len(run_ids)} runs; give --name once for each run, in order"
        )
    require_distinct(names, str(out))
    files.check_output(out, "--out")
    runs = [_real(named(store, run_id)) for run_id in run_ids]
    devices = [described(run, fit_run(run, progress)) for run in runs]
    own = [device.name for device in devices]
    chosen = tuple(names) or tuple(
        name if own.count(name) == 1 else f"{name} {run.run_id}" for name, run in zip(own, runs, strict=True)
    )
    save_devices((replace(device, name=name) for device, name in zip(devices, chosen, strict=True)), out)
    fits = tuple(FitOutcome(run, dict(d.models), path_in(run)) for run, d in zip(runs, devices, strict=True))
    return DevicesOutcome(fits, chosen, out)


def described(run: Run, models: Models) -> DeviceModels:
    """The device of ``run`` with ``models``: what the run calls it and how it was measured."""
    manifest = run.manifest
    facts = {name: value for name, value in manifest.facts.items() if name != "command"}
    conditions = {
        "run_id": run.run_id,
        "created": manifest.created,
        "host": manifest.host,
        "kernel": manifest.kernel,
        "weirlab": manifest.versions.get("weirlab", "unknown"),
        "calibration": manifest.calibration,
    }
    more = {
        "new_flow_rules": run.new_flow_rules or None,
        "new_shares": manifest.section("profile")["new"] if run.new_flow_rules else None,
        "unusable": machine.refusal(run) or None,
        "disturbed": spoiled.disturbance(run, "profile") or None,
    }
    known = {name: value for name, value in more.items() if value is not None}
    return DeviceModels(str(manifest.facts.get("dut", run.run_id)), models, {**conditions, **facts, **known})


def fit_run(run: Run, progress: Progress = QUIET) -> Models:
    """Fit every model to the profile in ``run`` and keep them with it.

    Raises
    ------
    ModelError
        The profile does not determine a model.
    TrialError
        The host spoiled most of its trials.
    """
    observations = run.observations("profile", plain=True)
    try:
        if not observations:
            raise ModelError(
                f"run {run.run_id} has no valid trial of a profile to fit to; 'weir profile' measures one"
            )
        progress.stage(f"fitting the models to {len(observations)} trials of run {run.run_id}")
        later = None if run.simulated else host_drift(observations)
        models = learn_spikes(fit_all(observations, later=later, told=progress.advance), run)
    except ModelError as error:
        # Other loads do not help if the host spoils the trials.
        raise spoiled.problem(run, "profile") or error from error
    keep(run, models)
    return models


def host_drift(observations: Sequence[Observation]) -> HostDrift:
    """How the host's state may differ at another hour: as recorded runs show, or as this profile does."""
    within = {drift.quantity: drift.std for drift in drifts(observations) if drift.proven}
    return HostDrift.published(within.get("forwarding rate", 0.0), within.get("mean delay", 0.0))


def keep(run: Run, models: Models) -> None:
    """Keep ``models`` with ``run``, in place of earlier ones."""
    run.put_json(MODEL, to_document([described(run, models)]))


def path_in(run: Run) -> Path:
    """The model file in the folder of ``run``."""
    return run.path / f"{MODEL}.json"


def models_of(run: Run) -> Models:
    """The models kept with ``run``; none if it was not fitted."""
    if not run.has(MODEL):
        return {}
    where = str(path_in(run))
    return run.get_json(MODEL, lambda content: dict(pick(from_document(content, where), None, where).models))


def find(
    store: Store, source: str, device: str | None = None, inputs: Inputs = HOST_FILES
) -> tuple[Models, Run | None]:
    """The models in the file ``source``, or those of the run ``source`` with the run.

    Raises as :func:`find_device` does.
    """
    found, run = find_device(store, source, device, inputs)
    return dict(found.models), run


def find_device(
    store: Store, source: str, device: str | None = None, inputs: Inputs = HOST_FILES
) -> tuple[DeviceModels, Run | None]:
    """The device called ``device`` in the file ``source``, or that of the run ``source`` with the run.

    ``inputs`` opens the file.

    Raises
    ------
    ModelError
        The run has not been fitted, the file is not a model file, or it lacks ``device``; or it
        holds several devices and ``device`` is None.
    """
    source = in_files(store, source)
    if is_file(source):
        return _of_real(pick(load_devices(Path(source), inputs), device, source)), None
    run = _real(named(store, source))
    return pick([_fitted(run)], device, f"run {run.run_id}"), run


def more_trials_of(store: Store, device: DeviceModels) -> str:
    """How to profile ``device`` again with more trials, by the run that it comes from."""
    run_id = str(device.facts.get("run_id", ""))
    built = device.facts.get("lab") == "netns" and device.facts.get("dut") not in (None, "ruleset", "image")
    return more_trials(
        profiled_run(store, run_id) if run_id else None, str(device.facts["dut"]) if built else ""
    )


def profile_of(store: Store, device: DeviceModels) -> list[str]:
    """The command that profiled ``device``, without what belongs to one run alone; empty if unknown."""
    run = profiled_run(store, str(device.facts.get("run_id", "")))
    typed = [] if run is None else shlex.split(str(run.manifest.facts.get("command", "")))
    return profile_words(typed) or []


def devices(store: Store, source: str) -> list[DeviceModels]:
    """All devices in the file ``source``, or that of the run ``source``; ``ModelError`` if it has none."""
    source = in_files(store, source)
    if is_file(source):
        return [_of_real(device) for device in load_devices(Path(source))]
    return [_fitted(_real(named(store, source)))]


def _real(run: Run) -> Run:
    """``run``; raises ``TrialError`` if its device was emulated, so that its numbers mean nothing."""
    machine.refuse_emulated(run.manifest.facts, f"run {run.run_id}")
    return run


def _of_real(device: DeviceModels) -> DeviceModels:
    machine.refuse_emulated(device.facts, device.name)
    return device


def _fitted(run: Run) -> DeviceModels:
    models = models_of(run)
    if not models:
        raise ModelError(f"run {run.run_id} has no fitted models; make them with: weir fit {run.run_id}")
    return described(run, models)


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
