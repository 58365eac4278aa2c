"""The scripts of the switch, run by this host's shells in a folder of the test's. tests/netns has sshd."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import LabError
from weirlab.lab.dut.tool import LoadCommand
from weirlab.lab.remote import deadman
from weirlab.lab.remote.session import DeviceSession
from weirlab.lab.remote.target import Output
from weirlab.records import RuleSetup

SHELLS = [shell for shell in ("dash", "busybox") if shutil.which(shell)]


class Here:
    """A target whose folder is below ``root``, and whose shell is ``shell``."""

    name = "fw1"

    def __init__(self, root: Path, shell: str) -> None:
        self.folder = root / "weir-device"
        self._shell = [shell, "sh"] if shell == "busybox" else [shell]
        (root / "bin").mkdir()
        (root / "bin" / "sh").write_text(f'#!/bin/sh\nexec {" ".join(self._shell)} "$@"\n')
        (root / "bin" / "sh").chmod(0o755)
        self._path = f"{root / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"

    def start(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._placed(word) for word in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": self._path, "LC_ALL": "C"},
        )

    def run(self, argv: Sequence[str], stdin: str = "") -> Output:
        with self.start(argv) as process:
            out, err = process.communicate(self._placed(stdin), timeout=30)
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)

    def _placed(self, text: str) -> str:
        # systemd's scopes need rights that a test has not.
        return text.replace(deadman.FOLDER, str(self.folder)).replace("/run/systemd/system", "/nowhere")

    def check_login(self) -> None:
        pass

    def client(self) -> str:
        return ""

    def close(self) -> None:
        pass


class OneFile:
    """Rules that are a file; loading them takes as long as there is the file ``held``."""

    own = "the file rules"

    def __init__(self, root: Path, is_held: bool = False) -> None:
        self.rules, self.held = root / "rules", root / "held"
        if is_held:
            self.held.touch()

    def listing(self, target: Here) -> Output:
        return target.run(["sh", "-c", f"cat {self.rules} 2>/dev/null; true"])

    def existing(self, target: Here) -> str:
        return ""

    def loads(self, rules: RuleSetup) -> list[LoadCommand]:
        waiting = f"while [ -e {self.held} ]; do sleep 0.05; done"
        return [LoadCommand(["sh", "-c", f"{waiting}; cat >{self.rules}"], "one\ntwo\n")]

    def restoring(self) -> str:
        return f"rm {self.rules}\n[ ! -e {self.rules} ]\n"


@pytest.fixture(params=SHELLS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Here]:
    made = Here(tmp_path, request.param)
    yield made
    made.run(["sh", "-c", f"kill $(cat {made.folder}/pid) 2>/dev/null"])


def session(target: Here, rules: Any, restore_s: float = 60.0) -> DeviceSession:
    made = DeviceSession(target, rules, restore_s)
    made.begin()
    return made


def wait_until(condition: Any, most_s: float = 60.0) -> None:
    end_s = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_rules_are_loaded_from_standard_input_and_removed_at_the_end(target: Here, tmp_path: Path) -> None:
    rules = OneFile(tmp_path)
    made = session(target, rules)
    made.apply(RuleSetup(1))
    assert rules.rules.read_text() == "one\ntwo\n"
    assert made.end() == ""
    assert not rules.rules.exists()
    assert not target.folder.exists()


def test_a_load_that_takes_longer_than_the_switch_waits_is_ended(target: Here, tmp_path: Path) -> None:
    rules = OneFile(tmp_path, is_held=True)
    made = session(target, rules)
    rules.rules.touch()
    with ThreadPoolExecutor(1) as apart:
        applied = apart.submit(made.apply, RuleSetup(1))
        wait_until((target.folder / "loading").exists)
        made.restore_s = 1.0
        made.extend()
        with pytest.raises(
            LabError, match="rules were not loaded within 1 s, after which the device restores"
        ):
            applied.result(60)
    wait_until(lambda: not target.folder.exists())
    rules.held.unlink()
    # Longer than a load that still waited would take to notice.
    time.sleep(0.2)
    assert not rules.rules.exists()
    with pytest.raises(LabError, match="restored its own rules while Weir was away for more than 1 s"):
        made.extend()


def test_a_switch_that_waits_for_a_long_trial_notices_its_end(target: Here, tmp_path: Path) -> None:
    rules = OneFile(tmp_path)
    made = session(target, rules, restore_s=3600.0)
    made.apply(RuleSetup(1))
    made.extend(3600)
    made.restore_s = 1.0
    made.extend()
    wait_until(lambda: not target.folder.exists())
    assert not rules.rules.exists()


def test_the_end_does_not_overtake_a_load(target: Here, tmp_path: Path) -> None:
    rules = OneFile(tmp_path, is_held=True)
    made = session(target, rules)
    (load,) = rules.loads(RuleSetup(1))
    with target.start(["sh", f"{deadman.FOLDER}/load", made._owner, *load.command]) as process:
        wait_until((target.folder / "loading").exists)
        # Ctrl-C: ssh is gone, and the command on the device is not.
        made.end()
        rules.held.unlink()
        process.communicate("late\n")
    time.sleep(0.2)
    assert not rules.rules.exists()


def test_a_device_that_restored_its_rules_before_a_load_is_told_as_such(
    target: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = OneFile(tmp_path)
    made = session(target, rules)
    moved = made.extend

    def late(beyond_s: float = 0.0) -> None:
        moved(beyond_s)
        shutil.rmtree(target.folder)

    monkeypatch.setattr(made, "extend", late)
    with pytest.raises(LabError, match="restored its own rules while Weir was away"):
        made.apply(RuleSetup(1))


def test_a_lock_that_somebody_left_does_not_keep_the_end_from_restoring(
    target: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = OneFile(tmp_path)
    made = session(target, rules)
    made.apply(RuleSetup(1))
    (target.folder / "lock").mkdir()
    monkeypatch.setattr(deadman, "END", deadman.END.replace("lock 10", "lock 1"))
    made.end()
    assert not rules.rules.exists()
    assert not target.folder.exists()


def test_a_process_that_has_got_the_number_of_the_switch_is_neither_trusted_nor_ended(
    target: Here, tmp_path: Path
) -> None:
    made = session(target, OneFile(tmp_path))
    target.run(["sh", "-c", f"kill $(cat {target.folder}/pid)"])
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as stranger:
        (target.folder / "pid").write_text(f"{stranger.pid}\n")
        (target.folder / "loading").write_text(f"{stranger.pid}\n")
        with pytest.raises(LabError, match="the process that would restore its rules was ended there"):
            made.extend()
        assert made.end() == ""
        assert stranger.poll() is None
        stranger.kill()


def test_rules_that_cannot_be_removed_are_told_and_tried_again(target: Here, tmp_path: Path) -> None:
    rules = OneFile(tmp_path)
    made = session(target, rules)
    made.apply(RuleSetup(1))
    rules.rules.unlink()
    rules.rules.mkdir()
    with pytest.raises(LabError, match=r"could not be removed there: .*again by itself within 60 s"):
        made.end()
    assert (target.folder / "pid").exists()
