"""What was changed is undone by its owner, or by the next one where that is dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyroute2.ethtool.ioctl import NoSuchDevice

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError
from weirlab.lab import clean as lab_clean
from weirlab.link.host import journal, tools
from weirlab.link.host.journal import Journal


def by(act: Callable[[Mapping[str, Any]], object]) -> dict[str, journal._UndoAction]:
    """Every kind of change undone by ``act``."""
    return dict.fromkeys(journal._UNDO, journal._UndoAction(act, "it is not", "undo {name}"))


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the changes that were undone, in that order."""
    seen: list[str] = []

    def undo(change: Mapping[str, Any]) -> None:
        if change["name"] == "stubborn":
            raise OSError("busy")
        seen.append(change["name"])

    monkeypatch.setattr(journal, "_UNDO", by(undo))
    return seen


def test_the_last_change_is_undone_first_and_once(undone: list[str], tmp_path: Path) -> None:
    changes = Journal(tmp_path)
    for name in ("first", "second"):
        changes.note("up", None, name)
    assert changes.undo() == ()
    assert changes.undo() == ()
    assert undone == ["second", "first"]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_undone_is_said_and_does_not_hinder_the_rest(
    undone: list[str], tmp_path: Path
) -> None:
    changes = Journal(tmp_path)
    for name in ("first", "stubborn"):
        changes.note("up", None, name)
    (problem,) = changes.undo()
    assert problem == (
        "stubborn could not be restored: it is not (busy); the next weir tap, weir log or weir lab "
        "clean tries again, or by hand: undo stubborn"
    )
    assert undone == ["first"]


def test_what_could_not_be_undone_stays_noted_until_somebody_can(
    undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = Journal(tmp_path)
    for name in ("first", "stubborn"):
        changes.note("up", None, name)
    changes.undo()
    told: list[str] = []
    for _ in range(2):
        assert journal.clean(told.append, tmp_path) == []
    assert [words.split()[0] for words in told] == ["stubborn", "stubborn"]
    monkeypatch.setattr(journal, "_UNDO", by(lambda change: undone.append("at last")))
    assert journal.clean(told.append, tmp_path) == [f"weir-{changes.identifier}"]
    assert undone == ["first", "at last"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [NoSuchDevice(), FileNotFoundError()])
def test_changes_of_an_interface_that_is_gone_went_with_it(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(change: Mapping[str, Any]) -> None:
        raise error

    monkeypatch.setattr(journal, "_UNDO", by(gone))
    changes = Journal(tmp_path)
    changes.note("features", None, "eth9", before={})
    assert changes.undo() == ()
    assert list(tmp_path.iterdir()) == []


def test_changes_of_the_living_stay_and_those_of_the_dead_are_undone(
    undone: list[str], tmp_path: Path
) -> None:
    alive = Journal(tmp_path)
    alive.note("up", None, "alive")
    dead = tmp_path / "00c0ffee.lock"
    lines = [json.dumps({"do": "up", "netns": None, "name": name}) for name in ("a", "b")]
    # Killed while it wrote the last line.
    dead.write_text("\n".join([*lines, '{"do": "u']))
    assert journal.clean(pytest.fail, tmp_path) == ["weir-00c0ffee"]
    assert undone == ["b", "a"]
    assert not dead.exists()
    alive.undo()
    assert undone[-1] == "alive"


def test_changes_in_a_namespace_that_is_gone_went_with_it(undone: list[str], tmp_path: Path) -> None:
    changes = Journal(tmp_path)
    changes.note("features", "weirlink-never-there", "x", before={"rx-gro": True})
    assert changes.undo() == ()
    assert undone == []


def said(code: int, out: str = "", errors: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, out, errors)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The journal of a dead tap that had frames copied by a table of nftables."""
    dead = tmp_path / "00c0ffee.lock"
    dead.write_text(json.dumps({"do": "table", "netns": None, "name": "weir_00c0ffee"}) + "\n")
    return dead


def test_without_nft_a_table_stays_noted_and_the_way_out_is_told(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)
    told: list[str] = []
    assert journal.clean(told.append, table.parent) == []
    (problem,) = told
    assert "go on copying the link's traffic (nft is not installed" in problem
    assert problem.endswith("or by hand: nft delete table netdev weir_00c0ffee")
    assert json.loads(table.read_text())["do"] == "table"


@pytest.mark.parametrize(
    "listed", [said(0, "table netdev weir_00c0ffee\n"), said(1, "", "Error: Operation not permitted\n")]
)
def test_a_table_that_nft_does_not_delete_stays_noted(
    listed: subprocess.CompletedProcess[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"delete": said(1, "", "Error: Device or resource busy\n"), "list": listed}
    monkeypatch.setattr(tools, "nft", lambda what, *arguments: answers[what])
    told: list[str] = []
    assert journal.clean(told.append, table.parent) == []
    assert "(nft: Error: Device or resource busy)" in told[0]
    assert table.exists()


def test_a_table_that_is_gone_already_is_done_with(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"delete": said(1, "", "Error: No such file or directory\n"), "list": said(0, "table ip x\n")}
    monkeypatch.setattr(tools, "nft", lambda what, *arguments: answers[what])
    assert journal.clean(pytest.fail, table.parent) == ["weir-00c0ffee"]
    assert not table.exists()


def test_offloads_that_a_driver_keeps_stay_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "switch_offloads", lambda name, wanted: None)
    monkeypatch.setattr(tools, "differing_offloads", lambda name, wanted: {"rx-gro": False})
    changes = Journal(tmp_path)
    changes.note("features", None, "eth1", before={"rx-gro": True})
    (problem,) = changes.undo()
    assert "the driver keeps rx-gro" in problem
    assert problem.endswith("or by hand: ethtool -K eth1 rx-gro on")
    assert len(list(tmp_path.iterdir())) == 1


def test_two_sessions_do_not_write_one_record_at_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "other").symlink_to("data")
    directory, path = tmp_path / "journals", tmp_path / "data" / "link.pcapng"
    first, second = Journal(directory), Journal(directory)
    first.claim({"--write": path, "--manifest": path.with_name("link.json")}, "weir tap")
    for named, option in (
        (path, "--write"),
        (tmp_path / "other" / "link.pcapng", "--write"),
        (path.with_name("link.json"), "--manifest"),
    ):
        told = rf"{option} .*{named.name}: weir tap \(process {os.getpid()}\) is writing it; choose another"
        with pytest.raises(InputError, match=told):
            second.claim({option: named}, "weir log")
    second.claim({"--write": path.with_name("other.pcapng")}, "weir log")
    first.undo()
    second.claim({"--write": path}, "weir log")
    second.undo()


def test_what_a_dead_session_wrote_is_free_again(tmp_path: Path) -> None:
    dead = Journal(tmp_path)
    dead.claim({"--write": tmp_path / "link.pcapng"}, "weir log")
    assert dead._fd is not None
    os.close(dead._fd)
    living = Journal(tmp_path)
    living.claim({"--write": tmp_path / "link.pcapng"}, "weir log")
    living.undo()
    assert journal.clean(pytest.fail, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_interface_belongs_to_one_link_at_a_time(tmp_path: Path) -> None:
    first, second = Journal(tmp_path), Journal(tmp_path)
    first.occupy({"eth1": (None, 7), "eth2": (None, 8)}, "weir link")
    told = rf"eth2: weir link \(process {os.getpid()}\) carries its frames already"
    with pytest.raises(LabError, match=told):
        second.occupy({"eth3": (None, 9), "eth2": (None, 8)}, "weir tap")
    # Nothing of a refused session stays occupied.
    third = Journal(tmp_path)
    third.occupy({"eth3": (None, 9)}, "weir link")
    first.undo()
    second.occupy({"eth2": (None, 8)}, "weir tap")
    assert (second.undo(), third.undo()) == ((), ())


def test_the_interfaces_of_a_dead_link_are_free_again(tmp_path: Path) -> None:
    dead = Journal(tmp_path)
    dead.occupy({"eth1": (None, 7)}, "weir link")
    assert dead._fd is not None
    os.close(dead._fd)
    living = Journal(tmp_path)
    living.occupy({"eth1": (None, 7)}, "weir link")
    living.undo()
    assert journal.clean(pytest.fail, tmp_path) == []


def test_the_path_of_a_record_that_is_taken_is_printable_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "link\x1b[2J.pcapng"
    first, second = Journal(tmp_path), Journal(tmp_path)
    first.claim({"--write": path}, "weir tap")
    with pytest.raises(InputError, match=r"--write .*/link\\x1b\[2J\.pcapng: weir tap"):
        second.claim({"--write": path}, "weir log")
    first.undo()
    second.undo()


def owner_in(folder: Path, then: str) -> subprocess.Popen[bytes]:
    """A process with a keeper and a change; it names both, and goes on with ``then``."""
    program = (
        "import sys, pathlib\n"
        "from weirlab.link.host.journal import Journal\n"
        f"changes = Journal(pathlib.Path({str(folder)!r}))\n"
        "changes.guard()\n"
        "changes.note('output', None, 'a record')\n"
        "print(changes.identifier, changes._keeper.pid, flush=True)\n"
        f"{then}\n"
    )
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe)


def test_what_a_killed_process_changed_is_undone_at_once(tmp_path: Path) -> None:
    owner = owner_in(tmp_path, "sys.stdin.read()")
    assert owner.stdout is not None
    identifier = owner.stdout.readline().split()[0].decode()
    assert (tmp_path / f"{identifier}.lock").exists()
    owner.kill()
    # The keeper has the same standard error, which ends with it.
    assert owner.communicate(timeout=60)[1] == b""
    assert list(tmp_path.iterdir()) == []


def test_a_keeper_ends_with_an_owner_that_undoes_its_changes_itself(tmp_path: Path) -> None:
    owner = owner_in(tmp_path, "changes.undo()")
    out, err = owner.communicate(timeout=60)
    assert (owner.returncode, err) == (0, b"")
    assert not Path(f"/proc/{int(out.split()[1])}").exists()
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_is_just_undoing_is_waited_for(
    undone: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    path = tmp_path / "00000001.lock"
    path.write_text(json.dumps({"do": "up", "netns": None, "name": "eth1", "pid": dead.pid}) + "\n")
    keeper = lab_clean.open_locked(path, 0)
    assert keeper is not None
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            path.unlink()
            os.close(keeper)

    monkeypatch.setattr("weirlab.link.host.journal.time.sleep", sleep)
    assert journal.clean(pytest.fail, tmp_path) == []
    assert (len(looks), undone) == (3, [])
