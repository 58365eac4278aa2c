"""All studies: Weir's own, and those that other packages register as entry points."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.entries import brought
from weirlab.base.errors import InputError
from weirlab.studies.contract import Study

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from weirlab.store import Run

AnyStudy = Study[Any, Any, Any]

SCENARIO: Final = "scenario"
PAGE: Final = "page"


@dataclass(frozen=True)
class StudyEntry:
    """What is known of a study before its module is imported, which takes long."""

    module: str
    name: str
    """Of its class."""
    provides: Collection[str] = (SCENARIO, PAGE)
    """Which of these it implements."""
    also: Sequence[str] = ()
    """Other kinds of runs that its commands make and that it has pages for."""
    ready: Mapping[str, str] = field(default_factory=dict)
    """Ready-made scenarios, by name, each with a short description."""

    @classmethod
    def of(cls, kind: type[AnyStudy]) -> StudyEntry:
        """The entry of a study of another package."""
        provides = [method for method in (SCENARIO, PAGE) if kind.has(method)]
        return cls(kind.__module__, kind.__qualname__, provides, kind.also, kind.ready)

    @property
    def folder(self) -> Path:
        """Where its module is."""
        spec = find_spec(self.module)
        return Path(str(spec and spec.origin)).parent


OWN: Final[Mapping[str, StudyEntry]] = {
    "profile": StudyEntry(
        "weirlab.devices.profile.study",
        "ProfileStudy",
        also=("trial", "verify", "calibrate"),
        ready={
            "firewall-rules": "what rules cost: measured, modelled, predicted, verified",
            "full-profile": "every trial that characterises a device",
        },
    ),
    "series": StudyEntry("weirlab.devices.series", "SeriesStudy"),
    "search": StudyEntry("weirlab.devices.search", "SearchStudy", (PAGE,)),
    "rfc2544": StudyEntry("weirlab.devices.search", "Rfc2544Study", (PAGE,)),
    "calls": StudyEntry("weirlab.calls.calls", "CallsStudy", (PAGE,)),
    "capacity": StudyEntry(
        "weirlab.calls.capacity.study",
        "CapacityStudy",
        ready={"call-capacity": "how many calls a device carries, measured and predicted"},
    ),
    "failover": StudyEntry(
        "weirlab.calls.failover.study",
        "FailoverStudy",
        ready={"failover": "redundant pairs: protocols, timers and states compared"},
    ),
    "monitor": StudyEntry(
        "weirlab.links.monitor.study",
        "MonitorStudy",
        ready={"link-monitor": "a link monitor tested and compared with tcpdump"},
    ),
    "tcp": StudyEntry(
        "weirlab.transfers.tcp.study.running",
        "TcpStudy",
        ready={"slow-transfer": "why a TCP transfer over a long path is slow"},
    ),
    "endpoints": StudyEntry("weirlab.calls.ipsec.endpoints.study", "EndpointsStudy"),
    "esp": StudyEntry("weirlab.calls.ipsec.cost_study", "EspCostStudy"),
    "psock": StudyEntry("weirlab.transfers.psock", "PsockStudy", ()),
    "parallel": StudyEntry(
        "weirlab.transfers.parallel.study",
        "ParallelStudy",
        ready={
            "parallel-sockets": "several TCP streams as one, over paths of unequal rate and delay",
            "parallel-sockets-full": (
                "the same with every scheduler, at the ratios and times of the psock report"
            ),
            "parallel-sockets-fair": (
                "the same beside one TCP stream on the same path, with and without --fair"
            ),
        },
    ),
    "voice": StudyEntry(
        "weirlab.numbering.proof.study",
        "VoiceStudy",
        ready={"voice-routing": "a numbering plan proved by calls through Kamailio and BIND"},
    ),
    "voice_load": StudyEntry("weirlab.numbering.load.study", "VoiceLoadStudy"),
    "simulation": StudyEntry("weirlab.devices.simulation", "SimulationStudy"),
    "comparison": StudyEntry("weirlab.devices.comparison", "ComparisonStudy", (PAGE,)),
    "reproduction": StudyEntry("weirlab.reproduction.study", "ReproductionStudy"),
    "campaign": StudyEntry("weirlab.campaigns", "CampaignStudy"),
}
"""Weir's own, by their keys, in the order of lists and of the help."""

GROUP: Final = "weirlab.studies"
"""The group of entry points in which other packages name classes of studies."""


class StudyTable(MutableMapping[str, AnyStudy]):
    """Studies by their keys, each imported when it is looked up."""

    def __init__(self, known: Mapping[str, StudyEntry]) -> None:
        self._known, self._loaded = known, dict[str, AnyStudy]()

    def __getitem__(self, key: str) -> AnyStudy:
        if key not in self._loaded:
            entry = self._known[key]
            self._loaded[key] = getattr(import_module(entry.module), entry.name)()
        return self._loaded[key]

    def __setitem__(self, key: str, study: AnyStudy) -> None:
        self._loaded[key] = study

    def __delitem__(self, key: str) -> None:
        del self._loaded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@cache
def entries() -> Mapping[str, StudyEntry]:
    """Every study that can be loaded, by its key: Weir's own first."""
    return {**OWN, **{key: StudyEntry.of(type(study)) for key, study in outside().items()}}


@cache
def studies() -> MutableMapping[str, AnyStudy]:
    """As :func:`entries`, the studies themselves."""
    return StudyTable(entries())


def outside() -> Mapping[str, AnyStudy]:
    """The studies of other packages."""
    return _others()[0]


def broken() -> Sequence[str]:
    """Why studies of other packages could not be loaded, a sentence each."""
    return _others()[1]


@cache
def _others() -> tuple[Mapping[str, AnyStudy], Sequence[str]]:
    return brought(GROUP, "study", _loaded, OWN)


def _loaded(point: EntryPoint) -> tuple[str, AnyStudy]:
    kind = point.load()
    if not (isinstance(kind, type) and issubclass(kind, Study)):
        raise TypeError(f"{point.value} is not a class derived from weirlab.studies.Study")
    if not isinstance(getattr(kind, "key", None), str):
        raise TypeError(f"{point.value} has no key")
    return kind.key, kind()


def providing(method: str) -> tuple[str, ...]:
    """The keys of the studies that implement ``method``: ``scenario`` or ``page``."""
    return tuple(key for key, entry in entries().items() if method in entry.provides)


def kinds() -> list[str]:
    """Every kind of run."""
    return [kind for key, entry in entries().items() if entry.provides for kind in (key, *entry.also)]


def study_of(run: Run) -> AnyStudy:
    """The study that made ``run``.

    Raises
    ------
    InputError
        It belongs to a package that is not installed.
    """
    kind = run.manifest.kind
    for key, entry in entries().items():
        if kind in (key, *entry.also):
            return studies()[key]
    raise InputError(
        f"run {run.run_id} is of the kind {kind!r}, which no installed package knows; install the package "
        "that made it, or export its tables with: weir export"
    )
