"""The histograms of the times between packets on the page about capacity."""

from __future__ import annotations

import polars as pl
import pytest

from weirlab.calls.capacity.charts import figures, quantile_ns, shares
from weirlab.calls.capacity.findings import CapacityConclusions
from weirlab.calls.capacity.tables import CapacityEvidence
from weirlab.calls.capacity.trials.rows import CallGapRow, CapacityRow
from weirlab.report.numbers import duration, plural, rules
from weirlab.store.frames import frame_of

from .made import capacity_row


def gap(calls: int, place: str, lower_ns: float, count: int) -> CallGapRow:
    return CallGapRow(
        trial_id=f"t{calls}",
        direction="forward",
        place=place,
        lower_ns=lower_ns,
        upper_ns=1.1 * lower_ns or 100.0,
        count=count,
    )


ROWS = [
    gap(calls, place, lower_ns, count)
    for calls in (100, 200, 300)
    for place, bins in (("sender", [(1e5, 100)]), ("receiver", [(0.0, 60), (2e5, 40)]))
    for lower_ns, count in bins
]


def evidence(gaps: pl.DataFrame) -> CapacityEvidence:
    trials = [capacity_row(100), capacity_row(200), capacity_row(300, lost=5, loss_ratio=0.01)]
    return CapacityEvidence(
        {"facts": {"lab": "netns"}},
        frame_of(CapacityRow, trials),
        pl.DataFrame(),
        CapacityConclusions(),
        gaps,
    )


def test_gaps_are_drawn_for_the_fewest_and_for_the_most_calls_without_loss() -> None:
    found = list(figures(evidence(frame_of(CallGapRow, ROWS))))
    panels = [figure.panel for figure in found]
    assert panels == [f"{plural(calls, 'call')}, {rules(0)}, forward" for calls in (100, 200)]
    assert f"{duration(105e3)} of the one before" in found[0].title
    assert not list(figures(evidence(pl.DataFrame())))


def test_shares_add_up_at_each_place_and_the_median_is_that_of_the_gaps() -> None:
    found = shares(frame_of(CallGapRow, ROWS[:3]))
    sums = dict(found.group_by("place").agg(pl.col("percent").sum()).iter_rows())
    assert sums == {"sender": pytest.approx(100), "receiver": pytest.approx(100)}
    assert quantile_ns(found, "receiver", 0.5) < 100
    assert quantile_ns(found, "receiver", 0.9) == pytest.approx(2.1e5, rel=0.01)
