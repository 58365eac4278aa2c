"""The attempts of a run as rows, and what they show: per case and method, and in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from weirlab.base.errors import TrialError, WeirError
from weirlab.base.quantities import bit_rate, duration, percent, plural, significant, words
from weirlab.measure.spread import Spread
from weirlab.store import Run
from weirlab.trace.quantities import size
from weirlab.transfers.parallel.plan import INDEPENDENT, MPTCP, TCP, named

ATTEMPTS: Final = "parallel"
PATHS: Final = "parallel_paths"
SERIES: Final = "parallel_series"

APPLICATION: Final = "application"
PATH: Final = "path"
COMPETITOR: Final = "competitor"


@dataclass(frozen=True)
class ParallelAttemptRow:
    """A transfer by one method in one case."""

    trial_id: str
    """The attempt in `trials`."""
    case: str
    """What the scenario calls the set of paths and what happens on them."""
    first_share: float
    """The first path's share of the rate of both; null outside of `split`."""
    method: str
    """`tcp`, `independent`, `mptcp`, or a scheduler of parallel sockets."""
    path: int
    """The only path that `tcp` uses, from 1; 0: all."""
    repetition: int
    """Number of the repetition, from 1."""
    valid: bool
    """Whether it counts."""
    invalid: str
    """Why not; empty if it does."""
    paths: int
    """Paths that the method could use."""
    connections: int
    """Connections that carried data."""
    start_ns: int
    """Start of the recorded part, since 1970."""
    warmup_s: float
    """Sent before."""
    lasts_s: float
    """Recorded part."""
    goodput_bps: float
    """What the receiving application read in order in the recorded part, over its length, in bit/s."""
    total_bytes: int
    """Read in the whole attempt."""
    stall_s: float
    """Longest time without any data for the application, in the recorded part."""
    outage_bps: float
    """Goodput while paths were dead; null without outages."""
    back_s: float
    """From a path's return until it carries half of what it did before, to the bin; the longest. Null without
    outages, or where it never does."""
    reorder_peak_bytes: int | None
    """Most data that waited at the receiver for earlier data; null if the method does not report it."""
    resent_bytes: int | None
    """Sent again over another stream; null except for parallel sockets."""
    retransmissions: int | None
    """Segments that TCP sent again, on all paths."""
    competitor_bps: float
    """Goodput of the competing streams while they were there, mean over them; null without."""
    jain: float
    """Jain's index of method and competitor on the path that they share, 0.5 to 1; the least of all
    competitors. Null without."""
    cpu_s_per_gb: float
    """CPU time of sender and receiver over 10^9 B read, warm-up included. The kernel's work on arriving
    frames counts for the emulated paths, which are left out. Null with competitors, whose CPU time cannot be
    told apart."""
    emulator_cpu_s: float
    """CPU time of the emulated paths."""
    waited_s: float
    """How long the process's threads were ready and had no CPU, all together."""
    late_p99_ns: float
    """99 % of the frames left the emulated paths at most this much later than due; the worst direction."""
    rate_error: float
    """Rate at which a path carried waiting frames over the one set, less 1; the worst direction."""
    failure: str
    """Why the transfer broke off; empty if it did not."""
    path_share: float = math.nan
    """What the method carried over the path that it shares with a competitor, over what both carried there,
    while that was there; with several competitors the share that is furthest from a half. Null without."""


@dataclass(frozen=True)
class PathRow:
    """One path in an attempt."""

    trial_id: str
    """The attempt in `trials`."""
    path: int
    """Number of the path, from 1."""
    rate_bps: float
    """Rate set from sender to receiver; null for none."""
    rtt_ms: float
    """Round trip of the empty path."""
    connections: int
    """Connections of the method that carried data over it."""
    throughput_bps: float
    """Bytes that the receiver's kernel received in order in the recorded part, over its length."""
    retransmissions: int | None
    """Segments that the sender sent again."""
    frames: int
    """Frames that the sender's side gave to the emulated path, a competitor's included."""
    dropped: int
    """Of these, dropped because its queue was full, or early."""
    lost: int
    """Of these, lost by the loss set for the path."""
    not_kept: int
    """Lost by the emulator itself."""
    late_p99_ns: float
    """99 % of the frames left at most this much later than due; the worse direction."""
    rate_error: float
    """Rate at which it carried waiting frames over the one set, less 1; null where none waited."""


@dataclass(frozen=True)
class ThroughputRow:
    """Throughput in a bin of time."""

    trial_id: str
    """The attempt in `trials`."""
    what: str
    """`application`: what the receiver read, in order; `path`: what arrived over one path; `competitor`: what
    a competing stream's receiver read."""
    number: int
    """Of the path or of the competitor, from 1; 0 for the application."""
    start_s: float
    """Start of the bin; negative in the warm-up."""
    throughput_bps: float
    """Mean over the bin."""


_SPREADS: Final = (
    "goodput_bps", "stall_s", "outage_bps", "back_s", "reorder_peak_bytes", "resent_bytes", "retransmissions",
    "competitor_bps", "jain", "path_share", "cpu_s_per_gb", "waited_s", "late_p99_ns",
)  # fmt: skip

BUSY: Final = 0.25
"""From this share of the time on, threads that wait for a CPU are worth a warning."""


@dataclass(frozen=True)
class MethodGroup:
    """All valid attempts by one method in one case."""

    case: str
    first_share: float
    method: str
    path: int
    attempts: int
    """Number of valid attempts."""
    invalid: int
    connections: int
    """The fewest of any valid attempt."""
    paths: int
    failures: tuple[str, ...]
    spread: Mapping[str, Spread]
    share: Spread
    """Of the goodput that the independent streams of the case have together (their median)."""

    @property
    def name(self) -> str:
        return named(self.method, self.path)

    @property
    def is_session(self) -> bool:
        """Whether it is a scheduler of parallel sockets."""
        return self.method not in (TCP, INDEPENDENT, MPTCP)

    @property
    def goodput(self) -> Spread:
        return self.spread["goodput_bps"]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("spread", "share")},
            "share_of_independent": vars(self.share),
            **{name: vars(found) for name, found in self.spread.items()},
        }


def compare(
    rows: Sequence[ParallelAttemptRow], methods: Sequence[str], cases: Sequence[str]
) -> tuple[MethodGroup, ...]:
    """One group per case, method and path, in the order of ``cases`` and ``methods``."""
    found: list[MethodGroup] = []
    for case in cases:
        mine = [row for row in rows if row.case == case]
        reference = Spread.of(
            [row.goodput_bps for row in mine if row.valid and row.method == INDEPENDENT]
        ).median
        keys = sorted({(methods.index(row.method), row.path) for row in mine if row.method in methods})
        for place, path in keys:
            of_one = [row for row in mine if (row.method, row.path) == (methods[place], path)]
            found.append(_group(of_one, reference))
    return tuple(found)


def _group(rows: Sequence[ParallelAttemptRow], reference: float) -> MethodGroup:
    valid, first = [row for row in rows if row.valid], rows[0]
    spread = {name: Spread.of([getattr(row, name) for row in valid]) for name in _SPREADS}
    return MethodGroup(
        case=first.case,
        first_share=first.first_share,
        method=first.method,
        path=first.path,
        attempts=len(valid),
        invalid=len(rows) - len(valid),
        connections=min((row.connections for row in valid), default=0),
        paths=first.paths,
        failures=tuple(dict.fromkeys(row.failure for row in valid if row.failure)),
        spread=spread,
        share=spread["goodput_bps"].over(reference),
    )


@dataclass(frozen=True)
class ParallelFindings:
    """Every attempt of a run, and what they show."""

    rows: tuple[ParallelAttemptRow, ...]
    methods: tuple[str, ...]
    cases: tuple[str, ...]
    planned: int
    missing: tuple[str, ...] = ()
    """What has no valid attempt."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Methods that could not be tried, and why."""

    @cached_property
    def groups(self) -> tuple[MethodGroup, ...]:
        return compare(self.rows, self.methods, self.cases)

    @cached_property
    def waited(self) -> Spread:
        """How long threads waited for a CPU in valid attempts, all together, over the attempt's time."""
        return Spread.of([row.waited_s / (row.warmup_s + row.lasts_s) for row in self.rows if row.valid])

    @property
    def spoiled(self) -> int:
        """Attempts that do not count."""
        return sum(not row.valid for row in self.rows)

    def document(self) -> dict[str, Any]:
        references = {
            group.case: group.goodput.median for group in self.groups if group.method == INDEPENDENT
        }
        attempts = [
            {
                **vars(row),
                "share_of_independent": row.goodput_bps / reference
                if (reference := references.get(row.case, math.nan)) > 0
                else math.nan,
            }
            for row in self.rows
        ]
        return {
            "conclusions": self.sentences(),
            "planned": self.planned,
            "missing": self.missing,
            "lacking": dict(self.lacking),
            "groups": [group.document() for group in self.groups],
            "attempts": attempts,
        }

    def problem(self, run: Run) -> WeirError | None:
        """The error to report if a transfer has no valid attempt."""
        if not self.missing:
            return None
        return TrialError(
            f"run {run.run_id}: {len(self.missing)} of {plural(self.planned, 'transfer')} have no attempt "
            f"that counts: {words(self.missing, most=3)}"
        )

    def of(self, case: str) -> list[MethodGroup]:
        """The groups of a case that have valid attempts."""
        return [group for group in self.groups if group.case == case and group.attempts]

    def sentences(self) -> list[str]:
        """A sentence about all cases, then one per case."""
        found = [*overall(self), *(said for case in self.cases if (said := sentence(case, self.of(case))))]
        return found or ["No attempt counted."]

    def remarks(self) -> Iterator[str]:
        """What was left out, what failed, and whether the host was busy."""
        for method, why in self.lacking.items():
            yield f"{named(method)} was left out: {why}."
        for group in self.groups:
            for failure in group.failures:
                yield f"{group.case}, {group.name}: the transfer broke off: {failure}."
            if group.method == MPTCP and 0 < group.connections < group.paths:
                yield f"{group.case}: MPTCP used {group.connections} of {group.paths} paths at least once."
        if self.waited.median > BUSY:
            yield (
                "The host was busy: together, the threads of the median attempt waited for a CPU "
                f"{significant(self.waited.median, 2)} times as long as it lasted. CPUs, not paths, may have "
                "set the limit."
            )


def overall(found: ParallelFindings) -> Iterator[str]:
    """The least share of the independent sum that each session and MPTCP have in any case."""
    least: dict[str, MethodGroup] = {}
    for group in found.groups:
        if group.method in (TCP, INDEPENDENT) or not group.share.known:
            continue
        known = least.get(group.method)
        if known is None or group.share.median < known.share.median:
            least[group.method] = group
    cases = {group.case for group in found.groups if group.share.known}
    for method in [*least]:
        # Only methods that were compared in every case.
        if {group.case for group in found.groups if group.method == method and group.share.known} != cases:
            del least[method]
    if len(cases) > 1 and least:
        best = sorted(least.values(), key=lambda each: each.share.median, reverse=True)
        rest = [f"{each.name} {percent(each.share.median)}" for each in best[1:]]
        said = words([f"{best[0].name} carries at least {percent(best[0].share.median)}", *rest])
        yield f"Of what independent streams carry together in {len(cases)} cases, {said}."


def sentence(case: str, groups: Sequence[MethodGroup]) -> str:
    """What a case shows: goodput of all methods, then what else differs. Empty without a valid attempt."""
    if not groups:
        return ""
    together = [group for group in groups if group.method not in (TCP, INDEPENDENT)]
    reference = next((group for group in groups if group.method == INDEPENDENT), None)
    ranked = sorted(together, key=lambda each: each.goodput.median, reverse=True)
    parts = [f"{each.name} {_carried(each)}" for each in ranked]
    if reference is not None:
        lead = f"independent streams carry {reference.goodput.text(bit_rate)} together"
        parts = [f"{lead}{', of which' if parts else ''}", *parts]
        said = f"{parts[0]} {words(parts[1:])}".rstrip()
    else:
        said = words(parts or [f"{group.name} {group.goodput.text(bit_rate)}" for group in groups])
    extra = [*_memory(together), *_outage(groups), *_rivalry(groups)]
    return f"{case[:1].upper()}{case[1:]}: {'; '.join([said, *extra])}."


def _carried(group: MethodGroup) -> str:
    return (group.share.text(percent)) if group.share.known else group.goodput.text(bit_rate)


def _memory(groups: Sequence[MethodGroup]) -> Iterator[str]:
    known = [group for group in groups if group.spread["reorder_peak_bytes"].known]
    if known:
        said = [f"{each.name} {size(each.spread['reorder_peak_bytes'].high)}" for each in known]
        yield f"reorder memory at most: {words(said)}"


def _outage(groups: Sequence[MethodGroup]) -> Iterator[str]:
    hit = [group for group in groups if group.spread["outage_bps"].known and group.path == 0]
    if hit:
        said = [f"{each.name} {each.spread['outage_bps'].text(bit_rate)}" for each in hit]
        yield f"while the path is dead: {words(said)}"
    back = [each for each in hit if each.spread["back_s"].known]
    if back:
        said = [f"{each.name} {duration(each.spread['back_s'].median * 1e9)}" for each in back]
        yield f"the path is in use again after: {words(said)}"


def _rivalry(groups: Sequence[MethodGroup]) -> Iterator[str]:
    met = [group for group in groups if group.spread["competitor_bps"].known]
    if met:
        said = [
            f"{bit_rate(each.spread['competitor_bps'].median)} next to {each.name}{_share_of_path(each)} "
            f"(Jain {significant(each.spread['jain'].median, 2)})"
            for each in met
        ]
        yield f"the competitor carries {words(said)}"


def _share_of_path(group: MethodGroup) -> str:
    share = group.spread["path_share"]
    return f", which has {percent(share.median)}" if share.known else ""
