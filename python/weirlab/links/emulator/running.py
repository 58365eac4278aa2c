"""An emulated link between two interfaces of this host, for as long as a ``with`` block lasts.

Two hosts in network namespaces, with emulated paths between them, are wired up as follows.

::

    client            link                 server
    c0   ───────  near0 ═══ far0  ───────  s0
    198.18.0.1    (weir link)              198.18.0.2
    c1   ───────  near1 ═══ far1  ───────  s1
    198.18.1.1                             198.18.1.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.extras import engine_needed
from weirlab.base.interrupts import shielded
from weirlab.emulation.account import EmulationCounters, read_account
from weirlab.emulation.spec import PathSpec
from weirlab.lab.linux import interface, inventory
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.linux.syscalls import explained
from weirlab.lab.wiring import quiet
from weirlab.link.host import interfaces, journal
from weirlab.link.host.tools import FAMILY, first_line, nft
from weirlab.link.tap import require_privileges, understood

if TYPE_CHECKING:
    from weirlab._engine import Emulator
    from weirlab.jobs.simulated import CrossedDevice


Tell = Callable[[str], None]

_NUMBERS: Final = {"up": 0, "down": 1}


@dataclass(frozen=True)
class LinkEnd:
    """An interface, in the network namespace ``netns`` (None: this one)."""

    interface: str
    netns: str | None = None

    def __str__(self) -> str:
        return f"{self.interface} in {self.netns}" if self.netns else self.interface


@dataclass(frozen=True)
class EmulatorSettings:
    """How the emulator works."""

    for_s: float | None = None
    """How long it runs; None: until it is stopped."""
    cpu: int | None = None
    """Its thread runs on this CPU alone."""
    busy: bool = False
    """It never sleeps."""
    slack_s: float = 0.0
    """How late frames may leave, so that it wakes less often."""
    real_time: bool = True
    """If it sleeps, it has priority over all ordinary work of this host when it wakes, if permitted."""


USUAL: Final = EmulatorSettings()


class EmulatedLink:
    """A link that carries frames."""

    def __init__(self, engine: Emulator, ends: tuple[LinkEnd, LinkEnd], up: PathSpec, down: PathSpec) -> None:
        self._engine, self._paths = engine, [up, down]
        a, b = (end.interface for end in ends)
        # Interfaces of two namespaces may have one name.
        self._names = (a, b) if a != b else (str(ends[0]), str(ends[1]))

    def account(self) -> EmulationCounters:
        """What became of frames, at most a tenth of a second ago."""
        return read_account(self._engine.progress(), self._names, self._rates_bps())

    def change(self, direction: Literal["up", "down"], path: PathSpec) -> None:
        """Let one direction go on as ``path``; what is under way arrives as it would have.

        Raises ``InputError`` for an impossible path, and changes nothing.
        """
        number = _NUMBERS[direction]
        self._engine.change(number, path.plain())
        self._paths[number] = path

    def stop(self) -> EmulationCounters:
        """End it, and return what became of all frames. May be called twice."""
        return read_account(self._engine.stop(), self._names, self._rates_bps())

    def _rates_bps(self) -> list[float | None]:
        return [path.rate_bps for path in self._paths]


@contextmanager
@shielded
def emulated_link(
    a: LinkEnd,
    b: LinkEnd,
    up: PathSpec,
    down: PathSpec | None = None,
    *,
    how: EmulatorSettings = USUAL,
    device: CrossedDevice | None = None,
    tell: Tell = lambda message: None,
) -> Iterator[EmulatedLink]:
    """Carry frames between ``a`` and ``b``: from ``a`` as ``up``, from ``b`` as ``down``.

    Before that, all of them cross ``device``, if there is one.

    Without ``down`` it is as ``up``, with its own random numbers. A thread of this process carries frames: it
    ends with the block, when ``how`` says so, and with this process, however that ends. What is changed on
    this host for it is changed back at the end, also after ``kill -9`` (:meth:`Journal.guard`). ``tell`` gets
    what was changed, in words.

    Raises
    ------
    InputError
        An interface, a namespace or a path is invalid.
    MissingCapability
        A privilege is missing.
    LabError
        An interface is in use by something else.
    """
    down = down if down is not None else up.reseeded()
    changes: journal.Journal | None = None
    engine: Emulator | None = None
    try:
        with understood():
            require_privileges("weir link")
            if a == b:
                raise InputError(f"{a}: a link has two ends; name two interfaces")
            journal.clean(tell)
            changes = journal.Journal()
            changes.guard()
            facts = [_facts(end) for end in (a, b)]
            changes.occupy(
                {str(end): (end.netns, each.index) for end, each in zip((a, b), facts, strict=True)},
                "weir link",
            )
            for end, each in zip((a, b), facts, strict=True):
                prepare(changes, end.netns, (each,), tell, partial(shield, changes, end, tell))
            engine = _started(a, b, up, down, how, device)
        yield EmulatedLink(engine, (a, b), up, down)
    finally:
        if engine is not None:
            engine.stop()
        for problem in changes.undo() if changes is not None else ():
            tell(problem)


def _facts(end: LinkEnd) -> inventory.InterfaceFacts:
    """The interface, which can be an end."""
    where = f"in namespace {end.netns}" if end.netns else "here"
    (facts,) = interfaces.choose(inventory.look(end.netns), [end.interface], where)
    interfaces.check_end(facts, xdp=False)
    return facts


def prepare(
    changes: journal.Journal,
    netns: str | None,
    chosen: Sequence[inventory.InterfaceFacts],
    tell: Tell,
    attach: Callable[[], None],
) -> None:
    """Prepare interfaces to be ends; ``attach`` is called while they are silent, and before they are up."""
    for warning in interfaces.warnings(chosen, "the emulated link"):
        tell(warning)
    # Before they are up, as they send frames of their own from then on.
    for change in interfaces.silence(changes, netns, chosen):
        tell(change)
    attach()
    for change in interfaces.ends(changes, netns, chosen):
        tell(change)
    for change in interfaces.far_ends(changes, interfaces.peers(chosen, netns), xdp=False):
        tell(change)


def shield(changes: journal.Journal, end: LinkEnd, tell: Tell) -> None:
    """Keep frames that come in by ``end`` from this host's own stack, which would answer or route them.

    Packet sockets see a frame before nftables drops it.
    """
    table = f"weir_{changes.identifier}"
    rules = f"""
table {FAMILY} {table} {{
  chain {_chain(end)} {{ type filter hook ingress device "{end.interface}" priority -300; policy drop; }}
}}
"""
    changes.note("table", end.netns, table)
    try:
        done = inventory.inside(end.netns, lambda: nft("-f", "-", text=rules))
        problem = first_line(done) if done.returncode else ""
    except MissingCapability as error:
        problem = str(error)
    if problem:
        tell(
            f"{end}: incoming frames also reach this host's own stack, which may answer or route them: "
            f"nftables cannot drop them ({problem})"
        )


def _chain(end: LinkEnd) -> str:
    """Two ends of one namespace share a table."""
    return "from_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in end.interface)


def _started(
    a: LinkEnd, b: LinkEnd, up: PathSpec, down: PathSpec, how: EmulatorSettings, device: CrossedDevice | None
) -> Emulator:
    with engine_needed():
        from weirlab._engine import Emulator as EngineEmulator
    return EngineEmulator(
        a=a.interface,
        b=b.interface,
        a_netns=a.netns,
        b_netns=b.netns,
        paths=(up.plain(), down.plain()),
        device=None if device is None else device.plain(),
        duration_s=how.for_s,
        cpu=how.cpu,
        busy=how.busy,
        slack_s=how.slack_s,
        real_time=how.real_time,
    )


MTU_BYTES: Final = 1500


@dataclass(frozen=True)
class Hosts:
    """Two hosts and what is between them; a path carries nothing until a link is put on its ends."""

    client: Namespace
    link: Namespace
    server: Namespace

    def ends(self, path: int = 0) -> tuple[LinkEnd, LinkEnd]:
        """The ends of the link of a path: the client's, then the server's."""
        return LinkEnd(_near(path).name, self.link.name), LinkEnd(_far(path).name, self.link.name)


def client_port(path: int = 0) -> Port:
    """The client's interface on a path."""
    return Port(f"c{path}", _mac(path, 1), f"198.18.{path}.1/24", f"2001:2:0:{path + 1:x}::1/120")


def server_port(path: int = 0) -> Port:
    """The server's interface on a path."""
    return Port(f"s{path}", _mac(path, 2), f"198.18.{path}.2/24", f"2001:2:0:{path + 1:x}::2/120")


def _near(path: int) -> Port:
    return Port(f"near{path}", _mac(path, 3), "", "")


def _far(path: int) -> Port:
    return Port(f"far{path}", _mac(path, 4), "", "")


def _mac(path: int, number: int) -> str:
    return f"02:77:65:69:{path:02x}:5{number}"


@contextmanager
@shielded
def connected(paths: int = 1) -> Iterator[Hosts]:
    """Two hosts with ``paths`` paths between them, for the duration of the ``with`` block.

    Raises
    ------
    MissingCapability, LabError
        They cannot be made.
    """
    with ExitStack() as stack:
        with explained("an emulated path"):
            client, link, server = stack.enter_context(quiet("client", "link", "server"))
            for path in range(paths):
                _wire(client, link, server, path)
        yield Hosts(client, link, server)


def _wire(client: Namespace, link: Namespace, server: Namespace, path: int) -> None:
    here, there = client_port(path), server_port(path)
    with link.descriptor() as fd:
        client.call(partial(interface.create_pair, here, _near(path), fd, MTU_BYTES))
        server.call(partial(interface.create_pair, there, _far(path), fd, MTU_BYTES))
    client.call(partial(_bring_up, here, there))
    server.call(partial(_bring_up, there, here))


def _bring_up(port: Port, other: Port) -> None:
    interface.bring_up([port], [])
    # A handshake that waits for address resolution says nothing about the path.
    interface.know(other, port.name)
