"""Many captures, each by itself: how the voice streams of every file were heard, in a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weirlab.base.documents import Measured
from weirlab.base.errors import WeirError
from weirlab.base.quantities import plural
from weirlab.base.tables import Table
from weirlab.calls.quality.study import NoStreams, QualityOutcome
from weirlab.jobs.batches import results, unreadable
from weirlab.quality.distribution import SATISFIED, CallerPercentiles
from weirlab.report.numbers import NOTHING, count, decimals, duration, percent

if TYPE_CHECKING:
    from weirlab.base.errors import InputError
    from weirlab.cli.progress import Reporter
    from weirlab.jobs.cluster import ClusterAddress


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
        percent(one.loss_ratio_max),
        percent(one.loss_ratio_p50),
        duration(one.jitter_p50_ns),
        count(one.packets),
        duration(one.duration_s * 1e9) if one.packets else NOTHING,
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
