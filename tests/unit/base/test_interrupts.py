"""Signals become ``KeyboardInterrupt`` where nothing must be done whole, and wait where something must."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from weirlab.base import interrupts
from weirlab.base.errors import LabError
from weirlab.base.interrupts import interruptible, owned, shielded
from weirlab.link.stopping import Stop
from weirlab.store import Store

pytestmark = pytest.mark.usefixtures("caught_signals")


def strike(number: int = signal.SIGTERM) -> None:
    """The handler has run when this returns."""
    signal.raise_signal(number)


def wait() -> None:
    """Until what was put off is delivered."""
    while True:
        signal.pause()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_interrupts_and_tells_the_exit_code(number: int, code: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        strike(number)
    assert interrupts.exit_code() == code


def test_what_is_shielded_is_done_whole_and_interrupted_afterwards() -> None:
    done = []

    @shielded
    def teardown() -> None:
        strike()
        done.append("namespaces gone")

    def work() -> None:
        teardown()
        wait()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["namespaces gone"]


def test_what_was_put_off_is_delivered_although_its_first_alarm_was_not_seen() -> None:
    @shielded
    def teardown() -> None:
        strike()
        # As where it comes between the last look at signals and a system call that waits.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        assert signal.sigwait({signal.SIGALRM}) == signal.SIGALRM
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})

    def work() -> None:
        teardown()
        wait()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_something_shielded_calls_is_shielded_unless_it_says_otherwise() -> None:
    done = []

    def step() -> None:
        strike()
        done.append("step")

    @interruptible
    def warm_up() -> None:
        step()
        pytest.fail("the warm-up went on")

    @shielded
    def build() -> None:
        step()
        interrupts._state.at_s = float("-inf")
        warm_up()

    with pytest.raises(KeyboardInterrupt):
        build()
    assert done == ["step"]


def test_set_up_and_clean_up_of_a_context_are_shielded_and_the_block_is_not() -> None:
    done = []

    @contextmanager
    @shielded
    def lab() -> Iterator[None]:
        strike()
        done.append("built")
        try:
            yield
        finally:
            interrupts._state.at_s = float("-inf")
            strike()
            done.append("removed")

    with pytest.raises(KeyboardInterrupt), lab():
        wait()
    assert done == ["built", "removed"]


def test_leaving_a_with_statement_is_never_cut_short() -> None:
    done = []

    class Lab:
        def __enter__(self) -> Lab:
            strike()
            done.append("entered")
            return self

        def __exit__(self, *_: object) -> None:
            done.append("left")

    with pytest.raises(KeyboardInterrupt), owned(Lab):
        wait()
    assert done == ["entered", "left"]


def test_a_second_signal_does_not_cut_the_clean_up_of_the_first_short() -> None:
    done = []

    def work() -> None:
        try:
            strike(signal.SIGINT)
        finally:
            strike(signal.SIGINT)
            interrupts._state.at_s = float("-inf")
            strike(signal.SIGTERM)
            done.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["cleaned up"]


def test_a_signal_that_was_ignored_when_we_began_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.catch()
    strike(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_store_that_a_command_opens_later_leaves_the_handlers_of_the_command(tmp_path: Path) -> None:
    with Stop() as stop:
        Store(tmp_path)
        strike(signal.SIGINT)
        assert stop.requested


def test_a_thread_can_open_a_store(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(Store, tmp_path).result().root == tmp_path


def test_polars_does_not_raise_past_the_shield() -> None:
    script = """
import os, signal, time
from weirlab.base import interrupts
from weirlab.base.errors import LabError
interrupts.catch()
import polars as pl
from weirlab.store import Store
Store()
done = []
def strike(value):
    os.kill(os.getpid(), signal.SIGINT)
    return value
@interrupts.shielded
def write():
    pl.LazyFrame({"a": [1]}).select(pl.col("a").map_batches(strike, return_dtype=pl.Int64)).collect()
    done.append("written")
try:
    write()
    while True:
        # Python may not have seen the signal yet, and none would come to end a pause.
        time.sleep(0.001)
except KeyboardInterrupt:
    print(done)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "['written']\n"


@pytest.mark.parametrize(
    "module",
    ["weirlab.base.interrupts", "weirlab.cli.program.app", "typer", "weirlab.studies.commands.stored"],
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_modules_are_imported_ends_quietly(module: str, number: int, code: int) -> None:
    script = f"""
import os, sys
class Strike:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Strike())
sys.argv = ["weir", "runs"]
from weirlab.cli import main
main()
"""
    environment = {**os.environ, "WEIR_STORE": "/nonexistent"}
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    # Before the first handler is in place SIGTERM does what it does to every program.
    assert told.returncode in (code, -number if module == "weirlab.base.interrupts" else code)
    assert told.stderr in ("", "weir: interrupted\n")


def test_an_interruption_inside_an_evaluated_text_does_not_change_the_exit_code() -> None:
    script = """
import signal, sys
from weirlab.base import interrupts
from weirlab.base.errors import LabError
interrupts.catch()
try:
    eval("signal.raise_signal(signal.SIGTERM)")
except KeyboardInterrupt:
    interrupts.ignore()
    sys.exit(interrupts.exit_code())
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 143


def test_what_native_code_makes_of_an_interruption_is_one() -> None:
    assert not interrupts.behind(RuntimeError("panic"))
    with pytest.raises(KeyboardInterrupt):
        strike()
    assert interrupts.behind(RuntimeError("panic"))
    assert not interrupts.behind(LabError("a namespace could not be removed"))


def test_what_rust_calls_and_cannot_let_raise_is_shielded() -> None:
    done = []

    class NumpyVersion:
        def __init__(self) -> None:
            strike()
            done.append("compared")

    NumpyVersion.__init__.__code__ = NumpyVersion.__init__.__code__.replace(
        co_qualname="NumpyVersion.__init__"
    )
    assert np.lib.NumpyVersion.__init__.__code__.co_qualname == "NumpyVersion.__init__"

    def work() -> None:
        NumpyVersion()
        wait()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["compared"]


def test_the_exit_code_tells_the_signal_that_counted_and_not_one_that_was_dropped() -> None:
    def work() -> None:
        try:
            strike(signal.SIGTERM)
        finally:
            strike(signal.SIGINT)
            interrupts._state.at_s = float("-inf")
            strike(signal.SIGHUP)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert interrupts.exit_code() == 143


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_after_the_end_of_the_command_ends_quietly_with_its_exit_code(
    inside: bool, number: int, code: int
) -> None:
    owner, name = ("signal", "setitimer") if inside else ("interrupts", "ignore")
    script = f"""
import signal, sys
from weirlab.base import interrupts
function = {owner}.{name}
def struck(*arguments):
    {owner}.{name} = function
    signal.raise_signal({int(number)})
    return function(*arguments)
class App:
    def __call__(self):
        {owner}.{name} = struck
import types
module = types.ModuleType("weirlab.cli.program.app")
module.app = App()
sys.modules["weirlab.cli.program.app"] = module
from weirlab.cli import main
main()
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (code, "")
