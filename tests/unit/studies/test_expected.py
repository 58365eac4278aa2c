"""How long scenarios should take: campaigns, reproductions and the page of a running scenario say so."""

from __future__ import annotations

from typing import Any

import pytest

from weirlab.scenario.document import Document
from weirlab.studies import ready, scenarios
from weirlab.studies.registry import studies


def expected_s(content: dict[str, Any]) -> float | None:
    root = scenarios.check(Document("test", {"name": "test", **content}))
    return studies()[root.KEY].expected_s(root)


@pytest.mark.parametrize("name", ready.names())
def test_every_scenario_that_comes_with_weir_says_how_long_it_takes(name: str) -> None:
    root = scenarios.load(ready.paths()[name])
    seconds = studies()[root.KEY].expected_s(root)
    assert seconds is not None
    assert 5 < seconds < 24 * 3600


@pytest.mark.parametrize(
    ("content", "factor", "more"),
    [
        ({"esp": {"rounds": 20}}, 2.0, {"esp": {"rounds": 40}}),
        (
            {"endpoints": {"limit": None, "repetitions": 3}},
            2.0,
            {"endpoints": {"limit": None, "repetitions": 6}},
        ),
        (
            {"voice_load": {"plan": "cesnet", "numbers": ["+420224355289"], "trials": 1}},
            3.0,
            {"voice_load": {"plan": "cesnet", "numbers": ["+420224355289"], "trials": 3}},
        ),
    ],
)
def test_more_of_the_same_takes_longer(content: dict[str, Any], factor: float, more: dict[str, Any]) -> None:
    before, after = expected_s(content), expected_s(more)
    assert before is not None
    assert after == pytest.approx(factor * before)


@pytest.mark.parametrize(
    "content",
    [
        {"tcp": {"path": {"both": {"delay": "1ms"}}, "total": "1MB"}},
        {"endpoints": {}},
        {"voice": {"plan": "a-plan-in-a-file.yaml"}},
        {"voice_load": {"plan": "cesnet"}},
    ],
)
def test_what_takes_as_long_as_it_needs_is_not_guessed(content: dict[str, Any]) -> None:
    assert expected_s(content) is None
