"""The command line as a function, with nothing real behind it: no namespaces, no links, short simulations.

What must hold of every answer is in :func:`sound`.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from typer.testing import CliRunner

from weirlab.base.errors import LabError, MissingCapability
from weirlab.cli.program.app import app
from weirlab.cli.program.failures import EXIT_CODES
from weirlab.jobs import testbeds
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.records import EngineResult
from weirlab.studies import ready
from weirlab.traffic.load import offered_pps
from weirlab.traffic.spec import Traffic

from ..measure.made import make_noise

MOST_S: Final = 100.0
"""CPU time after which a command has lost its way. No measure of speed: the slowest needs two seconds, and
perhaps imports most of Weir."""

SHIPPED: Final = sorted(ready.paths().values())

_LONGEST_S: Final = 10.0
_MOST_PACKETS: Final = 300_000
_UNPACED_PPS: Final = 5e6
_RAW: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class ShortSim(SimLab):
    """The simulated lab, without patience for long trials."""

    def run(self, traffic: Traffic) -> EngineResult:
        lasts_s = traffic.warmup_s + traffic.duration_s
        packets = min(offered_pps(traffic), _UNPACED_PPS) * lasts_s
        if lasts_s > _LONGEST_S or max(packets, traffic.flows.count) > _MOST_PACKETS:
            raise LabError("this trial is longer than a test has time for")
        return super().run(traffic)


@dataclass(frozen=True)
class Answer:
    """What a command left on its two streams, its exit code and its CPU time."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str
    cpu_s: float


Weir = Callable[..., Answer]


def sound(answer: Answer) -> None:
    """Assert what holds of every answer, whatever was asked."""
    asked = " ".join(map(repr, answer.arguments))
    told = f"weir {asked}\n-> {answer.code}, {answer.cpu_s:.1f} s\n{answer.err[-3000:]}"
    assert answer.code in EXIT_CODES, told
    assert answer.code != 1, told
    assert "Traceback" not in answer.err, told
    assert not _RAW.search(answer.err), told
    assert not _RAW.search(answer.out), told
    if answer.code != 0:
        *notes, last = [line for line in answer.err.splitlines() if line.strip()] or [""]
        helped = "Usage: " in answer.out
        assert helped or any(line.startswith("weir: ") for line in (*notes, last)), told
        assert len(answer.err) < 30_000, told
    assert answer.cpu_s < MOST_S, told


SCENARIO: Final = """\
name: small
lab: {kind: sim}
profile:
  positions: [0, 1000]
  sizes: [64, 1518]
  load_shares: [0.05, 0.4, 0.7, 0.9, 1.2, 1.5]
  repetitions: 1
  trial_s: 0.02
  warmup_s: 0.002
  scout_s: 0.01
verify:
  - {positions: [200], draws: 2, repetitions: 1, trial_s: 0.02, warmup_s: 0.002}
report: null
"""


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Meanwhile ``folder`` is the current one, and nothing real can be built."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("WEIR_STORE", str(folder / "store"))
        patch.setenv("COLUMNS", "100")
        patch.setenv("TERM", "dumb")
        patch.delenv("WEIR_DEBUG", raising=False)
        patch.setattr(testbeds, "open_bed", _open_bed)
        patch.setattr(testbeds, "open_cable", _refuse)
        for name in ("tap.run_tap", "tap.run_log"):
            patch.setattr(f"weirlab.link.{name}", _refuse)
        patch.setattr("weirlab.lab.doctor.missing_for_namespaces", lambda: "this is a test")
        patch.setattr("weirlab.lab.doctor.diagnose", lambda *_: [])
        patch.setattr("weirlab.measure.noise.listen", lambda *_: make_noise())
        patch.setattr("weirlab.lab.dut.tool.probe", lambda *_: [])
        # Drawing a plot takes what it takes, whatever was asked.
        patch.setattr("weirlab.report.bundle.svg", lambda *_: "")
        patch.setattr("weirlab.report.bundle.png", lambda *_: b"")
        patch.setattr("weirlab.lab.clean.clean", list)
        patch.setattr("weirlab.link.host.journal.clean", lambda *_: [])
        patch.setattr("weirlab.transfers.psock.redirecting.findings", tuple)
        yield


def ask(*arguments: object) -> Answer:
    """Run the command line."""
    given = tuple(map(str, arguments))
    begun_s = time.process_time()
    result = CliRunner().invoke(app, given)
    return Answer(given, result.exit_code, result.stdout, result.stderr, time.process_time() - begun_s)


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario that was carried out, with its models in ``m.json`` and calls in ``calls.pcap``."""
    folder = tmp_path_factory.mktemp("furnished")
    (folder / "s.yaml").write_text(SCENARIO)
    with working_in(folder):
        for arguments in (
            ("run", "s.yaml"),
            ("fit", "last", "--out", "m.json"),
            ("calls", "--calls", "2", "--duration", "0.3", "--warmup", "0", "--write", "calls.pcap"),
        ):
            answer = ask(*arguments)
            assert answer.code == 0, answer.err
    return folder


@pytest.fixture(scope="module")
def place(furnished: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of what is furnished to work in, where nothing real can be built."""
    folder = shutil.copytree(furnished, tmp_path_factory.mktemp("fuzz"), dirs_exist_ok=True)
    with working_in(folder):
        yield folder


@pytest.fixture(scope="module")
def weir(place: Path) -> Weir:
    return ask


@pytest.fixture(scope="module")
def run_id(place: Path) -> str:
    """The run that is in the store."""
    (found,) = (place / "store").glob("*-profile-*")
    return found.name


def _open_bed(lab: Any, dut: Any, progress: Any, *_: Any, **__: Any) -> SimLab:
    if testbeds.choose(lab, dut, progress) == "netns":
        _refuse()
    return ShortSim(SimDevice(**lab.device.model_dump()))


def _refuse(*_: object, **__: object) -> NoReturn:
    raise MissingCapability("this is a test: nothing real is built")
