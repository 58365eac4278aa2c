"""Requirements on the command line: parsed before the work, reported after it, with an exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import NotMet, Undecided, WeirError
from weirlab.base.tables import Table
from weirlab.cli.output import Session
from weirlab.cli.quantities import NOTHING

_TOLD: Final = 3
"""Requirements that a message names."""

if TYPE_CHECKING:
    from weirlab.requirements import Demand, DemandJudgement, Quantity


def demands(texts: Sequence[str] | None, known: Sequence[Quantity]) -> tuple[Demand, ...]:
    """The demands of ``--require``; raises an ``InputError`` that names the ``known`` quantities."""
    from weirlab.requirements import parse

    return tuple(parse(text, known) for text in texts or ())


def finish(
    session: Session,
    document: Mapping[str, Any],
    conclusion: str,
    tables: Iterable[Table],
    judged: Sequence[DemandJudgement],
    problem: WeirError | None = None,
) -> None:
    """Print the result and the verdicts on the requirements, and exit with the resulting code.

    A requirement that is not met takes precedence over a ``problem`` with the rest of the result, and
    a problem takes precedence over an undecided requirement, since it is the cause.
    """
    if judged:
        document = {**document, "requirements": [one.document() for one in judged]}
        tables = [*tables, table(judged)]
    session.finish(document, conclusion, tables, problem)
    session.complain(worse(failure(judged), problem))


def table(judged: Sequence[DemandJudgement], how: str = "Measured") -> Table:
    """One row per requirement; ``how`` its values came to be known."""
    rows = [(one.demand.text, one.verdict, one.measured, one.because) for one in judged]
    return Table("Requirements", ("Requirement", "Verdict", how, "Remark"), rows)


def failure(judged: Sequence[DemandJudgement]) -> WeirError | None:
    """The error if not every requirement is met, else None."""
    if missed := [one for one in judged if one.verdict == "not met"]:
        return NotMet(f"not met: {_told(missed)}")
    if left := [one for one in judged if one.verdict == "undecided"]:
        return Undecided(f"undecided: {_told(left)}")
    return None


def worse(verdict: WeirError | None, problem: WeirError | None) -> WeirError | None:
    """Of the requirements' ``verdict`` and a ``problem`` with the result, the one that sets the exit code."""
    return verdict if isinstance(verdict, NotMet) else problem or verdict


def _told(judged: Sequence[DemandJudgement]) -> str:
    """The first requirements and their measured values: ``p99<1ms (1.30 ms)``; the table has all of them."""
    parts: dict[str, None] = {}
    for one in judged:
        known = "; ".join(part for part in (one.measured, one.because) if part not in ("", NOTHING))
        parts[f"{one.demand.text} ({known})" if known else one.demand.text] = None
    shown = list(parts)[:_TOLD]
    more = len(parts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
