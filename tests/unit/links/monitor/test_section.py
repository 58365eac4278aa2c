from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.links.monitor.section import MonitorScenario
from weirlab.scenario.load import from_plain
from weirlab.studies import ready
from weirlab.studies.scenarios import json_schema, load, loads

MINIMAL = "name: t\nmonitor: {}\n"


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        loads(text, "f.yaml")
    return str(caught.value).splitlines()


def test_the_shortest_scenario_repeats_the_published_validation() -> None:
    scenario = loads(MINIMAL, "f.yaml")
    assert isinstance(scenario, MonitorScenario)
    assert scenario.monitor.payloads == (10, 100, 500, 700, 1000, 1400)
    assert scenario.monitor.runs == 10
    assert scenario.monitor.loads[0] == "max"
    assert len(scenario.monitor.loads) > 1


def test_the_shipped_scenario_asks_for_all_that_the_question_needs() -> None:
    scenario = load(ready.paths()["link-monitor"])
    assert isinstance(scenario, MonitorScenario)
    what = scenario.monitor
    assert set(what.methods) >= {"tap-ring", "tap-mirror", "tcpdump-bridge", "tcpdump-receiver"}
    assert what.payloads == (10, 100, 500, 700, 1000, 1400)
    assert what.stall is not None
    assert what.stall.pause_s == 2
    assert what.search is not None
    assert what.search.frames == (60, 1514)
    assert what.copy_cost is not None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("  payloads: [10, 1473]", "monitor.payloads[1]: must be less than or equal to 1472 (found 1473)"),
        ("  payloads: [10, 10]", "monitor.payloads: 10 is listed twice"),
        ("  loads: [fast]", "monitor.loads[0]: rate 'fast' not understood"),
        ("  methods: [span]", "monitor.methods[0]: must be 'tap-bare', 'plain-bridge'"),
        ("  payload: [10]", "monitor.payload: unknown key; did you mean 'payloads'?"),
        ("  stall: {rate: max}", "monitor.stall.rate: at 'max' frames are lost without a stall, too"),
        ("  stall: {methods: [tap-bare]}", "monitor.stall.methods: none of them records: add 'tap-ring'"),
        ("  search: {min_pps: 1000, max_pps: 900}", "monitor.search.max_pps: must be above 'min_pps' (1000)"),
        (
            "  search: {methods: [plain-bridge]}",
            "monitor.search.methods[0]: 'plain-bridge' records nothing: choose from 'tap-ring'",
        ),
        (
            "  copy_cost: {methods: [tap-ring, tap-bare]}",
            "monitor.copy_cost.methods[1]: 'tap-bare' copies nothing: choose from 'tap-ring'",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(lines: str, message: str) -> None:
    (line,) = problems(f"name: t\nmonitor:\n{lines}\n")
    assert line.startswith("f.yaml:3:")
    assert message in line


def test_parts_can_be_left_out() -> None:
    text = "name: t\nmonitor:\n  stall: null\n  search: null\n  copy_cost: null\n"
    scenario = loads(text, "f.yaml")
    assert isinstance(scenario, MonitorScenario)
    assert (scenario.monitor.stall, scenario.monitor.search, scenario.monitor.copy_cost) == (None, None, None)


def test_a_scenario_survives_the_manifest() -> None:
    scenario = loads(MINIMAL, "f.yaml")
    assert from_plain(scenario.model_dump(mode="json"), "a run", MonitorScenario) == scenario


def test_the_schema_knows_the_kind() -> None:
    assert "MonitorScenario" in str(json_schema())
