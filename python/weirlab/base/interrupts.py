"""Ctrl-C, SIGTERM and SIGHUP as ``KeyboardInterrupt``, but never in the middle of work that must complete.

A signal may arrive between any two instructions: while a test bed is being removed, or between creating
a run and recording its owner. Instead of a ``try`` around each such place, a function that must not be
interrupted is marked (:func:`shielded`), and the handler inspects the frames that it would interrupt.
The innermost marked frame decides; ``with`` statements and ``close`` methods count as shielded without
a mark. A deferred signal is delivered as soon as no frame is shielded any more.

Trio protects its internals in the same way (``trio/_core/_ki.py``): a mark on the code, not a switch that
is thrown when the function runs, leaves no gap before its first and after its last instruction.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from weirlab.base.errors import WeirError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

REPEAT_S: Final = 2.0
"""A signal that follows another one sooner counts as the same: shells and runners often deliver one Ctrl-C
twice."""

_AGAIN_S: Final = 0.001
_ANEW_S: Final = 0.02
"""An alarm just before a blocking system call goes unnoticed: another one ends the call."""
_SHIELDED_NAMES: Final = frozenset({"__enter__", "__exit__", "__del__", "close"})
# A module whose import was interrupted fails later, in unexpected ways.
_IMPORT: Final = ("<frozen importlib._bootstrap>", "_find_and_load")
# Rust calls it when it first meets an array (rust-numpy, npyffi/array.rs), and panics when it raises.
_CALLED_BY_RUST: Final = "NumpyVersion.__init__"

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_marks: dict[CodeType, bool] = {}


class _SignalState:
    """The signals that this process has received."""

    number: int = signal.SIGINT
    reason: int | None = None
    """What another thread wants to be delivered."""
    at_s: float = float("-inf")
    pending: bool = False
    caught: bool = False
    delivered: bool = False


_state = _SignalState()


def shielded(function: F) -> F:
    """Mark ``function``: neither it nor what it calls is interrupted; a signal waits until it returns.

    In a generator only its own code is shielded: below ``contextmanager``, that is the set-up and the
    clean-up, but not the block of the ``with``.
    """
    _marks[function.__code__] = True
    return function


def interruptible(function: F) -> F:
    """Mark ``function``, which waits for long: it may be interrupted even if a shielded function calls it."""
    _marks[function.__code__] = False
    return function


@contextmanager
@shielded
def owned(make: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """``with make()``, without a moment in which an interrupt would leave its result without clean-up."""
    with make() as thing:
        yield thing


def catch() -> None:
    """Turn signals into ``KeyboardInterrupt`` from here on, but not ignored ones. May be called again."""
    _state.caught = True
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _caught)
    signal.signal(signal.SIGALRM, _try_again)


def catch_again() -> None:
    """Put the handlers back that Python knows, after an import that may have gone past it, as Polars does.

    Polars' handler of SIGINT raises ``KeyboardInterrupt`` out of whatever Polars is doing, even in shielded
    code. A command may have put its own handlers in place of ours. Only the main thread can do this.
    """
    if _state.caught and threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                signal.signal(number, handler)


@shielded
def ignore() -> None:
    """Ignore signals from here on: the work is done, and there is nothing left to interrupt."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    _state.caught = False
    # Python kills itself with SIGINT on exit, whatever the exit code, once a KeyboardInterrupt has come out
    # of evaluated source text such as annotations. Evaluating another text clears this (run_eval_code_obj
    # in CPython's pythonrun.c).
    eval("None")


def end(number: int) -> None:
    """Interrupt the main thread as signal ``number`` would; called in another thread."""
    _state.reason = number
    if (main := threading.main_thread().ident) is not None:
        signal.pthread_kill(main, signal.SIGALRM)


def pending() -> bool:
    """Whether a signal has been deferred and not delivered yet."""
    return _state.pending


def behind(error: BaseException) -> bool:
    """Is ``error`` an interruption, or an error into which native code that called Python turned one?"""
    return isinstance(error, KeyboardInterrupt) or (_state.delivered and not isinstance(error, WeirError))


def exit_code() -> int:
    """The exit code of an interrupted command: 130 for Ctrl-C, 143 for SIGTERM, 141 if nobody reads it."""
    return 128 + _state.number


def _caught(number: int, frame: FrameType | None) -> None:
    now_s = time.monotonic()
    repeated = now_s - _state.at_s < REPEAT_S
    _state.at_s = now_s
    # A process already on its way out is not interrupted again, and reports the first signal.
    if not repeated and not isinstance(sys.exception(), KeyboardInterrupt):
        _state.number = number
        _state.pending = True
        _deliver(frame)


def _try_again(number: int, frame: FrameType | None) -> None:
    if _state.reason is not None:
        reason, _state.reason = _state.reason, None
        # Services have a handler of their own: they go on, and hear of it when they have something to say.
        if signal.getsignal(signal.SIGTERM) is _caught:
            _caught(reason, frame)
    elif _state.pending:
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
