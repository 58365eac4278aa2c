"""The cases of ``bench/planted.py``."""

from __future__ import annotations

import pytest

from causes import MAKERS, planted
from weirlab.studies.emulator.reading import read_path


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_every_case_has_a_path_that_can_be_emulated(name: str, seed: int | None) -> None:
    case = planted(name, seed)
    for words in case.path:
        assert read_path(dict(words)).delay_ns > 0


@pytest.mark.parametrize("name", MAKERS)
def test_a_seed_always_draws_the_same_parameters_and_others_than_another_one(name: str) -> None:
    assert planted(name, 5).drawn == planted(name, 5).drawn
    assert planted(name, 5).drawn != planted(name, 6).drawn
    assert planted(name).drawn == planted(name, None).drawn


def test_given_parameters_replace_the_usual_ones() -> None:
    case = planted("bottleneck saturated", given={"rate_bps": 4e6})
    assert case.path[0]["rate"] == "4000kbit/s"
    assert case.drawn["rate_bps"] == 4e6
