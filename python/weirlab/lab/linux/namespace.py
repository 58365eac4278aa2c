"""Network namespaces with names, the same that ``ip netns`` lists."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from weirlab.base.errors import LabError
from weirlab.base.interrupts import interruptible, shielded
from weirlab.lab.linux import interface, syscalls

DIRECTORY: Final = Path("/run/netns")
_LOCK_S: Final = 10.0
_LOCK_POLL_S: Final = 0.02

T = TypeVar("T")


def identity() -> tuple[int, int]:
    """What identifies the calling thread's network namespace, whatever its name."""
    found = os.stat("/proc/thread-self/ns/net")
    return found.st_dev, found.st_ino


class Namespace:
    """The network namespace called ``name``. Making an object neither creates nor looks for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = DIRECTORY / name

    @shielded
    def create(self) -> None:
        """Make the namespace.

        Raises ``FileExistsError`` if the name is taken, ``PermissionError`` without CAP_SYS_ADMIN.
        """
        _prepare_directory()
        os.close(os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))

        def build() -> None:
            syscalls.unshare_net()
            syscalls.bind_mount("/proc/thread-self/ns/net", str(self.path))

        try:
            in_thread(build)
        except BaseException:
            self.path.unlink(missing_ok=True)
            raise

    def call(self, action: Callable[[], T]) -> T:
        """Run ``action`` inside this namespace; returns (or raises) what it does.

        It runs in a separate thread, so that the caller never changes its namespace;
        sockets and files that it opens, and processes that it starts, stay inside.
        """

        def enter_and_act() -> T:
            with self.descriptor() as fd:
                syscalls.set_net(fd)
            return action()

        return in_thread(enter_and_act)

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """Open the namespace's file; yields its descriptor."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)

    def remove(self) -> None:
        """Remove the veth pairs inside, then the name. Does nothing if there is no such namespace.

        The interfaces go first because the kernel empties an unused namespace
        some time later, and a process that still sits in it would keep them alive.
        """
        if not self.path.exists():
            return
        # A half-made name (its maker was killed) or one being removed elsewhere cannot be entered.
        with suppress(OSError):
            self.call(interface.delete_veths)
        with suppress(OSError):
            syscalls.unmount(str(self.path))
        self.path.unlink(missing_ok=True)


@shielded
def in_thread(action: Callable[[], T]) -> T:
    """Run ``action`` in a new thread; returns (or raises) what it does.

    Shielded: after Ctrl-C, nothing may still be building while the caller tears down.
    """
    outcome: _Outcome[T] = _Outcome(action)
    thread = threading.Thread(target=outcome.record, name="weir-netns")
    thread.start()
    try:
        thread.join()
    except BaseException:
        # The calling program may not catch signals as the command does.
        thread.join()
        raise
    return outcome.get()


def in_private(action: Callable[[], T]) -> T:
    """Run ``action`` in a thread whose network namespace ends with it."""

    def inside() -> T:
        syscalls.unshare_net()
        return action()

    return in_thread(inside)


def write_sysctls(values: Mapping[str, int]) -> None:
    """Set sysctls (``net/ipv4/ip_forward``) in the calling thread's namespace.

    Sysctls that this kernel lacks are skipped.
    """
    for key, value in values.items():
        with suppress(FileNotFoundError):
            Path("/proc/sys", key).write_text(f"{value}\n")


class _Outcome(Generic[T]):
    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._error: BaseException | None = None
        self._value: list[T] = []

    def record(self) -> None:
        try:
            self._value.append(self._action())
        except BaseException as error:
            self._error = error

    def get(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value[0]


@interruptible
def _lock(fd: int) -> None:
    """Two processes that bind at once would stack mounts; iproute2 briefly takes the same lock."""
    end_s = time.monotonic() + _LOCK_S
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end_s:
                raise LabError(
                    f"no namespace can be made: another program has held the lock of {DIRECTORY} for "
                    f"{_LOCK_S:.0f} s; end it (fuser -v {DIRECTORY} names it) and try again"
                ) from None
        time.sleep(_LOCK_POLL_S)


def _prepare_directory() -> None:
    """Make /run/netns a shared mount, as iproute2 does: every mount namespace sees the same names."""
    DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
    fd = os.open(DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(fd)
        try:
            syscalls.share_mount(str(DIRECTORY))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            syscalls.bind_recursively(str(DIRECTORY))
            syscalls.share_mount(str(DIRECTORY))
    finally:
        os.close(fd)
