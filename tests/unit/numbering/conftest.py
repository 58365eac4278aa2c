from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weirlab.cli.program.app import app
from weirlab.numbering.lab import chroot

from ..conftest import Answer

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


@pytest.fixture(autouse=True)
def asterisk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where Asterisk is looked for: nothing is there, whatever this machine has."""
    monkeypatch.setattr(chroot, "FOLDER", tmp_path / "asterisk")
    return tmp_path / "asterisk"


@pytest.fixture
def has_asterisk(asterisk: Path) -> None:
    """Tests that use it find a manifest, and think that Asterisk is installed."""
    asterisk.mkdir()
    (asterisk / "manifest.json").write_text('{"version": "16.28.0", "suite": "bullseye"}')
