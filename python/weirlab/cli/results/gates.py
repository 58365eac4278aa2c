"""Requirements on the command line: read before the work, told after it, and the exit code that follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weirlab.cli.output import Session
from weirlab.cli.quantities import NOTHING
from weirlab.errors import NotMet, Undecided, WeirError
from weirlab.tables import Table

if TYPE_CHECKING:
    from weirlab.requirements import Demand, Judgement, Quantity


def demands(texts: Sequence[str] | None, known: Sequence[Quantity]) -> tuple[Demand, ...]:
    """What ``--require`` asks for; raises ``InputError`` that names the ``known`` quantities."""
    from weirlab.requirements import parse

    return tuple(parse(text, known) for text in texts or ())


def finish(
    session: Session,
    document: Mapping[str, Any],
    conclusion: str,
    tables: Iterable[Table],
    judged: Sequence[Judgement],
    problem: WeirError | None = None,
) -> None:
    """Print the result with what became of the requirements, and leave with the exit code.

    A requirement that is not met counts more than a ``problem`` with the rest of the result, and a
    problem more than what is undecided, since it is the cause.
    """
    if judged:
        document = {**document, "requirements": [one.document() for one in judged]}
        tables = [*tables, table(judged)]
    session.finish(document, conclusion, tables, problem)
    session.complain(worse(failure(judged), problem))


def table(judged: Sequence[Judgement]) -> Table:
    """One row per requirement."""
    rows = [(one.demand.text, one.verdict, one.measured, one.because) for one in judged]
    return Table("Requirements", ("Requirement", "Verdict", "Measured", "Remark"), rows)


def failure(judged: Sequence[Judgement]) -> WeirError | None:
    """The error that it is if not every requirement is met."""
    if missed := [one for one in judged if one.verdict == "not met"]:
        return NotMet(f"not met: {_told(missed)}")
    if left := [one for one in judged if one.verdict == "undecided"]:
        return Undecided(f"undecided: {_told(left)}")
    return None


def worse(verdict: WeirError | None, problem: WeirError | None) -> WeirError | None:
    """Of what requirements come to and a problem with the result, what the exit code tells."""
    return verdict if isinstance(verdict, NotMet) else problem or verdict


def _told(judged: Sequence[Judgement]) -> str:
    """``p99<1ms (1.30 ms)``."""
    parts = []
    for one in judged:
        known = "; ".join(part for part in (one.measured, one.because) if part not in ("", NOTHING))
        parts.append(f"{one.demand.text} ({known})" if known else one.demand.text)
    return ", ".join(parts)
