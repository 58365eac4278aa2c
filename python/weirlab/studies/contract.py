"""The interface that every kind of measurement implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from weirlab.base.documents import Measured
from weirlab.jobs.work import Work

if TYPE_CHECKING:
    from weirlab.base.errors import WeirError
    from weirlab.base.tables import Table
    from weirlab.lab.finding import Finding
    from weirlab.measure.calibrate import Calibration
    from weirlab.report.export import Page, ReportOutcome
    from weirlab.scenario.model import Root
    from weirlab.store import Run, RunWriter


class Findings(Protocol):
    """What a study found."""

    def document(self) -> dict[str, Any]:
        """The findings in plain values, for ``--json``."""

    def problem(self, run: Run) -> WeirError | None:
        """The error to report if ``run`` does not count; None if it does."""


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
    """What the manifest records about it: ``lab``, ``dut`` and ``backend`` first."""
    calibration: Calibration | None = None
    """The calibration in force, stored with the run."""


@dataclass(frozen=True)
class Summary:
    """A result for a terminal: the ``conclusion``, a ``remark`` on how far to trust it, then ``tables``."""

    conclusion: str
    tables: Sequence[Table] = ()
    remark: str = ""


@dataclass(frozen=True)
class Measure:
    """A number that a run found, to be compared with that of other runs."""

    name: str
    """What it is and where, e.g. ``forwarding rate, 100 rules, 64 B``; the same in all runs."""
    value: Measured
    unit: Literal["pps", "ns", "ratio", "bps"]
    better: Literal["more", "less"]


class Study(Generic[A, G, F]):
    """A kind of measurement.

    A study that has scenarios implements at least :meth:`scenario`, :meth:`measure` and :meth:`summarize`. A
    study with its own commands lists them in :attr:`commands`. :mod:`weirlab.studies.runner` does the rest:
    it creates and resumes runs, stores what is found, and writes reports.

    Weir's own are imported when they are used; every start of ``weir`` imports those of other packages, which
    should therefore be cheap to import.
    """

    key: ClassVar[str]
    """The name of the kind in manifests and ``weir runs``, and the top-level key of its scenarios."""
    title: ClassVar[str] = ""
    """What the study is about, in a phrase."""
    commands: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Modules whose ``add_to(app)`` adds commands, with the names of the commands."""
    also: ClassVar[Sequence[str]] = ()
    """Other kinds of runs that its commands make and that it has pages for."""
    ready: ClassVar[Mapping[str, str]] = {}
    """Ready-made scenarios, by name, each with a short description."""

    @classmethod
    def has(cls, method: Literal["scenario", "page"]) -> bool:
        """Whether the study implements ``method``."""
        return getattr(cls, method) is not getattr(Study, method)

    def scenario(self) -> type[A] | None:
        """The pydantic model of its scenarios; None for a study without scenarios."""
        return None

    def checks(self) -> Sequence[Finding]:
        """The findings that it adds to ``weir doctor``."""
        return ()

    def check(self, asked: A, work: Work) -> None:
        """Raise ``InputError``, before anything is built, if ``asked`` cannot be carried out."""

    def open(self, asked: A, work: Work) -> AbstractContextManager[G]:
        """Open what the study measures in, for the duration of the ``with`` block.

        Raises
        ------
        MissingCapability, LabError
            It cannot be built; no run is left behind.
        """
        raise NotImplementedError(f"{self.key} has no bed")

    def measure(self, ground: G, asked: A, writer: RunWriter, work: Work) -> F:
        """Measure what the run of ``writer`` does not have yet, without repeating its attempts."""
        raise NotImplementedError(f"{self.key} cannot be run")

    def conclude(self, run: Run, asked: A, found: F) -> F:
        """Compute what follows from the complete run; an error here no longer spoils the run."""
        return found

    def summarize(self, outcome: Outcome[F]) -> Summary:
        """The outcome for a terminal."""
        raise NotImplementedError(f"{self.key} has nothing to tell")

    def expected_s(self, asked: A) -> float | None:
        """Wall time in s that ``asked`` should take; None if that is not known."""
        return None

    def measures(self, run: Run) -> Sequence[Measure]:
        """The numbers of ``run`` by which devices can be ranked; empty if there are none."""
        return ()

    def headlines(self, run: Run) -> Sequence[str]:
        """What ``run`` found, in sentences, for ``weir show``; empty if there is nothing yet."""
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
        """The outcome for ``--json``."""
        return {
            "kind": self.study.key,
            "run_id": self.run.run_id,
            "path": self.run.path,
            **self.found.document(),
            "report": None if self.report is None else self.report.document(),
        }

    def problem(self) -> WeirError | None:
        """The error to report if the run does not count; None if it does."""
        return self.found.problem(self.run)

    def _repr_html_(self) -> str:
        """The outcome as a notebook shows it."""
        from weirlab.report import notebook

        summary = self.summary()
        problem = self.problem()
        remarks = [summary.remark, *([] if problem is None else [str(problem)])]
        return notebook.cell(summary.conclusion, summary.tables, remarks)

    def summary(self) -> Summary:
        """The outcome for a terminal; the remark adds simulation, run and report if the study did not."""
        summary = self.study.summarize(self)
        text = f"{summary.conclusion} {summary.remark}"
        parts = [summary.remark] if summary.remark else []
        if self.run.simulated and "simulated" not in text.lower():
            parts.append("Simulated, not measured.")
        if self.run.run_id not in text:
            parts.append(f"Run {self.run.run_id}.")
        if self.report is not None and str(self.report.path) not in text:
            parts.append(f"Report: {self.report.path}")
        return replace(summary, remark=" ".join(parts))
