"""A link between two interfaces of this host that the kernel's netem emulates."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.emulation.reading import LinkSpec
from weirlab.lab.linux import inventory
from weirlab.link.host import interfaces, journal, prepare
from weirlab.link.host.tools import first_line, occupied, qdiscs, tc
from weirlab.link.tap import require_privileges, understood
from weirlab.links.emulator import netem
from weirlab.links.emulator.running import Tell

_UNKNOWN: Final = ("qdisc kind is unknown", "qdisc not found", "No such file or directory")
"""What tc prints if the kernel has no such qdisc; the wording has changed over time."""


@dataclass(frozen=True)
class NetemCounters:
    """Both directions at one moment."""

    up: netem.NetemDirection
    down: netem.NetemDirection
    elapsed_s: float
    ended: bool
    """Its time is over."""

    @property
    def directions(self) -> tuple[netem.NetemDirection, netem.NetemDirection]:
        """Up first."""
        return self.up, self.down


class NetemLink:
    """A link that the kernel carries; for ``for_s``, if that is given."""

    def __init__(
        self, ends: tuple[str, str], netns: str | None, asked: LinkSpec, for_s: float | None
    ) -> None:
        self._ends, self._netns, self._asked, self._for_s = ends, netns, asked, for_s
        self._began_s = time.monotonic()

    def account(self) -> NetemCounters:
        """What netem has counted so far. Raises ``LabError`` if netem has been removed."""
        told = inventory.inside(self._netns, qdiscs)
        a, b = self._ends
        elapsed_s = time.monotonic() - self._began_s
        return NetemCounters(
            netem.read_carried(told, a, b, self._asked.up),
            netem.read_carried(told, b, a, self._asked.down),
            elapsed_s,
            self._for_s is not None and elapsed_s >= self._for_s,
        )

    stop = account


@contextmanager
@shielded
def netem_link(
    ends: tuple[str, str], netns: str | None, asked: LinkSpec, tell: Tell, for_s: float | None = None
) -> Iterator[NetemLink]:
    """Let the kernel carry frames between both ``ends`` in the namespace ``netns`` (None: this one).

    The end of the block ends the link and undoes all changes. After ``kill -9`` it goes on until
    the next ``weir link``, ``weir tap`` or ``weir lab clean``. ``tell`` gets what was changed, in words.

    Raises
    ------
    InputError
        An interface or a namespace is invalid, or netem cannot do what is requested.
    MissingCapability
        A privilege, tc or netem is missing.
    LabError
        An interface is in use by something else.
    """
    netem.check(asked)
    changes: journal.Journal | None = None
    with ExitStack() as stack:
        try:
            with understood():
                require_privileges("weir link")
                if len(set(ends)) < 2:
                    raise InputError(f"{ends[0]}: a link has two ends; name two interfaces")
                journal.clean(tell)
                changes = journal.Journal()
                indices = _put_up(changes, ends, netns, asked, tell)
                stack.callback(prepare.PromiscuousMode(netns, indices).close)
            yield NetemLink(ends, netns, asked, for_s)
        finally:
            for problem in changes.undo() if changes is not None else ():
                tell(problem)


def _put_up(
    changes: journal.Journal, ends: tuple[str, str], netns: str | None, asked: LinkSpec, tell: Tell
) -> list[int]:
    """Make the link, and return the indices of its interfaces."""
    where = f"in namespace {netns}" if netns else "here"
    chosen = interfaces.choose(inventory.look(netns), ends, where)
    changes.occupy({facts.name: (netns, facts.index) for facts in chosen}, "weir link --by netem")
    for facts in chosen:
        interfaces.check_end(facts, xdp=False)
        if taken := inventory.inside(netns, lambda name=facts.name: occupied(name)):  # type: ignore[misc]
            raise LabError(f"{facts.name} has {taken}")
    for warning in interfaces.warnings(chosen, "the emulated link"):
        tell(warning)
    said = prepare.silence(changes, netns, chosen)
    a, b = ends
    ways = ((a, b, asked.up), (b, a, asked.down))
    for _, target, path in ways:
        changes.note("netem", netns, target)
        inventory.inside(netns, lambda target=target, path=path: _apply(netem.shape(target, path)))  # type: ignore[misc]
    for source, target, _ in ways:
        changes.note("ingress", netns, source)
        inventory.inside(netns, lambda way=(source, target): _apply(netem.redirect(*way)))  # type: ignore[misc]
    said += prepare.ends(changes, netns, chosen)
    said += prepare.far_ends(changes, interfaces.peers(chosen, netns), xdp=False)
    for change in said:
        tell(change)
    return [facts.index for facts in chosen]


def _apply(commands: Sequence[Sequence[str]]) -> None:
    for command in commands:
        done = tc(*command)
        if not done.returncode:
            continue
        if "netem" in command and any(words in done.stderr for words in _UNKNOWN):
            raise MissingCapability("this kernel has no netem (sch_netem): leave out --by netem")
        raise LabError(f"tc: {first_line(done)} (tc {shlex.join(command)})")
