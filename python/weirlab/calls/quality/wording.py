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
from weirlab.calls.quality.findings import listed_streams
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

NEAR_NS: Final = 1_000_000
"""A round trip within a building."""
HARMFUL: Final = 0.001
"""Share of packets lost or late, below which neither is why a stream sounds bad."""


def sentence(outcome: QualityOutcome) -> str:
    """Calls that went one way; how many streams lost nothing, and which was worst."""
    return f"{_one_way(outcome)}{_heard(outcome)}"


def _one_way(outcome: QualityOutcome) -> str:
    """Nobody hears the other party, however good the stream is that there is: so that comes first."""
    alone = sorted({n for each in outcome.findings if each.kind == "one-way audio" for n in each.streams})
    if not alone:
        return ""
    return f"One-way audio, unless only one direction was captured: {listed_streams(alone)}. "


def _heard(outcome: QualityOutcome) -> str:
    streams, mos = outcome.streams, outcome.mos
    voice = np.array([stream.is_voice for stream in streams])
    known = voice & np.array([stream.loss_known for stream in streams])
    lossless = int((known & (outcome.table.streams.losses.count == 0)).sum())
    lasted_s = (outcome.capture["last_ns"] - outcome.capture["first_ns"]) / 1e9
    lasted = clock(lasted_s) if lasted_s >= 2 else duration(lasted_s * 1e9)
    said = f"{_streams(streams)} in {lasted}"
    if known.any():
        said += ", none with loss" if lossless == voice.sum() else f", {count(lossless)} without loss"
        said += " before the capture" if outcome.table.beyond.any() else ""
    if known.sum() < voice.sum():
        said += f", {count(int(voice.sum() - known.sum()))} with unknown loss"
    if np.isnan(mos).all():
        return f"{said}; no MOS is known." if voice.any() else f"{said}."
    worst = int(np.nanargmin(mos))
    median = f"median MOS {np.nanmedian(mos):.2f}, worst" if np.isfinite(mos).sum() > 2 else "worst MOS"
    many = f"{median if voice.sum() > 1 else 'MOS'} {mos[worst]:.2f}"
    beyond = f", {percent(outcome.table.beyond[worst])} behind it" if outcome.table.beyond[worst] else ""
    lost = f"{percent(outcome.loss_ratio[worst])} lost{' before the capture' if beyond else ''}{beyond}"
    whole = f"{said}; {many} (stream {streams[worst].number}, {lost}); {_delay(outcome)}."
    return f"{whole} {dissatisfied(outcome)}".rstrip()


def dissatisfied(outcome: QualityOutcome) -> str:
    """How many streams are below :data:`SATISFIED`, and whether loss, jitter or neither is why; may be empty.

    A packet is lost by the network, or late for the jitter buffer by jitter. The greater number counts
    for its stream, and both if neither is twice the other.
    """
    losses, mos = outcome.table.streams.losses, outcome.mos
    bad = np.flatnonzero(mos < SATISFIED)
    if not len(bad):
        return ""
    sent = outcome.table.streams.sent[bad]
    late = np.array([outcome.late[row] or 0 for row in bad])
    lost = losses.count[bad] + outcome.table.beyond[bad] * sent
    harmed = np.maximum(lost, late) >= HARMFUL * sent
    by_loss, by_jitter = harmed & (2 * lost > late), harmed & (2 * late > lost)
    loss, jitter = bool(2 * by_loss.sum() >= len(bad)), bool(2 * by_jitter.sum() >= len(bad))
    if not (loss or jitter) and 2 * harmed.sum() >= len(bad):
        loss = jitter = True
    # The lesser one may do harm, too.
    both = np.minimum(lost, late) >= HARMFUL * sent
    not_loss = "mostly jitter" if (both & by_jitter).any() else "jitter, not loss"
    not_jitter = "mostly loss" if (both & by_loss).any() else "loss, not jitter"
    longest = int(losses.longest[bad].max())
    bursts = (
        f"bursts of up to {count(longest)} packets"
        if longest > 1
        else f"single packets lost{'' if longest else ' behind the capture'}"
    )
    later = f"up to {percent(float((late / sent).max()))} of the packets late for the jitter buffer"
    why = {
        (True, False): f"{bursts}; {not_jitter}",
        (False, True): f"{later}; {not_loss}",
        (True, True): f"{bursts}, {later}; loss and jitter",
        (False, False): "neither loss nor jitter, but codec or delay",
    }[loss, jitter]
    origin = _jitter_origin(outcome.streams, bad[by_jitter]) if jitter else ""
    return f"{count(len(bad))} of {count(int(np.isfinite(mos).sum()))} below {SATISFIED:.1f}: {why}.{origin}"


def _jitter_origin(streams: Sequence[CaptureStream], rows: Sequence[int]) -> str:
    """That jitter is the senders', if RTCP shows that these are near; packets are late before the capture."""
    trips = [_to_sender_ns(streams, streams[row]) for row in rows]
    if not trips or any(trip is None or trip > NEAR_NS for trip in trips):
        return ""
    sender = "the sender" if len(trips) == 1 else "each sender"
    most = duration(max(trip for trip in trips if trip is not None))
    return f" The jitter arose at or near {sender}: by RTCP, a round trip from the capture takes {most}."


def _to_sender_ns(streams: Sequence[CaptureStream], stream: CaptureStream) -> float | None:
    """The longest round trip between the capture and the host that sent a stream, if that receives one."""
    ends = (each.far_end for each in streams if each.dst == stream.src and each.interface == stream.interface)
    known = [far["round_trip_max_ns"] for far in ends if far and far["round_trips"]]
    return max(known, default=None)


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
