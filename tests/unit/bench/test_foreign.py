"""The list of ``bench/foreign.py``, and what counts as right."""

from __future__ import annotations

import csv

import pytest

import confusion
import foreign
from weirlab.diagnosis.causes import CAUSES

JUDGED = {"sha256": "8" * 64, "path": "a.pcap", "cause": "loss", "also": "timeout", "sure": "yes"}


def test_every_listed_capture_has_a_known_cause_and_evidence() -> None:
    with (foreign.HERE / "foreign.tsv").open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    known = {cause.key for cause in CAUSES}
    assert len({row["sha256"] for row in rows}) == len(rows) >= 70
    assert all({row["cause"], *row["also"].split()} <= known for row in rows)
    assert all(row["sure"] in ("yes", "no") and len(row["sha256"]) == 64 and row["evidence"] for row in rows)


@pytest.mark.parametrize(
    ("cause", "also", "named", "outcome"),
    [
        ("loss", "timeout", "timeout", "right"),
        ("loss", "", "timeout", "wrong"),
        ("loss", "", "", "cannot tell"),
        ("unknown", "", "unknown", "cannot tell"),
        ("unknown", "", "loss", "wrong"),
    ],
)
def test_a_headline_is_right_if_the_judgement_names_it(
    cause: str, also: str, named: str, outcome: str
) -> None:
    row = foreign.Verdict("", "", cause, tuple(also.split()), "held out", named, "high", 1.0, "")
    assert confusion.outcome(row) == outcome


@pytest.mark.parametrize(
    ("changes", "part"),
    [({}, "held out"), ({"sha256": "7" * 64}, "development"), ({"sure": "no"}, "doubtful")],
)
def test_half_of_the_sure_judgements_are_held_out(changes: dict[str, str], part: str) -> None:
    assert foreign.verdict({**JUDGED, **changes}, None).source == part
