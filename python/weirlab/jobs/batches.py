"""Work on many files, a result for each, in this process or by the workers of a cluster; and on the flows of
one capture, divided among workers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from weirlab.base.errors import InputError, LabError, WeirError
from weirlab.base.quantities import plural

if TYPE_CHECKING:
    from weirlab.jobs.cluster import ClusterAddress
    from weirlab.jobs.progress import Progress

_ATTEMPTS: Final = 3
"""How often a file is given to a worker, if workers die over it."""
_BATCH: Final = 20
"""Files that a worker gets at once: sending takes as long as reading a small one."""

R = TypeVar("R", bound="FileResult")
S = TypeVar("S")

Share = tuple[int, int]
"""Its number, from 0, and how many there are."""


class FileResult(Protocol):
    """What became of one file."""

    @property
    def path(self) -> str: ...

    @property
    def problem(self) -> str:
        """Why it could not be read; empty if it could."""


def results(
    paths: Sequence[Path],
    read: Callable[[str], R],
    failed: Callable[[str, str], R],
    address: ClusterAddress | None,
    progress: Progress,
) -> tuple[R, ...]:
    """What ``read`` says about each of ``paths``, in their order.

    With an ``address``, the workers of that cluster call ``read``. ``failed`` makes the result of a file over
    which they die, from its name and the problem.
    """
    names = [os.fspath(path) if address is None else str(path.absolute()) for path in paths]
    done: dict[int, R] = {}
    made = _here(names, read) if address is None else _there(names, read, failed, address, progress)
    for number, found in made:
        done[number] = found
        progress.advance(len(done), len(names), found.path)
    return tuple(done[number] for number in range(len(names)))


def unreadable(found: Sequence[FileResult], what: str) -> InputError | None:
    """The error if some of the files, each a ``what``, could not be read."""
    failed = [one for one in found if one.problem]
    if not failed:
        return None
    of = plural(len(found), what)
    return InputError(f"{len(failed):,} of {of} could not be read: {failed[0].problem}")


def _here(names: Sequence[str], read: Callable[[str], R]) -> Iterator[tuple[int, R]]:
    for number, name in enumerate(names):
        yield number, read(name)


def _batch_of(names: Sequence[str], read: Callable[[str], R]) -> list[R]:
    return [read(name) for name in names]


def _there(
    names: Sequence[str],
    read: Callable[[str], R],
    failed: Callable[[str, str], R],
    address: ClusterAddress,
    progress: Progress,
) -> Iterator[tuple[int, R]]:
    from weirlab.jobs import cluster
    from weirlab.jobs.worker import ANALYSIS

    at_once = range(0, len(names), _BATCH)
    waiting = [range(begin, min(begin + _BATCH, len(names))) for begin in reversed(at_once)]
    underway, tried = dict[int, range](), Counter[int]()
    with cluster.Cluster(address, ANALYSIS, progress.note) as workers:
        while waiting or underway:
            while waiting and workers.room > 0:
                batch = waiting.pop()
                tried[batch.start] += 1
                underway[batch.start] = batch
                workers.submit(batch.start, _batch_of, [names[number] for number in batch], read)
            for done in workers.results():
                batch = underway.pop(done.key)
                if done.error is None:
                    yield from zip(batch, done.value, strict=True)
                elif len(batch) > 1:
                    # One of its files may be what kills workers.
                    waiting += [range(number, number + 1) for number in batch]
                    tried[done.key] = 0
                elif tried[done.key] < _ATTEMPTS:
                    waiting.append(batch)
                else:
                    name = names[done.key]
                    yield done.key, failed(name, f"{name}: {cluster.failure(done.error)}")


def shares(read: Callable[[Share], S], address: ClusterAddress, progress: Progress) -> list[S]:
    """What ``read`` says about every share of the flows of a capture; the cluster has a worker for each.

    Raises
    ------
    WeirError
        As ``read`` does.
    LabError
        Workers die over a share, or one has another version of Weir, which may divide flows otherwise.
    """
    from weirlab.jobs import cluster
    from weirlab.jobs.worker import ANALYSIS
    from weirlab.store.manifest import versions

    found = dict[int, S]()
    with cluster.Cluster(address, ANALYSIS, progress.note) as workers:
        while not (many := len(workers.workers())):
            list(workers.results())
        tried = Counter(range(many))
        for number in range(many):
            workers.submit(number, _share, versions()["weirlab"], read, (number, many))
        while len(found) < many:
            for done in workers.results():
                if done.error is None:
                    found[done.key] = done.value
                    progress.advance(len(found), many, "shares of the flows")
                elif isinstance(done.error, WeirError):
                    raise done.error
                elif tried[done.key] < _ATTEMPTS:
                    tried[done.key] += 1
                    workers.submit(done.key, _share, versions()["weirlab"], read, (done.key, many))
                else:
                    raise LabError(f"share {done.key + 1} of {many}: {cluster.failure(done.error)}")
    return [found[number] for number in range(many)]


def _share(version: str, read: Callable[[Share], S], share: Share) -> S:
    from weirlab.jobs.worker import require_version

    require_version(version)
    return read(share)
