from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weirlab.cli.app import app

from ...conftest import Answer

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
