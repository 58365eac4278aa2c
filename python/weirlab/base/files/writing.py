"""Output files: written in full or not at all, and replacing nothing but a regular file."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from weirlab.base.errors import InputError
from weirlab.base.files.refusals import ELSEWHERE, LONG_NAME, explain, kind_of, shown, telling

SCRATCH: Final = ".*.tmp"
"""Pattern of the temporary name that :func:`write` gives a file before it replaces another."""

_SCRATCH_NAME: Final = re.compile(r"\.[0-9a-f]{16,32}\.tmp")

# What open(2) returns on file systems and kernels without O_TMPFILE.
_NO_NAMELESS: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_swept: Final[dict[tuple[int, int], int]] = {}
"""Folders without leftovers, by device and inode: when this process last changed them, in ns."""


def check_output(path: Path, option: str = "", *, makes_folder: bool = False) -> None:
    """Raise if the file could not be written later, before anything is measured or computed.

    Parameters
    ----------
    path
        The file.
    option
        The option that named it, for the message.
    makes_folder
        Its folder may be missing; it is created when the file is written.

    Raises
    ------
    InputError
        No file can be written there: the folder is missing, or something else than a regular file exists.
    StoreError
        The file system refuses new files there.
    """
    _refuse_other_kinds(path, option)
    if makes_folder:
        check_folder(path.parent, option)
        return
    if not path.parent.is_dir():
        raise InputError(f"{_named(path, option)}: there is no folder {shown(path.parent)}; create it first")
    _try(path.parent)


def check_folder(path: Path, option: str = "") -> None:
    """The same for a folder that will get new files, and is created if it is missing."""
    while _mode(path, option) is None and path != path.parent:
        path = path.parent
    if not path.is_dir():
        raise InputError(f"{_named(path, option)}: that is not a folder; choose another place")
    _try(path)


def write(
    path: Path,
    fill: Callable[[BinaryIO], object],
    *,
    private: bool = False,
    durable: bool = False,
    elsewhere: str = ELSEWHERE,
) -> None:
    """Let ``fill`` write a new file in the folder of ``path``, then rename it to ``path`` atomically.

    If anything goes wrong before that step, such as a full disk or Ctrl-C, ``path`` keeps its content and no
    other file stays. Only ``kill -9`` can leave a file, with a name that matches :data:`SCRATCH`: between
    giving the file that name and replacing ``path`` by it, or at any time if the file system does not support
    ``O_TMPFILE``. The next write to the folder by another process, or after any change there, removes it.

    Parameters
    ----------
    fill
        Gets the file, open for writing bytes.
    private
        Only the owner may read the file, as suits captures; otherwise the umask decides.
    durable
        The file is on disk when this returns, even if the power fails then. Costs two fsyncs. If the second
        one, that of the folder, fails, this raises although ``path`` is already new.
    elsewhere
        The advice to the user if the place is refused.

    Raises
    ------
    InputError
        ``path`` exists and is not a regular file.
    StoreError
        The file system refuses.
    """
    scratch = _scratch_name()
    with telling(path, "write", elsewhere):
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _refuse_other_kinds(path)
            nothing_left = _changed_ns(folder) == _swept.get(_identity(folder)) or sweep(path.parent)
            with _nameless(folder, scratch, 0o600 if private else 0o666) as file:
                begun_ns = _changed_ns(folder)
                fill(file)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                # Filling may have taken long.
                _refuse_other_kinds(path)
                alone = _changed_ns(folder) == begun_ns
                _put(file.fileno(), folder, scratch, path.name)
            if nothing_left and alone:
                _swept[_identity(folder)] = _changed_ns(folder)
            if durable:
                _sync(folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(scratch, dir_fd=folder)
            raise
        finally:
            os.close(folder)


def write_bytes(
    path: Path, content: bytes, *, private: bool = False, durable: bool = False, elsewhere: str = ELSEWHERE
) -> None:
    """Write ``content`` to ``path`` in one step, see :func:`write`."""
    write(path, lambda file: file.write(content), private=private, durable=durable, elsewhere=elsewhere)


def sweep(folder: Path) -> bool:
    """Remove what killed writers left in ``folder``; files of running writers are locked and stay.

    Returns whether there was none of either kind.
    """
    with suppress(OSError):
        found = [name for name in os.listdir(folder) if _SCRATCH_NAME.fullmatch(name)]
        for name in found:
            _remove_stale(folder / name)
        return not found
    return False


def make_folder(path: Path, elsewhere: str = ELSEWHERE) -> None:
    """Make the folder ``path``, and its parents, if they are missing."""
    with telling(path, "make the folder", elsewhere):
        path.mkdir(parents=True, exist_ok=True)


def _try(folder: Path) -> None:
    """Raise ``StoreError`` if no file can be created in ``folder``."""
    scratch = folder / _scratch_name()
    with telling(folder, "write to"):
        try:
            os.close(os.open(scratch, _NEW, 0o600))
        finally:
            with suppress(OSError):
                scratch.unlink(missing_ok=True)


def _nameless(folder: int, scratch: str, mode: int) -> BinaryIO:
    """A new file that has no name yet, so that ``kill -9`` while it is filled leaves nothing.

    If the file system does not support that, the file is called ``scratch`` from the start; otherwise only
    for the instant in which :func:`_put` replaces another file.
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
    """Take the lock that keeps :func:`sweep` from removing the file; False if it already did."""
    with suppress(OSError):
        # Some network file systems have no locks; then nothing is swept there either.
        fcntl.flock(fd, fcntl.LOCK_EX)
    return os.fstat(fd).st_nlink > 0


def _put(fd: int, folder: int, scratch: str, name: str) -> None:
    """Give the file of :func:`_nameless` its name, replacing another file if there is one."""
    if os.fstat(fd).st_nlink == 0:
        source = f"/proc/self/fd/{fd}"
        try:
            os.link(source, name, dst_dir_fd=folder)
            return
        except FileExistsError:
            os.link(source, scratch, dst_dir_fd=folder)
    os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def _changed_ns(folder: int) -> int:
    return os.fstat(folder).st_mtime_ns


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
    """Raise if ``path`` exists and is not a regular file."""
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
            f"{_named(path, option)}: that is {kind_of(mode)}, which is not replaced; name a regular file"
        )


def _mode(path: Path, option: str = "") -> int | None:
    """The mode of what is there, without following links; None if there is nothing."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        # A null character, or one that the file system cannot encode.
        raise InputError(f"{_named(path, option)}: no file can have this name; give another one") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{_named(path, option)}: {'; '.join(LONG_NAME)}") from None
        raise explain(path, "write", error) from error


def _named(path: Path, option: str) -> str:
    return f"{option} {shown(path)}".strip()


def _sync(folder: int) -> None:
    """Sync the folder: a new name is on disk only when its folder is."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
