from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from weirlab.cli.app import app


@dataclass(frozen=True)
class Answer:
    """What a command left on its two streams, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output, which must be one JSON document and nothing else."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document


Voice = Callable[..., Answer]


@pytest.fixture
def voice(monkeypatch: pytest.MonkeyPatch) -> Voice:
    """Runs ``weir voice`` with a terminal of fixed width."""
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("WEIR_DEBUG", raising=False)

    def run(*arguments: str | Path) -> Answer:
        result = CliRunner().invoke(app, ["voice", *map(str, arguments)])
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run
