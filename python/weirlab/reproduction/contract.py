"""What a reproduction of a publication consists of: experiments, which answer its values and claims."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from weirlab.publications import PublishedClaim, PublishedExperiment, PublishedValue

if TYPE_CHECKING:
    from weirlab.base.tables import Table
    from weirlab.report.figure import Figure
    from weirlab.report.graphs import Drawing
    from weirlab.store import Run

ROWS: Final = "answers"
"""The table of a run that has the rows."""

Verdict = Literal["holds", "differs", "cannot tell", "beside", "not here"]
"""``beside``: shown beside the published value and not judged, because it is the hardware's."""

NOT_MADE: Final = "not made here"
"""The problem of an experiment that has no class here."""

Runs = Mapping[str, "Run"]
"""The runs of an experiment, by the names of its scenarios; without those that could not be measured."""


@dataclass(frozen=True)
class Decision:
    """Whether a claim holds."""

    verdict: Verdict
    rule: str
    """The test, e.g. ``R² of a line at least 0.98``."""
    found: str
    """What it was applied to, e.g. ``R² 0.997``."""


@dataclass(frozen=True)
class Answer:
    """What was measured for one published value, in its unit, or how one claim was decided."""

    key: str
    """Of the value or the claim."""
    here: float = math.nan
    decision: Decision | None = None
    """None: the value is shown beside the published one, and not judged."""


@dataclass(frozen=True)
class ReproductionRow:
    """A published value or claim, and what was measured here."""

    experiment: str
    """Key of the experiment in the publication's file."""
    key: str
    """Key of the value or claim."""
    what: str
    """What the value is, or what is claimed."""
    kind: str
    """`claim`, or how the authors came by the value."""
    unit: str
    """Unit of `published` and `here`; empty for a claim."""
    published: str
    """The value as published; empty for a claim."""
    here: float
    """What was measured or computed here; NaN if there is no number."""
    ratio: float
    """Here to published; NaN for a claim and for a range."""
    verdict: str
    """`holds`, `differs`, `cannot tell`, `beside` (not judged) or `not here`."""
    rule: str
    """The test of a claim."""
    found: str
    """What the test found; why there is no answer."""
    where: str
    """Place in the publication."""


class ReproducedExperiment(ABC):
    """One experiment of a publication, as it is made here."""

    key: ClassVar[str]
    """Of the experiment in the publication's file."""
    deviations: ClassVar[Sequence[str]] = ()
    """How it differs from the published one, in sentences."""

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        """The scenarios to run, as in their files, by name; empty if everything is computed."""
        return {}

    @abstractmethod
    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        """An answer for each value and claim that ``runs`` can answer."""

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        """Charts of the experiment, if a table is not enough."""
        return ()

    def drawing(self, runs: Runs) -> Drawing | None:
        """A drawing of what was measured, such as the map of a network."""
        return None

    def tables(self, runs: Runs, published: PublishedExperiment) -> Sequence[Table]:
        """Further tables for the page, beside that of the answers."""
        return ()


def rows(
    published: PublishedExperiment, answers: Mapping[str, Answer], problem: str
) -> Iterator[ReproductionRow]:
    """A row for each value and claim of an experiment; ``problem`` is why there are no answers."""
    for value in published.values.values():
        yield _value_row(published, value, answers.get(value.key), problem)
    for claim in published.claims.values():
        yield _claim_row(published, claim, answers.get(claim.key), problem)


def _value_row(
    published: PublishedExperiment, value: PublishedValue, answer: Answer | None, problem: str
) -> ReproductionRow:
    here = math.nan if answer is None else answer.here
    single = value.low == value.high
    verdict: Verdict = "beside"
    rule, found = "", ""
    if answer is None:
        verdict, found = "not here", value.absent or published.absent or problem
    elif answer.decision is not None:
        verdict, rule, found = answer.decision.verdict, answer.decision.rule, answer.decision.found
    return ReproductionRow(
        experiment=published.key,
        key=value.key,
        what=value.what,
        kind=value.kind,
        unit=value.unit,
        published=value.text,
        here=here,
        ratio=here / value.low if single and value.low else math.nan,
        verdict=verdict,
        rule=rule,
        found=found,
        where=published.where,
    )


def _unanswered(reason: str, problem: str) -> Verdict:
    """Of a claim without an answer: for a ``reason`` that the file gives, or for want of measurements."""
    return "not here" if reason or problem == NOT_MADE else "cannot tell"


def _claim_row(
    published: PublishedExperiment, claim: PublishedClaim, answer: Answer | None, problem: str
) -> ReproductionRow:
    decision = None if answer is None else answer.decision
    reason = claim.absent or published.absent or problem
    return ReproductionRow(
        experiment=published.key,
        key=claim.key,
        what=claim.says,
        kind="claim",
        unit="",
        published="",
        here=math.nan,
        ratio=math.nan,
        verdict=_unanswered(claim.absent or published.absent, problem)
        if decision is None
        else decision.verdict,
        rule="" if decision is None else decision.rule,
        found=reason if decision is None else decision.found,
        where=published.where,
    )
