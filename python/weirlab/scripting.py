"""Weir for notebooks and scripts: studies from a dict or a file, stored runs, models.

All of it is available from ``weirlab`` itself. Failures raise the errors of :mod:`weirlab.base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict, Unpack

import polars as pl

from weirlab.base.files import HOST_FILES
from weirlab.calls.quality.study import CaptureReading, QualityOutcome, capture_quality
from weirlab.cli.options import CpuOptions, LabKind, SizeOptions
from weirlab.cli.output import CommandResult
from weirlab.devices.planning import study as planning
from weirlab.devices.planning.command import PlanningOptions
from weirlab.devices.planning.options import (
    ModelOptions,
    PlanLoadOptions,
    QuestionOptions,
    RequirementOptions,
    RulesetOptions,
    Sought,
)
from weirlab.devices.planning.outcome import PlanOutcome
from weirlab.devices.prediction import modelling, outcome
from weirlab.devices.prediction.modelling import FitOutcome
from weirlab.devices.prediction.outcome import PredictionOutcome
from weirlab.jobs.progress import Progress, SilentProgress
from weirlab.jobs.quick import QuickProfile
from weirlab.measure import thresholds as measured
from weirlab.report.export import rendered
from weirlab.report.figure import Figure
from weirlab.scenario.document import Document
from weirlab.store import Run, RunSummary, Store, default_root
from weirlab.studies import ready, reports, runner, scenarios
from weirlab.studies.contract import Outcome
from weirlab.traffic.load import parse_rate
from weirlab.traffic.sizes import parse_sizes

PathText: TypeAlias = "str | PathLike[str]"
AnyStore: TypeAlias = "PathText | Store | None"
"""A store, its folder, or None for the user's own."""

QUIET: Final = SilentProgress()


def run(
    scenario: PathText | Mapping[str, Any],
    *,
    store: AnyStore = None,
    out: PathText | None = None,
    progress: Progress = QUIET,
) -> Outcome[Any]:
    """Run a scenario; its findings are in ``found``, the run in ``run``.

    Parameters
    ----------
    scenario:
        A file, the name of a ready-made scenario, or the content of such a file as a dict.
    out:
        HTML file of the report; by default as the scenario says, beside the run.
    """
    if isinstance(scenario, Mapping):
        asked = scenarios.check(Document("the scenario", dict(scenario)))
    else:
        asked = scenarios.load(ready.find(Path(scenario)))
    path = None if out is None else Path(out)
    return runner.run_scenario(_store(store), asked, progress, out=path, inputs=HOST_FILES)


def profile(
    device: str,
    *,
    rules: Sequence[int] | None = None,
    frames: Sequence[int] | None = None,
    lab: LabKind = "auto",
    store: AnyStore = None,
    progress: Progress = QUIET,
) -> Outcome[Any]:
    """Measure what ``weir profile --quick`` measures; :func:`run` takes every other setting.

    Parameters
    ----------
    device:
        A device under test, such as ``nftables``, or a file with rules.
    rules, frames:
        Matching positions, and frame sizes in bytes with FCS; None: those of a quick profile.
    lab:
        ``netns`` (needs root), ``sim`` or, with root the first and else the second, ``auto``.
    """
    positions, sizes = (None if each is None else tuple(each) for each in (rules, frames))
    asked = QuickProfile(device, positions, sizes, lab=lab).scenario()
    return runner.run_scenario(_store(store), asked, progress, inputs=HOST_FILES)


def resume(run_id: str, *, store: AnyStore = None, progress: Progress = QUIET) -> Outcome[Any]:
    """Continue an interrupted run of a scenario; ``last`` is the newest."""
    return runner.resume_scenario(_store(store), run_id, progress, inputs=HOST_FILES)


def runs(store: AnyStore = None) -> list[RunSummary]:
    """Every run in the store, the newest first."""
    return list(_store(store).runs())


def open_run(run_id: str = "last", *, kind: str | None = None, store: AnyStore = None) -> Run:
    """A stored run: an ID, the beginning of one, or ``last``, of ``kind`` if given.

    ``trials()``, ``histograms()``, ``series()``, ``flows()`` and ``calls()`` return its Polars frames,
    ``table(name)`` those of its study. ``to_pandas()`` of a frame needs ``pip install pandas pyarrow``.
    """
    return _store(store).open(run_id, kind=kind)


def thresholds(run: str | Run = "last", *, store: AnyStore = None) -> pl.DataFrame:
    """Forwarding rate in overload per rule count and frame size, with 95 % intervals.

    See :func:`weirlab.measure.thresholds.thresholds` for the columns.
    """
    where, run_id = _place(run, store)
    return measured.thresholds(
        measured.usable(where.open(run_id).trials().filter(pl.col("role") == "profile"))
    )


@dataclass(frozen=True)
class RunChart:
    """A chart of a run's report, which a cell of a notebook shows."""

    title: str
    """What it shows, in a sentence."""
    data: pl.DataFrame
    """What is drawn."""
    figure: Figure
    source: str

    def _repr_svg_(self) -> str:
        return rendered(self.figure, "svg", self.source).decode()


def charts(run: str | Run = "last", *, store: AnyStore = None) -> list[RunChart]:
    """The charts of a run's report.

    Raises
    ------
    MissingCapability
        The extra ``report`` is not installed.
    InputError
        There is no report about runs of this kind.
    """
    where, run_id = _place(run, store)
    page = reports.page_of(where.open(run_id))
    return [RunChart(each.name, each.data, each, page.source) for each in page.figures]


def fit(run: str | Run = "last", *, store: AnyStore = None) -> FitOutcome:
    """Fit every model to the profile in ``run``, and keep them with it."""
    where, run_id = _place(run, store)
    return modelling.fit(where, run_id)


def predict(
    source: PathText | Run, *, rate: str, frame: int | str = 64, rules: int = 0, store: AnyStore = None
) -> PredictionOutcome:
    """Predict one setting from the models of a run or of a model file.

    Parameters
    ----------
    rate:
        The load, such as ``300kpps`` or ``40%@10Gbit/s``.
    frame:
        Ethernet frame in bytes, FCS included, or a mix such as ``imix``.
    rules:
        Matching position: rules that are walked before a packet is accepted.
    """
    where, name = _place(source, store)
    load = outcome.PredictionLoad(parse_rate(rate), parse_sizes(str(frame)))
    return outcome.predict(where, name, load, rules)


class PlanQuestion(TypedDict, total=False):
    """What is given of a plan; what is missing is found."""

    rate: str
    """The load, such as ``300kpps``."""
    calls: int
    codec: str
    """Such as ``g711`` or ``g711:60,g729:40``."""
    frame: int
    """Bytes, FCS included."""
    rules: float
    """Mean matching position."""
    find: Sought
    require: Sequence[str]
    """Limits, such as ``p99<1ms``."""
    certainty: str
    """Share of trials that meet the answer; ``95%`` if left out."""


def plan(*models: PathText | Run, store: AnyStore = None, **question: Unpack[PlanQuestion]) -> PlanOutcome:
    """What fitted devices carry; each has an answer in ``answers``, the best of them is ``best``.

    Parameters
    ----------
    models:
        Runs with models, model files, or ``library:NAME``.
    """
    places = [_place(model, store) for model in models]
    options = PlanningOptions(
        asked=ModelOptions([name for _, name in places]),
        question=QuestionOptions(question.get("find"), certainty=question.get("certainty", "95%")),
        load=PlanLoadOptions(
            rate=question.get("rate"),
            size=SizeOptions(question.get("frame")),
            rules=question.get("rules"),
            calls=str(question["calls"]) if "calls" in question else None,
            codec=question.get("codec"),
        ),
        cpus=CpuOptions(),
        wanted=RequirementOptions(list(question.get("require", ()))),
        rules=RulesetOptions(),
    )
    return planning.plan(places[0][0] if places else _store(store), options.request())


def assess(capture: PathText, *, delay_ms: float | None = None) -> QualityOutcome:
    """How each voice stream in a capture was heard: ``streams``, and as arrays ``mos`` and ``loss_ratio``.

    Parameters
    ----------
    delay_ms:
        One-way delay of the network, which no capture shows. Without it, a MOS is an upper bound.
    """
    return capture_quality(Path(capture), CaptureReading(network_ms=delay_ms))


def command(name: str, *arguments: Any, store: AnyStore = None, **options: Any) -> CommandResult:
    """Run any command of ``weir`` in this process, and return what it would have printed.

    Parameters
    ----------
    name:
        The command, such as ``quality`` or ``tcp serve``.
    options:
        Its options, with ``_`` for ``-``: True for a flag, a list for an option that is repeated; None and
        False leave it out.

    Raises
    ------
    InputError
        There is no such command or option. Commands raise the other errors of :mod:`weirlab.base.errors`.
    """
    from weirlab.cli.program.app import result_of

    words = [] if store is None else ["--store", str(_store(store).root)]
    words += [*name.split(), *(str(argument) for argument in arguments)]
    for key, value in options.items():
        option = f"--{key.strip('_').replace('_', '-')}"
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [] if one is None or one is False else [option] if one is True else [option, str(one)]
    return result_of(words)


def _store(store: AnyStore) -> Store:
    if isinstance(store, Store):
        return store
    return Store(default_root() if store is None else Path(store))


def _place(source: PathText | Run, store: AnyStore) -> tuple[Store, str]:
    if isinstance(source, Run):
        return Store(source.path.parent), source.run_id
    return _store(store), str(source)
