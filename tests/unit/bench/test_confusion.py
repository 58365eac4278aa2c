"""The confusion matrix of planted causes."""

from __future__ import annotations

from dataclasses import dataclass

import confusion


@dataclass(frozen=True)
class Row:
    case: str
    named: str
    confidence: str = "medium"
    names_it: bool = False
    untold: bool = False
    void: str = ""
    source: str = "sender"


ROWS = [
    Row("loss", "loss", "high", names_it=True),
    Row("loss", "bottleneck"),
    Row("loss", "unknown", "low"),
    Row("drops", "loss", "high", untold=True),
    Row("drops", "bottleneck", "high"),
    Row("drops", "", void="the link was busy"),
]


def test_what_cannot_be_told_is_neither_right_nor_wrong() -> None:
    counts = confusion.markdown(ROWS).splitlines()[2]
    assert counts == "| sender | 5 | 1 | 2 | 2 | 1 | 33 % | 50 % |"


def test_cells_count_diagnoses_and_those_with_high_confidence() -> None:
    lines = confusion.markdown(ROWS).splitlines()
    assert "| cause | bottleneck | loss | unknown |" in lines
    assert "| loss | 1 | **1/1** | 1 † |" in lines
    assert "| drops | 1/1 | 1/1 † |  |" in lines
