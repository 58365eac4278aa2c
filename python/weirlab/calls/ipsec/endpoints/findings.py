"""What the attempts of a run show: by kind of endpoints, and in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from weirlab.base.errors import TrialError, WeirError
from weirlab.base.quantities import NOTHING, count, duration, percent, plural, words
from weirlab.base.tables import Table
from weirlab.calls.ipsec import published
from weirlab.calls.ipsec.endpoints.plan import (
    BYPASS,
    CLEAR,
    HOG,
    NAMES,
    SHORT,
    SOCKETS,
    WHERE,
    EndpointsSection,
)
from weirlab.calls.ipsec.endpoints.rows import EndpointAttemptRow, EndpointLimitRow
from weirlab.measure.spread import Spread
from weirlab.store import Run
from weirlab.traffic.calls.codecs import parse_codec

COMPARE: Final = "compare"
_JITTER: Final = {"mean": "mean jitter", "max": "maximum jitter"}
_SPREADS: Final = (
    "late_p50_ns", "late_p99_ns", "late_max_ns", "delay_p50_ns", "delay_p99_ns", "delay_max_ns",
    "jitter_mean_ns", "jitter_max_ns", "delta_p99_ns", "delta_max_ns", "cpu_ns", "work_ns", "cpu_share",
    "hog_share", "steal_ratio",
)  # fmt: skip


@dataclass(frozen=True)
class EndpointGroup:
    """All valid attempts by one kind of endpoints, with the same number of calls."""

    arm: str
    beside: str
    calls: int
    attempts: int
    """Number of valid attempts."""
    invalid: int
    packets: int
    """Of all valid attempts."""
    lost: int
    """Of these, lost on the way or not sent."""
    ip_bytes: tuple[int, ...]
    """Every length that IP packets had."""
    spread: Mapping[str, Spread]

    @property
    def lost_ratio(self) -> float:
        return self.lost / self.packets if self.packets else math.nan

    def document(self) -> dict[str, Any]:
        """For JSON."""
        plain = {name: value for name, value in vars(self).items() if name != "spread"}
        return {
            **plain,
            "lost_ratio": self.lost_ratio,
            **{name: vars(found) for name, found in self.spread.items()},
        }


def grouped(rows: Sequence[EndpointAttemptRow], asked: EndpointsSection) -> tuple[EndpointGroup, ...]:
    """One group for each kind of attempt with a valid one, in the order of the scenario."""
    found = []
    for beside in asked.beside:
        for calls in asked.calls:
            for arm in asked.arms:
                mine = [
                    row
                    for row in rows
                    if (row.purpose, row.arm, row.beside, row.calls) == (COMPARE, arm, beside, calls)
                ]
                if any(row.valid for row in mine):
                    found.append(_group(mine))
    return tuple(found)


def _group(rows: Sequence[EndpointAttemptRow]) -> EndpointGroup:
    valid = [row for row in rows if row.valid]
    first = valid[0]
    return EndpointGroup(
        arm=first.arm,
        beside=first.beside,
        calls=first.calls,
        attempts=len(valid),
        invalid=len(rows) - len(valid),
        packets=sum(row.packets for row in valid),
        lost=sum(row.lost + row.unsent for row in valid),
        ip_bytes=tuple(sorted({row.ip_bytes for row in valid})),
        spread={name: Spread.of([getattr(row, name) for row in valid]) for name in _SPREADS},
    )


@dataclass(frozen=True)
class EndpointFindings:
    """Every attempt of a run, and what they show."""

    asked: EndpointsSection
    attempts: tuple[EndpointAttemptRow, ...]
    limits: tuple[EndpointLimitRow, ...]
    planned: int
    missing: tuple[str, ...] = ()
    """What has no valid attempt."""

    @cached_property
    def groups(self) -> tuple[EndpointGroup, ...]:
        return grouped(self.attempts, self.asked)

    def of(self, beside: str, calls: int) -> list[EndpointGroup]:
        """The kinds of endpoints, in the order of the scenario."""
        return [group for group in self.groups if (group.beside, group.calls) == (beside, calls)]

    @property
    def spoiled(self) -> int:
        """Attempts that do not count."""
        return sum(not row.valid for row in self.attempts)

    def document(self) -> dict[str, Any]:
        return {
            "conclusions": self.sentences(),
            "remarks": [*self.conditions(), *self.remarks()],
            "planned": self.planned,
            "missing": self.missing,
            "groups": [group.document() for group in self.groups],
            "limits": [vars(row) for row in self.limits],
            "attempts": [vars(row) for row in self.attempts],
        }

    def problem(self, run: Run) -> WeirError | None:
        """The error to report if something has no valid attempt."""
        if not self.missing:
            return None
        return TrialError(
            f"run {run.run_id}: {len(self.missing)} of {plural(self.planned, 'attempt')} were spoiled by the "
            f"host every time: {words(self.missing, most=3)}"
        )

    @property
    def publication(self) -> Sequence[published.Quality]:
        """What was published of such calls: nothing but with packets of one length."""
        same = parse_codec(self.asked.codec).packet_ns == published.quality_packet_ns()
        return published.quality() if same else ()

    @property
    def spoken_of(self) -> int | None:
        """The number of calls in the conclusions: the middle one of those compared everywhere."""
        complete = [
            calls
            for calls in sorted(self.asked.calls)
            if all(len(self.of(beside, calls)) == len(self.asked.arms) for beside in self.asked.beside)
        ]
        return complete[len(complete) // 2] if complete else None

    def sentences(self) -> list[str]:
        """Mean and maximum jitter, at idle and beside a hog; then the most calls."""
        found = []
        if (calls := self.spoken_of) is not None:
            found.append(f"{plural(calls, 'call')}, {self._secured()}: {self._jitter(calls, 'mean')}.")
            found.append(f"{_first(self._jitter(calls, 'max'))}.")
        found += [f"{told}." for beside in self.asked.beside if (told := self._most(beside))]
        return found or ["No attempt counted."]

    def _jitter(self, calls: int, which: str) -> str:
        """``mean jitter is a at idle and b beside a CPU hog at bypassing endpoints; c and d at ...``."""
        shown: dict[str, list[str]] = {}
        for beside in self.asked.beside:
            for each in self.of(beside, calls):
                shown.setdefault(each.arm, []).append(duration(each.spread[f"jitter_{which}_ns"].median))
        (first, values), *others = shown.items()
        pairs = zip(values, self.asked.beside, strict=True)
        where = words([f"{value} {WHERE[beside]}" for value, beside in pairs])
        rest = [f"; {words(values)} at {NAMES[arm]}" for arm, values in others]
        return f"{_JITTER[which]} is {where} at {NAMES[first]}{''.join(rest)}"

    def _secured(self) -> str:
        if self.asked.suite == CLEAR:
            return "in the clear"
        return f"with ESP ({self.asked.suite}, {self.asked.mode} mode)"

    def _most(self, beside: str) -> str:
        told = [(row.arm, _carried(row)) for row in self.limits if row.beside == beside]
        if not told:
            return ""
        said = words([f"{NAMES[arm]} carry {carried}" for arm, carried in told])
        return f"{_first(WHERE[beside])}, {said}"

    def conditions(self) -> Iterator[str]:
        """What must be known of the endpoints to judge the figures."""
        polled = [row for row in self.attempts if row.arm == BYPASS and row.valid]
        if polled and not any(row.zero_copy for row in polled):
            yield (
                "AF_XDP is in copy mode: the driver of veth pairs has no other. Between network cards with "
                "zero-copy mode, bypassing takes less time per packet."
            )
        if polled and not any(row.polls for row in polled):
            yield (
                "This kernel does not let a socket poll the queue of a veth pair: the CPU that sends a packet"
                " also puts it into the ring of the receiving endpoint, which polls that ring."
            )
        if self.asked.suite != CLEAR and any(arm != BYPASS for arm in self.asked.arms):
            yield "ESP is Weir's own, in UDP, at all endpoints: they differ by how packets get in and out."

    def remarks(self) -> Iterator[str]:
        """What was not as it should be."""
        for group in self.groups:
            if len(group.ip_bytes) > 1 or 0 in group.ip_bytes:
                yield f"{NAMES[group.arm]}, {WHERE[group.beside]}: packets differ in length."
        if refused := sum(row.refused for row in self.attempts if row.valid):
            yield (
                f"In attempts that count, {plural(refused, 'packet')} never left, as the system did not take "
                "them or they could not be encapsulated: those after the warm-up count as lost."
            )
        if any(row.damaged for row in self.attempts):
            damaged = sum(row.damaged for row in self.attempts)
            yield f"{plural(damaged, 'packet')} did not arrive as sent, or came again: they count as lost."
        if self.spoiled:
            yield f"{plural(self.spoiled, 'attempt')} did not count, because of what the host did."
        stolen = Spread.of([row.steal_ratio for row in self.attempts if row.valid])
        if stolen.known and stolen.high > 0:
            yield (
                "In attempts that count, the hypervisor took "
                f"{percent(stolen.median)} of the endpoints' CPUs (up to {percent(stolen.high)})."
            )


def limit_sentence(row: EndpointLimitRow) -> str:
    """What a search found: ``bypassing endpoints at idle: 3,100 calls``."""
    return f"{NAMES[row.arm]} {WHERE[row.beside]}: {_carried(row)}"


def _carried(row: EndpointLimitRow) -> str:
    if row.problem:
        return f"an unknown number of calls ({row.problem})"
    if math.isnan(row.carried):
        return "no call in time"
    return (
        f"{'at least ' if row.at_least else ''}{count(row.carried)} {'call' if row.carried == 1 else 'calls'}"
    )


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]


_PUBLISHED: Final = "published"
_COLUMNS: Final = (
    "Calls", "Endpoints", "Beside", "Mean jitter", "Max jitter", "Max delta", "Median delay", "Max delay",
    "Late p99", "Max late", "Lost", "CPU/packet",
)  # fmt: skip
_SPARE: Final = ("Late p99", "Max late", "Median delay", "CPU/packet", "Max delay", "Lost")


def of(found: EndpointFindings) -> list[Table]:
    """For a terminal: the comparison, the most calls, then every attempt."""
    made = [compared(found)] if found.groups else []
    if found.limits:
        made.append(limits(found.limits))
    return [*made, attempts(found.attempts)] if found.attempts else made


def compared(found: EndpointFindings) -> Table:
    """A row per number of calls, kind of endpoints, and what is beside them; below what was published."""
    most = max(group.attempts for group in found.groups)
    how = f": medians of {most} attempts, in brackets the least and the greatest" if most > 1 else ""
    rows = [_row(group) for group in found.groups]
    return Table(f"Endpoints compared{how}", _COLUMNS, [*rows, *_published(found)], _SPARE)


def _row(each: EndpointGroup) -> tuple[str, ...]:
    def shown(name: str) -> str:
        spread = each.spread[name]
        return spread.text(duration) if spread.known else NOTHING

    return (
        count(each.calls),
        SHORT[each.arm],
        each.beside,
        *map(shown, ("jitter_mean_ns", "jitter_max_ns", "delta_max_ns", "delay_p50_ns", "delay_max_ns")),
        *map(shown, ("late_p99_ns", "late_max_ns")),
        percent(each.lost_ratio),
        shown("cpu_ns"),
    )


def _published(found: EndpointFindings) -> list[tuple[str, ...]]:
    def ms(value: float | None) -> str:
        return NOTHING if value is None else duration(value * 1e6)

    return [
        (
            "1",
            each.what,
            _PUBLISHED,
            ms(each.jitter_mean_ms),
            ms(each.jitter_max_ms),
            ms(each.delta_max_ms),
            *[NOTHING] * (len(_COLUMNS) - 6),
        )
        for each in found.publication
    ]


def limits(rows: Sequence[EndpointLimitRow]) -> Table:
    """A row per search."""
    cells = [
        (
            SHORT[row.arm],
            row.beside,
            f"{'at least ' if row.at_least else ''}{count(row.carried)}",
            count(row.too_many),
        )
        for row in rows
    ]
    return Table("Most calls", ("Endpoints", "Beside", "Carried", "Too many"), cells)


def work(found: EndpointFindings) -> Table:
    """What packets cost, and who had the CPUs."""

    def spread(each: EndpointGroup, name: str, show: Callable[[float], str]) -> str:
        return each.spread[name].text(show) if each.spread[name].known else NOTHING

    cells = [
        (
            count(group.calls),
            SHORT[group.arm],
            group.beside,
            spread(group, "cpu_ns", duration),
            spread(group, "work_ns", duration) if group.arm != SOCKETS or group.beside != HOG else NOTHING,
            spread(group, "cpu_share", percent),
            spread(group, "hog_share", percent),
            spread(group, "steal_ratio", percent),
        )
        for group in found.groups
    ]
    columns = ("Calls", "Endpoints", "Beside", "CPU/packet", "Work/packet", "CPU", "Hog", "Stolen")
    return Table("Where CPU time went", columns, cells, spare=("Stolen", "Hog"), details=True)


def attempts(rows: Sequence[EndpointAttemptRow]) -> Table:
    """Every attempt, those that do not count with the reason."""
    cells = [
        (
            row.purpose,
            count(row.calls),
            SHORT[row.arm],
            row.beside,
            str(row.repetition),
            duration(row.jitter_mean_ns),
            duration(row.jitter_max_ns),
            duration(row.delay_max_ns),
            duration(row.late_max_ns),
            f"{count(row.lost + row.unsent)} of {count(row.packets)}",
            count(row.bad),
            percent(row.steal_ratio),
            "yes" if row.valid else f"no: {row.invalid}",
        )
        for row in rows
    ]
    columns = (
        "Purpose", "Calls", "Endpoints", "Beside", "Repetition", "Mean jitter", "Max jitter", "Max delay",
        "Max late", "Lost", "Bad", "Stolen", "Counts",
    )  # fmt: skip
    return Table("Every attempt", columns, cells, details=True)
