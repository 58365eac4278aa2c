"""What was the cause, against what the diagnosis named first: a table for each place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

UNKNOWN = "unknown"


class Verdict(Protocol):
    """A diagnosis, and what is right."""

    @property
    def case(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def named(self) -> str: ...
    @property
    def confidence(self) -> str: ...
    @property
    def void(self) -> str: ...
    @property
    def names_it(self) -> bool: ...
    @property
    def untold(self) -> bool: ...


def outcome(row: Verdict) -> str:
    """``right``, ``cannot tell`` or ``wrong``."""
    if row.names_it:
        return "right"
    return "cannot tell" if row.untold or row.named in (UNKNOWN, "") else "wrong"


def markdown(rows: Sequence[Verdict]) -> str:
    """Counts by place, and the matrix of each place."""
    real = [row for row in rows if not row.void]
    places = list(dict.fromkeys(row.source for row in real))
    head = "| from | diagnoses | right | cannot tell | wrong | wrong, high | right of named | right of high |"
    parts = ["\n".join([head, "|---" * 8 + "|", *(_counts(place, real) for place in places)])]
    for place in places:
        parts.append(f"From {place}:\n\n{_matrix([row for row in real if row.source == place])}")
    return "\n\n".join(parts) + "\n"


def _counts(place: str, rows: Iterable[Verdict]) -> str:
    own = [row for row in rows if row.source == place]
    found = Counter(outcome(row) for row in own)
    high = Counter(outcome(row) for row in own if row.confidence == "high" and row.named != UNKNOWN)
    named = found["right"] + found["wrong"]
    cells = [
        place, len(own), found["right"], found["cannot tell"], found["wrong"], high["wrong"],
        _share(found["right"], named), _share(high["right"], high["right"] + high["wrong"]),
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _matrix(rows: Sequence[Verdict]) -> str:
    """Cells: how many named the cause, and how many of them with high confidence; right ones are bold."""
    named = sorted({row.named or "nothing" for row in rows})
    lines = [f"| cause | {' | '.join(named)} |", "|---" * (len(named) + 1) + "|"]
    for case in dict.fromkeys(row.case for row in rows):
        own = [row for row in rows if row.case == case]
        lines.append(f"| {case} | {' | '.join(_cell(own, name) for name in named)} |")
    return "\n".join(lines)


def _cell(rows: Sequence[Verdict], name: str) -> str:
    own = [row for row in rows if (row.named or "nothing") == name]
    if not own:
        return ""
    high = sum(row.confidence == "high" for row in own)
    text = f"{len(own)}/{high}" if high else f"{len(own)}"
    return {"right": f"**{text}**", "cannot tell": f"{text} †", "wrong": text}[outcome(own[0])]
