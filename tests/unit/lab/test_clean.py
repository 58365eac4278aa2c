from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weirlab.errors import MissingCapability
from weirlab.lab import clean
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


def _orphan(locks: Path) -> clean.Claim:
    claim = clean.Claim(locks)
    assert claim._fd is not None
    os.close(claim._fd)
    claim._fd = None
    return claim


def test_claims_have_identifiers_of_their_own(locks: Path) -> None:
    claims = [clean.Claim(locks) for _ in range(20)]
    assert len({claim.identifier for claim in claims}) == 20
    assert claims[0].namespace_name("tx") == f"weir-{claims[0].identifier}-tx"
    for claim in claims:
        claim.release()
    assert list(locks.iterdir()) == []


def test_release_removes_only_what_carries_the_identifier(locks: Path, no_real_namespaces: Path) -> None:
    claim = clean.Claim(locks)
    own, other = claim.namespace_name("rx"), "weir-00000000-rx"
    for name in (own, other, "blue"):
        (no_real_namespaces / name).touch()
    claim.release()
    claim.release()
    assert sorted(os.listdir(no_real_namespaces)) == ["blue", other]


def test_clean_takes_the_dead_and_leaves_the_living(locks: Path, no_real_namespaces: Path) -> None:
    dead, living = _orphan(locks), clean.Claim(locks)
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
    claim = clean.Claim(locks)
    for name in (claim.namespace_name("tx"), "weir-0123abcd-tx", "blue"):
        (no_real_namespaces / name).touch()
    assert clean.leftovers(locks) == ["weir-0123abcd-tx"]
    claim.release()


def test_folder_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(MissingCapability, match="run as root"):
        clean.Claim(blocked / "weir")


def test_only_one_lab_at_a_time_is_alone(locks: Path) -> None:
    import fcntl

    with clean.alone(locks):
        fd = os.open(locks, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
