"""Files that the user names, or the store writes: one way to write them, one way to read them.

An output is there in full or not at all. It takes the place of a regular file or of nothing: never of a
device, a pipe or a socket, and a symbolic link is neither followed nor replaced. Folders on the way to it may
be links. Nobody can foresee the name under which it is made, and no link planted there is followed.

An input is a regular file or a pipe that somebody writes into, and never larger than it may reasonably be.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from weirlab.errors import InputError, StoreError
from weirlab.interrupts import interruptible
from weirlab.quoting import printable, shortened

ELSEWHERE: Final = "choose another place"
SCRATCH: Final = ".*.tmp"
"""What :func:`write` calls a file for a moment, before it takes the place of another one."""

_SCRATCH_NAME: Final = re.compile(r"\.[0-9a-f]{16,32}\.tmp")
_SHOWN: Final = 320
"""Characters of a path in a message; a name alone may have 255."""
_BLOCK_BYTES: Final = 1 << 16
_LONG_NAME: Final = ("the name is too long", "give a shorter one")
_ADVICE: Final[dict[int, tuple[str, str]]] = {
    errno.ENOSPC: ("no space is left on the disk", "free some space there or {elsewhere}"),
    errno.EDQUOT: ("the disk quota is used up", "free some space there or {elsewhere}"),
    errno.EFBIG: ("the file would be larger than is allowed", "{elsewhere}, or raise the limit (ulimit -f)"),
    errno.EROFS: ("the file system is read-only", "make it writable for this user or {elsewhere}"),
    errno.EACCES: ("permission denied", "make it writable for this user or {elsewhere}"),
    errno.EPERM: ("operation not permitted", "make it writable for this user or {elsewhere}"),
    errno.ENOTDIR: ("a part of this path is a file, not a folder", "{elsewhere}"),
    errno.EEXIST: ("a file is in the way where a folder is needed", "{elsewhere}"),
    errno.EISDIR: ("a folder is in the way where a file is needed", "{elsewhere}"),
    errno.ELOOP: ("a symbolic link is in the way, or links lead in a circle", "{elsewhere}"),
    errno.EIO: ("the disk reports an input/output error", "check the disk or {elsewhere}"),
    errno.ENAMETOOLONG: _LONG_NAME,
}
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}

# Polars passes the operating system's error on as text only, and not always that.
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")


def explain(path: Path, doing: str, error: Exception, elsewhere: str = ELSEWHERE) -> StoreError:
    """The ``StoreError`` that tells what ``doing`` with ``path`` met, and the way out."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (match := _OS_ERROR.search(str(error))):
        number = int(match[1])
    if number is None and doing == "write" and _is_full(path):
        number = errno.ENOSPC
    fallback = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    what, advice = _ADVICE.get(number or 0, (fallback, "{elsewhere}"))
    return StoreError(f"cannot {doing} {shown(path)}: {what}; {advice.format(elsewhere=elsewhere)}")


@contextmanager
def telling(path: Path, doing: str, elsewhere: str = ELSEWHERE) -> Iterator[None]:
    """Turn errors of the operating system inside the block into ``StoreError`` about ``path``."""
    try:
        yield
    except OSError as error:
        raise explain(path, doing, error, elsewhere) from error


def check_output(path: Path, option: str = "", *, makes_folder: bool = False) -> None:
    """Raise for a file that could not be written later, before anything is measured or computed.

    Parameters
    ----------
    path
        The file.
    option
        The option that named it, for the message.
    makes_folder
        Its folder may be missing, and is made when it is written.

    Raises
    ------
    InputError
        It cannot be a file's place: no folder there, or something that is never replaced.
    StoreError
        The disk refuses new files there.
    """
    _refuse_other_kinds(path, option)
    if makes_folder:
        check_folder(path.parent, option)
        return
    if not path.parent.is_dir():
        raise InputError(f"{_named(path, option)}: there is no folder {shown(path.parent)}; make it first")
    _try(path.parent)


def check_folder(path: Path, option: str = "") -> None:
    """The same for a folder that is to have new files, and is made if it is missing."""
    while _mode(path, option) is None and path != path.parent:
        path = path.parent
    if not path.is_dir():
        raise InputError(f"{_named(path, option)}: that is no folder; choose another place")
    _try(path)


def write(
    path: Path,
    fill: Callable[[BinaryIO], object],
    *,
    private: bool = False,
    durable: bool = False,
    elsewhere: str = ELSEWHERE,
) -> None:
    """Let ``fill`` write a new file beside ``path``, then put it in place in one step.

    Whatever goes wrong before that step, a disk that fills up or Ctrl-C, ``path`` keeps what it had and no
    other file stays. Only ``kill -9`` can leave one, called as :data:`SCRATCH` says: between giving the file
    that name and replacing ``path`` by it, or at any time where the file system has no files without names.
    The next file that is written to the folder sweeps it away.

    Parameters
    ----------
    fill
        Gets the file, open for writing bytes.
    private
        Only its owner may read it, as suits captures; else whom the umask allows.
    durable
        It is on the disk when this returns, also if the power fails then. Costs two fsyncs. Where the second
        one fails, that of the folder, ``path`` is new already although this raises.
    elsewhere
        What a user can do whom this place is refused.

    Raises
    ------
    InputError
        Something that is never replaced has this name.
    StoreError
        The disk refuses.
    """
    scratch = _scratch_name()
    with telling(path, "write", elsewhere):
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _refuse_other_kinds(path)
            sweep(path.parent)
            with _nameless(folder, scratch, 0o600 if private else 0o666) as file:
                fill(file)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                # That may have taken long.
                _refuse_other_kinds(path)
                _put(file.fileno(), folder, scratch, path.name)
            if durable:
                _sync(folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(scratch, dir_fd=folder)
            raise
        finally:
            os.close(folder)


def write_bytes(
    path: Path,
    content: bytes,
    *,
    private: bool = False,
    durable: bool = False,
    elsewhere: str = ELSEWHERE,
) -> None:
    """Write ``content`` to ``path`` in one step, see :func:`write`."""
    write(path, lambda file: file.write(content), private=private, durable=durable, elsewhere=elsewhere)


def sweep(folder: Path) -> None:
    """Remove what writers left in ``folder`` that were killed; files of those that live are locked."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if _SCRATCH_NAME.fullmatch(name):
                _remove_stale(folder / name)


def make_folder(path: Path, elsewhere: str = ELSEWHERE) -> None:
    """Make the folder ``path``, and those above it, where they are missing."""
    with telling(path, "make the folder", elsewhere):
        path.mkdir(parents=True, exist_ok=True)


@interruptible
def wait_for_lock(fd: int) -> None:
    """Take the lock of ``fd`` by flock(2), for which its holder may let others wait for as long as it likes.

    Raises ``OSError`` where the file system does not lock.
    """
    fcntl.flock(fd, fcntl.LOCK_EX)


def read_bytes(path: Path, what: str, limit: int) -> bytes:
    """All of an input. ``what`` it is expected to be, for messages, e.g. "a ruleset".

    Raises ``InputError`` for one that cannot be read, is neither a regular file nor a pipe that somebody
    writes into, or has more than ``limit`` bytes.
    """
    advice = f"give the path of {what}"
    try:
        # Without O_NONBLOCK a pipe would be waited for until somebody opens its other end.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            mode = os.fstat(fd).st_mode
            first: bytes | None = None
            if stat.S_ISFIFO(mode):
                first = _first(fd)
                if first == b"":
                    raise InputError(
                        f"{shown(path)}: that is a pipe into which nobody writes, or one that was read "
                        f"already; {advice}"
                    )
                os.set_blocking(fd, True)
            elif not stat.S_ISREG(mode):
                raise InputError(f"{shown(path)}: that is {_kind(mode)}; {advice}")
            content = (first or b"") + _up_to(fd, limit + 1)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise InputError(f"{shown(path)}: no such file; {advice}") from None
    except OSError as error:
        reason = _LONG_NAME[0] if error.errno == errno.ENAMETOOLONG else error.strerror
        raise InputError(f"{shown(path)}: cannot be read: {reason}; {advice}") from error
    if len(content) > limit:
        raise InputError(f"{shown(path)}: more than {limit:,} bytes, and {what} is never so large; {advice}")
    return content


def read_text(path: Path, what: str, limit: int) -> str:
    """As :func:`read_bytes`, for UTF-8 with any line ends, which become ``\\n``."""
    content = read_bytes(path, what, limit)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise InputError(f"{shown(path)}:{line}:{column}: not UTF-8 text, and {what} is") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def shown(path: Path) -> str:
    """A path for a message: printable, its middle left out where it is very long."""
    return shortened(printable(str(path)), _SHOWN)


# As open(2) has it for file systems and kernels without O_TMPFILE.
_NO_NAMELESS: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _try(folder: Path) -> None:
    """Raise ``StoreError`` where ``folder`` takes no new file."""
    scratch = folder / _scratch_name()
    with telling(folder, "write to"):
        try:
            os.close(os.open(scratch, _NEW, 0o600))
        finally:
            with suppress(OSError):
                scratch.unlink(missing_ok=True)


def _nameless(folder: int, scratch: str, mode: int) -> BinaryIO:
    """A new file that has no name yet, so that ``kill -9`` while it is filled leaves nothing.

    It is called ``scratch`` from the start where the file system cannot do that, and elsewhere for the
    instant in which :func:`_put` replaces another file.
    """
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
        fd = os.open(scratch, _NEW, mode, dir_fd=folder)
        while not _locked(fd):
            os.close(fd)
            fd = os.open(scratch, _NEW, mode, dir_fd=folder)
        return open(fd, "wb")
    _locked(fd)
    return open(fd, "wb")


def _locked(fd: int) -> bool:
    """Take the lock that tells :func:`sweep` of a living writer; False if it was swept before."""
    with suppress(OSError):
        # Some network file systems know no locks; then nothing is swept there either.
        fcntl.flock(fd, fcntl.LOCK_EX)
    return os.fstat(fd).st_nlink > 0


def _put(fd: int, folder: int, scratch: str, name: str) -> None:
    """Give the file of :func:`_nameless` its name, in place of another file if there is one."""
    if os.fstat(fd).st_nlink == 0:
        source = f"/proc/self/fd/{fd}"
        try:
            os.link(source, name, dst_dir_fd=folder)
            return
        except FileExistsError:
            os.link(source, scratch, dst_dir_fd=folder)
    os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)


def _remove_stale(scratch: Path) -> None:
    with suppress(OSError):
        fd = os.open(scratch, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            scratch.unlink()
        finally:
            os.close(fd)


def _scratch_name() -> str:
    return SCRATCH.replace("*", os.urandom(16).hex())


def _refuse_other_kinds(path: Path, option: str = "") -> None:
    """Raise for what is there and no regular file."""
    mode = _mode(path, option)
    if mode is None:
        return
    if stat.S_ISDIR(mode):
        raise InputError(f"{_named(path, option)}: that is a folder; name a file in it")
    if stat.S_ISLNK(mode):
        raise InputError(
            f"{_named(path, option)}: that is a symbolic link, which is neither followed nor replaced; name "
            "the file itself"
        )
    if not stat.S_ISREG(mode):
        raise InputError(
            f"{_named(path, option)}: that is {_kind(mode)}, which is not replaced; name a regular file"
        )


def _mode(path: Path, option: str = "") -> int | None:
    """What is there, a link not followed; None for nothing."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        # A null character, or one that the file system cannot encode.
        raise InputError(f"{_named(path, option)}: no file can have this name; give another one") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{_named(path, option)}: {'; '.join(_LONG_NAME)}") from None
        raise explain(path, "write", error) from error


def _named(path: Path, option: str) -> str:
    return f"{option} {shown(path)}".strip()


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


def _sync(folder: int) -> None:
    """A new name is on the disk when its folder is."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _first(pipe: int) -> bytes | None:
    """What a pipe has to say at first: empty if nobody writes into it, None if somebody is about to."""
    try:
        return os.read(pipe, 1)
    except BlockingIOError:
        return None


def _up_to(fd: int, size: int) -> bytes:
    """All there is, but at most ``size`` bytes."""
    chunks = []
    while size > 0 and (chunk := os.read(fd, min(size, _BLOCK_BYTES))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _is_full(path: Path) -> bool:
    try:
        state = os.statvfs(path.parent)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _BLOCK_BYTES
