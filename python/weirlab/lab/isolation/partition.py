"""Isolates the measuring CPUs while a test bed is open, if the machine has CPUs to spare.

Everything made is named after its lab, as the namespaces are, and is noted in a journal next to the lab's
lock before anything is changed. So any later clean-up can undo it, however its owner ended.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from weirlab.base.errors import StoreError
from weirlab.base.files import write
from weirlab.base.interrupts import shielded
from weirlab.lab.isolation import groups as control_groups
from weirlab.lab.isolation import unified
from weirlab.lab.isolation.groups import CgroupHierarchy, IsolationError, LegacyGroup, cpu_list, refusal
from weirlab.lab.isolation.unified import UnifiedGroup

JOURNAL: Final = ".cpuset"
"""Suffix of the journal, whose name is otherwise that of the lab's lock."""

State = Literal["isolated", "refused", "not needed"]
T = TypeVar("T")


@dataclass(frozen=True)
class Isolation:
    """Whether the measuring CPUs are isolated, and what to do if they are not."""

    state: State
    detail: str
    remedy: str = ""

    @property
    def words(self) -> str:
        return f"refused: {self.detail}" if self.state == "refused" else self.detail


@dataclass(frozen=True)
class _Partition:
    """The partition of this process, and how to give it back."""

    journal: Path
    groups: CgroupHierarchy
    what: UnifiedGroup


_held: _Partition | None = None
"""A process can have one partition of version 2 at a time."""


@shielded
def make(
    journal: Path,
    cpus: Iterable[int],
    *,
    alone: bool = True,
    spared: Iterable[int] = (),
    find: Callable[[], CgroupHierarchy] = control_groups.find,
    allowed: Iterable[int] | None = None,
) -> Isolation:
    """Isolate ``cpus``, if at least one CPU remains for everything else; does not raise if that is refused.

    Parameters
    ----------
    journal:
        Where to note what :func:`give_back` has to undo; its name is the lab's identifier and ``JOURNAL``.
    alone:
        Whether no other lab is open on this machine: it may need to bind threads that a partition would
        lock out.
    spared:
        CPUs that have their own task and do not count as remaining.
    allowed:
        CPUs that this process may use, by default those of its affinity: if it was bound to a few of many
        CPUs, its Python has to remain on these.
    """
    wanted = frozenset(cpus)
    usable = frozenset(os.sched_getaffinity(0) if allowed is None else allowed)
    if not usable - wanted - frozenset(spared):
        return Isolation("not needed", f"no: of {len(usable)} CPUs none would remain for other work")
    if not alone:
        return Isolation("refused", "another lab is open on this machine", "wait until it is closed")
    try:
        try:
            groups = find()
            kind = _make(groups, journal, wanted)
        except OSError as error:
            raise refusal(error) from error
    except IsolationError as error:
        give_back(journal, find)
        return Isolation("refused", error.why, error.remedy)
    how = {
        "isolated": "isolated partition",
        "root": "partition with load balancing, since the kernel refuses an isolated one",
        "exclusive": "all that can be moved is elsewhere",
    }[kind]
    return Isolation("isolated", f"CPUs {cpu_list(wanted)}: {how} (control groups v{groups.version})")


@shielded
def give_back(journal: Path, find: Callable[[], CgroupHierarchy] = control_groups.find) -> bool:
    """Undo what ``journal`` records; True if nothing of it is left. May be called again."""
    global _held
    if _held is not None and _held.journal == journal:
        _held = None
    try:
        noted = json.loads(journal.read_text())
    except FileNotFoundError:
        return True
    except ValueError:
        # Its writer died while writing it, before anything was changed.
        journal.unlink(missing_ok=True)
        return True
    try:
        groups = find()
        done = _undo(groups, noted)
    except (IsolationError, OSError):
        return False
    if done:
        journal.unlink(missing_ok=True)
    return done


def bind(thread: int, cpu: int) -> None:
    """Bind a kernel thread to ``cpu``, which may be in this process's partition; raises ``OSError``.

    If the kernel does not let it join the partition, the partition is given up: isolation helps, but the
    measurement depends on the binding.
    """
    try:
        os.sched_setaffinity(thread, {cpu})
        return
    except OSError as error:
        if error.errno != errno.EINVAL or _held is None:
            raise
        held = _held
    try:
        unified.admit(held.groups, held.what, thread)
        os.sched_setaffinity(thread, {cpu})
    except OSError:
        give_back(held.journal, lambda: held.groups)
        os.sched_setaffinity(thread, {cpu})


def measuring(action: Callable[[], T]) -> Callable[[], T]:
    """Wrap ``action`` so that its thread, and what it starts, may use the measuring CPUs.

    The thread stays in the partition, so it should end with the action.
    """

    def joined() -> T:
        if (held := _held) is not None:
            # If that is refused, the started program reports which CPU it cannot use.
            with suppress(OSError):
                unified.enter(held.groups, held.what)
        return action()

    return joined


def as_it_stands(isolation: Isolation, journal: Path) -> Isolation:
    """The present state of ``isolation``, which :func:`bind` may have given up."""
    if isolation.state != "isolated" or journal.exists():
        return isolation
    return Isolation(
        "refused",
        "the kernel keeps the device's threads out of a partition",
        "everything works without it; a newer kernel may let them in",
    )


def _make(groups: CgroupHierarchy, journal: Path, cpus: frozenset[int]) -> str:
    global _held
    group = f"weir-{journal.stem}"
    if groups.version == 1:
        old = control_groups.plan_legacy(groups, group)
        _note(journal, old.to_json())
        return control_groups.make_legacy(groups, old, cpus)
    what = unified.plan(groups, group)
    _note(journal, what.to_json())
    kind = unified.make(groups, what, cpus)
    _held = _Partition(journal, groups, what)
    return kind


def _undo(groups: CgroupHierarchy, noted: dict[str, Any]) -> bool:
    kept = {name: value for name, value in noted.items() if name != "version"}
    if noted["version"] != groups.version:
        # The hierarchy is gone, with everything in it.
        return True
    if groups.version == 1:
        return control_groups.undo_legacy(groups, LegacyGroup(**kept))
    return unified.undo(groups, UnifiedGroup(**kept))


def _note(journal: Path, content: dict[str, Any]) -> None:
    try:
        write(journal, lambda file: file.write(json.dumps(content).encode()))
    except StoreError as error:
        raise IsolationError(str(error), "make room there") from error
