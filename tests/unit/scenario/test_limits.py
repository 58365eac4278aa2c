"""A slip of the pen must not cost minutes: what a scenario asks for is counted before it is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.jobs.profiles import to_measure
from weirlab.measure.profile import expected
from weirlab.scenario import Scenario
from weirlab.studies.scenarios import load, loads


def positions(count: int, rest: str = "") -> str:
    return f"name: x\nprofile:\n  positions: [{', '.join(map(str, range(count)))}]\n{rest}"


def test_a_profile_of_60000_positions_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(positions(60_000))
    with pytest.raises(InputError, match=r"many\.yaml: more than 100,000 bytes"):
        load(file)


def test_a_list_beyond_the_most_items_is_named_with_its_line() -> None:
    with pytest.raises(InputError, match=r"<text>:3:14: profile.positions: 5,000 items, and at most 1,000"):
        loads(positions(5000))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (positions(1000, "  repetitions: 10000\n"), "3:3: profile: "),
        (
            "name: x\nprofile: {}\nverify:\n  - {positions: [1, 2], draws: 1000, repetitions: 1000}\n",
            "4:5: verify[0]: ",
        ),
        ("name: x\ncapacity:\n  sweep: {first: 1, last: 1000000, step: 1}\n", "3:10: capacity.sweep: "),
        ("name: x\nmonitor: {runs: 10000}\n", "2:10: monitor: "),
    ],
)
def test_a_plan_beyond_the_most_trials_is_refused_before_it_is_made(text: str, place: str) -> None:
    with pytest.raises(InputError) as refused:
        loads(text)
    assert str(refused.value).startswith(f"<text>:{place}")
    assert f"at most {limits.MOST_TRIALS:,} are possible" in str(refused.value)


def test_no_section_plans_more_trials_than_it_was_counted_with() -> None:
    scenario = loads(
        "name: x\nprofile:\n  positions: [0, 50, 400]\n"
        "  stateful: [false, true]\n  cross_traffic: [false, true]\n"
        "  arrivals: [constant, poisson]\n  mixed: ['1:50,99:50']\n  rate_step: [0.3, 0.8]\n"
        "  position_step: [1, 2000]\n"
    )
    assert isinstance(scenario, Scenario)
    assert len(expected(to_measure(scenario))) <= scenario.profile.trials
