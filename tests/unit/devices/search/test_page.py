"""The pages about searches and about the tests of RFC 2544."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from weirlab.devices.search import Rfc2544Study, SearchStudy, tables
from weirlab.devices.search.page import Rfc2544Evidence, ThroughputEvidence, charts, tell, tell_rfc2544
from weirlab.devices.search.rfc2544.bursts import BackToBackResult
from weirlab.devices.search.rfc2544.suite import (
    TESTS,
    LatencyResult,
    LossCurve,
    LossPoint,
    Result,
    Rfc2544Suite,
    Test,
)
from weirlab.devices.search.wording import rfc2544_sentence, search_sentence
from weirlab.measure.search.goal import NDR, PDR, GoalResult, SearchGoal
from weirlab.measure.search.throughput import Point, SearchShape, Setting
from weirlab.records import RuleSetup
from weirlab.report.story import Chapter, Story
from weirlab.scenario import Dut, Lab
from weirlab.store import Store
from weirlab.studies.reports import report
from weirlab.traffic.sizes import Constant


def found(
    lower: float | None, upper: float | None, *, goal: SearchGoal = NDR, at_least: bool = False
) -> GoalResult:
    return GoalResult(goal, lower, lower, upper, None if lower is None else 0.0, at_least)


def setting(size: str) -> Setting:
    return Setting(Constant(int(size)), RuleSetup(100))


def point(*goals: GoalResult, size: str = "64", problem: str = "") -> Point:
    return Point(setting(size), 1.8e6, goals, 5, 1.0, problem)


def attempts(*rows: tuple[float, float, str], size: str = "64") -> pl.DataFrame:
    """Load, loss ratio and reason for being invalid of each attempt, in order."""
    return pl.DataFrame(
        {
            "index": range(len(rows)),
            "attempt": [1] * len(rows),
            "label": ["search"] * len(rows),
            "position": [100] * len(rows),
            "stateful": [False] * len(rows),
            "sizes_text": [size] * len(rows),
            "offered_pps": [load for load, _, _ in rows],
            "loss_ratio": [loss for _, loss, _ in rows],
            "invalid": [invalid for *_, invalid in rows],
            "valid": [not invalid for *_, invalid in rows],
        }
    )


TRIED = attempts(
    (1.8e6, 0.6, ""),
    (690e3, 0.0, ""),
    (710e3, 0.2, "sender late: 3 ms"),
    (710e3, 0.002, ""),
    (700e3, 0.0, ""),
)


MANIFEST = {
    "run_id": "20261122-081903-search-9c9d",
    "facts": {"dut": "nftables", "lab": "netns", "backend": "xdp"},
    "scenario": {"name": "search"},
    "host": "box",
}


def searched(points: Sequence[Point], trials: pl.DataFrame = TRIED) -> ThroughputEvidence:
    return ThroughputEvidence(MANIFEST, trials, SearchShape(), points, (NDR, PDR))


def of_rfc2544(results: Sequence[Result], *tests: Test) -> Rfc2544Evidence:
    return Rfc2544Evidence(MANIFEST, TRIED, SearchShape(), results, Rfc2544Suite(tests=tests or TESTS))


def chapter(told: Story, key: str) -> Chapter:
    return next(chapter for chapter in told.chapters if chapter.key == key)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_the_first_sentence_is_the_rate_with_its_interval() -> None:
    told = tell(searched([point(found(700e3, 705e3), found(705e3, 710e3, goal=PDR))]))
    assert plain(told.answer) == (
        "nftables carries 700 kpps without loss (64-byte frames, 100 rules; "
        "NDR between 700,000 and 705,000 pps)."
    )
    assert plain(told.lede[0]) == "PDR 705 kpps (at a load between 705,000 and 710,000 pps)."


def test_a_bound_that_the_sender_set_is_told_as_at_least() -> None:
    told = tell(searched([point(found(1.8e6, None, at_least=True))]))
    assert "carries at least 1.80 Mpps without loss" in plain(told.answer)
    assert "1,800,000 pps was the highest load that could be offered" in plain(told.answer)
    assert plain(told.tiles[0].value) == "≥ 1.80 Mpps"


def test_a_device_that_loses_at_every_load_is_said_to() -> None:
    told = tell(searched([point(found(None, 1000.0))]))
    assert "does not carry even the lowest load tried without loss" in told.answer


def test_a_search_that_failed_names_its_problem_and_claims_nothing() -> None:
    told = tell(searched([point(problem="trial 3 stayed invalid")]))
    assert told.answer == "No bound was found: trial 3 stayed invalid."
    assert "Not found: 64-byte frames, 100" in told.caution


def test_the_worst_and_best_of_several_settings_are_named() -> None:
    told = tell(searched([point(found(700e3, 705e3)), point(found(250e3, 252e3), size="1518")]))
    assert plain(told.lede[-1]) == (
        "Over all 2 settings: 250 kpps (1,518-byte frames, 100 rules) to 700 kpps "
        "(64-byte frames, 100 rules)."
    )
    assert [figure.key for figure in chapter(told, "throughput").figures] == ["throughput-over-size"]
    assert len(chapter(told, "throughput").tables[0].rows) == 2


def test_spoiled_attempts_are_counted_and_told_with_their_reason() -> None:
    told = tell(searched([point(found(700e3, 710e3))]))
    assert plain(told.caution).startswith("The host spoiled 1 of 5 attempts")
    assert chapter(told, "invalid").tables[0].rows == (("sender late", "1"),)


def test_the_picture_shows_bounds_that_close_in_on_the_result() -> None:
    one = point(found(700e3, 710e3), found(710e3, 1.8e6, goal=PDR))
    frame = charts.course(one, TRIED)
    assert frame["outcome"].to_list() == [
        "more lost", "nothing lost", "spoiled by the host", "at most 0.50\u00a0% lost", "nothing lost",
    ]  # fmt: skip
    assert frame[charts.CARRIED].to_list() == pytest.approx([None, -1.4286, -1.4286, -1.4286, 0.0])
    assert frame[charts.TOO_MUCH].to_list()[-1] == pytest.approx(1.4286)
    told = tell(searched([one]))
    (figure,) = chapter(told, "search").figures
    assert "after 5 trials at 4 loads" in plain(figure.title)


def test_more_settings_than_are_drawn_are_admitted() -> None:
    points = [point(found(700e3, 710e3), size=str(size)) for size in range(64, 74)]
    trials = pl.concat([attempts((700e3, 0.0, ""), size=str(size)) for size in range(64, 74)])
    drawn = chapter(tell(searched(points, trials)), "search")
    assert len(drawn.figures) == 8
    assert "Left out: 2\u00a0more settings" in drawn.intro


def result(size: str) -> Result:
    where = setting(size)
    received = ((1.0, 40), (0.4, 98), (0.3, 100), (0.2, 100))
    losses = tuple(LossPoint(share, share * 1.8e6, 100, arrived) for share, arrived in received)
    return Result(
        where,
        1.8e6,
        point(found(700e3, 705e3), size=size),
        LatencyResult(where, 7e5, False, 20, 5e4, 3e4, 9e4, 1e4, 8e4, 0.0),
        LossCurve(where, 1.8e6, losses),
        BackToBackResult(where, 1.8e6, 7e5, (410, 420), False),
    )


def test_the_four_tests_of_rfc_2544_have_a_chapter_with_figure_and_table_each() -> None:
    told = tell_rfc2544(of_rfc2544([result("64"), result("512")]))
    assert told.answer.startswith("nftables carries 700")
    for key, title in (("throughput", "26.1"), ("latency", "26.2"), ("loss", "26.3"), ("bursts", "26.4")):
        one = chapter(told, key)
        assert title in one.title
        assert len(one.figures) == len(one.tables) == 1
    loss = chapter(told, "loss")
    assert loss.figures[0].title.startswith("Up to 30 % of the highest load nothing is lost")
    assert [row[0] for row in loss.tables[0].rows] == ["100 % is, pps", "100 %", "40 %", "30 %", "20 %"]


def test_time_on_the_wire_stands_beside_the_latency_if_the_ports_tell_their_speed() -> None:
    facts = {"mode": "routed", "speed_mbps": [1000, 1000]}
    (table,) = tables.latency([result("64"), result("512")], facts)
    column = table.columns.index("On the wire")
    # 8 bytes of preamble; two cables of 1 Gbit/s.
    assert [plain(row[column]) for row in table.rows] == ["1.15 µs", "8.32 µs"]
    (without,) = tables.latency([result("64")], {})
    assert "On the wire" not in without.columns


def test_tests_that_were_not_wanted_have_no_chapter_and_failed_ones_are_named() -> None:
    whole = result("64")
    one = Result(whole.setting, 1.8e6, loss=whole.loss, problems=("loss: a trial stayed invalid",))
    told = tell_rfc2544(of_rfc2544([one], "loss"))
    assert {chapter.key for chapter in told.chapters} == {"setting", "loss", "invalid"}
    assert "a trial stayed invalid" in told.caution
    assert "carries" not in told.answer


@pytest.mark.parametrize("kind", ["search", "rfc2544"])
def test_the_report_of_a_run_is_a_page_of_its_kind(kind: str, tmp_path: Path) -> None:
    """It once was that of a profile, which said that there was no valid trial."""
    from weirlab.devices.search import stored
    from weirlab.devices.search.study import SearchPlan, rfc2544, search
    from weirlab.jobs.progress import SilentProgress
    from weirlab.jobs.work import Work

    store = Store(tmp_path / "store")
    asked = SearchPlan(Lab(kind="sim"), Dut(), [Setting(Constant(64))], SearchShape())
    if kind == "search":
        searched = search(Work(store, SilentProgress()), asked, [NDR])
        assert stored.points(searched.run) == searched.points
        assert search_sentence(searched).startswith(
            SearchStudy().headlines(searched.run)[0].removesuffix(".")
        )
    else:
        tested = rfc2544(
            Work(store, SilentProgress()), asked, Rfc2544Suite(tests=("throughput", "loss"), repetitions=1)
        )
        assert stored.results(tested.run) == tested.results
        assert rfc2544_sentence(tested).startswith(Rfc2544Study().headlines(tested.run)[0].removesuffix("."))
    page = report(store, "last", out=tmp_path / "page.html").path.read_text(encoding="utf-8")
    assert "The simulated device carries" in page
    assert "no valid trial" not in page


def test_the_page_renders_without_any_trial() -> None:
    assert "No bound was found" in tell(searched([], TRIED.clear())).html()
