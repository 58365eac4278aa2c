"""What a kind of measurement offers, so that nothing else has to know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from weirlab.jobs.work import Work

if TYPE_CHECKING:
    from weirlab.errors import WeirError
    from weirlab.lab.finding import Finding
    from weirlab.measure.calibrate import Calibration
    from weirlab.report.export import Page, ReportOutcome
    from weirlab.scenario.model import Root
    from weirlab.store import Run, RunWriter
    from weirlab.tables import Table


class Findings(Protocol):
    """What a study found."""

    def document(self) -> dict[str, Any]:
        """In plain values, for ``--json``."""

    def problem(self, run: Run) -> WeirError | None:
        """The error that it is if ``run`` does not count; None if it does."""


A = TypeVar("A", bound="Root")
"""What a scenario asks for."""
B = TypeVar("B")
"""What it is measured in."""
G = TypeVar("G", bound="Ground[Any]")
"""Where it is measured."""
F = TypeVar("F", bound=Findings)
"""What is found."""


@dataclass(frozen=True)
class Ground(Generic[B]):
    """Where a study measures."""

    bed: B
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the manifest says about it: ``lab``, ``dut`` and ``backend`` first."""
    calibration: Calibration | None = None
    """The one in force, to be kept with the run."""


@dataclass(frozen=True)
class Told:
    """A result for a terminal: the ``conclusion``, a ``remark`` on how far to trust it, then ``tables``."""

    conclusion: str
    tables: Sequence[Table] = ()
    remark: str = ""


class Study(Generic[A, G, F]):
    """A kind of measurement.

    A study that scenarios can ask for gives at least :meth:`scenario`, :meth:`measure` and :meth:`told`. One
    with commands of its own names them in :attr:`commands`. :mod:`weirlab.studies.runner` does the rest: it
    makes and resumes runs, keeps what is found, and writes reports.

    The module of a study is imported at each start of ``weir``. Its class is cheap to import, therefore, and
    its methods import what they need.
    """

    key: ClassVar[str]
    """What manifests and ``weir runs`` call the kind; also the key that tells scenarios apart."""
    title: ClassVar[str] = ""
    """What it is about, in a phrase."""
    commands: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Modules whose ``add_to(app)`` adds commands, and the names of these."""
    also: ClassVar[Sequence[str]] = ()
    """Other kinds of runs that its commands make, with pages of its own."""
    ready: ClassVar[Mapping[str, str]] = {}
    """Scenarios that come with it, by name, each with a phrase."""

    @classmethod
    def has(cls, method: Literal["scenario", "page"]) -> bool:
        """Whether the study gives ``method``."""
        return getattr(cls, method) is not getattr(Study, method)

    def scenario(self) -> type[A] | None:
        """What a scenario may say, as a pydantic model; None for a study that has none."""
        return None

    def checks(self) -> Sequence[Finding]:
        """What ``weir doctor`` says about it."""
        return ()

    def check(self, asked: A, work: Work) -> None:
        """Raise ``InputError`` for what cannot be carried out, before anything is built."""

    def open(self, asked: A, work: Work) -> AbstractContextManager[G]:
        """Where it is measured, for as long as the block lasts.

        Raises
        ------
        MissingCapability, LabError
            It cannot be built; no run is left behind.
        """
        raise NotImplementedError(f"{self.key} has no bed")

    def measure(self, ground: G, asked: A, writer: RunWriter, work: Work) -> F:
        """Measure what the run of ``writer`` has not yet; its attempts, if any, are not repeated."""
        raise NotImplementedError(f"{self.key} cannot be run")

    def conclude(self, run: Run, asked: A, found: F) -> F:
        """What is computed once the run is complete; errors do not spoil the run any more."""
        return found

    def told(self, outcome: Outcome[F]) -> Told:
        """The outcome for a terminal."""
        raise NotImplementedError(f"{self.key} has nothing to tell")

    def said(self, run: Run) -> Sequence[str]:
        """What ``run`` found, in sentences, for ``weir show``; none where there is nothing yet."""
        return ()

    def page(self, run: Run) -> Page | None:
        """The page about ``run``; None for a study without one.

        Raises
        ------
        InputError
            The run was interrupted before there was anything to show.
        """
        return None


@dataclass(frozen=True)
class Outcome(Generic[F]):
    """A finished run of a study: what was found, and the report if one was wanted."""

    study: Study[Any, Any, F]
    run: Run
    found: F
    report: ReportOutcome | None = None

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "kind": self.study.key,
            "run_id": self.run.run_id,
            "path": self.run.path,
            **self.found.document(),
            "report": None if self.report is None else self.report.document(),
        }

    def problem(self) -> WeirError | None:
        """The error that it is if the run does not count."""
        return self.found.problem(self.run)

    def told(self) -> Told:
        """For a terminal; the remark adds what the study leaves unsaid: that it is simulated, where it is."""
        told = self.study.told(self)
        said = f"{told.conclusion} {told.remark}"
        parts = [told.remark] if told.remark else []
        if self.run.simulated and "simulated" not in said.lower():
            parts.append("Simulated, not measured.")
        if self.run.run_id not in said:
            parts.append(f"Run {self.run.run_id}.")
        if self.report is not None and str(self.report.path) not in said:
            parts.append(f"Report: {self.report.path}")
        return replace(told, remark=" ".join(parts))
