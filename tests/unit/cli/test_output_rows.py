"""Documents with rows that are made one by one."""

from __future__ import annotations

import json

from weirlab.base.documents import Rows
from weirlab.cli.output import to_json


def test_rows_are_written_as_a_list_of_them_would_be() -> None:
    source = [1, 2, 3]
    rows = Rows(source, lambda number: {"number": number, "text": 'a "line"\nanother', "none": []})
    document = {
        "kind": "made",
        "rows": rows,
        "empty": Rows([], str),
        "nan": float("nan"),
        "more": {"a": [1, 2]},
    }
    plain = {**document, "rows": list(rows), "empty": []}
    assert to_json(document) == to_json(plain)
    assert json.loads(to_json(document))["rows"][2]["number"] == 3
    assert to_json({}) == "{}"


def test_a_row_is_made_when_it_is_written_and_not_kept() -> None:
    made: list[int] = []
    rows = Rows(range(3), lambda number: made.append(number) or number)
    assert (len(rows), made) == (3, [])
    assert [json.loads(to_json({"rows": rows}))["rows"], made] == [[0, 1, 2], [0, 1, 2]]
