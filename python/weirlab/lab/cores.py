"""Which CPU sends and which one carries the device under test, and how this process stays off them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.interrupts import shielded

_SYSTEM_CPUS: Final = Path("/sys/devices/system/cpu")

PROC: Final = Path("/proc")


@dataclass(frozen=True)
class Cores:
    """Numbers of the CPUs for the sender and for the device under test; never the same one."""

    sender: int
    dut: int
    further: tuple[int, ...] = ()
    """Of further senders."""

    @property
    def senders(self) -> tuple[int, ...]:
        """CPUs of all senders."""
        return self.sender, *self.further


def choose(
    sender: int | None = None,
    dut: int | None = None,
    *,
    senders: int = 1,
    allowed: Iterable[int] | None = None,
    cpus: Path = _SYSTEM_CPUS,
) -> Cores:
    """Pick two CPUs, on different physical cores if there are two, and one more for each further sender.

    ``sender`` and ``dut`` fix a choice. With three or more cores, the core of CPU 0 stays
    free, because the kernel's own work gathers there; both come from one package, so that
    packets do not cross between sockets. ``allowed`` is the process's affinity by default.

    Raises ``MissingCapability`` with too few CPUs, ``InputError`` for a CPU that cannot be used.
    """
    usable = sorted(os.sched_getaffinity(0) if allowed is None else set(allowed))
    if len(usable) < 2:
        raise MissingCapability(
            f"sender and device under test need a CPU each, and this process may use {len(usable)}; "
            "give the machine (or the container, or taskset) two, or use the simulated lab"
        )
    if len(usable) <= senders:
        raise MissingCapability(
            f"{senders} senders and the receiver need {senders + 1} CPUs, and this process may use "
            f"{len(usable)}; give fewer --senders"
        )
    for cpu in (sender, dut):
        if cpu is not None and cpu not in usable:
            raise InputError(f"CPU {cpu} cannot be used; these can: {', '.join(map(str, usable))}")
    if sender is not None and sender == dut:
        raise InputError(f"sender and device under test cannot share CPU {sender}")

    cores = {cpu: _siblings(cpus, cpu) for cpu in usable}
    taken = {cpu for cpu in (sender, dut) if cpu is not None}
    candidates = [cpu for cpu in usable if cpu not in taken]
    distinct = {min(siblings) for siblings in cores.values()}
    spare_zero = len(distinct) >= 3

    def price(cpu: int, other: int | None) -> tuple[int, int, int, int]:
        """Lower is better, compared in this order."""
        same_core = other is not None and other in cores[cpu]
        far = other is not None and _package(cpus, cpu) != _package(cpus, other)
        return int(same_core), int(spare_zero and 0 in cores[cpu]), int(far), cpu

    if sender is None:
        sender = min(candidates, key=lambda cpu: price(cpu, dut))
        candidates.remove(sender)
    if dut is None:
        dut = min(candidates, key=lambda cpu: price(cpu, sender))
    left = sorted({*usable} - {sender, dut}, key=lambda cpu: price(cpu, dut))
    return Cores(sender, dut, tuple(left[: senders - 1]))


def share_a_core(cores: Cores, cpus: Path = _SYSTEM_CPUS) -> bool:
    """Whether the two CPUs are threads of one physical core, and so slow each other down."""
    return cores.dut in _siblings(cpus, cores.sender)


def parse_list(text: str) -> frozenset[int]:
    """CPU numbers in the kernel's list format: ``0-2,5`` is 0, 1, 2, 5."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def _siblings(cpus: Path, cpu: int) -> frozenset[int]:
    try:
        return parse_list((cpus / f"cpu{cpu}/topology/thread_siblings_list").read_text())
    except OSError:
        return frozenset({cpu})


def _package(cpus: Path, cpu: int) -> str:
    try:
        return (cpus / f"cpu{cpu}/topology/physical_package_id").read_text().strip()
    except OSError:
        return "0"


@contextmanager
@shielded
def aside(cpus: Collection[int], proc: Path = PROC) -> Iterator[None]:
    """Keep threads of this process and its descendants off ``cpus`` unless they are bound; on a machine
    without other CPUs, nothing changes.

    A thread with a different affinity was bound on purpose: the agents inside the device, a recorder, or
    the engine's threads, which bind themselves. It keeps its CPUs.
    """
    usual = os.sched_getaffinity(0)
    others = usual - set(cpus)
    if not others or others == usual:
        yield
        return
    moved = [thread for thread in _threads(proc) if _rebind(thread, usual, others)]
    try:
        yield
    finally:
        # The IDs of threads that have ended may have been reused.
        for thread in set(moved) & set(_threads(proc)):
            _rebind(thread, others, usual)


def descendants(process: int, proc: Path = PROC) -> list[int]:
    """``process`` and all its descendants that still exist."""
    found = [process]
    for parent in found:
        for thread in threads_of(parent, proc):
            with suppress(OSError):
                children = (proc / str(parent) / "task" / str(thread) / "children").read_text()
                found += [int(child) for child in children.split()]
    return found


def threads_of(process: int, proc: Path = PROC) -> list[int]:
    """The threads of a process; none if it has ended."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(proc / str(process) / "task")]
    return []


def _threads(proc: Path) -> list[int]:
    return [thread for process in descendants(os.getpid(), proc) for thread in threads_of(process, proc)]


def _rebind(thread: int, before: set[int], after: set[int]) -> bool:
    """Give ``thread`` the CPUs ``after`` if it has those of ``before``; returns whether it got them."""
    with suppress(OSError):
        if os.sched_getaffinity(thread) == before:
            os.sched_setaffinity(thread, after)
            return True
    return False
