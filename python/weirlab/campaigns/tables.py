"""Tables of a campaign, for terminal and page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from weirlab.base.quantities import NOTHING, bit_rate, count, duration, percent, rate
from weirlab.base.tables import Table
from weirlab.campaigns.ranking import RankRow, standings
from weirlab.campaigns.study import CampaignFindings, StepRow
from weirlab.jobs.status import WorkStatus

SHOWN: Final[Mapping[str, Callable[[float], str]]] = {
    "pps": rate,
    "ns": duration,
    "bps": bit_rate,
    "ratio": percent,
}
"""How a number is shown, by its unit."""

_MOST: Final = 40
"""Rows of a ranking beyond which it is a detail."""


def tables(found: CampaignFindings) -> Sequence[Table]:
    """How often each device is best, every comparison, and the steps without a result."""
    what = "Device" if found.by_device else "Setting"
    made = (
        Table("Comparisons", (what, "Best or as good", "Worse", "Cannot tell"), _standings(found)),
        ranking(found.ranking, what),
        Table(
            "Steps without a result",
            ("Scenario", "Device", "Setting", "Attempts", "Why"),
            [
                (
                    row.scenario,
                    row.device or NOTHING,
                    row.setting or NOTHING,
                    count(row.attempts),
                    row.problem,
                )
                for row in found.problems
            ],
        ),
    )
    return [table for table in made if table.rows]


def _standings(found: CampaignFindings) -> list[tuple[str, ...]]:
    counted = standings(found.ranking)
    if len(counted) < 2:
        return []
    return [(name, count(one.best), count(one.worse), count(one.undecided)) for name, one in counted.items()]


def ranking(rows: Sequence[RankRow], what: str) -> Table:
    """Every comparison, the best first."""
    return Table(
        "Ranking",
        ("Scenario", "Setting", "Measure", what, "Mean", "95 % interval", "To the best", "Verdict"),
        [
            (
                row.scenario,
                row.setting or NOTHING,
                row.measure,
                row.device or NOTHING,
                SHOWN[row.unit](row.mean),
                _interval(row),
                percent(row.ratio),
                row.verdict,
            )
            for row in rows
        ],
        spare=("95 % interval", "Scenario"),
        details=len(rows) > _MOST,
    )


def _interval(row: RankRow) -> str:
    if math.isnan(row.low):
        return NOTHING
    shown = SHOWN[row.unit]
    return f"{shown(row.low)} to {shown(row.high)}"


def testbeds(rows: Sequence[StepRow]) -> Table:
    """What each test bed did; without rows if there was one only."""
    beds: dict[str, list[StepRow]] = {}
    for row in rows:
        beds.setdefault(row.host, []).append(row)
    return Table(
        "Test beds",
        ("Test bed", "Steps", "Without a result", "Mean time of a step", "Tried again"),
        [
            (
                host or "none: every worker that tried died",
                count(len(own)),
                count(sum(bool(row.problem) for row in own)),
                duration(sum(row.elapsed_s for row in own) / len(own) * 1e9),
                count(sum(row.attempts > 1 for row in own)),
            )
            for host, own in sorted(beds.items())
        ]
        if len(beds) > 1
        else [],
    )


def quarantines(status: WorkStatus | None) -> Table:
    """The test beds that measured nothing any more, and why."""
    workers = () if status is None else status.workers
    rows = [(one.name, one.quarantine) for one in workers if one.quarantine]
    return Table("Test beds in quarantine", ("Test bed", "Why"), rows)


def steps(rows: Sequence[StepRow]) -> Table:
    """Every step that was tried."""
    return Table(
        "Steps",
        ("Scenario", "Device", "Setting", "Repetition", "Test bed", "Attempts", "Time", "Run"),
        [
            (
                row.scenario,
                row.device or NOTHING,
                row.setting or NOTHING,
                count(row.repetition + 1),
                row.host,
                count(row.attempts),
                duration(row.elapsed_s * 1e9),
                row.run_id or NOTHING,
            )
            for row in rows
        ],
        details=True,
    )
