"""``weir ipsec cost``: from a scenario to a stored run, by a timer of formulas."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.calls.ipsec.cost import WAYS, EspCostFindings, EspCostScenario, compared
from weirlab.calls.ipsec.cost_page import page
from weirlab.calls.ipsec.cost_study import EspCostStudy, FormulaTimer, stored
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.work import Work
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies import runner
from weirlab.studies.contract import Outcome


def scenario(**more: object) -> EspCostScenario:
    section = {"suites": ["aes-cbc", "aes-cbc-hmac-sha1-96"], "rounds": 20, **more}
    return from_plain({"name": "costs", "esp": section, "report": None}, "test", EspCostScenario)


def run(tmp_path: Path, timer: FormulaTimer, asked: EspCostScenario) -> Outcome[EspCostFindings]:
    return runner.run(EspCostStudy(timer), asked, Work(Store(tmp_path), SilentProgress()))


def test_every_case_has_its_turn_in_every_round(tmp_path: Path) -> None:
    timer = FormulaTimer()
    found = run(tmp_path, timer, scenario()).found
    assert len(found.rows) == 20 * 2 * 2 * 6 * len(WAYS)
    assert len(timer.timed) == 2 * len(found.rows)
    assert timer.timed[::2] == timer.timed[1::2]
    assert {row.packet_bytes for row in found.rows} == {120, 200, 280, 360, 440, 520}
    assert found.spread("aes-cbc", "tunnel", "in", 20).median == 100 + 200 + 30 + 50
    assert found.rounds["aes-cbc-hmac-sha1-96", "transport", "out", 60] == [1140.0] * 20


def test_terminal_and_page_show_the_medians(tmp_path: Path) -> None:
    outcome = run(tmp_path, FormulaTimer(), scenario())
    assert outcome.found.sentence.startswith(
        "A packet of 20 ms costs in transport mode: aes-cbc 300 ns out and 350 ns in"
    )
    table = compared(outcome.found)
    assert table.rows[0][:5] == ("aes-cbc", "transport", "300 ns", "350 ns", "17 %")
    story = page(outcome.run, outcome.found)
    assert [figure.key for figure in story.figures] == ["cost-transport", "cost-tunnel"]
    frame = story.figures[1].data
    assert frame.filter(series="aes-cbc, in", bytes=120)["value"].to_list() == [300.0]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    asked, cases = scenario(), 2 * 2 * 6 * len(WAYS)
    with pytest.raises(RunInterrupt):
        run(tmp_path, FormulaTimer(ends_after=2 * cases * 15), asked)
    store = Store(tmp_path)
    (begun,) = store.runs()
    assert {row.round for row in stored(store.open(begun.run_id)).rows} == set(range(10))
    timer = FormulaTimer()
    outcome = runner.resume(EspCostStudy(timer), begun.run_id, Work(store, SilentProgress()))
    assert len(timer.timed) == 2 * cases * 10
    assert [row.round for row in outcome.found.rows] == sorted(row.round for row in outcome.found.rows)
    assert outcome.found.rows[-1].round == 19


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"codec": "g711:30ms"}, "leave it out here"),
        ({"packet_times_ms": [200]}, "at most 1,500"),
        ({"codec": "g729", "packet_times_ms": [25]}, "multiple of 10 ms"),
        ({"suites": ["aes"]}, "aes"),
        ({"ways": ["in", "in"]}, "in"),
    ],
)
def test_what_cannot_be_timed_is_refused(section: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scenario(**section)
