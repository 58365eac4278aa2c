"""The files of publications: every one can be read, and what a file may contain."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
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


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({}, "give one of value, about, range, series"),
        ({"value": 1, "about": 1}, "give one of"),
        ({"value": 1, "valeu": 2}, "no such key: valeu"),
        ({"value": "95"}, "a number was expected, not '95'"),
        ({"value": True}, "a number was expected"),
        ({"value": math.nan}, "a number was expected"),
        ({"value": 1, "kind": "guessed"}, "kind is one of measured, computed, claimed, given"),
        ({"value": 1, "unit": 3}, "text was expected of unit"),
        ({"range": [1]}, "a range has two ends"),
        ({"range": [2, 1]}, "ends before it begins"),
        ({"range": [1, "2"]}, "a number was expected, not '2'"),
        ({"series": {1: 2}}, "'by' says"),
        ({"series": {"one": 2}, "by": "x"}, "a number was expected, not 'one'"),
        ({"series": [1, 2], "by": "x"}, "keys with values were expected"),
    ],
)
def test_a_mistake_in_a_file_is_named(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^e/rate.*: .*{re.escape(complaint)}"):
        parsed("k", content(**wrong))


@pytest.mark.parametrize("part", ["what", "unit", "kind"])
def test_a_value_without_a_unit_is_refused(part: str) -> None:
    about = content(value=1)
    del about["experiments"]["e"]["values"]["rate"][part]
    with pytest.raises(ValueError, match=f"^e/rate: missing: {part}$"):
        parsed("k", about)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda about: about.pop("title"), "the file: missing: title"),
        (lambda about: about.update(authour="A"), "the file: no such key: authour"),
        (lambda about: about["experiments"].update(e=3), "e: keys with values were expected, not 3"),
        (lambda about: about["experiments"]["e"].pop("where"), "e: missing: where"),
        (lambda about: about["experiments"]["e"].update(claims={"c": {"absent": ""}}), "e/c: missing: says"),
        (lambda about: about["experiments"]["e"].update(claims={"rate": "T"}), "both a value and a claim"),
    ],
)
def test_a_part_that_is_missing_or_unknown_is_named(
    change: Callable[[dict[str, Any]], object], complaint: str
) -> None:
    about = content(value=1)
    change(about)
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parsed("k", about)


@pytest.mark.parametrize("text", ["title: [", "title: T"])
def test_a_file_that_was_damaged_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    (tmp_path / f"{KEYS[0]}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr("weirlab.publications.resources.files", lambda _: tmp_path)
    with pytest.raises(InputError, match=f"{KEYS[0]}.yaml: "):
        publication.__wrapped__(KEYS[0])
