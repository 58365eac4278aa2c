from __future__ import annotations

from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.devices.series import SeriesScenario, stored
from weirlab.jobs.progress import SilentProgress
from weirlab.scenario.document import Document
from weirlab.store import Store
from weirlab.studies import scenarios
from weirlab.studies.runner import run_scenario

SETTINGS: list[dict[str, Any]] = [
    {"name": "few", "rate": "100kpps", "position": 1},
    {"name": "many", "rate": "100kpps", "position": 1000},
    {"name": "tcp", "rate": "100Mbit/s", "sizes": "poisson:100-300", "l4": "tcp"},
    {"name": "mixed", "rate": "100kpps", "places": "1:50,99:50"},
    {"name": "step", "rate": "100kpps", "position": 1, "steps": [{"at_s": 0.02, "position": 2000}]},
]


def scenario(settings: list[dict[str, Any]], **more: Any) -> SeriesScenario:
    content = {
        "name": "test",
        "report": None,
        "lab": {"kind": "sim"},
        "series": {"settings": settings, "repetitions": 2, "trial_s": 0.04, **more},
    }
    asked = scenarios.check(Document("test", content))
    assert isinstance(asked, SeriesScenario)
    return asked


def test_every_setting_is_measured_once_before_any_a_second_time() -> None:
    labels = [spec.label for spec in scenario(SETTINGS).specs()]
    assert labels == [setting["name"] for setting in SETTINGS] * 2


def test_settings_become_trials() -> None:
    _, many, tcp, mixed, step, *_ = scenario(SETTINGS).specs()
    assert many.rules.position == 1000
    assert tcp.traffic.flows.l4 == "tcp"
    assert mixed.rules.places == ((1, 0.5), (99, 0.5))
    assert step.rules.places == ((1, 1.0), (2000, 0.0))
    assert step.traffic.steps[0].position == 2000


def test_a_run_has_the_trials_of_each_setting_and_says_so(tmp_path: Any) -> None:
    outcome = run_scenario(Store(tmp_path), scenario(SETTINGS), SilentProgress())
    found = stored(outcome.run)
    rows = {row["setting"]: row for row in found.rows}
    assert [row["trials"] for row in found.rows] == [2] * len(SETTINGS)
    assert rows["many"]["delay_mean_ns"] > rows["few"]["delay_mean_ns"]
    assert found.sentence == "5 of 5 settings measured, 10 valid trials."
    assert outcome.found.problem(outcome.run) is None
    settings, course = outcome.study.page(outcome.run).chapters
    assert settings.tables[0].rows[0][0] == "few"
    # The one with a step is drawn over time, too.
    load, delay = course.figures
    assert load.linked == delay.linked
    assert load.panel.startswith("step: ")
    times = delay.data["at_s"]
    before, after = (delay.data.filter(each)["mean_us"].mean() for each in (times < 0.019, times > 0.021))
    assert after > 1.3 * before


def test_names_are_distinct() -> None:
    with pytest.raises(InputError, match="several settings are called few"):
        scenario([SETTINGS[0], SETTINGS[0]])


def test_impossible_traffic_is_refused_before_anything_is_built(tmp_path: Any) -> None:
    asked = scenario([{"name": "late", "rate": "1kpps", "steps": [{"at_s": 5, "rate": "2kpps"}]}])
    with pytest.raises(InputError):
        run_scenario(Store(tmp_path), asked, SilentProgress())
    assert list(Store(tmp_path).runs()) == []
