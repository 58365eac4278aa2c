"""The first process of a machine; a separate program that only uses the standard library.

Started inside the machine's network namespace, it makes a PID namespace and a mount
namespace beside it: daemons find a /run of their own, and the kernel ends all of them when this
process ends, however it does (pid_namespaces(7)). It ends at the end of its standard input, that
is when its owner ends.

Arguments: the CPU to work on, empty for any; files of further network namespaces. Requests come as
JSON lines on standard input, answers and news as JSON lines on standard output:

``{"id": 1, "write": PATH, "text": TEXT, "mode": 493}``
    Writes a file; ``{"id": 1}`` when done.
``{"id": 2, "start": NAME, "command": [...], "nice": -20, "inside": FILE, "log": PATH}``
    Starts a daemon, inside one of the further network namespaces unless ``inside`` is null; ``{"id": 2}``.
    Its output is kept, or appended to ``log`` if that is not null. When it ends by itself or
    otherwise: ``{"ended": NAME, "code": 1, "said": [...]}``, code -9 for signal 9.
``{"id": 3, "run": [...]}``
    Runs a command; ``{"id": 3, "code": 0, "said": [...]}`` when it has ended.
``{"id": 4, "signal": 15, "to": NAME}``
    Sends a signal to a daemon; ``{"id": 4}``.
``{"id": 5, "said": NAME}``
    What a daemon printed last; ``{"id": 5, "said": [...]}``.
``{"id": 6, "show": SOURCE, "at": TARGET}``
    Makes the file or folder SOURCE appear as TARGET to programs; ``{"id": 6}``.

Each line that daemons and scripts write into the pipe ``NEWS`` is passed on as ``{"news": LINE}``. A request
that fails is answered with ``"error"``.
"""

import ctypes
import errno
import json
import os
import selectors
import signal
import sys
from collections import deque
from collections.abc import Callable

NEWS = "/run/news"
KEPT_LINES = 40
CHUNK_BYTES = 1 << 16

CLONE_NEWNS = 0x20000
CLONE_NEWNET = 0x40000000
CLONE_NEWPID = 0x20000000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 1 << 19
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def main(cpu: str, *networks: str) -> int:
    """Run as the parent of the first process: report its ID, wait for its end, and return its exit code."""
    # Opened before /run, which contains them, is replaced.
    inside = {path: os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in networks}
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare")
    parent = os.getpid()
    first = os.fork()
    if first == 0:
        check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
        if not os.path.exists(f"/proc/{parent}"):
            os._exit(1)
        if cpu:
            os.sched_setaffinity(0, {int(cpu)})
        # Its death stands for the machine's loss of power, which must not wait for a time slice.
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        mount_private()
        InitProcess(inside).serve()
        os._exit(0)
    # Only the first process keeps the pipes: their closing shows the owner when it is gone.
    print(json.dumps({"first": first}), flush=True)
    os.close(0)
    os.close(1)
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])


def mount_private() -> None:
    """Mount a /proc for this PID namespace and an empty /run; unmounting elsewhere still has effect here."""
    mount(b"none", "/", b"none", MS_REC | MS_SLAVE)
    mount(b"proc", "/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount(b"tmpfs", "/run", b"tmpfs", MS_NOSUID | MS_NODEV)
    os.mkdir("/run/lock")
    os.mkfifo(NEWS)


class InitProcess:
    """Starts, watches and reaps everything else in the machine."""

    def __init__(self, networks: dict[str, int]) -> None:
        self.networks = networks
        """Descriptors of further network namespaces."""
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.logs: dict[object, str] = {}
        """Log files that get a daemon's output instead."""
        self.selector = selectors.DefaultSelector()
        self.daemons: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.commands: dict[int, object] = {}
        """ID of the request, by the process that carries it out."""
        self.said: dict[object, deque[str]] = {}
        self.words: dict[int, Callable[[], None]] = {}
        """Functions that read what a process has printed, by its ID."""
        self.open: set[int] = set()
        """Pipes that a process still has open."""

    def serve(self) -> None:
        """Serve requests until standard input ends."""
        wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write)
        self.selector.register(wake, selectors.EVENT_READ, lambda: self.woken(wake))
        # Open for writing as well, so that it does not end when the last writer closes it.
        self.read_lines(os.open(NEWS, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK), self.pass_on)
        self.running = True
        self.read_lines(0, self.obey, self.stop)
        while self.running:
            self.react()

    def react(self) -> None:
        """Wait for events and act on them."""
        for key, _ in self.selector.select():
            # A simultaneous event, the end of a program, may have read and closed its pipe.
            if self.selector.get_map().get(key.fd) is key:
                key.data()

    def read_lines(
        self, fd: int, take: Callable[[bytes], None], ended: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        """Call ``take`` with every line from ``fd`` from now on, and ``ended`` at the end.

        Returns a function that reads at once.
        """
        pending = bytearray()

        def read() -> None:
            try:
                chunk = os.read(fd, CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self.selector.unregister(fd)
                os.close(fd)
                if pending:
                    take(bytes(pending))
                ended()
                return
            pending.extend(chunk)
            *lines, rest = bytes(pending).split(b"\n")
            pending[:] = rest
            for line in lines:
                take(line)

        self.selector.register(fd, selectors.EVENT_READ, read)
        return read

    def stop(self) -> None:
        self.running = False

    def pass_on(self, line: bytes) -> None:
        tell(news=line.decode(errors="replace"))

    def obey(self, line: bytes) -> None:
        # An answer also implies that everything not reported as ended still runs.
        self.reap()
        request = json.loads(line)
        number = request["id"]
        try:
            if "write" in request:
                with open(request["write"], "w") as file:
                    file.write(request["text"])
                os.chmod(request["write"], request["mode"])
                tell(id=number)
            elif "start" in request:
                name = request["start"]
                pid = self.start(request["command"], name, request["nice"], request["inside"], request["log"])
                self.daemons[name], self.names[pid] = pid, name
                tell(id=number)
            elif "run" in request:
                self.commands[self.start(request["run"], number, 0)] = number
            elif "show" in request:
                show(request["show"], request["at"])
                tell(id=number)
            elif "signal" in request:
                os.kill(self.daemons[request["to"]], request["signal"])
                tell(id=number)
            else:
                tell(id=number, said=self.last_words(request["said"]))
        except (OSError, KeyError) as error:
            tell(id=number, error=f"{type(error).__name__}: {error}")

    def start(
        self, command: list[str], key: object, nice: int, inside: str | None = None, log: str | None = None
    ) -> int:
        """Start a program whose output is kept under ``key``; returns its process ID."""
        self.logs.pop(key, None)
        if log is not None:
            self.logs[key] = log
            self.said[key] = deque(maxlen=KEPT_LINES)
            # Without a pipe in between, output is in the file before anything that happens after it.
            write = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                return self.spawn(command, write, nice, inside)
            finally:
                os.close(write)
        read, write = os.pipe()
        try:
            pid = self.spawn(command, write, nice, inside)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        words: deque[str] = deque(maxlen=KEPT_LINES)
        self.said[key] = words
        os.set_blocking(read, False)
        self.open.add(read)

        def keep(line: bytes) -> None:
            words.append(line.decode(errors="replace").strip())

        more = self.read_lines(read, keep, lambda: self.open.discard(read))
        self.words[pid] = lambda: more() if read in self.open else None
        return pid

    def spawn(self, command: list[str], write: int, nice: int, inside: str | None) -> int:
        """Start a program with its output going to ``write``; returns its process ID."""
        if inside is not None:
            check(libc.setns(self.networks[inside], CLONE_NEWNET), "setns")
        try:
            pid = os.posix_spawn(
                command[0],
                command,
                {**os.environ, "LC_ALL": "C"},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, write, 1),
                    (os.POSIX_SPAWN_DUP2, write, 2),
                ],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGINT],
            )
        finally:
            if inside is not None:
                check(libc.setns(self.home, CLONE_NEWNET), "setns")
        os.setpriority(os.PRIO_PROCESS, pid, nice)
        if nice:
            prefer(pid, nice)
        return pid

    def last_words(self, key: object) -> list[str]:
        """A program's last output."""
        if (log := self.logs.get(key)) is None:
            return list(self.said.get(key, ()))
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - CHUNK_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return [line.strip() for line in lines[-KEPT_LINES:]]

    def woken(self, wake: int) -> None:
        os.read(wake, CHUNK_BYTES)
        self.reap()

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.words:
                self.words.pop(pid)()
            code = os.waitstatus_to_exitcode(status)
            if pid in self.commands:
                number = self.commands.pop(pid)
                tell(id=number, code=code, said=list(self.said.pop(number)))
            elif pid in self.names:
                name = self.names.pop(pid)
                if self.daemons[name] == pid:
                    del self.daemons[name]
                tell(ended=name, code=code, said=self.last_words(name))


def prefer(pid: int, nice: int) -> None:
    """Make a program's nice value count among all programs, not only within its session.

    A kernel that shares the CPU out among sessions (autogroup, sched(7)) would otherwise leave a daemon one
    percent of it beside a kernel thread at nice -20.
    """
    try:
        with open(f"/proc/{pid}/autogroup", "w") as file:
            file.write(str(nice))
    except OSError as error:
        # There are no such groups, or the program has ended.
        if error.errno not in (errno.ENOENT, errno.ESRCH):
            raise


def tell(**words: object) -> None:
    try:
        os.write(1, json.dumps(words).encode() + b"\n")
    except BrokenPipeError:
        os._exit(1)


def show(source: str, target: str) -> None:
    """Mount a file or folder over another one. A file may be a link into /run, where there is nothing now."""
    real = os.path.realpath(target)
    if not os.path.exists(real):
        if not real.startswith("/run/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), real)
        os.makedirs(os.path.dirname(real), exist_ok=True)
        os.close(os.open(real, os.O_WRONLY | os.O_CREAT, 0o644))
    mount(source.encode(), real, b"none", MS_BIND)


def mount(source: bytes, target: str, kind: bytes, flags: int) -> None:
    check(libc.mount(source, target.encode(), kind, ctypes.c_ulong(flags), None), f"mount {target}")


def check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        sys.exit(f"{what}: {os.strerror(code)}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
