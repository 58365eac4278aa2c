"""The two ways to redirect a program's connections to the relay: by BPF programs, by a seccomp filter."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import LabError, MissingCapability, WeirError
from weirlab.base.interrupts import shielded
from weirlab.lab.finding import Finding
from weirlab.lab.isolation.groups import CgroupHierarchy, IsolationError, unified
from weirlab.lab.linux.syscalls import way_out
from weirlab.link.host import journal
from weirlab.transfers.psock import program
from weirlab.transfers.psock.options import BPF, LOOPBACK, PROXY_PORT, SECCOMP, By, SessionOptions

if TYPE_CHECKING:
    from weirlab._engine import ParallelRelay
    from weirlab.base import programs
    from weirlab.transfers.psock.program import UserProgram

PREFIX: Final = "weir-psock-"


@dataclass(frozen=True)
class ControlGroup:
    """A group of version 2 at ``path``, below that of this process."""

    groups: CgroupHierarchy
    name: str

    @property
    def path(self) -> str:
        """Its folder."""
        return str(self.groups.path(self.name))

    def members(self) -> list[int]:
        """Numbers of the processes in it."""
        return self.groups.members(self.name, "cgroup.procs")

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of its folder while inside."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def check_root() -> None:
    """Raise ``MissingCapability`` without permission to redirect connections."""
    if os.geteuid() != 0:
        raise MissingCapability(
            "redirecting connections by BPF needs root; sudo weir psock run --user NAME runs the program as "
            "you, and --by seccomp needs no root"
        )


@contextmanager
@shielded
def control_group(complain: Callable[[str], None]) -> Iterator[ControlGroup]:
    """A control group while inside; whatever processes are left in it then go to the one above.

    ``complain`` gets in words that it cannot be removed: ``journal.clean`` tries again.

    Raises
    ------
    MissingCapability
        There are no control groups of version 2, or none may be made.
    """
    try:
        groups = unified()
    except IsolationError as refused:
        raise MissingCapability(
            f"redirecting connections by BPF needs a control group, and {refused.why}; {refused.remedy}"
        ) from None
    noted = journal.Journal()
    try:
        made = ControlGroup(groups, f"{groups.home.rstrip('/')}/{PREFIX}{noted.identifier}")
        noted.note("group", None, made.path)
        try:
            groups.make(made.name)
        except OSError as error:
            raise MissingCapability(
                f"the control group {made.path} cannot be made: {error.strerror}; {way_out(error)}"
            ) from error
        yield made
    finally:
        for problem in noted.undo():
            complain(problem)


_PR_SET_CHILD_SUBREAPER: Final = 36
_BEGIN_S: Final = 30.0
"""For the program to install its filter."""


@dataclass(frozen=True)
class RelayProgram:
    """A program that has begun, and whose connections ``relay`` carries."""

    by: By
    relay: ParallelRelay
    process: programs.Program[Any]
    is_left: Callable[[], bool]
    """Whether a process that the program started, or the program itself, has not ended."""
    look: Callable[[], None]
    """To be called every now and then."""


@contextmanager
def redirected(
    by: By | None, began: UserProgram, given: Mapping[str, Any], say: Callable[[str], None]
) -> Iterator[RelayProgram]:
    """Run a program while inside; None: by BPF programs where they work, which ``say`` is told otherwise.

    ``given`` is what ``ParallelRelay`` takes beside its first argument.

    Raises
    ------
    MissingCapability
        What redirects connections does not work here.
    """
    with ExitStack() as stack:
        try:
            made = stack.enter_context((by_seccomp if by == SECCOMP else by_bpf)(began, given, say))
        except MissingCapability as error:
            if by is not None:
                raise
            say(f"seccomp redirects the connections, since BPF cannot: {str(error).partition('; ')[0]}")
            made = stack.enter_context(by_seccomp(began, given, say))
        yield made


@contextmanager
@shielded
def by_bpf(
    began: UserProgram, given: Mapping[str, Any], say: Callable[[str], None]
) -> Iterator[RelayProgram]:
    """As :func:`redirected`, by BPF programs at a control group."""
    from weirlab._engine import ParallelRelay
    from weirlab.link.host import journal

    check_root()
    # Groups whose owners were killed.
    journal.clean(say)
    with control_group(say) as group:
        with group.opened() as descriptor:
            relay = ParallelRelay(descriptor, **given)
        try:
            with program.begun(began, group=group.path) as process:
                yield RelayProgram(BPF, relay, process, lambda: bool(group.members()), lambda: None)
        finally:
            relay.stop()


@contextmanager
@shielded
def by_seccomp(
    began: UserProgram, given: Mapping[str, Any], say: Callable[[str], None]
) -> Iterator[RelayProgram]:
    """As :func:`redirected`, by a seccomp filter that the program starts with."""
    from weirlab._engine import ParallelRelay, seccomp_filter

    number, code = seccomp_filter()
    others, told = _children(), set[int]()
    with ExitStack() as stack:
        stack.enter_context(_adopting())
        own, its = socket.socketpair()
        stack.enter_context(own)
        with its:
            os.set_inheritable(its.fileno(), True)
            channel = its.fileno()
            watch = f"{channel}:{number}:{code.hex()}"
            process = stack.enter_context(program.begun(began, watch=watch))
        relay = ParallelRelay.by_seccomp((_listener(own), process.pid, channel), **given)
        stack.callback(relay.stop)
        with suppress(BrokenPipeError):
            own.sendall(b"begin")
        own.close()
        known = others | {process.pid}

        def is_left() -> bool:
            # Before Linux 6.11, a process counts until somebody has taken note of its end.
            _bury(known)
            return relay.watches

        def look() -> None:
            _bury(known)
            for thread in set(relay.unseen()) - told:
                told.add(thread)
                say(f"process {thread} does not let others look into it: its TCP connections are plain ones")

        yield RelayProgram(SECCOMP, relay, process, is_left, look)


def _listener(own: socket.socket) -> int:
    """What the kernel gave the program for its filter (``enter.py``)."""
    own.settimeout(_BEGIN_S)
    try:
        said, found, _, _ = socket.recv_fds(own, 16, 1, socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        raise LabError(f"the program has not begun after {_BEGIN_S:g} s") from None
    if found:
        return found[0]
    if not said:
        raise LabError("the program ended before it began")
    raise MissingCapability(
        f"the kernel refuses a seccomp filter that notifies: {os.strerror(int(said))}; it needs Linux 5.14 "
        "with CONFIG_SECCOMP_FILTER, and no other such filter around this command"
    )


@contextmanager
def _adopting() -> Iterator[None]:
    """Orphans become children of this process while inside: Yama lets it look into its descendants alone."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _children() -> frozenset[int]:
    """The processes that this one has begun and that somebody else here waits for."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                # The parent is the second field behind the name, which may contain anything.
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    found.add(int(entry.name))
    return frozenset(found)


def _bury(but: Collection[int]) -> None:
    """Take note of adopted processes that have ended, as their parents would; not of those in ``but``."""
    with suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid in but:
                break
            os.waitpid(found.si_pid, 0)


_REMEDIES: Final[dict[By, str]] = {
    BPF: "use Linux 5.14 or newer with CONFIG_CGROUP_BPF, and control groups of version 2; or --by seccomp",
    SECCOMP: "use Linux 5.14 or newer with CONFIG_SECCOMP_FILTER, in a container with pidfd_getfd(2)",
}
_DESCRIPTORS: Final = 64
_DETAILS: Final[dict[By, str]] = {
    BPF: "BPF programs at a control group of version 2 redirect connections",
    SECCOMP: "a seccomp filter redirects connections, without root",
}


def findings() -> tuple[Finding, ...]:
    """Each way tried as ``weir psock run`` does, with a program that ends at once; nothing stays behind."""
    return _finding(BPF), _finding(SECCOMP)


def _finding(by: By) -> Finding:
    name, left = f"psock run --by {by}", list[str]()
    try:
        with program.signals_held(), _tried(by, left.append) as made:
            code = program.run(made.process, made.look)
            made.relay.stop()
    except ImportError as error:
        return Finding(name, False, str(error), "build the engine: make build", essential=False)
    except WeirError as error:
        detail, _, remedy = str(error).partition("; ")
        return Finding(name, False, detail, remedy or _REMEDIES[by], essential=False)
    if left or code:
        why = "; ".join(left) or f"a program that does nothing ended with {code}"
        return Finding(name, False, why, "weir lab clean", essential=False)
    return Finding(name, True, _DETAILS[by], essential=False)


def _tried(by: By, complain: Callable[[str], None]) -> AbstractContextManager[Any]:
    given = {
        "routes": [(None, LOOPBACK, PROXY_PORT)],
        "how": SessionOptions().how().plain(),
        "only": ["any"],
        "excepted": [],
        "fallback": False,
        "most": 1,
    }
    nothing = program.UserProgram(program.located("true"), ("true",), "", _DESCRIPTORS)
    return redirected(by, nothing, given, complain)
