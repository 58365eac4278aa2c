"""Publishes a managed plan: writes zones with a new serial, reloads BIND, and queries the name servers.

All changes are published but those of organisations whose part of the plan has errors.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Final

from weirlab.base import files, programs
from weirlab.base.errors import InputError, LabError, WeirError
from weirlab.base.quantities import plural, words
from weirlab.base.quoting import printable, shortened
from weirlab.numbering.diff import RoutingChange, differences
from weirlab.numbering.lab import probes
from weirlab.numbering.managing.pieces import GENERAL, PARTS, Content, Item, pieces
from weirlab.numbering.managing.register import NAME, Register, conflict
from weirlab.numbering.managing.rights import Owners, refusal
from weirlab.numbering.managing.state import ChangeRefusal, PlanState, Problem, more_problems
from weirlab.numbering.managing.transaction import PlanPublication, UserAccount
from weirlab.numbering.plan import loads
from weirlab.numbering.plan.model import NumberingPlan
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.zones import Zone, catalog, is_higher, origins, put, statements, zones

_KEPT: Final = ("organisations", "ranges")
"""Parts to which all others refer: before anything is published, who is held back keeps these."""
_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "contacts": ("organisation", "name"), "ranges": ("prefix", "owner"), "enum": ("tree", "number", "prefix"),
    "routes": ("at", "prefix", "arriving"), "tests": ("number", "caller"), "general": (),
}  # fmt: skip
"""Fields by which a changed piece is known again; those of other parts have a name."""


@dataclass(frozen=True)
class Draft:
    """What would be published."""

    state: PlanState
    held: Mapping[str, tuple[Problem, ...]]
    """By organisation whose changes are held back: the errors that are the reason."""
    errors: tuple[Problem, ...]
    """Errors that keep everything from being published: nobody's changes can be held back for them."""


def draft(current: PlanState, published: NumberingPlan | None) -> Draft:
    """The part of ``current`` that can be published.

    An organisation is held back if there are errors in pieces that its users may change: in place of these,
    the draft has its pieces of the plan that was ``published`` last. Errors that are published already hold
    nobody back.
    """
    wrong = _errors(current)
    if not wrong:
        return Draft(current, {}, ())
    before = [] if published is None else _numbered(published, current.items)
    known = [] if published is None else _errors(_state(before, current))
    state, held = current, dict[str, tuple[Problem, ...]]()
    while wrong := more_problems(wrong, known):
        found = _by_organisation(state, wrong)
        new = {name: problems for name, problems in found.items() if name not in held}
        if not new:
            return Draft(state, held, tuple(wrong))
        held.update(new)
        try:
            state = _state(_without(current, published, before, [*held]), current)
        except ChangeRefusal as refused:
            # What others have changed needs the changes that are held back.
            return Draft(current, held, refused.problems)
        wrong = _errors(state)
    return Draft(state, held, ())


def _state(items: Iterable[Item], current: PlanState) -> PlanState:
    return PlanState(items, current.name, current.day)


def _errors(state: PlanState) -> list[Problem]:
    return [each for each in state.complete() if each.severity == "error"]


def _by_organisation(state: PlanState, problems: Iterable[Problem]) -> dict[str, tuple[Problem, ...]]:
    """Errors by the organisations that may change the pieces."""
    found: dict[str, tuple[Problem, ...]] = {}
    for problem in problems:
        item = None if problem.item is None else state.item(problem.item)
        for name in state.plan.organisations:
            if item is not None and _may_change(name, item, state.plan, state.owners):
                found[name] = (*found.get(name, ()), problem)
    return found


def _may_change(organisation: str, item: Item, plan: NumberingPlan, owners: Owners) -> bool:
    return refusal(organisation, plan, item.part, item.content, item.content, owners) is None


def _without(
    current: PlanState, published: NumberingPlan | None, before: Sequence[Item], held: Sequence[str]
) -> Iterator[Item]:
    """The pieces of ``current``, those of organisations that are ``held`` as they were ``before``."""

    def theirs(item: Item, plan: NumberingPlan, owners: Owners) -> bool:
        return any(_may_change(name, item, plan, owners) for name in held)

    for item in current.items:
        kept = published is None and item.part in _KEPT
        if kept or not theirs(item, current.plan, current.owners):
            yield item
    if published is not None:
        owners = Owners(published, current.day)
        yield from (item for item in before if theirs(item, published, owners))


def _numbered(published: NumberingPlan, items: Sequence[Item]) -> list[Item]:
    """The pieces of a plan, with the numbers that they, or what became of them, have among ``items``."""
    same = {_key(item.part, json.dumps(item.content, sort_keys=True)): item for item in items}
    alike = {_key(item.part, *_identity(item.part, item.content)): item for item in items}
    found: list[Item | None] = []
    contents = [*pieces(published)]
    taken: set[int] = set()
    for known, names in ((same, _whole), (alike, _identity)):
        for rank, (part, content) in enumerate(contents):
            if rank == len(found):
                found.append(None)
            item = known.get(_key(part, *names(part, content)))
            if found[rank] is None and item is not None and item.id not in taken:
                taken.add(item.id)
                found[rank] = Item(item.id, part, content, item.revision)
    new = max((item.id for item in items), default=0)
    return [each or Item(new + rank, *contents[rank - 1], 0) for rank, each in enumerate(found, 1)]


def _key(part: str, *values: object) -> tuple[object, ...]:
    return (part, *values)


def _whole(part: str, content: Content) -> tuple[object, ...]:
    return (json.dumps(content, sort_keys=True),)


def _identity(part: str, content: Content) -> tuple[object, ...]:
    names = ("name",) if PARTS[part].named else _IDENTITY[part]
    return tuple(content.get(name) for name in names)


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
        return [*origins(state.plan), *filter(None, (self.catalog,))]


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
    if target.catalog in origins(state.plan):
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
