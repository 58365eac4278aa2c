"""Fitting models to a run, and predicting with them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from weirlab.base import files
from weirlab.base.errors import InputError, ModelError, Undecided
from weirlab.base.files import HOST_FILES, Inputs
from weirlab.base.quantities import percent, words
from weirlab.base.quantities import rules as whole_rules
from weirlab.devices.prediction.spikes import learn_spikes
from weirlab.jobs import machine, spoiled
from weirlab.jobs.models import MODEL, in_files, is_file
from weirlab.jobs.profiles import named
from weirlab.jobs.progress import Progress, SilentProgress
from weirlab.jobs.repetition import more_trials, profile_words, profiled_run
from weirlab.model import DeviceModels, Model, QueueingModel, fit_all, load_devices, save_devices
from weirlab.model.base import DELAYS, QUANTITIES, TOLD_LEVEL, ProfileRange
from weirlab.model.drift import Drift, drifts
from weirlab.model.effects import Effect, effects
from weirlab.model.evidence import ModelEvidence, evidence
from weirlab.model.intervals.calibration import NEAR, HostDrift
from weirlab.model.io import from_document, pick, require_distinct, to_document
from weirlab.model.planning.requirements import NO_LOSS
from weirlab.store import Run, Store
from weirlab.traffic.load import describe_rate, rate_pps
from weirlab.traffic.sizes import SizeMix, describe, mean_bytes
from weirlab.traffic.spec import GAP_SCV, Arrivals, Rate

QUIET: Final = SilentProgress()

_MAGNITUDE: Final = 10.0

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
        """For ``--json``."""
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
    store: Store,
    run_id: str,
    *,
    out: Path | None = None,
    name: str | None = None,
    progress: Progress = QUIET,
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
        """For ``--json``."""
        devices = [{"name": name, **fit.document()} for name, fit in zip(self.names, self.fits, strict=True)]
        return {"kind": "devices", "path": self.path, "devices": devices}


def fit_devices(
    store: Store,
    run_ids: Sequence[str],
    out: Path,
    names: Sequence[str] = (),
    progress: Progress = QUIET,
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
        later = None
        if not run.simulated:
            drift = max((each.std for each in drifts(observations) if each.proven), default=0.0)
            later = HostDrift.published(drift)
        models = learn_spikes(fit_all(observations, later=later, told=progress.advance), run)
    except ModelError as error:
        # Other loads do not help if the host spoils the trials.
        raise spoiled.problem(run, "profile") or error from error
    keep(run, models)
    return models


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
    return more_trials(profiled_run(store, run_id) if run_id else None, run_id)


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
    intervals: dict[str, dict[str, dict[int, tuple[float, float]]]] = field(default_factory=dict)
    """By model, quantity and level in percent: where a new trial should lie; empty if not calibrated."""
    device: str = ""
    simulated: bool = False
    """The models are those of a simulated device."""
    unusable: str = ""
    """Why the profile behind the models does not count; empty if it does."""
    more_trials: str = ""
    """How to profile the device again with more trials."""
    new_share: float | None = None
    """Share of the packets that open a flow, if the profile went through such shares."""

    @property
    def unsure(self) -> tuple[str, ...]:
        """Which of delay and loss the first model knows only to an order of magnitude.

        A possible loss far below the threshold comes from the host that disturbed the profile.
        """
        name, found = next(iter(self.predictions.items()))
        bands = {quantity: levels[TOLD_LEVEL] for quantity, levels in self.intervals.get(name, {}).items()}
        delays = any(bands[q][1] > _MAGNITUDE * bands[q][0] for q in DELAYS if q in bands)
        clear = self.rate_pps < NEAR[0] * found["threshold_pps"]
        loss = clear and "loss_ratio" in bands and bands["loss_ratio"][1] > NO_LOSS
        return tuple(what for what, unsure in (("delay", delays), ("loss", loss)) if unsure)

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
            **({} if self.new_share is None else {"new_share": self.new_share}),
            "device": self.device,
            "simulated": self.simulated,
            "unusable": self.unusable or None,
            "model": first,
            **self.predictions[first],
            "extrapolated": bool(self.outside),
            "why_extrapolated": self.outside,
            "models": self.predictions,
            "intervals": self.intervals,
            "too_noisy_for": self.unsure,
        }


def usual_position(models: Mapping[str, Model]) -> int:
    """The matching position that the models know if that is only one, as of the user's own rules; else 0."""
    ranges = (getattr(model, "profiled", None) for model in models.values())
    found = next((profiled for profiled in ranges if isinstance(profiled, ProfileRange)), None)
    if found is None or found.position_min != found.position_max:
        return 0
    return round(found.position_min)


def position_of(device: DeviceModels, rules: float | None, new_share: float | None) -> float:
    """The position that the models of ``device`` know for ``rules`` (None: :func:`usual_position`), or for a
    share of packets that open a flow, if the profile went through such shares.
    """
    behind = device.new_flow_rules
    if not behind:
        if new_share is not None:
            raise InputError(f"the profile of {device.name} has no shares of new flows: leave --new out")
        return usual_position(device.models) if rules is None else rules
    through = f"the profile of {device.name} went through shares of new flows behind {whole_rules(behind)}"
    if new_share is None:
        raise InputError(f"{through}: give one, e.g. --new 10%")
    if rules not in (None, behind):
        raise InputError(f"{through}: leave --rules out")
    shares = device.facts.get("new_shares", ())
    if not any(math.isclose(new_share, share, abs_tol=1e-9) for share in shares):
        profiled = words([percent(share) for share in shares])
        raise Undecided(
            f"{through}, {profiled}: what lies between them has not been shown to follow from them; profile "
            f"{percent(new_share)} as well"
        )
    return behind * new_share


def predict(
    store: Store,
    source: str,
    rate: Rate,
    sizes: SizeMix,
    position: float | None,
    *,
    arrivals: Arrivals = "constant",
    device: str | None = None,
) -> PredictionOutcome:
    """What the models of ``source`` (file or run) say about one setting.

    ``device`` chooses one if a file has several. ``position`` is that of the models, see :func:`position_of`.
    """
    asked, _ = find_device(store, source, device)
    if position is None:
        position = position_of(asked, None, None)
    pps = rate_pps(rate, sizes)
    if not math.isfinite(pps):
        raise InputError("a prediction needs a load in numbers, not 'max'; e.g. --rate 300kpps")
    frame_bytes = mean_bytes(sizes)
    predictions: dict[str, dict[str, float]] = {}
    intervals: dict[str, dict[str, dict[int, tuple[float, float]]]] = {}
    outside: dict[str, None] = {}
    for name, model in asked.models.items():
        found = model.predict(pps, frame_bytes, position, GAP_SCV[arrivals])
        predictions[name] = {quantity: float(getattr(found, quantity)) for quantity in QUANTITIES}
        intervals[name] = {
            quantity: {level: (float(band.low), float(band.high)) for level, band in bands.items()}
            for quantity, bands in found.intervals.items()
        }
        outside.update(dict.fromkeys(found.why))
    return PredictionOutcome(
        describe_rate(rate),
        pps,
        describe(sizes),
        frame_bytes,
        position,
        predictions,
        tuple(outside),
        intervals,
        asked.name,
        asked.simulated,
        asked.unusable,
        more_trials_of(store, asked),
        position / asked.new_flow_rules if asked.new_flow_rules else None,
    )
