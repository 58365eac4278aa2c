"""What each engine does of a plan, what it cannot do, and what Weir does not write for it."""

from __future__ import annotations

from typing import Final

from weirlab.base.tables import Table
from weirlab.numbering.plan.values import Kind
from weirlab.numbering.routing import PlanNetwork

ENGINES: Final[tuple[tuple[str, Kind], ...]] = (
    ("Kamailio", "proxy"),
    ("Asterisk", "gateway"),
    ("Weir's gatekeeper", "gatekeeper"),
    ("GNU Gatekeeper", "gatekeeper"),
)
YES: Final = "yes"
ROWS: Final = (
    ("routes, strip, prepend", YES, YES, YES, "no: prepend for all numbers; strip beyond the prefix"),
    ("next target of a route", "no answer for 3 s, 404, 408, 482, 483, 488, 5xx", "no answer, refusal",
     "no: learns no answer (direct mode)", "no: learns no answer (direct mode)"),
    ("after_trees", YES, "no: queries no trees", "no: learns no answer", "no: learns no answer"),
    ("trees", "E2U+sip, E2U+h323; delimiter !, 6 groups, no sips:", "not written", YES, "without hand_over"),
    ("hand_over", YES, "no: queries no trees", YES, "no"),
    ("rewrite", "whole numbers (^ to $), without / and quotes", r"first digits ^00(.*)$, one number ^(112)$",
     "no", "no"),
    ("admits", "403", "cause 21", "ARJ, LRJ", "not written: all calls pass"),
    ("barred, may_call", "403", "cause 21", "ARJ", "not written: all calls pass"),
    ("most_calls", "503", "cause 34", "ARJ", "not written"),
    ("one spelling of a number", YES, "yes; tel: is refused (416)", "digits alone", "digits alone"),
    ("request for an unknown call", "481", "481", "no signalling", "no signalling"),
)  # fmt: skip
"""A part of a plan, and what each of :data:`ENGINES` does of it."""


def abilities(network: PlanNetwork) -> Table:
    """What the engines of a plan do."""
    kinds = {engine.kind for engine in network.plan.engines.values()}
    shown = [rank for rank, (_, kind) in enumerate(ENGINES, 1) if kind in kinds]
    rows = [(row[0], *(row[rank] for rank in shown)) for row in ROWS]
    columns = ("Plan", *(ENGINES[rank - 1][0] for rank in shown))
    return Table("What engines do of a plan, as Weir writes it", columns, rows, details=True)
