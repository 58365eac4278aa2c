"""The control group of a program: the connections of its members are redirected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.lab.isolation.groups import CgroupHierarchy, IsolationError, unified
from weirlab.lab.linux.privilege import way_out
from weirlab.link.host import journal

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
