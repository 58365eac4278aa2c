"""Where every frame went: the stages, the sums that must hold, and one sentence about them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

Stage = Literal["ring", "disk", "recorder"]


@dataclass(frozen=True)
class LinkSide:
    """Frames that arrived on ``interface``, one end of the link."""

    interface: str
    received: int = 0
    forwarded: int = 0
    not_forwarded: int = 0
    """The other end refused them, or its queue was full: lost on the link."""
    copied: int = 0
    """Into the ring of the recorder here."""
    not_copied: int = 0
    """The ring was full."""
    cut: int = 0
    """Only their first bytes were copied, because the forwarding CPU had no time left."""
    bytes: int = 0
    reason: str = ""
    """Why the other end refused frames, if it did."""


@dataclass(frozen=True)
class Mirror:
    """Copies that leave for the logger through ``interface``."""

    interface: str
    sent: int = 0
    not_sent: int = 0
    waiting: int = 0
    reason: str = ""
    """Why copies were not sent, if some were not."""


@dataclass(frozen=True)
class RecorderCounts:
    """What happened in the recorder to the frames of one interface."""

    name: str
    seen: int = 0
    lost: int = 0
    """Never got here: the buffer in front of the recorder was full."""
    filtered: int = 0
    written: int = 0
    not_written: int = 0

    def plus(self, other: Self) -> Self:
        """The sum of both."""
        return replace(
            self, **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)[1:]}
        )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read an interface from a recorder's ``progress``."""
        return cls(str(values["name"]), *(int(values[f.name]) for f in fields(cls)[1:]))


@dataclass(frozen=True)
class RecordGap:
    """Frames that are missing from the record, and when they arrived. Times are ns since 1970."""

    from_ns: int
    to_ns: int
    stage: Stage
    """Where they were lost: ``ring`` full, ``disk`` refused them, or with a ``recorder`` that died."""
    frames: int | None
    """None if unknown."""
    interface: str = ""
    reason: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read a gap from the result of a recorder's ``stop``."""
        return cls(
            from_ns=int(values["from_ns"]),
            to_ns=int(values["to_ns"]),
            stage=values["stage"],
            frames=int(values["frames"]),
            interface=str(values["interface"] or ""),
        )


@dataclass(frozen=True)
class BalanceSum:
    """Two numbers that must be equal."""

    what: str
    left: int
    right: int

    @property
    def holds(self) -> bool:
        """Whether they are."""
        return self.left == self.right


@dataclass(frozen=True)
class FrameBalance:
    """All stages at one moment."""

    sides: tuple[LinkSide, ...] = ()
    """Both ends of the link; none where there is only a logger."""
    mirror: Mirror | None = None
    ring: bool = False
    """Whether a recorder here reads the tap's ring."""
    recorded: tuple[RecorderCounts, ...] = ()
    """By interface, all recorders of this session together; for one that died, its last report."""
    vanished: int = 0
    """Taken from the ring by a recorder that died, but in none of its files."""
    repeated: int = 0
    """Written by a recorder that died before it gave them back to the ring, and again by the next one."""
    recording: bool = False
    """Whether frames are recorded here at all."""
    assumed: bool = False
    """What was forwarded is derived from interface counters: nothing counts what the other end refused."""
    interrupted: bool = False
    """A recorder ended before the session did."""
    unknown: bool = False
    """Frames are missing, but uncounted: nothing listened, or a file could not be counted."""
    gaps: tuple[RecordGap, ...] = ()
    failures: tuple[str, ...] = ()
    """The last failures that recorders reported."""
    finished: bool = False
    """No frame is in flight any more, so the sums can be checked."""

    @property
    def received(self) -> int:
        return sum(side.received for side in self.sides)

    @property
    def forwarded(self) -> int:
        return sum(side.forwarded for side in self.sides)

    @property
    def not_forwarded(self) -> int:
        return sum(side.not_forwarded for side in self.sides)

    @property
    def copied(self) -> int:
        return sum(side.copied for side in self.sides)

    @property
    def cut(self) -> int:
        """Frames of which only the first bytes were copied, to spare the link."""
        return sum(side.cut for side in self.sides)

    @property
    def written(self) -> int:
        return sum(each.written for each in self.recorded)

    @property
    def filtered(self) -> int:
        return sum(each.filtered for each in self.recorded)

    @property
    def ring_lost(self) -> int:
        """Frames that found no room in front of the recorder."""
        if self.ring:
            return sum(side.not_copied for side in self.sides)
        return sum(each.lost for each in self.recorded)

    @property
    def not_written(self) -> int:
        return sum(each.not_written for each in self.recorded)

    @property
    def missing(self) -> int:
        """Frames that should be in the record here and are not, as far as they were counted."""
        return self.ring_lost + self.not_written + self.vanished

    @property
    def complete(self) -> bool | None:
        """Whether every frame is in the record, whole; None while frames arrive, or without a record here."""
        if not (self.finished and self.recording):
            return None
        lacking = self.missing or self.unknown or self.cut or self.gaps or self.failures
        return not lacking and not self.broken_sums()

    @property
    def waiting(self) -> int:
        """Copies in the ring, or in the recorder's hands."""
        if not self.ring:
            return 0
        return max(self.copied - sum(each.seen for each in self.recorded) - self.vanished, 0)

    def sums(self) -> Iterator[BalanceSum]:
        """What must be equal once traffic has been cut and everything is written."""
        for side in self.sides:
            name = side.interface
            # If one is derived from the others, the sum proves nothing.
            if not self.assumed:
                forwarded = side.forwarded + side.not_forwarded
                yield BalanceSum(f"{name}: received = forwarded + not forwarded", side.received, forwarded)
            if self.ring:
                copied = side.copied + side.not_copied
                yield BalanceSum(f"{name}: received = copied + not copied", side.received, copied)
        if self.ring:
            seen = sum(each.seen for each in self.recorded) + self.vanished
            what = "copied + repeated = seen by recorders + lost with one that died"
            yield BalanceSum(what, self.copied + self.repeated, seen)
        for each in self.recorded:
            kept = each.filtered + each.written + each.not_written
            what = f"recorder, {each.name}: seen = filtered + written + not written"
            yield BalanceSum(what, each.seen, kept)
        if self.mirror is not None:
            sent = self.mirror.sent + self.mirror.not_sent + self.mirror.waiting
            yield BalanceSum(f"received = mirrored by {self.mirror.interface}", self.received, sent)

    def broken_sums(self) -> tuple[BalanceSum, ...]:
        """Those that do not hold."""
        return tuple(each for each in self.sums() if not each.holds)


def from_tap(
    counters: Mapping[str, Any], a: str, b: str, mirror: str | None
) -> tuple[tuple[LinkSide, ...], Mirror | None]:
    """The ends and the mirror of the tap's ``counters``, by the names of its interfaces."""
    numbers = ("received", "forwarded", "not_forwarded", "copied", "not_copied", "cut", "bytes")
    sides = tuple(
        LinkSide(
            interface=name,
            reason=str(counters[side].get("reason", "")),
            **{key: int(counters[side][key]) for key in numbers},
        )
        for side, name in (("a", a), ("b", b))
    )
    if mirror is None:
        return sides, None
    values = counters["mirror"]
    sent, not_sent, waiting = (int(values[key]) for key in ("sent", "not_sent", "waiting"))
    return sides, Mirror(mirror, sent, not_sent, waiting, str(values.get("reason", "")))


def added(parts: Iterable[Sequence[RecorderCounts]]) -> tuple[RecorderCounts, ...]:
    """The sum over recorders that ran one after the other, by interface."""
    total: dict[str, RecorderCounts] = {}
    for part in parts:
        for each in part:
            total[each.name] = total[each.name].plus(each) if each.name in total else each
    return tuple(total.values())


@dataclass
class RingWatch:
    """Frames that found the ring full, between one look and the next.

    This is seen from outside the recorder, even after its death.
    """

    _last_ns: int | None = None
    _last: Mapping[str, int] = field(default_factory=dict)
    _open: dict[str, RecordGap] = field(default_factory=dict)
    _closed: list[RecordGap] = field(default_factory=list)

    def look(self, at_ns: int, not_copied: Mapping[str, int]) -> None:
        """Take in the counters at ``at_ns``; consecutive looks that find losses form one gap."""
        since_ns = at_ns if self._last_ns is None else self._last_ns
        for name, count in not_copied.items():
            more = count - self._last.get(name, 0)
            if more > 0:
                gap = self._open.get(name) or RecordGap(since_ns, at_ns, "ring", 0, name, "the ring was full")
                self._open[name] = replace(gap, to_ns=at_ns, frames=(gap.frames or 0) + more)
            elif name in self._open:
                self._closed.append(self._open.pop(name))
        self._last_ns, self._last = at_ns, dict(not_copied)

    def gaps(self) -> tuple[RecordGap, ...]:
        """The gaps in order of time."""
        return tuple(sorted([*self._closed, *self._open.values()], key=lambda gap: gap.from_ns))


def verdict(account: FrameBalance, troubles: Sequence[str] = ()) -> str:
    """One sentence: is the link unharmed, and is the record complete?

    ``troubles`` are the current problems of the recorder.
    """
    parts = (
        _of_the_link(account),
        _of_the_mirror(account),
        _of_the_record(account),
        _of_cuts(account),
        _of_sums(account),
    )
    said = [text for text in parts if text]
    sentence = "; ".join([*said, *troubles])
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _of_the_link(account: FrameBalance) -> str:
    if not account.sides:
        return ""
    lost = account.not_forwarded
    if lost == 0 and account.assumed:
        return (
            f"the link is bridged: {_frames(account.forwarded)} forwarded; what the other end refused is "
            "unknown"
        )
    if lost == 0:
        return f"the link is unharmed: {_frames(account.forwarded)} forwarded, none lost"
    where = " and ".join(
        f"{side.not_forwarded:,} from {side.interface}" for side in account.sides if side.not_forwarded
    )
    reasons = sorted({side.reason for side in account.sides if side.reason})
    because = f": {'; '.join(reasons)}" if reasons else ""
    return f"the link loses frames: {lost:,} of {account.received:,} were not forwarded ({where}){because}"


def _of_the_mirror(account: FrameBalance) -> str:
    mirror = account.mirror
    if mirror is None:
        return ""
    if mirror.not_sent == 0:
        return (
            f"every copy left by {mirror.interface}"
            if mirror.waiting == 0
            else f"copies leave by {mirror.interface}"
        )
    because = f": {mirror.reason}" if mirror.reason else ""
    return f"{mirror.not_sent:,} copies did not leave by {mirror.interface}{because}"


def _of_the_record(account: FrameBalance) -> str:
    if not account.recording:
        return ""
    if account.missing or account.unknown:
        return _of_missing(account)
    if account.interrupted and not account.finished:
        return "a recorder ended early: how many frames it lost will be known at the end"
    if account.failures or account.gaps or (account.finished and account.broken_sums()):
        return "the record may lack frames"
    kept = f", {account.filtered:,} were filtered out" if account.filtered else ""
    whole = "no frame is missing from the record" if account.cut else "the record is complete"
    if account.sides:
        return f"{whole}{kept}"
    return f"{whole}: {_frames(account.written)} written{kept}"


def _of_missing(account: FrameBalance) -> str:
    places = (
        (account.ring_lost, "at the ring (the recorder, or its disk, was too slow or stalled)"),
        (account.not_written, "at the disk"),
        (account.vanished, "with a recorder that died"),
    )
    where = ", ".join(f"{number:,} {place}" for number, place in places if number)
    uncounted = "a recorder ended early, and the frames it lost were not counted"
    if not account.unknown:
        return f"the record is missing {_frames(account.missing)}: {where}"
    if account.missing == 0:
        return f"the record is missing an unknown number of frames: {uncounted}"
    return (
        f"the record is missing {_frames(account.missing)} and an unknown number more: {where}; {uncounted}"
    )


def _of_cuts(account: FrameBalance) -> str:
    if account.cut == 0:
        return ""
    return f"only the first bytes of {_frames(account.cut)} were copied, because the link needed the CPU"


def _of_sums(account: FrameBalance) -> str:
    broken = account.broken_sums() if account.finished else ()
    return "; ".join(f"counters disagree ({each.what}: {each.left:,} and {each.right:,})" for each in broken)


def _frames(count: int) -> str:
    return f"{count:,} frame" if count == 1 else f"{count:,} frames"
