"""Changes of a managed plan: checked, recorded with author and time, and undone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.numbering.managing.database import Database
from weirlab.numbering.managing.pieces import GENERAL, PARTS, Content, Item, pieces, with_serial
from weirlab.numbering.managing.rights import refusal
from weirlab.numbering.managing.state import SMALL, ChangeRefusal, PlanState, Problem, form
from weirlab.numbering.managing.transaction import (
    PieceChange,
    PlanEvent,
    PlanPublication,
    Transaction,
    UserAccount,
)
from weirlab.numbering.plan.model import NumberingPlan

NAME: Final = "plan.yaml"
"""Name of the plan in messages and in the comments of zones, under which it is exported."""

_MOST_TRIES: Final = 5
"""How often a change is checked again because another process was faster."""

Clock = Callable[[], datetime]


class MissingPiece(InputError):
    """There is no such piece, or no such event."""


def utc() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def instant(now: datetime) -> str:
    """A time as it is stored: in UTC, and such that text order is time order."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class ChangeResult:
    """A change that was made."""

    event: PlanEvent
    problems: tuple[Problem, ...]
    """Findings of the checks about the piece now."""


@dataclass(frozen=True)
class _Change:
    """A piece before and after a change, None if it is added or removed; and the event that it undoes."""

    before: Item | None
    after: Item | None
    undoes: PlanEvent | None = None

    @property
    def contents(self) -> tuple[Content | None, Content | None]:
        was, becomes = (None if each is None else each.content for each in (self.before, self.after))
        return was, becomes

    @property
    def item(self) -> Item:
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def action(self) -> str:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


class Register:
    """The plan of a database, and all operations on it.

    Parameters
    ----------
    large:
        Called with every partly checked state of a plan of more than ``small`` pieces.
    """

    def __init__(
        self,
        database: Database,
        now: Clock = utc,
        *,
        small: int = SMALL,
        large: Callable[[PlanState], None] = lambda state: None,
    ) -> None:
        self.database = database
        self.now = now
        self._small, self._large = small, large
        self._last: tuple[tuple[int, str], PlanState] | None = None
        self._lock = threading.Lock()
        self._one_change = threading.Lock()

    def state(self) -> PlanState:
        """The current plan.

        Raises
        ------
        InputError
            The database has no plan yet.
        """
        with self.database.reading() as on:
            return self.state_in(on)

    def state_in(self, on: Transaction) -> PlanState:
        """The current plan in a transaction; checked once for every change and day."""
        today = self.now().date()
        key = (on.changed(), today.isoformat())
        with self._lock:
            if self._last is not None and self._last[0] == key:
                return self._last[1]
        items = on.items()
        if not items:
            raise InputError(f"{self.database.shown}: it has no plan yet; weir voice manage import adds one")
        state = PlanState(items, NAME, today, small=self._small)
        self._remember(key, state)
        return state

    def _remember(self, key: tuple[int, str], state: PlanState) -> None:
        with self._lock:
            self._last = (key, state)
        if not state.is_checked:
            self._large(state)

    def begin(self, who: str, plan: NumberingPlan, name: str) -> int:
        """Import a plan from a document; returns the number of its pieces.

        Raises
        ------
        InputError
            There is already a plan.
        ChangeRefusal
            The pieces do not make a valid plan.
        """
        # Before the transaction, as anything that takes long.
        listed = [*pieces(plan)]
        PlanState([Item(rank, *each, 0) for rank, each in enumerate(listed)], NAME, self.now().date())
        with self.database.writing() as on:
            if on.items():
                raise InputError(
                    f"{self.database.shown} already has a plan; import into another database, or change that "
                    "plan in weir web"
                )
            number = on.record(instant(self.now()), who, "imported", f"plan {plan.plan} from {name}")
            first = on.next_item()
            on.put_all([Item(first + rank, *each, number) for rank, each in enumerate(listed)])
            return len(listed)

    def add(self, who: UserAccount, part: str, content: Content, *, accept: bool = False) -> ChangeResult:
        """Add a piece.

        Parameters
        ----------
        accept
            Add it despite mistakes that the checks find; publishing needs them corrected.

        Raises
        ------
        ChangeRefusal
            The piece is not added; has the reasons.
        """
        if part not in PARTS or part == GENERAL:
            raise MissingPiece(f"a plan has no {quoted(part)} to add to")
        content = _normal(part, None, content)

        def wish(on: Transaction) -> _Change:
            return _Change(None, Item(on.next_item(), part, content, 0))

        return self._change(who, wish, accept=accept)

    def change(
        self, who: UserAccount, number: int, revision: int, content: Content, *, accept: bool = False
    ) -> ChangeResult:
        """Change a piece that was read at ``revision``; see :meth:`add`."""

        def wish(on: Transaction) -> _Change:
            before = self._current(on, number, revision)
            # Only publishing raises the serial.
            serial = {"serial": before.content.get("serial", 1)} if before.part == GENERAL else {}
            new = _normal(before.part, number, {**content, **serial})
            return _Change(before, Item(number, before.part, new, 0))

        return self._change(who, wish, accept=accept)

    def remove(self, who: UserAccount, number: int, revision: int, *, accept: bool = False) -> ChangeResult:
        """Remove a piece that was read at ``revision``; see :meth:`add`."""

        def wish(on: Transaction) -> _Change:
            before = self._current(on, number, revision)
            if before.part == GENERAL:
                raise InputError("the plan itself cannot be removed")
            return _Change(before, None)

        return self._change(who, wish, accept=accept)

    def undo(self, who: UserAccount, number: int, *, accept: bool = False) -> ChangeResult:
        """Make the inverse of a change, which is itself a change that can be undone.

        Raises
        ------
        ChangeRefusal
            The piece has changed since, or the inverse change is not allowed.
        """

        def wish(on: Transaction) -> _Change:
            event = on.event(number)
            if event is None or not event.is_change or event.part is None or event.item is None:
                raise MissingPiece(f"event {number} is not a change that can be undone")
            now = self.state_in(on).item(event.item)
            if event.part == GENERAL and now is not None and event.before is not None:
                serial = now.content.get("serial", 1)
                event_after = {**(event.after or {}), "serial": serial}
                back: Content | None = {**event.before, "serial": serial}
            else:
                event_after, back = event.after or {}, event.before
            if (now.content if now else {}) != event_after:
                label = PARTS[event.part].label(event.after or event.before or {})
                later = on.events(most=1, item=event.item)[0]
                since = f"it has changed since, by {later.who} in event {later.id}"
                first = f"undo event {later.id} first"
                raise ChangeRefusal([conflict(since, first, event.part, event.item, label)])
            return _Change(now, None if back is None else Item(event.item, event.part, back, 0), event)

        return self._change(who, wish, accept=accept)

    def with_serial(self, state: PlanState, serial: int) -> PlanState:
        """``state`` with another serial."""
        return PlanState(with_serial(state.items, serial), NAME, state.day, small=self._small)

    def store_publication(self, who: str, head: int, published: PlanState, told: str) -> None:
        """Store that ``published``, made of the plan as it was at ``head``, is published, and its serial.

        Raises
        ------
        ChangeRefusal
            The plan has changed since, or has been published.
        """
        serial = published.plan.serial
        text = published.text
        with self.database.writing() as on:
            if on.changed() != head:
                raise ChangeRefusal([conflict("the plan has changed meanwhile", "look at the changes again")])
            event = on.record(instant(self.now()), who, "published", told)
            for item in with_serial((each for each in on.items() if each.part == GENERAL), serial):
                on.put(replace(item, revision=event))
            on.put_publication(PlanPublication(event, serial, text))

    def record(self, who: str, action: str, told: str) -> None:
        """Record an action that is not a change."""
        with self.database.writing() as on:
            on.record(instant(self.now()), who, action, told)

    def _current(self, on: Transaction, number: int, revision: int) -> Item:
        item = self.state_in(on).item(number)
        if item is None:
            raise MissingPiece("it has been removed meanwhile; see the history")
        if item.revision != revision:
            event = on.event(item.revision)
            meanwhile = f"it has been changed meanwhile{f' by {event.who}' if event is not None else ''}"
            again = "load it again and repeat your change"
            raise ChangeRefusal([conflict(meanwhile, again, item.part, number, item.label)])
        return item

    def _change(
        self, who: UserAccount, wish: Callable[[Transaction], _Change], *, accept: bool
    ) -> ChangeResult:
        """Check what a user wishes, and make the change.

        The checks depend on what users have entered, and take their time outside of transactions: meanwhile
        others read, and sign in. If another process changes the plan meanwhile, they are repeated.
        """
        with self._one_change:
            for _ in range(_MOST_TRIES):
                with self.database.reading() as on:
                    before, changed, number = self.state_in(on), on.changed(), on.head() + 1
                    wanted = wish(on)
                after = _checked(before, who, wanted, number, accept=accept)
                with self.database.writing() as on:
                    if on.changed() != changed:
                        continue
                    done = self._store(on, who, wanted, after)
                # Of another number if somebody signed in meanwhile: then the plan is read again.
                if done.event.id == number:
                    self._remember((number, after.day.isoformat()), after)
                return done
        raise ChangeRefusal([conflict("the plan is being changed by others", "try again")])

    def _store(self, on: Transaction, who: UserAccount, change: _Change, after: PlanState) -> ChangeResult:
        item, undoes = change.item, change.undoes
        number = on.record(
            instant(self.now()),
            who.name,
            change.action if undoes is None else "undone",
            item.label if undoes is None else f"event {undoes.id}: {undoes.action} {undoes.told}",
            PieceChange(item.part, item.id, *change.contents, None if undoes is None else undoes.id),
        )
        if change.after is None:
            on.drop(item.id)
        else:
            on.put(replace(change.after, revision=number))
        made = on.event(number)
        assert made is not None
        return ChangeResult(made, tuple(problem for problem in after.problems if problem.item == item.id))


def _checked(before: PlanState, who: UserAccount, change: _Change, number: int, *, accept: bool) -> PlanState:
    """The plan after ``change``, which is event ``number``; raises ``ChangeRefusal``."""
    item = change.item
    refused = refusal(who.organisation, before.plan, item.part, *change.contents, before.owners)
    stored = None if change.before is None else item.id
    if refused is not None:
        label, field = item.label, refused.field
        place = f"{label}, {field}" if field else label
        raise ChangeRefusal(
            [Problem("error", "rights", item.part, stored, field, place, refused.reason, refused.proposal)]
        )
    _check_names(before, change)
    kept = None if change.after is None else replace(change.after, revision=number)
    try:
        after = before.after(item.part, item.id, kept)
        if (new := after.new_errors(before)) and not accept:
            raise ChangeRefusal(new)
    except ChangeRefusal as wrong:
        # A new piece has no number yet.
        raise ChangeRefusal(
            [
                replace(problem, item=stored) if problem.item == item.id else problem
                for problem in wrong.problems
            ]
        ) from None
    return after


def conflict(
    reason: str, proposal: str, part: str = GENERAL, number: int | None = None, place: str = "plan"
) -> Problem:
    """The problem that somebody else was faster."""
    return Problem("error", "conflict", part, number, "", place, reason, proposal)


def _normal(part: str, number: int | None, content: Content) -> Content:
    """``content`` as in a plan's document; raises ``ChangeRefusal`` if it is not a valid piece."""
    if found := form(part, number, content):
        raise ChangeRefusal(found)
    read = PARTS[part].model.model_validate(content)
    return PARTS[part].in_order(read.model_dump(mode="json", exclude_defaults=True))


def _check_names(before: PlanState, change: _Change) -> None:
    """Raise ``ChangeRefusal`` if another piece of a mapping has the same name."""
    part = PARTS[change.item.part]
    if change.after is None or not part.named:
        return
    name = change.after.content["name"]
    for other in before.of(part.key):
        if other.id != change.item.id and other.content["name"] == name:
            raise ChangeRefusal(
                [
                    Problem(
                        "error", "name", part.key, None, "name", f"{part.one} {name}, name",
                        f"there is already an {part.one} {name}" if part.one[0] in "aeiou"
                        else f"there is already a {part.one} {name}",
                        "choose another name",
                    )
                ]
            )  # fmt: skip
