"""Reproductions in ``bench/runs``: every row follows from the runs that are kept beside it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Final

import pytest

from weirlab.reproduction import study
from weirlab.reproduction.contract import ROWS, ReproductionRow
from weirlab.store import Store
from weirlab.store.frames import rows_of

RUNS: Final = Path(__file__).resolve().parents[3] / "bench" / "runs"


def kept() -> list[Path]:
    """The folders of all reproductions."""
    return sorted(
        path.parent
        for path in RUNS.rglob("manifest.json")
        if json.loads(path.read_text("utf-8")).get("kind") == study.ReproductionStudy.key
    )


@pytest.mark.parametrize("folder", kept(), ids=lambda folder: folder.name)
def test_every_row_of_a_kept_reproduction_follows_from_its_runs(folder: Path) -> None:
    run = Store(folder.parent).open(folder.name)
    rows = {(row.experiment, row.key): row for row in rows_of(ReproductionRow, run.table(ROWS))}
    found = {(row.experiment, row.key): row for row in study.stored(run).rows}
    assert rows.keys() == found.keys()
    for key, row in rows.items():
        again = found[key]
        assert (key, row.verdict, row.found, row.rule) == (key, again.verdict, again.found, again.rule)
        assert row.here == pytest.approx(again.here, rel=1e-9, nan_ok=True)
    assert any(not math.isnan(row.here) for row in rows.values())
