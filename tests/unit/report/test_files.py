"""Files that are written in one step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weirlab.errors import StoreError
from weirlab.report.files import written


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    for content in (b"one", b"two"):
        assert written(path, content).read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_regular_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null"), tmp_path):
        with pytest.raises(StoreError, match="no regular file"):
            written(path, b"x")
    assert pipe.is_fifo()
