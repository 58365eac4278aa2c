"""The files of publications: every one can be read, and what a file may contain."""

from __future__ import annotations

import math
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.publications import KEYS, parsed, publication


def content(**value: Any) -> dict[str, Any]:
    """A file with one experiment that has one value."""
    about = {"what": "rate", "unit": "Mbit/s", "kind": "measured", **value}
    experiment = {"where": "Figure 1", "question": "How fast?", "values": {"rate": about}}
    return {
        "title": "T",
        "authors": ["A B", "C D"],
        "year": 2007,
        "source": "Report 1",
        "experiments": {"e": experiment},
    }


@pytest.mark.parametrize("key", KEYS)
def test_every_publication_can_be_read_and_its_experiments_have_something_to_compare(key: str) -> None:
    about = publication(key)
    assert about.experiments
    assert all(experiment.values or experiment.claims for experiment in about.experiments.values())
    assert about.citation.startswith(about.authors[0])


def test_a_publication_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match="'nobody-1999'; choose from lohmiller-2022"):
        publication("nobody-1999")


@pytest.mark.parametrize(
    ("form", "low", "high", "text"),
    [
        ({"value": 95}, 95, 95, "95"),
        ({"about": 95}, 95, 95, "about 95"),
        ({"range": [90, 100]}, 90, 100, "90 to 100"),
        ({"range": [None, 2]}, -math.inf, 2, "up to 2"),
        ({"range": [3, None]}, 3, math.inf, "at least 3"),
    ],
)
def test_a_value_is_a_number_or_a_range(form: dict[str, Any], low: float, high: float, text: str) -> None:
    value = parsed("k", content(**form)).value("e", "rate")
    assert (value.low, value.high, value.text) == (low, high, text)


def test_points_of_a_series_are_values_of_their_own() -> None:
    about = parsed("k", content(series={0.1: 18.2, 0.9: 94.7}, by="share"))
    assert about.experiments["e"].series("rate") == {0.1: 18.2, 0.9: 94.7}
    assert about.value("e", "rate@0.9").what == "rate, share 0.9"


@pytest.mark.parametrize("wrong", [{}, {"value": 1, "about": 1}, {"value": 1, "valeu": 2}])
def test_a_mistake_in_a_file_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="e/rate: "):
        parsed("k", content(**wrong))
