"""The command at work, and a browser that looks at it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from . import devtools
from .devtools import Inside


@dataclass(frozen=True)
class Served:
    """``weir web`` at work; ``url`` is where."""

    url: str
    process: subprocess.Popen[str]
    store: Path

    def end(self) -> tuple[int, str]:
        """Ctrl-C; its exit code, and the rest of standard output."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=devtools.DEADLINE_S)
        return self.process.returncode, out


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    made: list[subprocess.Popen[str]] = []

    def begin(*options: str, inside: Inside = devtools.here, **environment: str) -> Served:
        command = [sys.executable, "-m", "weirlab", "--store", str(tmp_path / "store"), "web", "--json"]
        process = inside(
            lambda: subprocess.Popen(
                [*command, "--bind", "127.0.0.1:0", *options],
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
        made.append(process)
        assert process.stdout is not None
        listening = json.loads(process.stdout.readline())
        return Served(listening["url"], process, tmp_path / "store")

    yield begin
    for process in made:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[devtools.Browser]:
    """Starts once: that takes longer than most tests."""
    if devtools.chromium() is None:
        pytest.skip("needs Debian's chromium")
    with devtools.browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def browser(chromium: devtools.Browser) -> Iterator[devtools.Browser]:
    """Without any session; those of the test end with it."""
    yield chromium
    chromium.end_sessions()


@pytest.fixture(scope="session")
def shots() -> Path | None:
    """Where screenshots go: ``$WEIR_SHOTS``. Nobody would look at others."""
    if not (named := os.environ.get("WEIR_SHOTS")):
        return None
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
