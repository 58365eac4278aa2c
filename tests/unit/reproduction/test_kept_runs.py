"""Reproductions in ``bench/runs``: every row follows from the runs that are kept beside it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Final

import pytest

from weirlab.reproduction import page, study
from weirlab.reproduction.contract import ROWS, ReproductionRow
from weirlab.reproduction.study import ReproductionScenario, ReproductionStudy
from weirlab.store import Run, Store
from weirlab.store.frames import rows_of

from .voice_runs import loaded

RUNS: Final = Path(__file__).resolve().parents[3] / "bench" / "runs"


def kept() -> list[Path]:
    """The folders of all reproductions."""
    return sorted(
        path.parent
        for path in RUNS.rglob("manifest.json")
        if json.loads(path.read_text("utf-8")).get("kind") == study.ReproductionStudy.key
    )


def check_rows(run: Run) -> None:
    """The rows that are stored with ``run`` are those that follow from the runs beside it."""
    rows = {(row.experiment, row.key): row for row in rows_of(ReproductionRow, run.table(ROWS))}
    found = {(row.experiment, row.key): row for row in study.stored(run).rows}
    assert rows.keys() == found.keys()
    for key, row in rows.items():
        again = found[key]
        assert (key, row.verdict, row.found, row.rule) == (key, again.verdict, again.found, again.rule)
        assert row.here == pytest.approx(again.here, rel=1e-9, nan_ok=True)
    assert any(not math.isnan(row.here) for row in rows.values())


@pytest.mark.parametrize("folder", kept(), ids=lambda folder: folder.name)
def test_every_row_of_a_kept_reproduction_follows_from_its_runs(folder: Path) -> None:
    check_rows(Store(folder.parent).open(folder.name))


def test_of_a_failover_the_switches_alone_must_be_kept(tmp_path: Path) -> None:
    only = ("failover-soft", "failover-hard")
    inner = loaded(tmp_path)
    assert [path.name for path in inner.path.glob("*.parquet")] == ["switches.parquet"]
    asked = ReproductionScenario(
        name="kept", reproduction={"publication": "woernhard-2006", "only": only}, report=None
    )
    with Store(tmp_path).create(ReproductionStudy.key, asked.model_dump(mode="json"), {}) as writer:
        writer.put_json(study.RUNS, {f"{name}/at the published rate": {"run": inner.run_id} for name in only})
    run = writer.run
    ReproductionStudy().conclude(run, asked, study.stored(run))
    check_rows(run)
    chapters = {chapter.key: chapter for chapter in ReproductionStudy().page(run).chapters}
    assert all(chapters[name].figures for name in only)


@pytest.mark.parametrize("folder", kept(), ids=lambda folder: folder.name)
def test_every_value_of_a_kept_reproduction_has_a_name_of_its_own_beside_the_published_one(
    folder: Path,
) -> None:
    found = study.stored(Store(folder.parent).open(folder.name))
    (chart,) = page.ratios(found)
    names = chart.data["row"].to_list()
    assert len(names) == len(set(names)) == min(sum(row.ratio > 0 for row in found.rows), page.MOST_RATIOS)
