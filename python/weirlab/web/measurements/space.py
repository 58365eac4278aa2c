"""Room for measurements: the limit for all of them together, and what is free on the disk.

Whatever grows has a claim, which is admitted before its bytes are written: an upload with all that it
announces, or part by part; what a child process writes, a step ahead of it. A claim is admitted if it fits
beside all that cannot be removed: other claims, and measurements that are waiting or in use. Finished
measurements make room when the bytes come, the oldest first. An upload that pauses loses what it has only
announced to others, so that nobody can keep others out by announcing much.
"""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from weirlab.base import files
from weirlab.base.errors import InputError, StoreError, WeirError
from weirlab.trace.quantities import size
from weirlab.web.measurements.measurement import OVER, Measurement

NOTE_BYTES: Final = 4096
"""For the state of a measurement."""
_MOST_STEP_BYTES: Final = 64_000_000
_STEPS: Final = 20
"""A step is at most this part of the limit, and of what is free on the disk."""
_GROWTH_PART: Final = 2
"""What a child process writes removes others only while its measurement has less than half of the limit."""
_PATIENCE_S: Final = 5.0
"""An upload that brings less than a part of a MiB in this time loses what it has only announced."""
_SPARE_BYTES: Final = 256_000_000
_SPARE_PART: Final = 50
"""So much of the disk stays free, or this part of it if that is less."""


class NoRoom(WeirError):
    """There is no room for it now, or none on the disk."""


class TooLarge(InputError):
    """It is larger than what is allowed, or than all that may be kept."""


@dataclass(eq=False)
class SpaceReservation:
    """Bytes that will be written: ``size`` is admitted, and ``used`` may be on the disk already."""

    space: Space
    size: int = 0
    used: int = 0
    used_at_s: float = 0.0
    """When something was used last."""
    covered: list[SpaceHolding] = field(default_factory=list)

    def cover(self, one: Measurement) -> None:
        """Take what is added to the folder of ``one``, which is not removed until the release."""
        self.space.cover(self, one)

    def growth(self) -> Growth:
        """What is added to the folder of the measurement that it covers."""
        (holding,) = self.covered
        return Growth(self, holding.one, holding.held_bytes)

    def grow(self, number: int, *, removing: bool = True) -> None:
        """Admit ``number`` bytes in all. Unless ``removing``, finished measurements must have room beside it.

        Raises
        ------
        TooLarge, NoRoom
        """
        self.space.admit(self, number, removing)

    def need(self, number: int) -> None:
        """As :meth:`grow`, and if possible a step more, so that it is not called for every part."""
        if number > self.size:
            try:
                self.grow(number + self.space.step)
            except (TooLarge, NoRoom):
                self.grow(number)

    def use(self, number: int) -> None:
        """Make room on the disk for ``number`` bytes in all, at most those that were admitted.

        Raises ``NoRoom`` if what should make room is in use now.
        """
        self.space.occupy(self, number)

    def hand_over(self, one: Measurement, number: int) -> None:
        """Give ``number`` bytes to ``one``, which has them."""
        self.space.transfer(self, one, number)

    def release(self) -> None:
        """End it: measurements that it covers count with what they have now. May be called again."""
        self.space.end(self)


@dataclass(eq=False)
class SpaceHolding:
    """What is known of a measurement, and how many claims cover it."""

    one: Measurement
    held_bytes: int
    over: bool
    order: tuple[float, str]
    claims: int = 0

    @property
    def may_go(self) -> bool:
        return self.over and not self.claims


@dataclass
class Space:
    """The room of a store's measurements. Every method may be called from any thread.

    Parameters
    ----------
    folder
        It tells the disk.
    limit
        Most bytes of all measurements; 0: no limit.
    remove
        Called to remove a measurement's data because newer data needs the room.
    disk
        Bytes of the disk of a folder that are free, and all of them.
    now_s
        A clock that is never set.
    """

    folder: Path
    limit: int = 0
    remove: Callable[[Measurement], object] = lambda one: None
    disk: Callable[[Path], tuple[int, int]] = field(default=lambda folder: disk_bytes(folder))
    now_s: Callable[[], float] = time.monotonic
    _holdings: dict[str, SpaceHolding] = field(default_factory=dict)
    _claims: set[SpaceReservation] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def step(self) -> int:
        """What is admitted at once of bytes whose number is not known in advance."""
        free, _ = self.disk(self.folder)
        return max(min(_MOST_STEP_BYTES, min(free, self.limit or free) // _STEPS), 1)

    @property
    def total(self) -> int:
        """Bytes of all measurements, and what claims use."""
        with self._lock:
            return self._held() + sum(claim.used for claim in self._claims)

    def fitting(self, number: int) -> int:
        """As much of ``number`` bytes as fits without removing anything."""
        with self._lock:
            room = self.limit - self._held() - self._claimed() if self.limit else number
            return max(min(number, room, self._free()), 0)

    def claim(self, number: int = 0) -> SpaceReservation:
        """A claim to ``number`` bytes; raises ``TooLarge`` or ``NoRoom``."""
        claim = SpaceReservation(self, used_at_s=self.now_s())
        with self._lock:
            claim.grow(number)
            self._claims.add(claim)
        return claim

    @contextmanager
    def growing(self, one: Measurement) -> Iterator[Growth]:
        """Let others write into the folder of ``one`` within the block; raises ``NoRoom``."""
        claim = self.claim()
        try:
            claim.cover(one)
            growth = claim.growth()
            growth.check()
            yield growth
        finally:
            claim.release()

    def opened(self, one: Measurement, path: Path) -> BinaryIO:
        """The file ``path`` of ``one`` for reading; its data stays until that is closed."""
        with files.telling(path, "read"), files.open_regular(path) as file:
            claim = self.claim()
            claim.cover(one)
            return _reader(file, claim)

    def taken(self, path: Path) -> BinaryIO:
        """``path`` for reading, and removed from its folder; its bytes count until it is closed."""
        with files.telling(path, "read"), files.open_regular(path) as file:
            path.unlink()
            claim = SpaceReservation(self)
            # It is on the disk, whether or not there is room for it.
            claim.size = claim.used = os.fstat(file.fileno()).st_size
            with self._lock:
                self._claims.add(claim)
            return _reader(file, claim)

    def note(self, one: Measurement) -> None:
        """Look at ``one`` again, and remove older ones if there is too much now."""
        with self._lock:
            known = self._holdings.get(one.data_id)
            if not one.path.exists():
                self._holdings.pop(one.data_id, None)
            elif known is None or not known.claims:
                self._look(one)
            self.enforce()

    def forget(self, one: Measurement) -> None:
        """Count ``one`` no more: its data was removed."""
        with self._lock:
            self._holdings.pop(one.data_id, None)

    def is_busy(self, one: Measurement) -> bool:
        """Whether somebody reads or writes files of ``one`` now."""
        with self._lock:
            known = self._holdings.get(one.data_id)
            return known is not None and known.claims > 0

    def enforce(self) -> int:
        """Remove the oldest finished measurements until the others fit; returns how many."""
        removed = 0
        with self._lock:
            beyond = self.total - self.limit if self.limit else 0
            if beyond <= 0:
                return 0
            for holding in sorted(self._holdings.values(), key=lambda each: each.order):
                if beyond > 0 and holding.may_go and self._remove(holding):
                    beyond -= holding.held_bytes
                    removed += 1
        return removed

    def admit(self, claim: SpaceReservation, number: int, removing: bool) -> None:
        """See :meth:`Claim.grow`."""
        with self._lock:
            more = number - claim.size
            if more <= 0:
                return
            if self.limit:
                self._fit(number, more, removing)
            if more > self._free():
                raise NoRoom("The disk of this service is nearly full. Its operator has to free some space.")
            claim.size = number

    def occupy(self, claim: SpaceReservation, number: int) -> None:
        """See :meth:`Claim.use`."""
        with self._lock:
            before = claim.used
            claim.used, claim.used_at_s = max(before, min(number, claim.size)), self.now_s()
            self.enforce()
            if claim.used > before and self.limit and self.total > self.limit:
                claim.used = before
                raise self._no_room()

    def cover(self, claim: SpaceReservation, one: Measurement) -> None:
        """See :meth:`Claim.cover`."""
        with self._lock:
            holding = self._holdings.get(one.data_id)
            if holding is None or not holding.claims:
                holding = self._look(one)
            holding.claims += 1
            claim.covered.append(holding)

    def transfer(self, claim: SpaceReservation, one: Measurement, number: int) -> None:
        """See :meth:`Claim.hand_over`."""
        with self._lock:
            claim.size -= number
            claim.used = min(claim.used, claim.size)
            self.note(one)

    def end(self, claim: SpaceReservation) -> None:
        """See :meth:`Claim.release`."""
        with self._lock:
            self._claims.discard(claim)
            covered, claim.covered = claim.covered, []
            for holding in covered:
                holding.claims -= 1
            for holding in covered:
                self.note(holding.one)

    def _fit(self, number: int, more: int, removing: bool) -> None:
        """Raise unless ``more`` bytes fit, of a claim that then has ``number``."""
        if number > self.limit:
            raise TooLarge(f"This is larger than the {size(self.limit)} that may be kept here in all.")
        goes = sum(holding.held_bytes for holding in self._holdings.values() if removing and holding.may_go)
        stays = self._held() + self._claimed() - goes
        if stays + more > self.limit:
            raise self._no_room()

    def _no_room(self) -> NoRoom:
        goes = sum(holding.held_bytes for holding in self._holdings.values() if holding.may_go)
        return NoRoom(
            f"There is no room for it now: at most {size(self.limit)} may be kept here, and what is in use "
            f"takes {size(self._held() + self._claimed() - goes)}. Try again later."
        )

    def _held(self) -> int:
        return sum(holding.held_bytes for holding in self._holdings.values())

    def _claimed(self) -> int:
        return sum(map(self._reserved, self._claims))

    def _reserved(self, claim: SpaceReservation) -> int:
        return claim.size if self.now_s() - claim.used_at_s <= _PATIENCE_S else claim.used

    def _free(self) -> int:
        """Bytes of the disk that nobody has claimed, and that need not stay free."""
        free, whole = self.disk(self.folder)
        coming = sum(self._reserved(claim) - claim.used for claim in self._claims)
        return free - coming - min(_SPARE_BYTES, whole // _SPARE_PART)

    def _look(self, one: Measurement) -> SpaceHolding:
        try:
            state = one.state
            over, order = state.stage in OVER, (state.born_s or 0.0, state.created)
        except StoreError:
            # A damaged one takes its room, and nobody knows whether it is finished.
            over, order = False, (0.0, "")
        found = SpaceHolding(one, one.held_bytes(), over, order)
        self._holdings[one.data_id] = found
        return found

    def _remove(self, holding: SpaceHolding) -> bool:
        # One that is damaged or gone must not keep the others from being removed.
        try:
            holding.over = holding.one.state.stage in OVER
            if holding.over:
                self.remove(holding.one)
        except (WeirError, OSError):
            holding.over = False
        if holding.over:
            self.forget(holding.one)
        return holding.over


@dataclass
class Growth:
    """What others write into the folder of a measurement that had ``before`` bytes."""

    claim: SpaceReservation
    one: Measurement
    before: int

    def check(self) -> bool:
        """Admit a step more than there is now. To be called often; always False. Raises ``NoRoom``."""
        space = self.claim.space
        wanted = max(self.one.held_bytes() - self.before, 0) + space.step
        try:
            self.claim.grow(wanted, removing=self.before + wanted <= space.limit // _GROWTH_PART)
        except TooLarge as error:
            raise NoRoom(str(error)) from error
        self.claim.use(self.claim.size)
        return False


class _File(io.FileIO):
    """A file that releases a claim when it is closed."""

    def __init__(self, fd: int, claim: SpaceReservation) -> None:
        super().__init__(fd, "rb")
        self._claim = claim

    def close(self) -> None:
        super().close()
        self._claim.release()


def _reader(file: BinaryIO, claim: SpaceReservation) -> BinaryIO:
    return io.BufferedReader(_File(os.dup(file.fileno()), claim))


def disk_bytes(folder: Path) -> tuple[int, int]:
    """Bytes that are free on the disk of ``folder``, or of the first folder above it; and all of them."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize, state.f_blocks * state.f_frsize
