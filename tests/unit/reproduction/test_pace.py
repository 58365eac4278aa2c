"""How long a reproduction takes: what its studies expect, corrected by what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from weirlab.jobs.progress import Left
from weirlab.reproduction.pace import ReproductionPace, WholeProgress


def series(trials: int) -> dict[str, Any]:
    """Trials of a second each, 1.2 s with what is around them."""
    listed = {"settings": [{"name": "a", "rate": "1kpps"}], "repetitions": trials}
    return {"lab": {"kind": "sim"}, "series": {**listed, "trial_s": 0.9, "warmup_s": 0.1}}


OF_A_SIZE = {"tcp": {"path": {"both": {"delay": "1ms"}}, "total": "1MB"}}


def test_equal_scenarios_count_once_and_unknown_ones_are_said() -> None:
    pace = ReproductionPace([("a", series(10)), ("b", series(10)), ("c", series(40)), ("d", OF_A_SIZE)])
    assert pace.whole.known_s == pytest.approx(60)
    assert pace.whole.text == "about 60 s, and 1 measurement of unknown length"
    assert pace.whole.cell == "≥ 60 s"


def test_what_was_measured_corrects_the_rest() -> None:
    pace = ReproductionPace([("a", series(50)), ("b", series(100)), ("c", series(150))])
    assert pace.left().known_s == pytest.approx(360)
    pace.learn("a", 180)
    # 180 s instead of 60; the expectation counts like 60 s that came true.
    assert pace.factor == pytest.approx(2)
    assert pace.step_s("b") == pytest.approx(240)
    assert pace.left("b").known_s == pytest.approx(360)
    pace.skip("b")
    assert pace.left().known_s == pytest.approx(360)


class Reports:
    def __init__(self) -> None:
        self.left: list[Left | None] = []
        self.what = ""

    def stage(self, title: str) -> None: ...

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        self.left.append(left_s)
        self.what = what

    def note(self, message: str) -> None: ...


def test_the_time_left_is_that_of_the_whole_reproduction() -> None:
    told = Reports()
    progress = WholeProgress(told, "measurement 2 of 5", 40, 100)
    progress.advance(1, 4, "64 B", 7)
    progress.advance(1, 4, "64 B", (7, 9))
    progress.advance(1, 4)
    assert told.left == [107, (107, 109), 130]
    assert told.what == "measurement 2 of 5"
    unknown = WholeProgress(told, "measurement 3 of 5", None, 100)
    unknown.advance(0, 1)
    assert told.left[-1] is None
