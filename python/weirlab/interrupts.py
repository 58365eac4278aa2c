"""Ctrl-C, SIGTERM and SIGHUP as ``KeyboardInterrupt``, but never in the middle of what must be done whole.

A signal may arrive between any two instructions: while a test bed is being removed, between making a
run and writing down who owns it. Instead of a ``try`` around each such place, the function that must
not be cut short says so (:func:`shielded`), and the handler looks at the frames that it would interrupt.
The innermost one that says anything decides; ``with`` statements and ``close`` methods count as shielded
without being told. What is put off is delivered as soon as nothing shields any more.

Trio protects its internals in the same way (``trio/_core/_ki.py``): a mark on the code, not a switch that
is thrown when the function runs, leaves no gap before its first and after its last instruction.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from weirlab.errors import WeirError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

REPEAT_S: Final = 2.0
"""Signals that follow another one sooner are the same: shells and runners often deliver one Ctrl-C twice."""

_AGAIN_S: Final = 0.001
_ANEW_S: Final = 0.02
"""An alarm just before a system call that waits is not seen: another one ends the call."""
_SHIELDED_NAMES: Final = frozenset({"__enter__", "__exit__", "__del__", "close"})
# A module that was broken off while it was imported fails later, in ways that nobody expects.
_IMPORT: Final = ("<frozen importlib._bootstrap>", "_find_and_load")
# Rust calls it when it first meets an array (rust-numpy, npyffi/array.rs), and panics when it raises.
_CALLED_BY_RUST: Final = "NumpyVersion.__init__"

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_marks: dict[CodeType, bool] = {}


class _State:
    """What this process has been told by signals."""

    number: int = signal.SIGINT
    at_s: float = float("-inf")
    pending: bool = False
    caught: bool = False
    delivered: bool = False


_state = _State()


def shielded(function: F) -> F:
    """``function`` is not interrupted, nor is what it calls; a signal waits until it returns.

    Of a generator only what it does itself is shielded: put below ``contextmanager``, the set-up and the
    clean-up are, and the block of the ``with`` is not.
    """
    _marks[function.__code__] = True
    return function


def interruptible(function: F) -> F:
    """``function`` may be interrupted even when something shielded calls it: it waits for long."""
    _marks[function.__code__] = False
    return function


@contextmanager
@shielded
def owned(make: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """``with make()``, without a moment in which what was made has nobody to remove it."""
    with make() as thing:
        yield thing


def catch() -> None:
    """Turn signals into ``KeyboardInterrupt`` from here on; ignored ones stay so. May be called again."""
    _state.caught = True
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _caught)
    signal.signal(signal.SIGALRM, _try_again)


def catch_again() -> None:
    """After an import that may have put a handler in front of ours, as Polars does for SIGINT.

    It raises ``KeyboardInterrupt`` out of whatever Polars is doing, also where that is shielded.
    """
    if _state.caught:
        catch()


@shielded
def ignore() -> None:
    """The work is done: there is nothing left to interrupt."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    _state.caught = False
    # Python kills itself by SIGINT at its end, whatever the exit code is to be, once a KeyboardInterrupt has
    # come out of a text that was evaluated, as annotations are; the next such text makes it forget that
    # (run_eval_code_obj in CPython's pythonrun.c).
    eval("None")


def pending() -> bool:
    """Whether a signal has been put off and not delivered yet."""
    return _state.pending


def behind(error: BaseException) -> bool:
    """Is ``error`` an interruption, or what native code that called Python made of one?"""
    return isinstance(error, KeyboardInterrupt) or (_state.delivered and not isinstance(error, WeirError))


def exit_code() -> int:
    """What a command returns that was interrupted: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + _state.number


def _caught(number: int, frame: FrameType | None) -> None:
    now_s = time.monotonic()
    repeated = now_s - _state.at_s < REPEAT_S
    _state.at_s = now_s
    # Whoever is on the way out already is not to be cut short, and says what it was told first.
    if not repeated and not isinstance(sys.exception(), KeyboardInterrupt):
        _state.number = number
        _state.pending = True
        _deliver(frame)


def _try_again(number: int, frame: FrameType | None) -> None:
    if _state.pending:
        _deliver(frame)


def _deliver(frame: FrameType | None) -> None:
    if _is_shielded(frame):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, _ANEW_S)
        return
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    _state.pending = False
    _state.delivered = True
    raise KeyboardInterrupt


def _is_shielded(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        mark = _marks.get(code)
        if mark is not None:
            return mark
        if (
            code.co_name in _SHIELDED_NAMES
            or code.co_qualname == _CALLED_BY_RUST
            or (code.co_filename, code.co_name) == _IMPORT
        ):
            return True
        frame = frame.f_back
    return False
