"""From a scenario to a kept run, its page and its conclusions, on links made of formulas."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import LabError
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.work import Work
from weirlab.links.monitor.campaign import OpenLab
from weirlab.links.monitor.fakes import FakeLink, LinkCapacity, TrialFault
from weirlab.links.monitor.plan import MonitorSettings
from weirlab.links.monitor.rows import MonitorRow
from weirlab.links.monitor.section import MonitorScenario, common_settings
from weirlab.links.monitor.study import MonitorFindings, MonitorStudy
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.store.frames import rows_of
from weirlab.studies import runner
from weirlab.studies.contract import Outcome

CONTENT: dict[str, Any] = {
    "name": "test",
    "monitor": {
        "payloads": [10, 1400],
        "loads": ["max", "400kpps"],
        "runs": 2,
        "trial_s": 0.1,
        "stall": {"before_s": 0.2, "pause_s": 0.5, "after_s": 0.3, "repetitions": 1},
        "search": {"frames": [60], "trial_s": 0.1},
        "copy_cost": {"repetitions": 2, "trial_s": 0.1},
    },
    "report": None,
}
METHODS = 6
VALIDATION = METHODS * 2 * 2 * 2
COPY = 5 * 2 * 2
WHOLE = 3 * 2
"""The taps only, with the payload that a cut copy does not hold."""
STALL = 5
PLANNED = VALIDATION + COPY + WHOLE + STALL


def scenario(**changes: Any) -> MonitorScenario:
    content = {**CONTENT, "monitor": {**CONTENT["monitor"], **changes}}
    return from_plain(content, "test", MonitorScenario)


class Opener:
    """Fake links; ``mishaps`` count from the first trial on."""

    def __init__(self, *mishaps: TrialFault | None) -> None:
        self.opened: list[FakeLink] = []
        self._mishaps = iter(mishaps)

    def __call__(self, settings: MonitorSettings) -> FakeLink:
        self.opened.append(FakeLink(settings, LinkCapacity(), self._mishaps))
        return self.opened[-1]


def run(
    store: Store, opener: Opener, what: MonitorScenario | None = None, **more: Any
) -> Outcome[MonitorFindings]:
    return runner.run(study(opener), what or scenario(), Work(store, SilentProgress()), **more)


def study(opener: OpenLab) -> MonitorStudy:
    return MonitorStudy(opener, clock=lambda: 0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outcome[MonitorFindings]:
    """A run that nothing disturbed, to look at."""
    return run(Store(tmp_path_factory.mktemp("whole")), Opener())


def test_a_run_keeps_every_trial_with_its_stages(whole: Outcome[MonitorFindings]) -> None:
    outcome = whole
    rows = rows_of(MonitorRow, outcome.run.table("monitor"))
    assert outcome.found.planned == PLANNED
    assert len([row for row in rows if row.part != "search"]) == PLANNED
    assert {row.part for row in rows} == {"validation", "copy", "whole", "stall", "search"}
    assert (outcome.found.missing, outcome.found.unbalanced) == ((), 0)
    assert outcome.run.trials().height == len(rows)
    assert outcome.problem() is None


def test_an_interrupted_run_goes_on_where_it_stopped(store: Store) -> None:
    with pytest.raises(RunInterrupt) as caught:
        run(store, Opener(*[None] * 10, TrialFault(fails=KeyboardInterrupt())))
    assert caught.value.kept == 10
    opener = Opener()
    outcome = runner.resume(study(opener), caught.value.run_id, Work(store, SilentProgress()))
    rows = [row for row in outcome.found.rows if row.part != "search"]
    assert len(rows) == PLANNED
    assert len({row.index for row in rows}) == PLANNED
    assert len(outcome.found.found) == 2


def test_a_search_that_was_interrupted_begins_anew_with_numbers_of_its_own(store: Store) -> None:
    with pytest.raises(RunInterrupt) as caught:
        run(store, Opener(*[None] * (PLANNED + 3), TrialFault(fails=KeyboardInterrupt())))
    outcome = runner.resume(study(Opener()), caught.value.run_id, Work(store, SilentProgress()))
    assert len({row.trial_id for row in outcome.found.rows}) == len(outcome.found.rows)
    assert [found.method for found in outcome.found.found] == ["tap-ring", "tcpdump-bridge"]
    found = {one.method: one.greatest_pps for one in outcome.found.found}
    assert found["tap-ring"] == pytest.approx(700e3, rel=0.05)


def test_what_cannot_be_built_leaves_no_run_behind(store: Store) -> None:
    def refuse(settings: MonitorSettings) -> FakeLink:
        raise LabError("no bridge here")

    with pytest.raises(LabError, match="no bridge here"):
        runner.run(study(refuse), scenario(), Work(store, SilentProgress()))
    assert store.runs() == []


def test_a_trial_that_stays_spoiled_is_a_problem_with_a_way_on(store: Store) -> None:
    outcome = run(store, Opener(*[TrialFault(steal_s=0.05)] * 3))
    assert len(outcome.found.missing) == 1
    problem = outcome.problem()
    assert problem is not None
    assert f"weir run --resume {outcome.run.run_id}" in str(problem)
    assert "stolen" in str(problem)


def test_sums_that_do_not_close_are_told(store: Store) -> None:
    outcome = run(store, Opener(TrialFault(vanished=3)))
    assert outcome.found.unbalanced == 1
    assert "Counters do not agree in 1 attempt." in outcome.summary().conclusion


def test_what_is_printed_has_conclusions_and_a_row_per_group(whole: Outcome[MonitorFindings]) -> None:
    outcome = whole
    told = outcome.summary().conclusion
    assert told.startswith("At up to ")
    assert "The counters of every trial agree." in told
    tables = outcome.summary().tables
    assert [len(table.rows) for table in tables] == [METHODS * 2] * 2


def test_frames_that_only_a_difference_tells_of_are_said_to_be_such(whole: Outcome[MonitorFindings]) -> None:
    outcome = whole
    rows = (replace(outcome.found.rows[0], lost_behind=2, lost_logger=1),)
    behind = replace(outcome, found=replace(outcome.found, rows=rows))
    assert (outcome.found.remainder, behind.found.remainder) == (0, 3)
    assert "agree. 3 frames disappeared where losses are not counted." in behind.summary().conclusion


def test_the_document_is_plain(whole: Outcome[MonitorFindings]) -> None:
    from weirlab.cli.output import to_json

    document = whole.document()
    assert document["kind"] == "monitor"
    assert '"copy_cost"' in to_json(document)


def test_a_report_is_written_and_can_be_written_again(store: Store, tmp_path: Path) -> None:
    from weirlab.studies.reports import report

    outcome = run(store, Opener(), out=tmp_path / "page.html")
    assert outcome.report is not None
    page = (tmp_path / "page.html").read_text()
    assert "forwarded and logged every frame in most trials" in page
    again = report(store, outcome.run.run_id, out=tmp_path / "again.html")
    assert again.path.read_text() == page


def test_an_interrupted_run_has_a_report_of_what_is_there(store: Store, tmp_path: Path) -> None:
    from weirlab.studies.reports import report

    run_id, before = "", 0
    for kept in (1, 3, VALIDATION + 1, PLANNED - 1, PLANNED + 2):
        ends = study(Opener(*[None] * (kept - before), TrialFault(fails=KeyboardInterrupt())))
        go_on = partial(runner.resume, ends, run_id) if run_id else partial(runner.run, ends, scenario())
        with pytest.raises(RunInterrupt) as caught:
            go_on(Work(store, SilentProgress()))
        run_id, before = caught.value.run_id, kept
        assert store.open(run_id).trials().height == kept
        page = report(store, run_id, out=tmp_path / f"{kept}.html").path.read_text()
        assert "link monitors" in page
        assert page.rstrip().endswith("</html>")


def test_records_stay_only_where_they_are_wanted(tmp_path: Path) -> None:
    usual = common_settings(scenario())
    assert (usual.folder, usual.keep) == (None, False)
    assert str(common_settings(scenario(records="memory")).folder) == "/dev/shm"
    kept = common_settings(scenario(keep=str(tmp_path)))
    assert (kept.folder, kept.keep) == (tmp_path, True)
