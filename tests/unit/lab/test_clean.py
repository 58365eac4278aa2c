from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import LabError, MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.lab import clean
from weirlab.lab.isolation.partition import Isolation
from weirlab.lab.linux import namespace


@pytest.fixture(autouse=True)
def no_real_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Namespaces become plain files in a temporary folder."""
    folder = tmp_path / "netns"
    folder.mkdir()
    monkeypatch.setattr(namespace, "DIRECTORY", folder)
    monkeypatch.setattr(namespace.Namespace, "__init__", _init(folder))
    monkeypatch.setattr(namespace.Namespace, "remove", lambda self: self.path.unlink(missing_ok=True))
    return folder


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


def _init(folder: Path) -> Callable[[Any, str], None]:
    def init(self: Any, name: str) -> None:
        self.name, self.path = name, folder / name

    return init


def _orphan(locks: Path) -> clean.LabOwnership:
    claim = clean.LabOwnership(locks)
    assert claim._fd is not None
    os.close(claim._fd)
    claim._fd = None
    return claim


def test_claims_have_identifiers_of_their_own(locks: Path) -> None:
    claims = [clean.LabOwnership(locks) for _ in range(20)]
    assert len({claim.identifier for claim in claims}) == 20
    assert claims[0].namespace_name("tx") == f"weir-{claims[0].identifier}-tx"
    for claim in claims:
        claim.release()
    assert list(locks.iterdir()) == []


def test_ports_that_could_not_be_put_back_are_named_once_their_lab_is_gone(locks: Path) -> None:
    living, dead = clean.LabOwnership(locks), _orphan(locks)
    for claim, port in ((living, "enp3s0"), (dead, "enp4s0")):
        claim._ports.write_text(json.dumps({"name": port, "netns": claim.namespace_name("tx")}) + "\n")
    (why,) = clean.stranded(locks).values()
    assert why.startswith(
        f"enp4s0 is still in the namespace weir-{dead.identifier}-tx of a run that has ended"
    )
    assert f"ip -n weir-{dead.identifier}-tx link set enp4s0 netns 1" in why


def test_a_lab_that_cannot_put_a_port_back_says_so_when_it_ends(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = clean.LabOwnership(locks)
    state = {"name": "enp4s0", "netns": claim.namespace_name("tx")}
    claim._ports.write_text(json.dumps(state) + "\n")
    monkeypatch.setattr(clean.borrowing, "give_back", lambda _: [state])
    with pytest.raises(LabError, match="enp4s0 is still in the namespace"):
        claim.release()
    claim.release()
    assert claim._ports.exists(), "for the next time"


def test_cpus_of_a_dead_lab_are_given_back_before_its_lock_goes(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = _orphan(locks)
    journal = locks / f"{claim.identifier}.cpuset"
    tried: list[Path] = []

    def give_back(path: Path) -> bool:
        tried.append(path)
        return len(tried) > 1

    monkeypatch.setattr(clean.partition, "give_back", give_back)
    clean.clean(locks)
    assert [path.name for path in locks.glob("*.lock")] == [f"{claim.identifier}.lock"], "for the next time"
    clean.clean(locks)
    assert list(locks.glob("*.lock")) == []
    assert tried == [journal, journal]


def test_a_lab_is_told_whether_it_is_alone(locks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[bool] = []

    def make(journal: Path, cpus: object, **how: Any) -> Isolation:
        alone.append(how["alone"])
        return Isolation("refused", "by the test", "none")

    monkeypatch.setattr(clean.partition, "make", make)
    first = clean.LabOwnership(locks)
    first.isolate({0, 1})
    _orphan(locks)
    first.isolate({0, 1})
    second = clean.LabOwnership(locks)
    second.isolate({0, 1})
    assert alone == [True, True, False], "the dead do not count"
    assert clean.owners(locks) == [os.getpid()] * 2
    assert second.isolation is not None
    assert second.isolation.words == "refused: by the test"
    for claim in (first, second):
        claim.release()


def test_release_removes_only_what_carries_the_identifier(locks: Path, no_real_namespaces: Path) -> None:
    claim = clean.LabOwnership(locks)
    own, other = claim.namespace_name("rx"), "weir-00000000-rx"
    for name in (own, other, "blue"):
        (no_real_namespaces / name).touch()
    claim.release()
    claim.release()
    assert sorted(os.listdir(no_real_namespaces)) == ["blue", other]


def test_clean_takes_the_dead_and_leaves_the_living(locks: Path, no_real_namespaces: Path) -> None:
    dead, living = _orphan(locks), clean.LabOwnership(locks)
    names = [claim.namespace_name(part) for claim in (dead, living) for part in ("dut", "tx")]
    for name in (*names, "blue", f"weir-{dead.identifier}", f"not-weir-{dead.identifier}-tx"):
        (no_real_namespaces / name).touch()
    assert clean.clean(locks) == names[:2]
    assert not any((no_real_namespaces / name).exists() for name in names[:2])
    assert len(os.listdir(no_real_namespaces)) == 5
    assert clean.clean(locks) == []
    living.release()


def test_files_that_are_no_locks_are_left_alone(locks: Path) -> None:
    locks.mkdir()
    (locks / "notes.lock").touch()
    (locks / "0123abcd.txt").touch()
    assert clean.clean(locks) == []
    assert len(list(locks.iterdir())) == 2


def test_nothing_to_clean_without_a_folder(locks: Path) -> None:
    assert clean.clean(locks) == []


def test_namespaces_without_a_lock_are_reported(locks: Path, no_real_namespaces: Path) -> None:
    claim = clean.LabOwnership(locks)
    for name in (claim.namespace_name("tx"), "weir-0123abcd-tx", "blue"):
        (no_real_namespaces / name).touch()
    assert clean.leftovers(locks) == ["weir-0123abcd-tx"]
    claim.release()


def test_folder_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(MissingCapability, match="Not a directory; remove the file that is in the way"):
        clean.LabOwnership(blocked / "weir")


def test_only_one_lab_at_a_time_is_alone(locks: Path) -> None:
    import fcntl

    with clean.alone(locks):
        fd = os.open(locks, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


@pytest.mark.usefixtures("caught_signals")
def test_waiting_to_be_alone_can_be_interrupted_also_where_that_is_shielded(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(fd: int, operation: int) -> None:
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("it went on waiting")

    @shielded
    def build() -> None:
        with clean.alone(locks):
            pytest.fail("another lab is inside")

    monkeypatch.setattr(fcntl, "flock", held)
    with pytest.raises(KeyboardInterrupt):
        build()


def test_the_scratch_folder_of_a_dead_lab_goes_with_it(locks: Path, tmp_path: Path) -> None:
    mine, others = tmp_path / "weir-monitor-\n1", tmp_path / "weir-monitor-2"
    for folder in (mine, others):
        folder.mkdir()
        (folder / "record.pcapng").touch()
    claim = clean.LabOwnership(locks)
    claim.own(mine)
    assert claim._fd is not None
    os.close(claim._fd)
    clean.clean(locks)
    assert not mine.exists()
    assert others.exists()
    assert list(locks.iterdir()) == []


@pytest.mark.usefixtures("caught_signals")
def test_a_signal_while_a_lab_is_released_leaves_neither_namespace_nor_lock(
    locks: Path, no_real_namespaces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def struck(self: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        self.path.unlink(missing_ok=True)

    claim = clean.LabOwnership(locks)
    for part in ("tx", "dut", "rx"):
        (no_real_namespaces / claim.namespace_name(part)).touch()
    monkeypatch.setattr(namespace.Namespace, "remove", struck)
    with pytest.raises(KeyboardInterrupt):
        release_and_wait(claim)
    assert list(no_real_namespaces.iterdir()) == []
    assert list(locks.iterdir()) == []


def release_and_wait(claim: clean.LabOwnership) -> None:
    claim.release()
    while True:
        signal.pause()
