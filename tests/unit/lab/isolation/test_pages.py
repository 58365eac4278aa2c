"""Short lists of free pages: shared by all labs, restored by whichever process finds that it is the last."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weirlab.lab.isolation import pages
from weirlab.lab.isolation.pages import give_back, short_lists

USUAL = b"0\n"
SHORT = b"2147483647\n"


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    path = tmp_path / "percpu_pagelist_high_fraction"
    path.write_bytes(USUAL)
    return path


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


def test_lists_are_short_until_the_lab_closes(locks: Path, setting: Path) -> None:
    with short_lists(locks, setting) as refused:
        assert refused is None
        assert setting.read_bytes() == SHORT
    assert setting.read_bytes() == USUAL
    assert list(locks.iterdir()) == []


@pytest.mark.parametrize("first_closes_first", [True, False])
def test_the_last_of_two_labs_restores_the_setting(
    locks: Path, setting: Path, first_closes_first: bool
) -> None:
    labs = [short_lists(locks, setting) for _ in range(2)]
    for lab in labs:
        assert lab.__enter__() is None
    one, other = labs if first_closes_first else reversed(labs)
    one.__exit__(None, None, None)
    assert setting.read_bytes() == SHORT
    give_back(locks, setting)
    assert setting.read_bytes() == SHORT
    other.__exit__(None, None, None)
    assert setting.read_bytes() == USUAL
    assert list(locks.iterdir()) == []


def test_a_clean_up_restores_what_a_killed_lab_left(locks: Path, setting: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from weirlab.lab.isolation.pages import short_lists\n"
        "with short_lists(*map(pathlib.Path, sys.argv[1:])):\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(locks), str(setting)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lab:
        assert lab.stdout is not None
        assert lab.stdout.readline() == b"open\n"
        give_back(locks, setting)
        assert setting.read_bytes() == SHORT
        lab.kill()
        lab.wait()
    assert setting.read_bytes() == SHORT
    assert give_back(locks, setting)
    assert setting.read_bytes() == USUAL
    assert list(locks.iterdir()) == []


def test_a_lab_after_a_killed_one_keeps_the_value_from_before_both(locks: Path, setting: Path) -> None:
    locks.mkdir()
    (locks / pages.JOURNAL).write_bytes(b"8\n")
    setting.write_bytes(SHORT)
    with short_lists(locks, setting):
        assert setting.read_bytes() == SHORT
    assert setting.read_bytes() == b"8\n"


def test_what_somebody_else_set_after_a_killed_lab_is_the_value_from_before(
    locks: Path, setting: Path
) -> None:
    locks.mkdir()
    (locks / pages.JOURNAL).write_bytes(b"8\n")
    setting.write_bytes(b"100\n")
    with short_lists(locks, setting):
        assert setting.read_bytes() == SHORT
    assert setting.read_bytes() == b"100\n"


def test_what_somebody_else_sets_meanwhile_is_kept(locks: Path, setting: Path) -> None:
    with short_lists(locks, setting):
        setting.write_bytes(b"100\n")
    assert setting.read_bytes() == b"100\n"


def test_a_kernel_without_the_setting_is_a_reason(locks: Path, tmp_path: Path) -> None:
    with short_lists(locks, tmp_path / "nothing") as refused:
        assert refused == f"{tmp_path / 'nothing'}: No such file or directory"
    assert list(locks.iterdir()) == []


def test_nothing_is_restored_where_no_lab_was(locks: Path, setting: Path) -> None:
    assert not give_back(locks, setting)
    assert setting.read_bytes() == USUAL
