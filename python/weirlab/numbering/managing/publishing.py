"""Publishes a managed plan: writes zones with a new serial, reloads BIND, and queries the name servers."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Final

from weirlab.base import files, programs
from weirlab.base.errors import InputError, LabError, WeirError
from weirlab.base.quantities import plural, words
from weirlab.base.quoting import printable, shortened
from weirlab.numbering.configs.named import statements
from weirlab.numbering.diff import RoutingChange, differences
from weirlab.numbering.lab import probes
from weirlab.numbering.managing.drafts import Draft, draft
from weirlab.numbering.managing.pieces import GENERAL
from weirlab.numbering.managing.register import NAME, Register, conflict
from weirlab.numbering.managing.state import ChangeRefusal, PlanState, Problem
from weirlab.numbering.managing.transaction import PlanPublication, UserAccount
from weirlab.numbering.plan import loads
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.zones import Zone, catalog, is_higher, put, zones

LIST: Final = "zones.conf"
"""The file with the zones that BIND's own configuration includes."""

_RNDC_S: Final = 30.0
_ANSWER_S: Final = 1.0
_SERIALS: Final = 1 << 32
_SIGNING: Final = 10
"""Signing steps that BIND may take before it loads a publication."""


@dataclass(frozen=True)
class PublicationServer:
    """A name server that is to have the zones."""

    address: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return host if self.port == 53 else f"{host}:{self.port}"


@dataclass(frozen=True)
class PublicationTarget:
    """Where zones are published."""

    folder: Path
    """Where zone files and :data:`LIST` are written."""
    rndc: Path | None = None
    """The configuration of rndc (``rndc.conf``), which reloads BIND; None: BIND is not reloaded."""
    servers: tuple[PublicationServer, ...] = ()
    """Name servers to query for their serials: the primary, then secondaries."""
    catalog: str = ""
    """Name of the zone that lists all others (RFC 9432); empty for none."""

    def origins(self, state: PlanState) -> list[str]:
        """The names of all zones that are published."""
        return [*origins(state), *filter(None, (self.catalog,))]


@dataclass(frozen=True)
class PublicationResult:
    """What a publication did."""

    serial: int
    zones: tuple[str, ...]
    held: tuple[str, ...]
    """Organisations whose changes were held back."""


@dataclass(frozen=True)
class PublicationPreview:
    """What publishing would change."""

    head: int
    """The last change of the plan."""
    draft: Draft
    """What would be published."""
    before: PlanPublication | None
    changes: tuple[RoutingChange, ...]
    """Numbers that are routed differently; none if nothing has been published yet."""
    untold: str
    """Why the changes cannot be determined; empty if they can."""


_CELLS_PER_PIECE: Final = 4
_SPARE_CELLS: Final = 2_000
"""How many sets of numbers are compared for a view of the changes: a plan distinguishes some three per piece.
Rules that test late digits of a number distinguish millions."""


class PublicationPlanner:
    """What publishing would change; determined once for every change, publication and day."""

    def __init__(self, register: Register) -> None:
        self.register = register
        self._lock = threading.Lock()
        self._last: tuple[tuple[int, int, date], PublicationPreview] | None = None

    def pending(self) -> PublicationPreview:
        """What has changed since the last publication."""
        with self.register.database.reading() as on:
            state, head, before = self.register.state_in(on), on.changed(), on.publication()
        key = (head, 0 if before is None else before.event, state.day)
        with self._lock:
            if self._last is None or self._last[0] != key:
                self._last = key, _pending(state, head, before)
            return self._last[1]


def _pending(state: PlanState, head: int, before: PlanPublication | None) -> PublicationPreview:
    if before is None:
        return PublicationPreview(head, draft(state, None), None, (), "")
    book = loads(before.text, NAME)
    made = draft(state, book.plan)
    changes: tuple[RoutingChange, ...] = ()
    untold = ""
    if head != before.event or made.held:
        most_cells = _SPARE_CELLS + _CELLS_PER_PIECE * len(state.items)
        try:
            earlier = PlanNetwork(book, state.network.day)
            changes = tuple(differences(earlier, made.state.network, most_cells=most_cells))
        except InputError as error:
            untold = str(error)
    return PublicationPreview(head, made, before, changes, untold)


def publish(
    outlook: PublicationPlanner, who: UserAccount, head: int, target: PublicationTarget
) -> PublicationResult:
    """Publish the plan as somebody saw it at ``head``, without the changes of who is held back.

    The new serial is stored first, so that no serial is ever used for two states of a zone.

    Raises
    ------
    ChangeRefusal
        The user may not publish, the plan has changed since, or it has errors for which nobody can be held
        back.
    StoreError
        The zones cannot be written.
    LabError
        BIND did not load them.
    """
    if not who.may_publish:
        reason, advice = f"{who.name} may not publish", "ask an administrator to publish"
        raise ChangeRefusal([Problem("error", "rights", GENERAL, None, "", "plan", reason, advice)])
    # All of this before the transaction, which makes everybody else wait: a large plan takes long.
    register, found = outlook.register, outlook.pending()
    if found.head != head:
        raise ChangeRefusal([conflict("the plan has changed meanwhile", "look at the changes again")])
    if found.draft.errors:
        raise ChangeRefusal(found.draft.errors)
    state = found.draft.state
    kept = 0 if found.before is None else found.before.serial
    known = [state.plan.serial, kept, *_served(state, target)]
    serial = next_serial(latest(known), register.now().date())
    raised = register.with_serial(state, serial)
    made = zones(raised.exported)
    listed = _catalog(state, target, made)
    told = f"{plural(len(made), 'zone')} with serial {serial}"
    if found.draft.held:
        told += f", without the changes of {words([*found.draft.held], most=8)}"
    register.store_publication(who.name, head, raised, told)
    try:
        files.check_folder(target.folder, "--voice-zones")
        put([*made, *listed], target.folder, raised.exported.book.at("serial"))
        files.write_bytes(target.folder / LIST, _list(raised, target, listed).encode())
        if target.rndc is not None:
            _reload(target.rndc)
    except WeirError as error:
        register.record(who.name, "publishing failed", str(error))
        raise
    return PublicationResult(serial, tuple(zone.origin for zone in made), tuple(found.draft.held))


def _catalog(state: PlanState, target: PublicationTarget, made: list[Zone]) -> list[Zone]:
    """The catalog of ``made``, if there is to be one."""
    if not target.catalog or not made:
        return []
    if target.catalog in origins(state):
        raise InputError(f"--voice-catalog: {target.catalog} is a zone of the plan; choose another name")
    return [catalog(target.catalog, made)]


def _list(state: PlanState, target: PublicationTarget, listed: Sequence[Zone]) -> str:
    folder = target.folder
    path = str(folder.absolute())
    if any(each in path for each in '"\\\n'):
        raise InputError(f"{files.shown(folder)}: named.conf cannot hold this name; choose another folder")
    lines = [
        f"// Zones of plan {state.plan.plan}, made by weir web: include this file in named.conf.",
        *statements(state.plan, f"{path}/"),
        *(f'zone "{zone.origin}" {{ type master; file "{path}/{zone.origin}.zone"; }};' for zone in listed),
    ]
    return "\n".join(lines) + "\n"


def _served(state: PlanState, target: PublicationTarget) -> list[int]:
    """Serials that the new one must exceed, as a zone may have had another primary before.

    If BIND signs a zone, it raises the serial with every signing step. A serial well above shows that a
    server has the publication, and not only more signatures.
    """
    signed = signed_zones(state)
    return [
        (found + _SIGNING if origin in signed else found) % _SERIALS
        for _, origin, found in serials(target.servers, target.origins(state))
        if found is not None
    ]


def signed_zones(state: PlanState) -> set[str]:
    """Zones that BIND signs."""
    return {tree.origin for tree in state.plan.trees.values() if tree.visibility == "public"}


def origins(state: PlanState) -> list[str]:
    """The names of all zones."""
    return [*(tree.origin for tree in state.plan.trees.values()), *state.plan.domains]


def latest(found: Sequence[int]) -> int:
    """The greatest of serials, in serial number arithmetic (RFC 1982)."""
    return reduce(lambda one, other: other if is_higher(other, one) else one, found)


def next_serial(last: int, day: date) -> int:
    """The serial after ``last``: the day and a count, as in 2026013101, if that is higher (RFC 1982)."""
    dated = int(f"{day:%Y%m%d}01")
    if last < dated:
        return dated
    return (last + 1) % _SERIALS or 1


def serials(
    servers: Sequence[PublicationServer], names: Sequence[str]
) -> Iterator[tuple[PublicationServer, str, int | None]]:
    """The serial of each zone at each server; None if the server does not answer for the zone."""
    for server in servers:
        answer: bytes | None = b""
        for origin in names:
            # Wait once for a server that is off, not once per zone.
            if answer is not None:
                answer = probes.asked(server.address, server.port, probes.question(origin, 1), _ANSWER_S)
            yield server, origin, None if answer is None else probes.serial(answer, 1)


def _reload(configuration: Path) -> None:
    """Have BIND read its configuration, which includes :data:`LIST`, and then all zones."""
    for command in ("reconfig", "reload"):
        try:
            done = programs.run(
                ["rndc", "-c", str(configuration.absolute()), command],
                capture_output=True, text=True, errors="replace", timeout=_RNDC_S,
            )  # fmt: skip
            code, said = done.returncode, shortened(printable(" ".join((done.stderr or done.stdout).split())))
        except subprocess.TimeoutExpired:
            code, said = 1, f"no answer within {_RNDC_S:g} s"
        if code:
            raise LabError(
                f"the zones are written, but BIND did not load them (rndc {command}: {said}); "
                "see BIND's log, then publish again"
            )
