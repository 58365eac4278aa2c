from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from weirlab.cli.output import to_json
from weirlab.cli.program import failures
from weirlab.cli.progress import LINE_EVERY_S, Bar, ProgressLines, reporter
from weirlab.jobs import progress
from weirlab.testing import FakeClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_has_null_for_what_is_not_finite_and_plain_types_for_the_rest() -> None:
    @dataclass(frozen=True)
    class Row:
        name: str
        values: tuple[float, ...]

    document = {
        "rows": [Row("a", (1.0, float("nan"), float("inf")))],
        "array": np.array([1, 2]),
        "scalar": np.float64("nan"),
        "path": Path("x"),
        3: {"set"},
    }
    assert json.loads(to_json(document)) == {
        "rows": [{"name": "a", "values": [1.0, None, None]}],
        "array": [1, 2],
        "scalar": None,
        "path": "x",
        "3": ["set"],
    }


def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    stream, clock = io.StringIO(), FakeClock()
    lines = ProgressLines(stream, clock)
    lines.stage("profiling")
    for done in range(30):
        clock.advance(1.0)
        lines.advance(done, 100, "position 0", left_s=100.0 - done)
    shown = stream.getvalue().splitlines()
    assert shown[0] == "weir: profiling"
    assert shown[1] == "weir:   9 of 100, 1 min 31 s left (position 0)"
    assert len(shown) == 1 + int(30 / LINE_EVERY_S)


def test_on_a_terminal_progress_is_a_bar_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    bar = reporter(stream)
    assert isinstance(bar, Bar)
    bar.stage("profiling")
    bar.advance(1, 4, "position 0", left_s=42.0)
    bar.note("something to know")
    bar.close()
    shown = stream.getvalue()
    assert "1/4" in shown
    assert "42 s left" in shown
    assert "weir: something to know" in shown


def test_an_interruption_after_the_run_was_finished_says_that_it_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = failures.InterruptCarrier(KeyboardInterrupt())
    monkeypatch.setattr(progress, "completed", [])
    assert failures.explain(stopped).message == "interrupted"
    monkeypatch.setattr(progress, "completed", ["20260131-120000-trial-abcd"])
    failure = failures.explain(stopped)
    assert failure.message == "interrupted; run 20260131-120000-trial-abcd is complete and kept"
    assert failure.exit_code == 130


@pytest.mark.parametrize(
    ("path", "kind", "code"),
    [("/home/ann/lib", "InputError", 2), ("/sys/fs/cgroup/weir", "PermissionError", 1)],
)
def test_a_folder_that_one_may_not_enter_is_bad_input(path: str, kind: str, code: int) -> None:
    """Reported: the message pointed to a traceback."""
    failure = failures.explain(failures.OsErrorCarrier(PermissionError(13, "Permission denied", path)))
    assert (failure.kind, failure.exit_code) == (kind, code)
    assert path in failure.message
