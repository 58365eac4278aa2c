"""Predictions against measurements that the models have not seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.base.documents import typed
from weirlab.base.errors import InputError, ModelError, TrialError, WeirError
from weirlab.base.quantities import plural
from weirlab.base.units import MAX_FRAME_BYTES, MIN_FRAME_BYTES
from weirlab.devices.prediction import modelling
from weirlab.devices.prediction.modelling import Models
from weirlab.jobs import machine, spoiled, testbeds
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.models import in_files, is_file
from weirlab.jobs.profiles import begin, flows, go_on, named
from weirlab.jobs.progress import Progress, kept, passed_on, prepared
from weirlab.jobs.spoiled import profiled_run
from weirlab.jobs.work import Work
from weirlab.lab.base import TestBed
from weirlab.measure import verdict
from weirlab.measure import verify as measuring
from weirlab.measure.attempts import USUAL, Budget
from weirlab.measure.profile import PLAN
from weirlab.measure.progress import estimate_s
from weirlab.measure.scouting import SCOUTING, ScoutResult
from weirlab.measure.sequence import kept_plan
from weirlab.measure.verdict import MachineVerdict
from weirlab.model import ErrorRow, QueueingModel, compare
from weirlab.model.base import ProfileRange
from weirlab.model.drift import Shift, shifts
from weirlab.records import TrialSpec, device_in_words
from weirlab.scenario import Dut, HeldOutSection, Lab, OptionValue, ProfileSection, Scenario, from_options
from weirlab.store import Run, RunWriter, Store
from weirlab.traffic.sizes import parse_sizes

VERIFICATION: Final = "verification"
"""Name under which a run keeps the models' errors."""

FORMAT: Final = 2
"""Format of what is stored; scoring again replaces older ones."""

PROFILED_RUN: Final = "profiled-run"
"""Name under which a run with nothing but held-out trials keeps which run was profiled."""

_DRAWS: Final = 5
_OVERLOAD_SHARES: Final = (1.15, 1.35)
_SEED: Final = 7
_MODEL_POSITIONS: Final = 5
"""A model file knows the range that was profiled, not the positions in it."""
_RESUME: Final = "weir verify"


@dataclass(frozen=True)
class VerificationOutcome:
    """How far the models are off on held-out trials."""

    run: Run
    """The run with the held-out trials."""
    errors: tuple[ErrorRow, ...]
    """Of every model and of the repeatability, see :mod:`weirlab.model.score`."""
    trials: int
    """Valid held-out trials."""
    verdict: MachineVerdict | None = None
    """The verdict on the machine; None for a simulated device."""
    undecided: str = ""
    """Why no model is judged; empty if they are judged."""
    shifts: tuple[Shift, ...] = ()
    """How the host has changed since the profile; empty if that cannot be told."""

    def problem(self) -> WeirError | None:
        """The error to report if the machine was not usable, or the trials do not suffice for a verdict."""
        if self.verdict is not None and self.verdict.word == "not usable":
            return TrialError(f"no verdict on the models: the machine was {self.verdict.label}")
        if self.undecided:
            return ModelError(
                f"no verdict on the models: {self.undecided}; measure held-out settings again, with "
                f"--repetitions 3 or more: weir verify {self.run.run_id} --again"
            )
        return None

    def document(self) -> dict[str, Any]:
        return {
            "kind": "verification",
            "run_id": self.run.run_id,
            "path": self.run.path,
            "trials": self.trials,
            "judged": self.problem() is None,
            "why_not_judged": self.undecided or None,
            "machine": None if self.verdict is None else self.verdict.document(),
            "errors": self.errors,
            "shifts": self.shifts,
        }


def verify(
    work: Work, source: str, *, held_out: dict[str, Any], again: bool, lab: Lab, dut: Dut | None
) -> VerificationOutcome:
    """Measure held-out settings where needed, and score the models of ``source`` on them.

    Parameters
    ----------
    source:
        A run, or a model file.
    held_out:
        Settings of :class:`weirlab.scenario.HeldOutSection` that differ from :func:`default`.
    again:
        Measure into a new run although ``source`` has held-out trials.
    lab, dut:
        Where and what to measure for a model file; a run says that itself.
    """
    store, progress = work.store, work.progress
    source = in_files(store, source)
    if is_file(source):
        if dut is None:
            raise InputError("a model file does not say which device it describes; give --dut or --ruleset")
        models, _ = modelling.find(store, source)
        name = f"verification of {source}"[:200]
        scenario = Scenario(name=name, lab=lab, dut=dut, profile=_profile_of(models))
        return _measure_anew(work, models, _with(scenario, held_out))
    models, run = modelling.find(store, source)
    assert run is not None
    scenario = scenario_of(run, Scenario)
    profiled = _profiled_run(store, run)
    if again:
        return _measure_anew(work, models, _with(scenario, held_out), profiled)
    if not is_measured(run):
        with (
            testbeds.open_bed(
                scenario.lab, scenario.dut, progress, flows(scenario), inputs=work.inputs
            ) as bed,
            kept(lambda: go_on(store, run, bed), _RESUME) as writer,
        ):
            measure(bed, models, scenario, writer, progress, profiled=profiled)
    return score(run, models, profiled)


def measure(
    bed: TestBed,
    models: Models,
    scenario: Scenario,
    writer: RunWriter,
    progress: Progress,
    budget: Budget | None = None,
    profiled: Run | None = None,
) -> None:
    """Measure the held-out settings of ``scenario`` into the run of ``writer``, or the rest of them.

    Among them some settings of the profile are measured again: that of ``profiled``, or the run's own.
    Raises ``StoppedEarly`` if the host spoils almost everything.
    """
    specs = None
    if not writer.has(measuring.VERIFY_PLAN):
        specs = plan(models, _in_bed(scenario, bed), _sender_pps(writer))
        profile = profiled or writer.run
        if not writer.run.simulated and profile.has(PLAN):
            known = kept_plan(profile, PLAN).specs
            repetitions = max(each.repetitions for each in scenario.verify or (default(scenario),))
            specs = measuring.among(
                specs, measuring.again(known, repetitions, stateful=scenario.dut.stateful)
            )
    progress.stage(f"measuring held-out settings of {device_in_words(bed.dut)}")
    if specs is None:
        budget = budget or machine.time_for(
            bed, machine.held_out_s(scenario, scenario.verify or (default(scenario),))
        )
    else:
        expected_s = estimate_s(specs) / USUAL
        budget = budget or machine.time_for(bed, expected_s)
        progress.note(machine.foretold(plural(len(specs), "held-out trial"), bed, expected_s, budget))
    outcome = measuring.run(
        bed,
        specs,
        writer,
        passed_on(progress),
        terms=machine.terms(scenario, budget),
    )
    machine.give_up(writer.run, outcome, "verify")


def _in_bed(scenario: Scenario, bed: TestBed) -> Scenario:
    """``scenario`` with the matching position that ``bed`` has, if its rules are the user's own."""
    held_out = [
        each.model_copy(update={"positions": testbeds.positions(bed, each.positions)})
        for each in scenario.verify or (default(scenario),)
    ]
    return scenario.model_copy(update={"verify": tuple(held_out)})


def plan(models: Models, scenario: Scenario, sender_pps: float) -> list[TrialSpec]:
    """The held-out trials of ``scenario``; the models' thresholds place the loads."""
    model = models.get(QueueingModel.name) or next(iter(models.values()))

    def threshold_pps(position: float, frame_bytes: float) -> float:
        return float(model.threshold_pps(position, frame_bytes))

    specs: list[TrialSpec] = []
    for held_out in scenario.verify or (default(scenario),):
        settings = measuring.VerificationPlan(
            positions=held_out.positions,
            sizes=tuple(parse_sizes(text) for text in held_out.sizes),
            load_shares=held_out.load_shares,
            draws=held_out.draws,
            overload_shares=held_out.overload_shares,
            repetitions=machine.repetitions(scenario, held_out.repetitions),
            trial_s=held_out.trial_s,
            warmup_s=held_out.warmup_s,
            stateful=scenario.dut.stateful,
            flows=flows(scenario),
            new_shares=held_out.new,
            arrivals=scenario.traffic.arrivals,
            seed=held_out.seed,
        )
        specs += measuring.plan(settings, threshold_pps, sender_pps=sender_pps)
    if scenario.profile.cross_traffic == (True,):
        return [replace(spec, cross_traffic=True) for spec in specs]
    return specs


def score(run: Run, models: Models, profiled: Run | None = None) -> VerificationOutcome:
    """Score ``models`` on the held-out trials in ``run`` and keep the errors with it.

    ``profiled`` has the profile if ``run`` has none.
    """
    observations, again = measuring.parted(run.observations("verify"))
    if not observations:
        if (spoilt := spoiled.problem(run, "verify")) is not None:
            raise spoilt
        raise ModelError(
            f"run {run.run_id} has no valid held-out trial; 'weir show {run.run_id}' says why trials are "
            f"invalid, 'weir verify {run.run_id} --again' measures anew"
        )
    errors = tuple(compare(models, observations))
    profile = (profiled or run).observations("profile", plain=True)
    moved = shifts(profile, again, models, observations) if again and profile else ()
    run.put_json(
        VERIFICATION, {"format": FORMAT, "errors": errors, "trials": len(observations), "shifts": moved}
    )
    return VerificationOutcome(
        run, errors, len(observations), machine.judged(run, _RESUME), verdict.undecided(run), moved
    )


def stored(run: Run) -> VerificationOutcome | None:
    """What :func:`score` found; None if ``run`` was not verified, or by a version that stored less."""
    if not (errors := errors_of(run)):
        return None
    trials = run.get_json(VERIFICATION, lambda content: int(content["trials"]))
    moved = run.get_json(VERIFICATION, lambda content: typed(tuple[Shift, ...], content.get("shifts", ())))
    judged, why = machine.judged(run, _RESUME), verdict.undecided(run)
    return VerificationOutcome(run, errors, trials, judged, why, moved)


def share_error(store: Store, source: str) -> float | None:
    """The largest error of the model in the threshold at held-out shares of new flows, as a ratio.

    None if ``source`` is a file, or a run that was not verified, or at none but profiled shares, or whose
    verification does not count.
    """
    source = in_files(store, source)
    if is_file(source):
        return None
    run = named(store, source)
    outcome = stored(run)
    if outcome is None or outcome.problem() is not None:
        return None
    profiled = run.manifest.section("profile").get("new") or ()
    if all(
        any(math.isclose(one, share, abs_tol=1e-9) for share in profiled)
        for one in held_out_shares(outcome.run)
    ):
        return None
    wanted = (QueueingModel.name, "threshold", "setting", False)
    found = [
        abs(row.relative.max) / 100
        for row in outcome.errors
        if (row.model, row.quantity, row.per, row.extrapolated) == wanted and row.relative
    ]
    return max(found, default=None)


def held_out_shares(run: Run) -> list[float]:
    """Shares of packets that open a flow, of the valid held-out trials in ``run``."""
    trials = run.trials().filter(pl.col("valid") & (pl.col("role") == "verify"))
    return trials["new_share"].drop_nulls().unique().to_list()


def errors_of(run: Run) -> tuple[ErrorRow, ...]:
    """The errors kept with ``run``; empty if it was not verified, or by a version that stored less."""
    return run.get_json(VERIFICATION, _errors) if run.has(VERIFICATION) else ()


def _errors(content: Mapping[str, Any]) -> tuple[ErrorRow, ...]:
    if content.get("format") != FORMAT:
        return ()
    return typed(tuple[ErrorRow, ...], content["errors"])


def default(scenario: Scenario, seed: int = _SEED) -> HeldOutSection:
    """What to measure by default: drawn positions and loads, all frame sizes of the profile.

    The user's own device has no positions to choose from.
    """
    profiled, shares = scenario.profile.positions, scenario.profile.new
    own = scenario.dut.file is not None
    return HeldOutSection(
        positions=profiled if own or shares else measuring.drawn_positions(profiled, seed),
        new=measuring.drawn_shares(shares, seed),
        sizes=scenario.profile.sizes,
        draws=_DRAWS,
        overload_shares=_OVERLOAD_SHARES,
        seed=seed,
    )


def _profiled_run(store: Store, run: Run) -> Run | None:
    """The run with the profile that ``run`` verifies, which may be its own; None if it is no longer there."""
    if not run.has(PROFILED_RUN):
        return run
    return profiled_run(store, run.get_json(PROFILED_RUN, lambda content: str(content["run_id"])))


def _measure_anew(
    work: Work, models: Models, scenario: Scenario, profiled: Run | None = None
) -> VerificationOutcome:
    """Measure the held-out settings in a new run, which stores the models too."""
    lab, dut = scenario.lab, scenario.dut

    def keep(writer: RunWriter) -> None:
        modelling.keep(writer.run, models)
        if profiled is not None:
            writer.run.put_json(PROFILED_RUN, {"run_id": profiled.run_id})

    def begun(bed: TestBed) -> RunWriter:
        # Without what is kept the run could not be resumed.
        return prepared(begin(work.store, scenario, bed, work.command, kind="verify"), keep)

    with (
        testbeds.open_bed(lab, dut, work.progress, flows(scenario), inputs=work.inputs) as bed,
        kept(lambda: begun(bed), _RESUME) as writer,
    ):
        measure(bed, models, scenario, writer, work.progress, profiled=profiled)
    return score(writer.run, models, profiled)


def _with(scenario: Scenario, held_out: dict[str, Any]) -> Scenario:
    """``scenario`` with other held-out settings."""
    if not held_out:
        return scenario
    seed = held_out.get("seed", _SEED)
    drawn = default(scenario, seed.value if isinstance(seed, OptionValue) else seed)
    wanted = {**drawn.model_dump(mode="json"), **held_out}
    return from_options({**scenario.model_dump(mode="json"), "verify": [wanted]})


def _profile_of(models: Models) -> ProfileSection:
    """A profile over the range that ``models`` were fitted to; the default one if they do not record it."""
    ranges = (getattr(model, "profiled", None) for model in models.values())
    found = next((profiled for profiled in ranges if isinstance(profiled, ProfileRange)), None)
    if found is None:
        return ProfileSection()
    positions = np.linspace(found.position_min, found.position_max, _MODEL_POSITIONS).round().astype(int)
    frames = np.linspace(found.frame_min_bytes, found.frame_max_bytes, 3)
    sizes = np.clip(frames, MIN_FRAME_BYTES, MAX_FRAME_BYTES).round().astype(int)
    return ProfileSection(
        positions=tuple(dict.fromkeys(positions.tolist())),
        sizes=tuple(str(size) for size in dict.fromkeys(sizes.tolist())),
    )


def is_measured(run: Run) -> bool:
    """Whether every planned held-out trial has a valid attempt."""
    if not run.has(measuring.VERIFY_PLAN):
        return False
    planned = run.get_json(measuring.VERIFY_PLAN, lambda content: len(content["specs"]))
    trials = run.trials().filter((pl.col("role") == "verify") & pl.col("valid"))
    return trials["index"].n_unique() >= planned


def _sender_pps(writer: RunWriter) -> float:
    """The most that the sender got out while scouting; infinite if that is not known."""
    if not writer.has(SCOUTING):
        return float("inf")
    points = writer.run.get_json(SCOUTING, ScoutResult).points
    return max((point.sender_pps for point in points), default=float("inf"))
