"""The command line as a function, a finished run, and what holds for every table that a test prints."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from weirlab.base.tables import Table
from weirlab.cli import layout
from weirlab.cli.program import app as cli
from weirlab.cli.program.app import app
from weirlab.jobs import testbeds
from weirlab.lab.base import TestBed
from weirlab.measure.search.trials import SearchTrialRunner
from weirlab.measure.terms import TrialClocks, TrialTerms
from weirlab.store import RunWriter, Store
from weirlab.studies import registry
from weirlab.testing import FakeBed, FakeClock, FakeDevice

_LINES = layout.lines
_CALLS = itertools.count()
Closed = Callable[[Path], None]
_PATH = 40
"""Words of this length are paths, which are copied from a terminal and never broken."""


@pytest.fixture(autouse=True)
def tables_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every table be drawn for 80 columns, too, and looked at."""

    def drawn(table: Table, columns: int | None, **options: Any) -> list[str]:
        check(table)
        return _LINES(table, columns, **options)

    monkeypatch.setattr(layout, "lines", drawn)


def check(table: Table) -> None:
    """No line of ``table`` is longer than 80 columns, and no word in it is broken."""
    lines = _LINES(table, 80, note=False)
    cells = [table.caption, *table.columns, *(cell for row in table.rows for cell in row)]
    whole = {word for cell in cells for word in cell.split()}
    for line in lines:
        if set(line) <= {"─"}:
            continue
        words = line.split()
        assert set(words) <= whole, f"broken: {line!r}"
        assert layout._width(line) <= 80 or max(map(len, words)) >= _PATH, f"too wide: {line!r}"
    rows = table.rows and [row[0] for row in table.rows]
    assert all(set(first.split()) <= {word for line in lines for word in line.split()} for first in rows)


@pytest.fixture
def close(monkeypatch: pytest.MonkeyPatch) -> Closed:
    """Lets nobody look into a folder from now on: root, who runs the tests, may look into all."""

    def close(folder: Path) -> None:
        for name in ("stat", "lstat", "open", "listdir", "scandir"):
            monkeypatch.setattr(os, name, partial(refusing, getattr(os, name), name, folder))

    def refusing(
        real: Callable[..., Any], name: str, folder: Path, path: Any = ".", *more: Any, **how: Any
    ) -> Any:
        at = Path(path) if isinstance(path, str | Path) else Path()
        if folder in at.parents or (folder == at and name in ("listdir", "scandir")):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *more, **how)

    return close


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Let command lines share the commands of Weir's own modules: making them takes long."""
    make, own, known = cli.commands_of, cli.parts(only_own=True), {}

    def commands_of(part: str) -> dict[str, Any]:
        if part not in own:
            return make(part)
        # Some name the scenarios of all studies, and a test may bring one.
        key = (part, *registry.studies())
        if key not in known:
            known[key] = make(part)
        return dict(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "commands_of", commands_of)
        yield


def remembering(fit_all: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """As ``fit_all``, once for the same trials."""
    known: dict[str, dict[str, Any]] = {}

    def fit(
        observations: Iterable[Any],
        *,
        later: Any = None,
        told: Callable[[int, int, str], object] = lambda *_: None,
    ) -> dict[str, Any]:
        rows = list(observations)
        # No model asks when a trial was made, nor in which run.
        key = repr(([replace(row, extra={}) for row in rows], later))
        if key not in known:
            known[key] = fit_all(rows, later=later, told=told)
        else:
            for done, name in enumerate((*known[key], "")):
                told(done, len(known[key]), name)
        return dict(known[key])

    return fit


@pytest.fixture(scope="session")
def fitted_once() -> Iterator[None]:
    """Let jobs that fit the models to the same trials share them; fits are tested in ``model``."""
    from weirlab.devices.prediction import modelling

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modelling, "fit_all", remembering(modelling.fit_all))
        yield


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def begin(writer: RunWriter) -> Callable[..., SearchTrialRunner]:
    """Begins the trials of a search on a bed, by a clock of their own; ``writer`` is that of the test."""

    def trials(bed: TestBed, max_attempts: int = 10) -> SearchTrialRunner:
        clock = FakeClock()
        terms = TrialTerms(max_attempts=max_attempts, clocks=TrialClocks(clock, clock.advance, clock.now))
        return SearchTrialRunner(bed, writer, terms=terms)

    return trials


def unused_port() -> int:
    """A TCP port that no address of this host uses, and that nobody gets who asks the kernel for any."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Below those of Weir's own services; other processes with tests begin elsewhere.
    ports = range(10_000, max(min(first, 29_000), 10_001))
    begin = next(_CALLS) + 50 * os.getpid()
    for number in range(len(ports)):
        port = ports[(begin + number) % len(ports)]
        with socket.socket() as made, suppress(OSError):
            made.bind(("", port))
            return port
    pytest.fail("no port is free")


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

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output, which must be JSON Lines and nothing else."""
        return [json.loads(line) for line in self.out.splitlines()]


Weir = Callable[..., Answer]


@pytest.fixture
def weir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weir:
    """Runs the command line with a store of its own and a terminal of fixed width."""
    monkeypatch.setenv("WEIR_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("WEIR_DEBUG", raising=False)

    def run(*arguments: str | Path) -> Answer:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def bed(monkeypatch: pytest.MonkeyPatch, fitted_once: None) -> Callable[..., list[FakeBed]]:
    """Let every job open fake beds; each takes up the script where the last one left it."""

    def use(*script: Any, **settings: Any) -> list[FakeBed]:
        opened: list[FakeBed] = []
        rest = iter(script)

        def open_bed(*_: object, **__: object) -> FakeBed:
            opened.append(FakeBed(FakeDevice(service_per_byte_ns=0.2), rest, **settings))
            return opened[-1]

        monkeypatch.setattr(testbeds, "open_bed", open_bed)
        return opened

    return use


SCENARIO = """\
name: small
lab: {kind: sim}
profile:
  positions: [0, 100, 1000]
  sizes: [64, 1518]
  load_shares: [0.05, 0.4, 0.7, 0.9, 1.2, 1.5]
  repetitions: 1
  trial_s: 0.05
  warmup_s: 0.01
verify:
  - {positions: [200], draws: 3, repetitions: 1, trial_s: 0.05}
report: null
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    return file


@pytest.fixture(scope="session")
def finished_store(tmp_path_factory: pytest.TempPathFactory, fitted_once: None) -> Path:
    """A store that holds a run of the whole scenario and nothing else."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "scenario.yaml").write_text(SCENARIO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testbeds, "open_bed", lambda *_, **__: FakeBed(FakeDevice(service_per_byte_ns=0.2)))
        asked = ["--store", str(folder / "store"), "run", str(folder / "scenario.yaml"), "--json"]
        result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    return folder / "store"


@pytest.fixture
def finished(finished_store: Path, tmp_path: Path, bed: Callable[..., list[FakeBed]]) -> str:
    """ID of a run of the whole scenario, a copy to do anything with; fake beds can be opened."""
    bed()
    store = shutil.copytree(finished_store, tmp_path / "store")
    (run,) = store.glob("*-profile-*")
    return run.name
