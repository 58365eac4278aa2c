"""A bed that measures nothing: paths as formulas, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from weirlab.emulation.account import COUNTED, Direction, EmulationCounters
from weirlab.records import Histogram
from weirlab.transfers.parallel.plan import (
    F64,
    INDEPENDENT,
    MPTCP,
    TCP,
    AttemptObservation,
    ParallelAttempt,
    PathObservation,
)
from weirlab.transfers.parallel.section import ParallelSection

HEADERS: Final = 1448 / 1514
"""Share of a frame that is data, with Ethernet, IPv4, TCP and its time stamps."""
_FRAME_BYTES: Final = 1514
_READ_EVERY_S: Final = 0.01
_UNLIMITED_BPS: Final = 1e9


@dataclass(frozen=True)
class ParallelFault:
    """What goes wrong in an attempt."""

    late_ns: int = 20_000
    """By how much every frame is late."""
    not_received: int = 0
    """Frames that the emulator loses."""
    raises: BaseException | None = None
    failure: str = ""


USUAL: Final = ParallelFault()


@dataclass
class FakeParallelBed:
    """Every path carries its rate, round-robin twice the slowest, and a competitor gets half of its path."""

    faults: Iterator[ParallelFault | None] = field(default_factory=lambda: iter(()))
    """One per attempt; None, or nothing after the last one: nothing goes wrong."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    waited_s: float = 0.01
    """Time that threads wait for a CPU in every attempt."""
    lab: str = "netns"
    carried: list[ParallelAttempt] = field(default_factory=list)

    def carry(self, course: ParallelAttempt) -> AttemptObservation:
        """See :meth:`weirlab.transfers.parallel.plan.ParallelBed.carry`."""
        self.carried.append(course)
        fault = next(self.faults, None) or USUAL
        if fault.raises is not None:
            raise fault.raises
        edges = course.edges_s()
        rates = {
            number: HEADERS * float(path.up.rate_bps or _UNLIMITED_BPS)
            for number, path in course.paths.items()
        }
        if course.method == "round-robin":
            slowest = min(rates.values())
            rates = dict.fromkeys(rates, slowest)
        shares = {
            number: self._bytes(edges, rate, self._share(course, number)) for number, rate in rates.items()
        }
        read = np.asarray(sum(shares.values()), np.float64)
        steps = np.arange(-course.warmup_s, course.lasts_s, _READ_EVERY_S)
        session = course.method not in (TCP, INDEPENDENT, MPTCP)
        return AttemptObservation(
            read=read,
            reads_s=steps,
            paths={
                number: PathObservation(
                    self._account(course, number, total[-1], fault), total, course.streams, 3
                )
                for number, total in shares.items()
            },
            competitors=tuple(
                self._bytes(edges, rates[span.path], self._within(span.from_s, span.to_s, 0.5))
                for span in course.competitors
            ),
            since_1970_ns=1_700_000_000_000_000_000 + len(self.carried) * 10_000_000_000,
            cpu_s=0.5 * read[-1] / 1e9,
            waited_s=self.waited_s,
            total_bytes=round(float(read[-1])),
            reorder_peak_bytes=len(course.paths) * 40_000 if session else None,
            resent_bytes=0 if session else None,
            failure=fault.failure,
        )

    @staticmethod
    def _share(course: ParallelAttempt, number: int) -> Callable[[F64], F64]:
        """The share of a path's rate that the method has at a time."""

        def share(times: F64) -> F64:
            left = np.ones(len(times))
            for span in course.competitors:
                if span.path == number:
                    left[(times >= span.from_s) & (times < span.to_s)] = 0.5
            for span in course.outages:
                if span.path == number:
                    left[(times >= span.from_s) & (times < span.to_s)] = 0.0
            return left

        return share

    @staticmethod
    def _within(from_s: float, to_s: float, share: float) -> Callable[[F64], F64]:
        return lambda times: np.where((times >= from_s) & (times < to_s), share, 0.0)

    @staticmethod
    def _bytes(edges: F64, rate_bps: float, share: Callable[[F64], F64]) -> F64:
        grown = np.diff(edges) * rate_bps / 8 * share((edges[:-1] + edges[1:]) / 2)
        return np.concatenate(([0.0], np.cumsum(grown)))

    @staticmethod
    def _account(
        course: ParallelAttempt, number: int, total: float, fault: ParallelFault
    ) -> EmulationCounters:
        frames, long_s = round(total / HEADERS / _FRAME_BYTES), course.warmup_s + course.lasts_s
        nothing = np.empty(0, np.uint64)
        late = np.array([fault.late_ns], np.uint64)

        def way(source: str, target: str, count: int, rate_bps: float | None) -> Direction:
            counted = dict.fromkeys(COUNTED, 0)
            counted |= {
                "arrived": count,
                "departed": count,
                "sent": count,
                "not_received": fault.not_received,
            }
            counted |= {"arrived_bytes": count * _FRAME_BYTES, "sent_bytes": count * _FRAME_BYTES}
            histogram = (
                Histogram(late, late + 1, np.array([count], np.uint64))
                if count
                else Histogram(nothing, nothing, nothing)
            )
            paced_ns = round(long_s * 1e9) if rate_bps else 0
            return Direction(
                source=source, target=target, rate_bps=rate_bps, **counted, refused_reason="", late=histogram,
                late_max_ns=fault.late_ns, paced_bits=round((rate_bps or 0) * long_s), paced_ns=paced_ns,
            )  # fmt: skip

        rate_bps = course.paths[number].up.rate_bps
        near, far = f"near{number - 1}", f"far{number - 1}"
        up, down = way(near, far, frames, rate_bps), way(far, near, frames // 2, None)
        return EmulationCounters(up, down, long_s, 0.1, "", ended=True, failure="")


def opener(bed: FakeParallelBed) -> Callable[[ParallelSection], object]:
    """Opens ``bed``."""

    @contextmanager
    def open_bed(asked: ParallelSection) -> Iterator[FakeParallelBed]:
        yield bed

    return open_bed
