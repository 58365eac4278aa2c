"""``weir ask``: SQL over runs and folders of series."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ..conftest import Weir


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two folders of series, of which one has a column more."""
    found = []
    for name, rows in (("a", {"bytes": [1, 2]}), ("b", {"bytes": [3], "late": [True]})):
        folder = tmp_path / name
        folder.mkdir()
        pl.DataFrame(rows).write_parquet(folder / "segments.parquet")
        found.append(folder)
    return found


def test_a_run_answers_by_its_tables(weir: Weir, finished: str) -> None:
    asked = "select position, max(forwarding_pps) most from trials where valid group by position order by 1"
    rows = weir("ask", asked, finished, "--json").json["rows"]
    thresholds = weir("show", finished, "--json").json["thresholds"]
    shown = {row["position"]: row["threshold_pps"] for row in thresholds}
    assert [row["position"] for row in rows] == sorted({row["position"] for row in rows} | {*shown})
    assert all(row["most"] >= 0.9 * shown[row["position"]] for row in rows if row["position"] in shown)
    listed = weir("ask", "show tables", finished, "--json").json["rows"]
    assert {"trials", "histograms"} <= {row["table"] for row in listed}


def test_several_folders_are_one_table_that_says_where_a_row_is_from(weir: Weir, folders: list[Path]) -> None:
    asked = "select source, sum(bytes) bytes, count(late) late from segments group by source order by source"
    rows = weir("ask", asked, *folders, "--json").json["rows"]
    assert rows == [
        {"source": str(folders[0]), "bytes": 3, "late": 0},
        {"source": str(folders[1]), "bytes": 3, "late": 1},
    ]


def test_a_long_answer_is_cut_and_says_so(weir: Weir, folders: list[Path]) -> None:
    cut = weir("ask", "select * from segments", folders[0], "--limit", "1")
    assert cut.out.startswith("1 row, and there are more: --limit N")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select nothing from segments", 'unable to find column "nothing"'),
        ("select * from trials", "trials"),
        ("selekt", "the tables are segments"),
        *(
            (f"select * from {reader}('/etc/passwd')", "is not allowed")
            for kind in ("csv", "ipc", "json", "parquet")
            for reader in (f"read_{kind}", f'"read_{kind}"', f"`Read_{kind}` ", f"read_{kind}/**/")
        ),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused(
    weir: Weir, folders: list[Path], query: str, message: str
) -> None:
    refused = weir("ask", query, folders[0], "--json")
    assert refused.code == 2
    assert message in json.loads(refused.out)["error"]["message"]


@pytest.mark.parametrize("query", ["show tables", "select * from segments"])
def test_tables_that_are_not_alike_are_refused(weir: Weir, folders: list[Path], query: str) -> None:
    pl.DataFrame({"bytes": [[1]]}).write_parquet(folders[1] / "segments.parquet")
    refused = weir("ask", query, *folders)
    assert (refused.code, "the query cannot be answered" in refused.err) == (2, True)


def test_a_source_must_be_a_run_or_a_folder_with_tables(weir: Weir, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "has no Parquet files" in weir("ask", "select 1", tmp_path / "empty").err
    (tmp_path / "empty" / "segments.parquet").write_bytes(b"PAR1 and no more")
    assert "cannot be read" in weir("ask", "select * from segments", tmp_path / "empty").err
    assert weir("ask", "select 1", "20260101-000000-trial-0000").code == 6
