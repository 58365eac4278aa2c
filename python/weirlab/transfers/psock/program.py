"""A program whose connections are redirected, from its start to its end, and the end of its connections."""

from __future__ import annotations

import os
import pwd
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from weirlab.base import programs
from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.base.quoting import quoted
from weirlab.transfers.psock.options import TOKEN

if TYPE_CHECKING:
    from weirlab._engine import ParallelRelay

_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LOOK_S: Final = 0.1
_SOON_S: Final = 0.01
_STANDARD_ERROR: Final = 2
_OWN_DESCRIPTORS: Final = 1280
"""For everything but connections that are carried: up to 1024 may be in the greeting."""
_DESCRIPTORS: Final = 6
"""Of a connection, beside its streams: its TCP connection, what wakes its threads, one that is being made."""
_ENTER: Final = Path(__file__).with_name("enter.py")


T = TypeVar("T")


def located(name: str) -> str:
    """Path of the user's program ``name``, by PATH; entries that depend on the current folder do not count.

    Raises
    ------
    InputError
        There is none.
    """
    path = os.environ.get("PATH", programs.FOLDERS)
    fixed = os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))
    # A name with a slash is a path.
    if "\0" in name or (found := programs.find(name, fixed)) is None:
        raise InputError(f"there is no program {quoted(name)}; give the path of one, or a name that PATH has")
    return found


def check_user(name: str) -> str:
    """``name``; raises ``InputError`` where there is no such user, ``MissingCapability`` without root."""
    try:
        if name:
            pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise InputError(f"--user {quoted(name)}: there is no such user") from None
    if name and os.geteuid() != 0:
        raise MissingCapability("--user needs root; without it, the program runs as you")
    return name


@contextmanager
def signals_held() -> Iterator[None]:
    """While inside, signals wait to be taken, in this thread and in those that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_PASSED_ON, signal.SIGCHLD))
    try:
        yield
    finally:
        while signal.sigtimedwait(_PASSED_ON, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def allow_descriptors(connections: int, streams: int) -> tuple[int, int]:
    """Let this process have the descriptors that these connections need, as far as it may.

    Returns
    -------
    The number of descriptors that it could have before, and of connections for which they suffice now.
    """
    each = streams + _DESCRIPTORS
    needed = _OWN_DESCRIPTORS + connections * each
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return soft, connections
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return soft, max(1, (most - _OWN_DESCRIPTORS) // each)


def apart(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises, in a thread that takes no signals, nor do those that it starts."""
    found: list[T] = []
    problems: list[BaseException] = []

    def keep() -> None:
        try:
            found.append(work())
        except BaseException as problem:
            problems.append(problem)

    with signals_held():
        thread = threading.Thread(target=keep, daemon=True)
        thread.start()
    while thread.is_alive():
        thread.join(_LOOK_S)
    for problem in problems:
        raise problem
    return found[0]


@dataclass(frozen=True)
class UserProgram:
    """A program of the user's: its path, its name and arguments, whose it is (empty: this process's user).

    ``descriptors`` is how many it may have. ``aside``: its standard output goes to its standard error.
    """

    path: str
    command: Sequence[str]
    user: str
    descriptors: int
    aside: bool = False


@contextmanager
@shielded
def begun(program: UserProgram, *, group: str = "", watch: str = "") -> Iterator[programs.Program[Any]]:
    """A program that runs while inside, in a control group or under a seccomp filter (``enter.py``).

    To be called inside :func:`signals_held`, so that the program gets what it is sent at its start.
    """
    own = (group, watch, str(os.getpid()), program.user, str(program.descriptors))
    process = programs.start(
        programs.script(_ENTER, *own, program.path, *program.command),
        env={name: value for name, value in os.environ.items() if name != TOKEN},
        process_group=None,
        # It gets what it would get without this command; what is this process's own closes by itself.
        close_fds=False,
        stdout=_STANDARD_ERROR if program.aside else None,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def run(process: programs.Program[Any], look: Callable[[], None]) -> int:
    """Wait for a program's end; its exit code, 128 + n where signal n ended it. ``look`` is called meanwhile.

    To be called inside :func:`signals_held`: what this process is sent is passed on; what a terminal sends
    reaches the program anyway, which is in the same process group.
    """
    while process.poll() is None:
        told = signal.sigtimedwait((*_PASSED_ON, signal.SIGCHLD), _LOOK_S)
        # Positive codes are the kernel's own, such as those of a terminal (sigaction(2)).
        if told is not None and told.si_signo in _PASSED_ON and told.si_code <= 0:
            process.send_signal(told.si_signo)
        look()
    code: int = process.returncode
    return code if code >= 0 else 128 - code


def settle(
    is_left: Callable[[], bool], relay: ParallelRelay, look: Callable[[], None], tell: Callable[[str], None]
) -> None:
    """Wait until whatever the program started has ended, and everything it sent has arrived.

    Signals end that. To be called inside :func:`signals_held`.
    """
    is_told = False
    while is_left():
        if not is_told:
            is_told = True
            tell(
                "the program has ended, processes that it started have not; Ctrl-C breaks off the connections"
            )
        if _is_interrupted():
            tell("interrupted: connections of programs that are still running are broken off")
            break
        look()
    else:
        relay.finish()
        while relay.active:
            if _is_interrupted(_SOON_S):
                tell("interrupted: not everything that the program sent is known to have arrived")
                break
            look()
    relay.stop()
    while relay.active and not _is_interrupted(_SOON_S):
        look()
    look()


def _is_interrupted(within_s: float = _LOOK_S) -> bool:
    return signal.sigtimedwait(_PASSED_ON, within_s) is not None
