"""Parallel sockets, MPTCP and TCP over emulated paths in namespaces: all of it is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import LabError
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.scenario.load import from_plain
from weirlab.store import Run, Store
from weirlab.store.frames import rows_of
from weirlab.studies import runner
from weirlab.transfers.parallel import namespaces
from weirlab.transfers.parallel.findings import ATTEMPTS, PATHS, SERIES, ParallelAttemptRow, PathRow
from weirlab.transfers.parallel.section import ParallelScenario
from weirlab.transfers.parallel.study import ParallelStudy

from .conftest import Made

pytestmark = pytest.mark.netns

SESSIONS = ("poll-all", "earliest", "earliest-fair")
METHODS = ["tcp", "independent", *([] if namespaces.missing() else ["mptcp"]), *SESSIONS]


def measured(store: Store, case: dict[str, Any], **more: Any) -> Run:
    """A run of one case; whether an attempt counts does not matter."""
    paths = [{"both": {"rate": "20Mbps", "delay": "2ms", "queue": "20ms"}, "copies": 2}]
    section = {
        "cases": [{"name": "two", "paths": paths, **case}],
        "methods": METHODS,
        "warmup_s": 0.1,
        "lasts_s": 0.4,
        "repetitions": 1,
        "max_attempts": 1,
        **more,
    }
    content = {"name": "test", "parallel": section, "report": None}
    return runner.run(
        ParallelStudy(), from_plain(content, "test", ParallelScenario), Work(store, SilentProgress())
    ).run


def test_every_method_transfers_over_both_paths_and_leaves_nothing_behind(tmp_path: Path, made: Made) -> None:
    run = measured(Store(tmp_path), {})
    assert len(made.identifiers) == 1
    assert made.left() == []
    attempts = {row.method: row for row in rows_of(ParallelAttemptRow, run.table(ATTEMPTS))}
    assert set(attempts) == set(METHODS)
    for row in attempts.values():
        assert row.failure == ""
        assert row.total_bytes > 0
        assert row.retransmissions is not None
        assert (row.reorder_peak_bytes is not None) == (row.method in SESSIONS)
    paths = rows_of(PathRow, run.table(PATHS))
    for row in attempts.values():
        mine = [path for path in paths if path.trial_id == row.trial_id]
        assert [path.path for path in mine] == ([1] if row.method == "tcp" else [1, 2])
        assert all(path.frames > 0 and path.connections == 1 for path in mine), row.method
    assert set(run.table(SERIES)["what"]) == {"application", "path"}


def test_a_dead_path_loses_frames_and_a_competitor_is_heard_of(tmp_path: Path) -> None:
    case = {
        "outages": [{"path": 2, "from_s": 0.1, "lasts_s": 0.6}],
        "competitors": [{"path": 1, "from_s": 0.1}],
        "lasts_s": 0.8,
    }
    run = measured(Store(tmp_path), case, methods=["earliest"])
    [row] = rows_of(ParallelAttemptRow, run.table(ATTEMPTS))
    assert row.failure == ""
    first, second = rows_of(PathRow, run.table(PATHS))
    assert (first.lost, second.lost > 0) == (0, True)
    assert row.competitor_bps > 0


def test_a_congestion_control_that_is_not_there_is_named_and_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"'nonsense' is not available; this kernel has .*"):
        measured(Store(tmp_path), {}, congestion="nonsense")
    assert not Store(tmp_path).runs()
