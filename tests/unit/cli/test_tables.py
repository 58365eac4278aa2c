"""Every command's tables on a terminal of 80 columns: nothing is wider, and no ID is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from weirlab.calls.failover.fakes import FakePair, SwitchBehaviour, instant
from weirlab.calls.failover.study import FailoverStudy
from weirlab.calls.failover.switches.event import SwitchClocks
from weirlab.calls.ipsec.cost_study import EspCostStudy, FormulaTimer
from weirlab.calls.ipsec.endpoints.fakes import FakeEndpointBed as FakeEndpoints
from weirlab.calls.ipsec.endpoints.fakes import opener
from weirlab.calls.ipsec.endpoints.study import EndpointsStudy
from weirlab.cli.program.showing import WITHOUT_TABLES
from weirlab.lab.finding import Finding
from weirlab.numbering.fakes import FakeLab, FakeLoadLab
from weirlab.numbering.load.study import VoiceLoadStudy
from weirlab.numbering.proof.study import VoiceStudy
from weirlab.store import Store
from weirlab.studies.registry import studies
from weirlab.testing import FakeBed, FakeClock

from ..calls.quality.captures import frames, pcap, talk, without
from ..conftest import Weir
from ..trace import made
from .test_help import COMMANDS

SHORT = ("--duration", "0.05", "--warmup", "0.01")
PAIR = ("--advert", "0.1", "--calls", "20", "--event", "0.5", "--after", "12", "--repetitions", "2")
ELSEWHERE = frozenset(
    {
        "link", "tap", "log", "tcp send", "tcp measure", "tcp why", "transients", "calibrate", "psock send",
        "psock run", "voice lab", "voice install", "voice manage users", "voice manage log", "capacity",
        "cable", "demo", "library add", "library verify", "campaign", "worker",
    }
)  # fmt: skip
"""Commands with tests of their own, in which tests/unit/conftest.py looks at the tables."""

MEASURING = (
    ("run", "SCENARIO"),
    ("trial", *SHORT, "--rate", "100kpps", "--require", "p99<1ms"),
    ("verify", "PROFILE"),
    ("fit", "PROFILE"),
    ("predict", "PROFILE", "--rate", "300kpps", "--rules", "200"),
    ("plan", "PROFILE", "--rules", "50", "--certainty", "50%", "--require", "p99<1ms"),
    ("search", "--rules", "0,1000"),
    ("rfc2544", "--frame", "64,1518", "--repetitions", "2"),
    ("profile", "--rules", "0,100", "--frame", "64", "--loads", "10%,60%,120%", "--repetitions", "1", *SHORT),
    ("compare", "PROFILE", "last"),
    ("choose", "--profiles", "PROFILE", "--rules", "50", "--calls", "300", "--extrapolate"),
    ("runs",),
    ("show", "PROFILE"),
    ("ask", "show tables", "PROFILE"),
    ("simulate", "--over", "rate=100kpps,200kpps", "--duration", "0.01"),
)
OTHERS = (
    ("calls", "--codec", "g711:60,g729/iax2:40", "--calls", "3000"),
    ("calls", "--calls", "20", "--duration", "1", "--warmup", "0.5", "--send", "--lab", "sim"),
    ("failover", *PAIR),
    ("quality", "CAPTURE"),
    ("trace", "made.pcap"),
    ("trace", "made.pcap", "--connection", "1"),
    ("ipsec bytes", "--published"),
    ("ipsec bytes", "--over", "all", "--mtu", "300"),
    ("ipsec cost", "--suite", "aes-cbc", "--mode", "tunnel", "--packet-time", "20", "--rounds", "2"),
    ("ipsec endpoints", "--calls", "1", "--repetitions", "2", "--seconds", "0.2"),
    ("reproduce",),
    ("tcp list", "--state", "listen"),
    ("tcp watch", "--list-fields"),
    ("tcp watch", "--events", "--list-fields"),
    ("voice route", "+420224355289", "--plan", "federation"),
    ("voice zones", "--plan", "federation", "--out", "FOLDER"),
    ("voice configs", "--plan", "federation", "--out", "CONFIGS"),
    ("voice prove", "--plan", "campus"),
    ("voice load", "--plan", "campus", "--trial", "1", "--trials", "1", "--width", "30"),
    ("library list",),
    ("library show", "nftables"),
    ("library compare", "nftables", "--calls", "300", "--rules", "50", "--extrapolate"),
    ("doctor",),
    ("ports",),
)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, weir: Weir) -> Iterator[Path]:
    """A store with a short path: paths are never broken."""
    with TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("WEIR_STORE", folder)
        monkeypatch.setenv("COLUMNS", "80")
        yield Path(folder)


@pytest.fixture
def look(weir: Weir, store: Path) -> Callable[..., None]:
    def look(name: str, *arguments: str | Path) -> None:
        """Run a command and look at all that it prints behind its conclusion."""
        answer = weir(*name.split(), *arguments, "--details")
        assert answer.code in (0, 3, 5, 7, 9), (name, answer)
        _, _, below = answer.out.partition("\n\n")
        assert below, (name, answer)
        for line in below.splitlines():
            assert len(line) <= 80, f"{name}: {line}"
        for run in Store(store).runs():
            assert below.count(run.run_id) == "".join(below.split()).count(run.run_id), f"{name}: broken ID"

    return look


def test_what_measures_and_what_is_made_of_runs(
    look: Callable[..., None], store: Path, bed: Callable[..., list[FakeBed]], scenario: Path
) -> None:
    bed()
    known: dict[str, str | Path] = {"SCENARIO": scenario.rename(store / "small.yaml")}
    for name, *arguments in MEASURING:
        look(name, *(known.get(each, each) for each in arguments))
        known.setdefault("PROFILE", Store(store).open("last").run_id)


def test_what_calculates_and_what_reads_captures(
    look: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    findings = [Finding("privileges", False, "no right to make network namespaces", "run as root", True)]
    monkeypatch.setattr("weirlab.lab.doctor.diagnose", lambda _: findings)
    far = made.side("2001:db8:1234:5678:9abc:def0:1234:5678", 5201)
    long = [made.connection(number, b=far) for number in range(5)]
    made.answering(monkeypatch, made.analysis(long, streams=[made.stream()], esp=[made.esp()]))
    clock = FakeClock()
    pairs = FailoverStudy(
        lambda pair: FakePair(
            pair.protocol, SwitchBehaviour(instant(pair.protocol).outage_s), iter([]), clock
        ),
        clocks=SwitchClocks(lambda: round(clock() * 1e9), clock.advance),
    )
    monkeypatch.setitem(studies(), pairs.key, pairs)
    routing = VoiceStudy(lambda network, talk_s: FakeLab(network, tmp_path))
    monkeypatch.setitem(studies(), routing.key, routing)
    costing = EspCostStudy(FormulaTimer())
    monkeypatch.setitem(studies(), costing.key, costing)
    talking = EndpointsStudy(opener(FakeEndpoints()))
    monkeypatch.setitem(studies(), talking.key, talking)
    loading = VoiceLoadStudy(lambda network, talk_s: FakeLoadLab(network, tmp_path))
    monkeypatch.setitem(studies(), loading.key, loading)
    capture = pcap(tmp_path / "calls.pcap", frames([*without(talk(100), range(20, 90, 24))]))
    known = {"CAPTURE": capture, "FOLDER": tmp_path, "CONFIGS": tmp_path / "configs"}
    for name, *arguments in OTHERS:
        look(name, *(known.get(each, each) for each in arguments))


def test_no_command_with_tables_is_forgotten() -> None:
    here = {name for name, *_ in (*MEASURING, *OTHERS)}
    assert {name for name in COMMANDS if name.split()[-1] not in WITHOUT_TABLES} == here | ELSEWHERE
