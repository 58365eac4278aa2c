"""What the calls of a run prove about their plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from weirlab.base.errors import NotMet
from weirlab.base.quantities import duration, plural, words
from weirlab.numbering.proof import kinds
from weirlab.numbering.proof.rows import NOT_AS_PLANNED, NOT_TRIED, ProofCallRow, titled
from weirlab.numbering.through.rows import PassageRow, silent
from weirlab.store import Run

MOST_LISTED: Final = 3
"""Calls and reasons that an error names; the table has all."""
UNEVEN_MS: Final = 5.0
"""Mean jitter from which speech came unevenly: a quarter of the usual packet time."""


@dataclass(frozen=True)
class ProofFindings:
    """Every call of a run."""

    plan: str
    rows: tuple[ProofCallRow, ...]
    partly: bool
    """Do calls that could not be tried not count?"""
    device: str = ""
    """The device that the calls passed; empty for none."""
    passed: tuple[PassageRow, ...] = ()
    """Packets that passed the device."""

    @property
    def failed(self) -> list[ProofCallRow]:
        """Calls that did not go as planned."""
        return [row for row in self.rows if row.verdict == NOT_AS_PLANNED]

    @property
    def left_out(self) -> list[ProofCallRow]:
        """Calls that were not tried."""
        return [row for row in self.rows if row.verdict == NOT_TRIED]

    @property
    def proved(self) -> list[ProofCallRow]:
        """Calls that went as planned."""
        return [row for row in self.rows if row.proved]

    @property
    def kinds(self) -> list[kinds.RouteKind]:
        """Kinds of routes that the calls are examples of; those of calls left out do not count."""
        return kinds.listed([row for row in self.rows if not (self.partly and row.verdict == NOT_TRIED)])

    @property
    def uneven(self) -> list[ProofCallRow]:
        """Calls whose speech this machine sent unevenly: nothing else is between the endpoints."""
        return [] if self.device else [row for row in self.rows if row.jitter_ms > UNEVEN_MS]

    @property
    def sentence(self) -> str:
        """The conclusion of the proof."""
        tried = len(self.rows) - len(self.left_out)
        said = f"{len(self.proved)} of {plural(tried, 'call')} went as the plan {self.plan} says"
        if self.device:
            said += f", through {self.device}{silent(self.passed, 'call')}"
        if listed := self.kinds:
            good = sum(kind.good for kind in listed)
            said += f"; {good} of {plural(len(listed), 'kind')} of routes are proved"
        if self.left_out:
            said += f"; {plural(len(self.left_out), 'call')} could not be tried"
        if uneven := self.uneven:
            most = duration(max(row.jitter_ms for row in uneven) * 1e6)
            said += (
                f". This machine was busy: speech of {plural(len(uneven), 'call')} had a jitter of up to "
                f"{most}, so MOS there is that of the machine, not of the plan"
            )
        return f"{said}."

    def document(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "proved": self.problem(None) is None,
            "kinds": [
                {"kind": kind.name, "good": kind.good, "proved": kind.proved, "failed": kind.failed}
                for kind in self.kinds
            ],
            "calls": self.rows,
            **({"device": {"name": self.device, "packets": self.passed}} if self.device else {}),
        }

    def problem(self, run: Run | None) -> NotMet | None:
        """The error to raise if the plan is not proved."""
        if self.failed:
            listed = "; ".join(f"{titled(row)}: {row.why}" for row in self.failed[:MOST_LISTED])
            if (more := len(self.failed) - MOST_LISTED) > 0:
                listed += f"; and {more:,} more"
            return NotMet(f"{plural(len(self.failed), 'call')} did not go as planned: {listed}")
        if self.left_out and not self.partly:
            reasons = words(list(dict.fromkeys(row.why for row in self.left_out)), most=MOST_LISTED)
            count = plural(len(self.left_out), "call")
            return NotMet(f"{count} could not be tried: {reasons}; --partly leaves such calls out")
        return None
