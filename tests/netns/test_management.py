"""Cross traffic: a management session with the device, and nothing left of it afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.base.files import HOST_FILES
from weirlab.lab import clean, dut
from weirlab.lab.linux.namespace import DIRECTORY, Namespace
from weirlab.lab.monitoring import session
from weirlab.lab.namespaces import PlainPair
from weirlab.lab.netns import NetnsLab
from weirlab.measure import TrialEntry, run_trial
from weirlab.measure.terms import SINGLE
from weirlab.records import RuleSetup, TrialSpec
from weirlab.traffic.spec import Rate, Traffic

pytestmark = pytest.mark.netns

ONCE = replace(SINGLE, max_attempts=1)

SHORT = Traffic(Rate(1000), warmup_s=0.0, duration_s=0.3)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[str]]]:
    """The programs that sessions start."""
    started: list[subprocess.Popen[str]] = []
    start = session.ManagementSession._start

    def noted(self: Any, *arguments: Any) -> None:
        start(self, *arguments)
        started.append(self._programs[-1])

    monkeypatch.setattr(session.ManagementSession, "_start", noted)
    yield started
    assert all(program.poll() is not None for program in started)


@pytest.mark.parametrize("driver", ["iptables", "nftables", "forward"])
def test_a_trial_with_cross_traffic_tells_what_the_session_took(
    driver: str, programs: list[subprocess.Popen[str]]
) -> None:
    with NetnsLab(dut.make(driver)) as lab:
        rules = RuleSetup() if driver == "forward" else RuleSetup(20)
        (record, *_) = run_trial(
            lab, TrialSpec(SHORT, rules, cross_traffic=True), TrialEntry("r"), terms=ONCE
        )
        assert record.result.lost == 0
        assert record.host.management_s is not None
        assert 0 < record.host.management_s < record.host.wall_s
        assert os.sched_getaffinity(programs[0].pid) == {lab._cores.dut}
        (plain, *_) = run_trial(lab, TrialSpec(SHORT, rules), TrialEntry("r"), terms=ONCE)
        assert plain.host.management_s is None
        assert all(program.poll() == 0 for program in programs), "a trial without has no session beside it"


def test_the_session_can_be_opened_again_and_goes_with_the_lab(
    made: Any, programs: list[subprocess.Popen[str]]
) -> None:
    with NetnsLab(dut.make("iptables")) as lab:
        for on in (True, True, False, True):
            lab.set_cross_traffic(on)
        assert len(programs) == 4
        assert "mgmt" in lab.namespaces
    assert made.left() == []


def test_a_ruleset_that_keeps_the_session_out_is_named(
    tmp_path: Path, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_PATIENCE_S", 1.0)
    path = tmp_path / "closed.nft"
    path.write_text("table ip f {\n chain i {\n type filter hook input priority 0; policy drop;\n }\n}\n")
    with NetnsLab(dut.make("ruleset", path, HOST_FILES)) as lab:
        lab.set_rules(RuleSetup(1))
        with pytest.raises(LabError, match="management session"):
            lab.set_cross_traffic(True)
    assert made.left() == []


def test_without_a_device_there_is_nobody_to_hold_a_session_with() -> None:
    with PlainPair() as pair:
        pair.set_cross_traffic(False)
        with pytest.raises(InputError, match="no device under test"):
            pair.set_cross_traffic(True)


OWNER = textwrap.dedent("""
    import signal, sys
    from weirlab.lab import dut
    from weirlab.lab.netns import NetnsLab

    with NetnsLab(dut.make("iptables")) as lab:
        lab.set_cross_traffic(True)
        print(*(program.pid for program in lab._session._programs), *lab.namespaces.values(), flush=True)
        sys.stdin.read()
""")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_whatever_ends_the_owner_ends_the_session(
    how: signal.Signals, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with owner:
        assert owner.stdout is not None
        words = owner.stdout.readline().split()
        pids, names = [int(word) for word in words[:2]], words[2:]
        try:
            assert len(names) == 4
            assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        finally:
            owner.send_signal(how)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    clean.clean()
    assert not any((DIRECTORY / name).exists() for name in names)
    assert not Namespace(names[-1]).path.exists()
