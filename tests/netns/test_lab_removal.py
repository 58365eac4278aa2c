"""Labs in namespaces are gone afterwards, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import LabError
from weirlab.lab import clean, dut, wiring
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import DIRECTORY, Namespace
from weirlab.lab.namespaces import PlainPair
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup

pytestmark = pytest.mark.netns


@pytest.mark.parametrize(
    "make_bed", [lambda: NetnsLab(dut.make("forward")), PlainPair], ids=["netns", "pair"]
)
def test_nothing_is_left_after_close_and_closing_twice_is_fine(
    make_bed: Callable[[], Any], made: Any
) -> None:
    bed = make_bed()
    assert made.left()
    bed.close()
    assert made.left() == []
    bed.close()


def test_nothing_is_left_after_an_exception(made: Any) -> None:
    def measure() -> None:
        with NetnsLab(dut.make("nftables")) as lab:
            lab.set_rules(RuleSetup(3))
            raise RuntimeError("in the middle of it")

    with pytest.raises(RuntimeError, match="in the middle"):
        measure()
    assert made.left() == []


@pytest.mark.parametrize("step", ["bring_up", "thread_napi", "create_pair", "set_offloads"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_nothing_is_left_when_building_is_cut_short(
    step: str, error: type[BaseException], made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object, **__: object) -> None:
        raise error(5, "cut short")

    monkeypatch.setattr(wiring.interface, step, cut)
    with pytest.raises(LabError if error is OSError else error, match="cut short"):
        NetnsLab(dut.make("forward"))
    assert made.identifiers
    assert made.left() == []


def test_a_process_inside_does_not_keep_the_interfaces_alive(made: Any) -> None:
    with NetnsLab(dut.make("forward")) as lab:
        inside = Namespace(lab.namespaces["dut"])
        sitting = inside.call(lambda: subprocess.Popen(["sleep", "600"]))
    try:
        assert made.left() == []
        assert sitting.poll() is None, "processes of others are not the lab's to end"
    finally:
        sitting.kill()
        sitting.wait()


OWNER = textwrap.dedent("""
    import sys, time
    from weirlab.lab import dut
    from weirlab.lab.netns import NetnsLab
    from weirlab.records import RuleSetup

    lab = NetnsLab(dut.make("iptables"))
    lab.set_rules(RuleSetup(20))
    print(*lab.namespaces.values(), flush=True)
    sys.stdin.read()
""")


@pytest.mark.parametrize("remover", ["clean", "the next lab"])
def test_whatever_ends_the_owner_its_lab_is_removed_and_no_other_one(remover: str) -> None:
    with NetnsLab(dut.make("forward")) as alive:
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with owner:
            assert owner.stdout is not None
            names = owner.stdout.readline().split()
            try:
                assert len(names) == 3
                clean.clean()
                assert all((DIRECTORY / name).exists() for name in names), "its owner lives"
            finally:
                owner.send_signal(signal.SIGKILL)
        if remover == "clean":
            clean.clean()
        else:
            NetnsLab(dut.make("forward")).close()
        assert not any((DIRECTORY / name).exists() for name in names)
        assert not list(clean.LOCKS.glob(f"{names[0].split('-')[1]}.lock"))
        assert all((DIRECTORY / name).exists() for name in alive.namespaces.values())


def _die_with(claim: clean.LabOwnership) -> None:
    """Leave the lab as a killed owner would: everything there, the lock no longer held."""
    fd, claim._fd = claim._fd, None
    assert fd is not None
    os.close(fd)


def test_clean_tells_what_it_removed(tmp_path: Path) -> None:
    orphan, alive = clean.LabOwnership(tmp_path), clean.LabOwnership(tmp_path)
    removed = Namespace(orphan.namespace_name("dut"))
    removed.create()
    _die_with(orphan)
    assert clean.clean(tmp_path) == [removed.name]
    assert not removed.path.exists()
    assert clean.clean(tmp_path) == []
    assert [path.stem for path in tmp_path.iterdir()] == [alive.identifier]
    alive.release()


def test_a_namespace_without_a_lock_is_reported_and_left_alone(tmp_path: Path) -> None:
    namespace = Namespace("weir-0123abcd-tx")
    namespace.create()
    try:
        assert clean.clean(tmp_path) == []
        assert namespace.name in clean.leftovers(tmp_path)
    finally:
        namespace.remove()


def test_a_half_made_namespace_is_removed_too(tmp_path: Path) -> None:
    orphan = clean.LabOwnership(tmp_path)
    namespace = Namespace(orphan.namespace_name("tx"))
    DIRECTORY.mkdir(exist_ok=True)
    namespace.path.touch()
    _die_with(orphan)
    assert clean.clean(tmp_path) == [namespace.name]
    assert not namespace.path.exists()


def test_a_namespace_that_holds_both_ends_of_a_pair_is_removed() -> None:
    namespace = Namespace(f"weir-pair-{os.getpid()}")
    namespace.create()
    namespace.call(interface.create_probe_pair)
    namespace.remove()
    assert not namespace.path.exists()
