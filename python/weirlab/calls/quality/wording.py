"""How the streams of a capture were heard: in a sentence, and as cases that requirements are judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weirlab.base.documents import Measured
from weirlab.base.errors import WeirError
from weirlab.base.quantities import NOTHING, decimals
from weirlab.base.tables import Table
from weirlab.calls.quality.finding import TITLES, Kind, listed_streams
from weirlab.calls.quality.study import NoStreams, QualityOutcome
from weirlab.cli.quantities import clock, count, duration, percent, plural
from weirlab.jobs.batches import results, unreadable
from weirlab.jobs.requiring import HEARD, MEDIAN_MOS, each, median
from weirlab.quality.distribution import SATISFIED, CallerPercentiles
from weirlab.report import numbers
from weirlab.requirements import GAP, JITTER, LOSS, MOS, Demand, DemandJudgement, judge

if TYPE_CHECKING:
    from weirlab.base.errors import InputError
    from weirlab.calls.quality.streams import CaptureStream
    from weirlab.cli.progress import Reporter
    from weirlab.jobs.cluster import ClusterAddress


_NAMED: Final = 4
"""Causes in the sentence."""


def sentence(outcome: QualityOutcome) -> str:
    """How the streams were heard and why, then the facts."""
    return f"{verdict(outcome)} {facts(outcome)}".lstrip()


def verdict(outcome: QualityOutcome) -> str:
    """What callers complain about, or that they have no reason to; empty without voice whose MOS is known."""
    told = [
        f"{title}{_unless(outcome, kind, numbers)}: {listed_streams(numbers)}."
        for kind, title in TITLES.items()
        if (numbers := sorted({n for each in outcome.findings if each.kind == kind for n in each.streams}))
    ]
    rated = np.isfinite(outcome.mos)
    voice = sum(stream.is_voice for stream in outcome.streams)
    if low := dissatisfied(outcome):
        told.insert("one-way audio" in {each.kind for each in outcome.findings}, low)
    elif rated.any():
        many = int(rated.sum())
        all_of = {1: "The voice stream", 2: "Both voice streams"}.get(
            many, f"All {count(many)} voice streams"
        )
        if many < voice:
            all_of = f"{count(many)} of {count(voice)} voice streams"
        were = "was" if many == 1 else "were"
        told.append(
            f"{all_of} {'has' if many == 1 else 'have'} a MOS of {SATISFIED:.1f} or more."
            if told
            else f"{all_of} {were} heard well (MOS {SATISFIED:.1f} or more)."
        )
    if rated.any() and (unknown := voice - int(rated.sum())):
        told.append(f"The MOS of {count(unknown)} is not known.")
    return " ".join(told)


def _unless(outcome: QualityOutcome, kind: Kind, numbers: Sequence[int]) -> str:
    """What else one-way audio may be, if the capture has no packet in the other direction."""
    ways = {(each.src, each.src_port, each.dst, each.dst_port) for each in outcome.streams}
    alone = any(
        each.number in numbers and (each.dst, each.dst_port, each.src, each.src_port) not in ways
        for each in outcome.streams
    )
    return ", unless only one direction was captured" * (alone and kind == "one-way audio")


def dissatisfied(outcome: QualityOutcome) -> str:
    """How many streams are below :data:`SATISFIED`, and how many of these by which causes; may be empty."""
    by: dict[tuple[str, ...], list[int]] = {}
    for row in outcome.worst_first():
        if why := outcome.causes[row]:
            by.setdefault(why, []).append(outcome.streams[row].number)
    if not by:
        return ""
    bad = sum(map(len, by.values()))
    voice = sum(stream.is_voice for stream in outcome.streams)
    most_first = sorted(by.items(), key=lambda each: -len(each[1]))
    rest = sum(len(numbers) for _, numbers in most_first[_NAMED:])
    parts = [
        f"{count(len(numbers))} by {' and '.join(why)} ({listed_streams(sorted(numbers))})"
        for why, numbers in most_first[:_NAMED]
    ] + [f"{count(rest)} by other causes"] * bool(rest)
    be = "is" if bad == 1 else "are"
    return (
        f"{count(bad)} of {plural(voice, 'voice stream')} {be} below MOS {SATISFIED:.1f}: {', '.join(parts)}."
    )


def facts(outcome: QualityOutcome) -> str:
    """How many streams there are and lost nothing, and which was worst."""
    streams, mos, beyond = outcome.streams, outcome.mos, outcome.table.beyond
    voice = np.array([stream.is_voice for stream in streams])
    known = voice & np.array([stream.loss_known for stream in streams])
    whole = known & (outcome.table.streams.losses.count == 0)
    lossless = int((whole & (beyond == 0)).sum())
    lasted_s = (outcome.capture["last_ns"] - outcome.capture["first_ns"]) / 1e9
    lasted = clock(lasted_s) if lasted_s >= 2 else duration(lasted_s * 1e9)
    said = f"{_streams(streams)} in {lasted}"
    if known.any():
        said += ", none with loss" if lossless == voice.sum() else f", {count(lossless)} without loss"
        if behind := int((whole & (beyond > 0)).sum()):
            said += f", {count(behind)} with loss behind the capture only"
    if known.sum() < voice.sum():
        said += f", {count(int(voice.sum() - known.sum()))} with unknown loss"
    if np.isnan(mos).all():
        return f"{said}; no MOS is known." if voice.any() else f"{said}."
    worst = int(np.nanargmin(mos))
    median = f"median MOS {np.nanmedian(mos):.2f}, worst" if np.isfinite(mos).sum() > 2 else "worst MOS"
    many = f"{median if voice.sum() > 1 else 'MOS'} {mos[worst]:.2f}"
    behind_it = f", {percent(beyond[worst])} behind it" if beyond[worst] else ""
    lost = f"{percent(outcome.loss_ratio[worst])} lost{' before the capture' if behind_it else ''}{behind_it}"
    return f"{said}; {many} (stream {streams[worst].number}, {lost}); {_delay(outcome)}."


def _streams(streams: Sequence[CaptureStream]) -> str:
    """``3 voice streams and 2 others``."""
    voice = sum(stream.is_voice for stream in streams)
    others = len(streams) - voice
    if not voice:
        return f"{plural(others, 'stream')}, none of voice,"
    return plural(voice, "voice stream") + (f" and {plural(others, 'other')}" if others else "")


def _delay(outcome: QualityOutcome) -> str:
    table = outcome.table
    if table.network_ms is not None:
        return f"network delay {table.network_ms:g} ms as given"
    return "network delay by RTCP" if np.isfinite(table.network_ns).any() else "network delay not measured"


CAPTURE: Final = (*HEARD, LOSS, JITTER)


def of_capture(demands: Sequence[Demand], outcome: QualityOutcome) -> tuple[DemandJudgement, ...]:
    """Judge every demand by every stream."""
    measured = outcome.table.streams
    heard = {
        LOSS: outcome.loss_ratio,
        JITTER: measured.jitter_ns,
        GAP: measured.longest_gap_ns,
    }
    streams = [f"stream {stream.number}" for stream in outcome.streams]
    voice = [stream.is_voice for stream in outcome.streams]
    unknown = "the capture does not show it; name unknown codecs with --codec"
    return tuple(
        judge(
            demand,
            [median(outcome.mos[voice], "streams")]
            if demand.quantity == MEDIAN_MOS
            else each(outcome.mos[voice], [*compress(streams, voice)], unknown)
            if demand.quantity == MOS
            else each(heard[demand.quantity], streams, unknown),
        )
        for demand in demands
    )


@dataclass(frozen=True)
class CaptureHearing:
    """How the streams of one capture were heard; only ``path`` and ``problem`` if it cannot be read."""

    path: str
    problem: str = ""
    packets: int = 0
    """Of the whole capture."""
    duration_s: Measured = 0.0
    streams: int = 0
    without_mos: int = 0
    below_satisfied: int = 0
    """Streams with a MOS below that of satisfied users."""
    mos_min: Measured = float("nan")
    mos_p50: Measured = float("nan")
    loss_ratio_p50: Measured = float("nan")
    loss_ratio_max: Measured = float("nan")
    jitter_p50_ns: Measured = float("nan")


def hearing(path: str, assess: Callable[[Path], QualityOutcome]) -> CaptureHearing:
    """How ``assess`` heard the capture at ``path``; an error of its content is its ``problem``."""
    try:
        found = assess(Path(path))
    except NoStreams as nothing:
        return CaptureHearing(path, "", nothing.capture["packets"], _lasted_s(nothing.capture))
    except WeirError as error:
        return CaptureHearing(path, str(error))
    mos, loss = found.mos, found.loss_ratio
    return CaptureHearing(
        path,
        "",
        found.capture["packets"],
        _lasted_s(found.capture),
        len(found.streams),
        int(np.isnan(mos).sum()),
        int((mos < SATISFIED).sum()),
        _extreme(np.fmin, mos),
        CallerPercentiles.of(mos).p50,
        CallerPercentiles.of(loss).p50,
        _extreme(np.fmax, loss),
        CallerPercentiles.of(found.table.streams.jitter_ns).p50,
    )


def _lasted_s(capture: Mapping[str, Any]) -> float:
    first_ns, last_ns = capture["first_ns"], capture["last_ns"]
    return 0.0 if first_ns is None else (last_ns - first_ns) / 1e9


def _extreme(pick: np.ufunc, values: Any) -> float:
    return float(pick.reduce(values, initial=np.nan))


@dataclass(frozen=True)
class CaptureHearings:
    """Those of many captures, in the order in which they were named."""

    captures: tuple[CaptureHearing, ...]

    @property
    def problem(self) -> InputError | None:
        """The error if captures could not be read."""
        return unreadable(self.captures, "capture")

    @property
    def sentence(self) -> str:
        """How many streams there are, and where the worst is."""
        streams = sum(one.streams for one in self.captures)
        said = f"{plural(len(self.captures), 'capture')}: {plural(streams, 'voice stream')}"
        known = [one for one in self.captures if one.mos_min == one.mos_min]
        if not known:
            return f"{said}{'; no MOS is known' if streams else ''}."
        worst = min(known, key=lambda one: one.mos_min)
        below = sum(one.below_satisfied for one in known)
        return f"{said}, {count(below)} below {SATISFIED:.1f}; worst MOS {worst.mos_min:.2f} in {worst.path}."

    def document(self) -> dict[str, Any]:
        return {"kind": "captures heard", "captures": self.captures}

    def table(self, limit: int) -> Table:
        """The ``limit`` captures with the worst streams first."""
        order = sorted(self.captures, key=lambda one: (not one.problem, not one.streams, _last(one.mos_min)))
        more = len(order) - limit
        caption = "Captures, the worst first" + (f"; --json has all {count(len(order))}" if more > 0 else "")
        columns = (
            "File", "Streams", "Worst MOS", "Median MOS", f"Below {SATISFIED:.1f}", "Most lost", "Lost",
            "Jitter", "Packets", "Time", "Problem",
        )  # fmt: skip
        return Table(
            caption, columns, [_row(one) for one in order[:limit]], spare=("Problem", "Time", "Packets")
        )


def _last(value: float) -> float:
    return value if value == value else float("inf")


def _row(one: CaptureHearing) -> tuple[str, ...]:
    if one.problem:
        return (one.path, *[NOTHING] * 9, one.problem)
    return (
        one.path,
        count(one.streams),
        decimals(one.mos_min),
        decimals(one.mos_p50),
        count(one.below_satisfied),
        numbers.percent(one.loss_ratio_max),
        numbers.percent(one.loss_ratio_p50),
        numbers.duration(one.jitter_p50_ns),
        count(one.packets),
        numbers.duration(one.duration_s * 1e9) if one.packets else NOTHING,
        NOTHING,
    )


def hearings(
    paths: Sequence[Path],
    assess: Callable[[Path], QualityOutcome],
    address: ClusterAddress | None,
    progress: Reporter,
) -> CaptureHearings:
    """Hear each of ``paths``, here or, with an ``address``, by the workers of that cluster."""
    return CaptureHearings(results(paths, partial(hearing, assess=assess), CaptureHearing, address, progress))
