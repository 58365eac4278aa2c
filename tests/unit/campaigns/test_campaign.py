"""A campaign measures every step of its matrix once, whatever happens in between, and ranks what it found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import yaml

from weirlab.base.errors import TrialError
from weirlab.base.files import HOST_FILES
from weirlab.base.storage import run_ids
from weirlab.campaigns import CampaignStudy, steps, study, tables
from weirlab.campaigns.ranking import RISK, MeasureRow, Standing, _risk, rank, standings
from weirlab.campaigns.section import CampaignScenario
from weirlab.jobs.progress import SilentProgress
from weirlab.report.story import Story
from weirlab.store import Run, Store
from weirlab.studies import scenarios
from weirlab.studies.contract import Work

from ..conftest import Weir

LOAD: dict[str, Any] = {
    "lab": {"kind": "sim"},
    "series": {
        "trial_s": 0.01,
        "repetitions": 1,
        "settings": [{"name": "overload", "rate": "max", "position": 100}],
    },
}


def device(per_rule_ns: float) -> dict[str, Any]:
    return {"lab": {"device": {"service_per_rule_ns": per_rule_ns}}}


MATRIX: dict[str, Any] = {
    "name": "which one",
    "campaign": {
        "scenarios": {"load": LOAD},
        "devices": {"slow": device(9), "fast": device(1)},
        "settings": {"queue": {"short": {"lab": {"device": {"queue_packets": 32}}}, "usual": {}}},
        "repetitions": 2,
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: Any) -> Path:
        path = tmp_path / "campaign.yaml"
        path.write_text(yaml.safe_dump({**MATRIX, "campaign": {**MATRIX["campaign"], **changes}}))
        return path

    return write


def findings(run: Run) -> list[tuple[Any, ...]]:
    """What must not depend on what was interrupted."""
    return [(row.step, row.measure, row.value) for row in study.stored(run).measures]


def test_every_cell_is_measured_once_before_any_a_second_time() -> None:
    asked = scenarios.loads(yaml.safe_dump(MATRIX))
    assert isinstance(asked, CampaignScenario)
    planned = list(asked.steps())
    assert sorted(step.number for step in planned) == list(range(8))
    assert [step.repetition for step in planned] == [0] * 4 + [1] * 4
    assert [step.number % 4 for step in planned[:4]] != [step.number % 4 for step in planned[4:]]
    assert planned == list(asked.steps())


def test_the_plan_checks_and_counts_without_measuring(
    weir: Weir, file: Callable[..., Path], tmp_path: Path
) -> None:
    answer = weir("campaign", file(), "--plan", "--json")
    assert (answer.code, answer.json["steps"], answer.json["trials"], answer.json["simulated"]) == (
        0,
        8,
        8,
        8,
    )
    assert not (tmp_path / "store").exists()
    real = {**LOAD, "lab": {"kind": "netns"}}
    assert weir("campaign", file(scenarios={"load": real}), "--plan", "--json").json["expected_s"] > 1


def test_the_faster_device_is_first_and_every_step_is_a_run(
    weir: Weir, file: Callable[..., Path], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    answer = weir("campaign", file(), "--json", "--out", page)
    assert answer.code == 0
    run = Store(tmp_path / "store").open(answer.json["run_id"])
    assert run.simulated
    assert "(simulated)" in weir("runs").out
    ranking = [row for row in answer.json["ranking"] if row["measure"].startswith("forwarding rate")]
    assert [(row["setting"], row["device"], row["verdict"]) for row in ranking] == [
        (setting, name, verdict)
        for setting in ("short", "usual")
        for name, verdict in (("fast", "best"), ("slow", "worse"))
    ]
    made = run_ids(run.path / steps.FOLDER)
    assert sorted(made) == sorted(row["run_id"] for row in answer.json["steps"])
    shown = weir("show", made[0], "--store", run.path / steps.FOLDER)
    assert shown.code == 0
    story = CampaignStudy().page(run)
    assert isinstance(story, Story)
    drawn = [(figure.title, figure.panel) for figure in story.figures]
    assert len(drawn) == len(set(drawn)) == 8
    assert "<svg" in page.read_text() or "vega" in page.read_text()


def test_repetitions_of_a_simulated_device_are_not_copies(
    weir: Weir, file: Callable[..., Path], tmp_path: Path
) -> None:
    run = Store(tmp_path / "store").open(weir("campaign", file(), "--json").json["run_id"])
    delays = [row for row in study.stored(run).measures if row.measure.startswith("p99 delay")]
    cells = {(row.device, row.setting): set[float]() for row in delays}
    for row in delays:
        cells[row.device, row.setting].add(row.value)
    assert any(len(values) == 2 for values in cells.values())


@pytest.mark.parametrize("killed_at", [0, 3, 7])
def test_an_interrupted_campaign_goes_on_and_finds_the_same(
    weir: Weir,
    file: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed_at: int,
) -> None:
    store = Store(tmp_path / "store")
    whole = store.open(weir("campaign", file(), "--json").json["run_id"])
    measure, count = steps.measure, 0

    def interrupted(*arguments: Any) -> steps.StepRecord:
        nonlocal count
        count += 1
        if count == killed_at + 1:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(study, "measure", interrupted)
    stopped = weir("campaign", file())
    assert f"{killed_at} step" in stopped.err
    begun = store.open("last")
    # As if killed between keeping a run and keeping its record.
    orphan = begun.path / steps.FOLDER / "20260101-000000-series-0000"
    orphan.mkdir()
    (orphan / "manifest.json").write_text("{}")
    answer = weir("campaign", "--resume", begun.run_id, "--json")
    assert answer.code == 0
    assert findings(store.open(begun.run_id)) == findings(whole)
    assert len(run_ids(begun.path / steps.FOLDER)) == 8


def test_a_copy_of_a_campaign_under_way_goes_on_elsewhere(
    weir: Weir, file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, copy = steps.StepStore.keep, tmp_path / "copy"
    store, records = Store(tmp_path / "store"), "[0-9]*.json"

    def keep(self: steps.StepStore, record: steps.StepRecord) -> None:
        kept(self, record)
        target, known = copy / self.path.parent.name, len(self.records())
        if known == 3:
            # First the records, as the documentation says, and a step later everything else.
            (target / steps.FOLDER).mkdir(parents=True)
            for path in self.path.glob(records):
                shutil.copy(path, target / steps.FOLDER)
        if known == 4:
            ignored = shutil.ignore_patterns(records)
            shutil.copytree(self.path.parent, target, ignore=ignored, dirs_exist_ok=True)

    monkeypatch.setattr(steps.StepStore, "keep", keep)
    whole = store.open(weir("campaign", file(), "--json").json["run_id"])
    monkeypatch.undo()
    (copied,) = Store(copy).runs()
    assert (copied.run_id, copied.status) == (whole.run_id, "interrupted")
    answer = weir("--store", copy, "campaign", "--resume", copied.run_id, "--json")
    assert answer.code == 0
    again = Store(copy).open(copied.run_id)
    assert findings(again) == findings(whole)
    mine = {row.run_id for row in study.stored(again).steps}
    assert len(mine & {row.run_id for row in study.stored(whole).steps}) == 3
    assert set(run_ids(again.path / steps.FOLDER)) == mine


def test_a_step_that_fails_is_tried_again_after_the_others_and_then_named(
    weir: Weir, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_scenario, tried = steps.run_scenario, list[str]()

    def spoiled(store: Store, root: Any, *rest: Any, **more: Any) -> Any:
        tried.append(root.name)
        if "slow, short, repetition 1" in root.name:
            raise TrialError("the host was busy")
        return run_scenario(store, root, *rest, **more)

    monkeypatch.setattr(steps, "run_scenario", spoiled)
    answer = weir("campaign", file(attempts=2), "--json")
    assert answer.code == TrialError.exit_code
    assert (answer.json["measured"], answer.json["valid"]) == (7, False)
    failed = [row for row in answer.json["steps"] if row["problem"]]
    assert [(row["device"], row["setting"], row["attempts"]) for row in failed] == [("slow", "short", 2)]
    assert "slow, short, repetition 1" in tried[-1]
    assert "the host was busy" in answer.err
    monkeypatch.setattr(steps, "run_scenario", run_scenario)
    again = weir("campaign", "--resume", "last", "--json")
    assert (again.code, again.json["measured"]) == (0, 8)


def test_scenarios_may_be_files_beside_the_campaign(
    weir: Weir, file: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "load.yaml").write_text(yaml.safe_dump({"name": "load", **LOAD}))
    answer = weir("campaign", file(scenarios={"load": "load.yaml"}, repetitions=1), "--json")
    assert (answer.code, answer.json["measured"]) == (0, 4)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"devices": {"odd": {"lab": {"device": {"queue": 3}}}}},
            "load, odd, short, repetition 1: lab.device.queue",
        ),
        ({"scenarios": {"load": "missing.yaml"}}, "missing.yaml: no such file"),
        (
            {"scenarios": {"in": {"campaign": MATRIX["campaign"]}}, "devices": {}, "settings": {}},
            "cannot be a step of a campaign",
        ),
        (
            {"devices": {"own": {"dut": {"name": "none"}, "lab": {"kind": "wired", "between": ["a", "b"]}}}},
            "cannot; measure this scenario",
        ),
        ({"repetitions": 0}, "campaign.repetitions"),
        ({"scenarios": {}}, "campaign.scenarios"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_first_step(
    weir: Weir, file: Callable[..., Path], tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    answer = weir("campaign", file(**changes))
    assert answer.code == 2
    assert told in answer.err
    assert not (tmp_path / "store").exists()


def test_a_damaged_record_is_named_with_the_way_out(
    weir: Weir, file: Callable[..., Path], tmp_path: Path
) -> None:
    run = Store(tmp_path / "store").open(weir("campaign", file(repetitions=1), "--json").json["run_id"])
    record = run.path / steps.FOLDER / "000002.json"
    record.write_text(json.dumps({"number": "two"}))
    answer = weir("campaign", "--resume", run.run_id)
    assert (answer.code, str(record) in answer.err) == (6, True)
    record.unlink()
    assert weir("campaign", "--resume", run.run_id).code == 0


def rows(**values: list[float]) -> list[MeasureRow]:
    return [
        MeasureRow(number, "s", name, "", number, "rate", value, "pps", "more")
        for name, each in values.items()
        for number, value in enumerate(each)
    ]


def test_a_difference_counts_only_beyond_what_repetitions_scatter() -> None:
    scattered = rank(rows(a=[100, 104, 96], b=[99, 103, 95], c=[50, 52, 48]), by_device=True)
    assert [(row.device, row.verdict) for row in scattered] == [
        ("a", "best"),
        ("b", "cannot tell"),
        ("c", "worse"),
    ]
    assert scattered[2].ratio == pytest.approx(0.5)
    assert standings(scattered) == {"a": Standing(0, 0, 1), "b": Standing(0, 0, 1), "c": Standing(0, 1, 0)}
    alike = rank(rows(a=[100, 100.1, 99.9], b=[99.9, 100, 99.8], c=[50, 50.1]), by_device=True)
    assert standings(alike) == {"a": Standing(1, 0, 0), "b": Standing(1, 0, 0), "c": Standing(0, 1, 0)}
    once = rank(rows(a=[100], b=[50]), by_device=True)
    assert [row.verdict for row in once] == ["best", "cannot tell"]
    risk = scipy.stats.ttest_ind(np.log([100, 104, 96]), np.log([99, 103, 95]), equal_var=False).pvalue
    assert _risk(np.log([100, 104, 96]), np.log([99, 103, 95])) == pytest.approx(risk)
    exact = rank(rows(a=[100, 100], b=[100, 100], c=[99, 99]), by_device=True)
    assert [row.verdict for row in exact] == ["best", "as good", "worse"]


def test_holm_keeps_the_risk_of_a_false_difference_among_many() -> None:
    rng = np.random.default_rng(3)
    false = 0
    for _ in range(300):
        found = rank(rows(**{f"d{n}": list(100 + rng.normal(size=4)) for n in range(8)}), by_device=True)
        false += any(row.verdict == "worse" for row in found)
    assert false / 300 < 1.5 * RISK


def test_a_study_that_does_not_know_its_time_is_counted_as_unknown(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("name: one\ntcp: {path: {both: {delay: 1ms}}, total: 1MB}\n")
    root = {"name": "c", "campaign": {"scenarios": {"one": "one.yaml"}, "repetitions": 2}}
    asked = CampaignScenario.model_validate(root).beside(tmp_path)
    assert (
        study.estimate(asked, Work(Store(Path("/nonexistent")), SilentProgress(), inputs=HOST_FILES)).unknown
        == 2
    )


def test_the_commands_of_the_documentation_work(
    weir: Weir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[3] / "docs/campaigns.md").read_text()
    section = text.partition("## A worked example")[2].partition("\n## ")[0]
    (tmp_path / "firewalls.yaml").write_text(section.partition("```yaml\n")[2].partition("```")[0])
    monkeypatch.chdir(tmp_path)
    commands = [line.split()[1:] for line in section.splitlines() if line.startswith("    weir ")]
    answers = [weir(*command) for command in commands]
    assert [answer.code for answer in answers] == [0, 0, 0]
    assert f"`{answers[0].out.strip()}`" in section
    rates = [row for row in answers[-1].json["ranking"] if row["measure"].startswith("forwarding rate, over")]
    assert {row["device"]: row["verdict"] for row in rates if row["rank"] == 3} == {"old": "worse"}
    assert {row["verdict"] for row in rates if row["rank"] == 2} == {"as good"}


def test_what_each_test_bed_did_is_a_table_if_there_are_several() -> None:
    def step(number: int, host: str, problem: str = "", attempts: int = 1) -> study.StepRow:
        return study.StepRow(number, "load", "", "", 0, "", problem, host, attempts, 1.0 + number)

    rows = [
        step(0, "a"),
        step(1, "b", attempts=2),
        step(2, "a"),
        step(3, "", "every worker that tried it died", 3),
    ]
    assert not tables.testbeds(rows[:1]).rows
    assert [row[:3] + row[4:] for row in tables.testbeds(rows).rows] == [
        ("none: every worker that tried died", "1", "1", "1"),
        ("a", "2", "0", "0"),
        ("b", "1", "0", "1"),
    ]
    assert [row[3] for row in tables.testbeds(rows).rows] == ["4.00 s", "2.00 s", "2.00 s"]
