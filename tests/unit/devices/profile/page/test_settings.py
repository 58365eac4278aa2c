"""What the page says about settings: frame sizes, rule counts, effects beside the grid, the machine."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl
import pytest

from weirlab.devices.profile.page import distributions
from weirlab.devices.profile.page.settings import beside, machine, sizes
from weirlab.devices.profile.page.source import ProfileEvidence, gather
from weirlab.devices.profile.page.story import tell
from weirlab.model.effects import Effect, Kind
from weirlab.report.numbers import rules

from .conftest import SyntheticRun


@pytest.fixture(scope="module")
def evidence(run: SyntheticRun) -> ProfileEvidence:
    return gather(run, {})


def test_delay_is_drawn_over_the_frame_size_and_over_both(evidence: ProfileEvidence) -> None:
    lines, surface = sizes.figures(evidence)
    assert lines.data["frame_bytes"].unique().sort().to_list() == [64.0, 594.0, 1518.0]
    assert lines.data["load_percent"].max() <= 100
    at_half = lines.data.filter(load_percent=50) if 50 in lines.data["load_percent"] else lines.data
    assert at_half.sort("frame_bytes")["delay_us"].is_sorted() or at_half.height > 3
    assert "longest frames" in lines.title
    assert surface.data.height == lines.data.height


def test_two_frame_sizes_make_no_course(small_run: SyntheticRun) -> None:
    assert not list(sizes.figures(gather(small_run, {})))


def test_every_rule_count_has_its_boxes(evidence: ProfileEvidence) -> None:
    [figure] = distributions.figures(evidence, "64-byte frames")
    names = figure.data["row"].unique(maintain_order=True).to_list()
    assert names[0].startswith(rules(0))
    assert len(names) >= 3
    medians = figure.data.filter(share=0.0)
    assert medians["low"][0] < medians["low"][-1]


def effect(kind: Kind, quantity: str, ratio: float, places: str = "") -> Effect:
    return Effect(
        kind=kind,
        position=400,
        frame_bytes=64,
        places=places,
        regime="below the threshold",
        quantity=quantity,
        ratio=ratio,
        low=0.9 * ratio,
        high=math.nan if places else 1.1 * ratio,
        loads=2,
        trials=12,
    )


def test_effects_beside_the_grid_are_drawn_with_their_intervals(evidence: ProfileEvidence) -> None:
    found = (
        effect("connection tracking", "delay_mean_ns", 1.5),
        effect("connection tracking", "delay_p99_ns", 9.0),
        effect("mixed positions", "forwarding_pps", 0.8, "50:50,750:50"),
    )
    [figure] = beside.figures(found)
    assert figure.data["row"].to_list() == [
        "connection tracking, 400 rules: mean delay",
        "mixed positions, 50:50,750:50: forwarding rate",
    ]
    assert figure.data["high"].to_list() == pytest.approx([1.65, 0.8])
    assert "connection tracking, 400 rules: mean delay, 1.5" in figure.title
    chapter = beside.chapter(found)
    assert len(chapter.details[0].rows) == 3
    assert "beside" in {each.key for each in tell(replace(evidence, effects=found)).chapters}
    assert "beside" not in {each.key for each in tell(evidence).chapters}
    assert not beside.figures(found[1:2])


def test_the_machine_is_drawn_and_trials_at_another_clock_are_marked(small_run: SyntheticRun) -> None:
    n = small_run.frame.height
    clock = [2000.0] * (n - 2) + [1700.0] * 2
    frame = small_run.frame.with_columns(
        frequency_mhz=pl.Series(clock[::-1]), memory_used_bytes=pl.Series([10**9] * n), temperature_c=None
    )
    found = list(machine.figures(gather(replace(small_run, frame=frame), {})))
    assert [figure.key for figure in found] == ["machine-frequency", "machine-memory"]
    marked = found[0].data.filter(clock="other")
    assert marked["value"].unique().to_list() == [1700.0]
    assert f"{marked.height} trial" in found[0].title.replace("\u00a0", " ")
    assert not list(machine.figures(gather(small_run, {})))
