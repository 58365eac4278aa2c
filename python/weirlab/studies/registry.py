"""All studies: Weir's own, and those that other packages register as entry points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.entries import brought
from weirlab.base.errors import InputError
from weirlab.studies.contract import Study

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from weirlab.store import Run

OWN: Final = (
    "weirlab.devices.profile:ProfileStudy",
    "weirlab.devices.series:SeriesStudy",
    "weirlab.devices.search:SearchStudy",
    "weirlab.devices.search:Rfc2544Study",
    "weirlab.calls.calls:CallsStudy",
    "weirlab.calls.quality:QualityStudy",
    "weirlab.calls.capacity:CapacityStudy",
    "weirlab.calls.failover:FailoverStudy",
    "weirlab.links.monitor:MonitorStudy",
    "weirlab.transfers.trace:TraceStudy",
    "weirlab.transfers.tcp:TcpStudy",
    "weirlab.calls.ipsec:IpsecStudy",
    "weirlab.calls.ipsec.endpoints:EndpointsStudy",
    "weirlab.calls.ipsec.cost:EspCostStudy",
    "weirlab.links.emulator:EmulatorStudy",
    "weirlab.transfers.psock:PsockStudy",
    "weirlab.transfers.parallel:ParallelStudy",
    "weirlab.numbering:VoiceStudy",
    "weirlab.numbering.load:VoiceLoadStudy",
    "weirlab.devices.prediction:PredictionStudy",
    "weirlab.devices.planning:PlanningStudy",
    "weirlab.devices.choice:ChoiceStudy",
    "weirlab.devices.library:LibraryStudy",
    "weirlab.devices.simulation:SimulationStudy",
    "weirlab.devices.comparison:ComparisonStudy",
    "weirlab.reproduction:ReproductionStudy",
    "weirlab.campaigns:CampaignStudy",
)
"""Weir's own, in the order of lists and of the help."""

GROUP: Final = "weirlab.studies"
"""The group of entry points in which other packages name classes of studies."""


AnyStudy = Study[Any, Any, Any]


@cache
def own() -> Mapping[str, AnyStudy]:
    """Weir's own studies, by their keys."""
    classes = (getattr(import_module(module), name) for module, name in (line.split(":") for line in OWN))
    return {study.key: study for study in (kind() for kind in classes)}


@cache
def studies() -> Mapping[str, AnyStudy]:
    """Every study that can be loaded, by its key: Weir's own first."""
    return {**own(), **_others()[0]}


def broken() -> Sequence[str]:
    """Why studies of other packages could not be loaded, a sentence each."""
    return _others()[1]


@cache
def _others() -> tuple[Mapping[str, AnyStudy], Sequence[str]]:
    return brought(GROUP, "study", _loaded, own())


def _loaded(point: EntryPoint) -> tuple[str, AnyStudy]:
    kind = point.load()
    if not (isinstance(kind, type) and issubclass(kind, Study)):
        raise TypeError(f"{point.value} is not a class derived from weirlab.studies.Study")
    if not isinstance(getattr(kind, "key", None), str):
        raise TypeError(f"{point.value} has no key")
    return kind.key, kind()


def kinds() -> list[str]:
    """Every kind of run."""
    made = (study for study in studies().values() if study.has("page") or study.has("scenario"))
    return [kind for study in made for kind in (study.key, *study.also)]


def study_of(run: Run) -> AnyStudy:
    """The study that made ``run``.

    Raises
    ------
    InputError
        It belongs to a package that is not installed.
    """
    kind = run.manifest.kind
    for study in studies().values():
        if kind in (study.key, *study.also):
            return study
    raise InputError(
        f"run {run.run_id} is of the kind {kind!r}, which no installed package knows; install the package "
        "that made it, or export its tables with: weir export"
    )
