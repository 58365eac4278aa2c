"""What a reproduction found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from weirlab.base.errors import TrialError, WeirError
from weirlab.base.quantities import plural, words
from weirlab.publications import Publication
from weirlab.reproduction.contract import ReproducedExperiment, ReproductionRow
from weirlab.reproduction.pace import ReproductionTime
from weirlab.scenario.model import Section
from weirlab.store import Run

if TYPE_CHECKING:
    from weirlab.base.tables import Table
    from weirlab.report.figure import Figure
    from weirlab.report.graphs import Drawing


class ReproductionSection(Section):
    """The section ``reproduction`` of a scenario."""

    publication: str
    """As ``weir reproduce`` lists them."""
    quick: bool = False
    """In ten minutes at most, with fewer and shorter trials."""
    only: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    """Experiments; empty: all of them."""


@dataclass(frozen=True)
class ReproduciblePublication:
    """A publication, and what is made of it here."""

    about: Publication
    made: Sequence[ReproducedExperiment]
    left_out: Mapping[str, str]
    """Experiments that are not made here, and why."""
    quick: ReproductionTime
    full: ReproductionTime

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "key": self.about.key,
            "citation": self.about.citation,
            "experiments": list(self.about.experiments),
            "here": [experiment.key for experiment in self.made],
            "not_here": self.left_out,
            "expected_s": {"quick": self.quick.known_s, "full": self.full.known_s},
        }


@dataclass(frozen=True)
class ExperimentDisplay:
    """What a page shows of an experiment beside its answers."""

    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    drawing: Drawing | None = None


@dataclass(frozen=True)
class ReproductionFindings:
    """All rows of a reproduction."""

    about: Publication
    asked: ReproductionSection
    rows: tuple[ReproductionRow, ...]
    deviations: tuple[str, ...]
    """How the experiments differ from the published ones."""
    left_out: Mapping[str, str]
    """Experiments that are not made here, and why."""
    runs: Mapping[str, str]
    """IDs of the runs, by ``experiment/scenario``."""
    problems: Mapping[str, str]
    """Why scenarios could not be measured."""
    left: int
    """Scenarios not yet tried."""

    @property
    def claims(self) -> Sequence[ReproductionRow]:
        """The rows about claims."""
        return [row for row in self.rows if row.kind == "claim"]

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by verdict."""
        return Counter(row.verdict for row in self.rows)

    def verdicts(self, of: str = "") -> str:
        """How many claims hold and do not, in a sentence; ``of`` names the publication."""
        claims = Counter(row.verdict for row in self.claims)
        parts = [
            f"{claims[verdict]} {one if claims[verdict] == 1 else several}"
            for verdict, (one, several) in _PHRASES.items()
            if claims[verdict]
        ]
        return f"Of {plural(len(self.claims), 'claim')}{of}, {words(parts) or 'none was tried'}."

    @property
    def remarks(self) -> Sequence[str]:
        """How the experiments differ from the published ones, and which there are not."""
        absent = [f"{key} ({why})" for key, why in self.left_out.items()]
        return (*self.deviations, *([f"Not made here: {'; '.join(absent)}."] if absent else ()))

    @property
    def sentence(self) -> str:
        """What came out, and how many values can be compared."""
        values = [row for row in self.rows if row.kind != "claim"]
        beside = sum(row.verdict != "not here" for row in values)
        return (
            f"{self.verdicts(f' of {self.about.key}')} {beside} of {plural(len(values), 'published value')} "
            "can be compared with one of this machine."
        )

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "publication": self.about.key,
            "quick": self.asked.quick,
            "counts": dict(self.counts),
            "deviations": self.deviations,
            "not_here": self.left_out,
            "rows": self.rows,
            "runs": self.runs,
            "problems": self.problems,
        }

    def problem(self, run: Run) -> WeirError | None:
        """An error if nothing could be measured."""
        if self.problems and not self.runs:
            return TrialError(
                f"nothing of run {run.run_id} could be measured: {next(iter(self.problems.values()))}"
            )
        return None


_PHRASES: Final = {
    "holds": ("holds here", "hold here"),
    "differs": ("does not hold here", "do not hold here"),
    "cannot tell": ("could not be decided", "could not be decided"),
    "not here": ("cannot be had here", "cannot be had here"),
}
