"""What the device looked like from inside during the recorded time of a trial; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weirlab.lab.host import STATES

IDLE_POLL: Final = "nice"
"""The state under which the kernel counts the engine's thread that keeps the device's CPU awake; for the
device it is idle time; see :mod:`weirlab.lab.host`."""


@dataclass(frozen=True)
class Sample:
    """One sample; times are CLOCK_MONOTONIC ns. ``ticks`` are cumulative, in the order of ``STATES``."""

    due_ns: int
    taken_ns: int
    ticks: tuple[int, ...]
    connections: int | None = None
    counters: Mapping[str, tuple[int, int, int, int]] = field(default_factory=dict)
    """Per interface: packets received and dropped there, transmitted and dropped there."""

    @classmethod
    def from_plain(cls, value: Mapping[str, Any]) -> Sample:
        """Read a sample from the agent's report."""
        counters = {name: tuple(numbers) for name, numbers in value["counters"].items()}
        return cls(value["due_ns"], value["taken_ns"], tuple(value["ticks"]), value["connections"], counters)


@dataclass(frozen=True)
class InsideView:
    """The device's own monitoring during the recorded time of a trial.

    ``due`` samples were due in that time, and ``taken`` of them were taken before it was over. The CPU
    shares cover the ``covered_s`` seconds between the first and the last sample; with fewer than two
    samples nothing is known.
    """

    period_s: float
    recorded_s: float
    due: int
    taken: int
    late_mean_s: float
    """Mean delay of the samples due; one that was never taken counts as taken at the end of the time."""
    late_max_s: float
    covered_s: float
    cpu_share: Mapping[str, float]
    """Share of the covered time per state of the device's CPU; empty if unknown."""
    connections_max: int | None
    """Most connections tracked; None if unknown."""
    samples: tuple[Sample, ...] = ()
    """The samples taken in the recorded time."""

    @property
    def starved(self) -> bool:
        """Whether the sampler could not keep up: that is what an overloaded device looks like from inside."""
        return self.taken < self.due


def view(
    samples: Sequence[Sample], start_ns: int, end_ns: int, period_ns: int, begun_ns: int | None = None
) -> InsideView:
    """Summarise ``samples`` over the time from ``start_ns`` to ``end_ns``.

    A sample was due every ``period_ns`` from ``begun_ns``, when the first was taken.
    """
    if begun_ns is None:
        begun_ns = samples[0].due_ns if samples else start_ns
    first = begun_ns + max(-((begun_ns - start_ns) // period_ns), 0) * period_ns
    due = [at for at in range(first, end_ns, period_ns) if at >= start_ns]
    # A sample may have been due before and taken within: it belongs to this time, though not due in it.
    within = tuple(sample for sample in samples if start_ns <= sample.taken_ns < end_ns)
    taken = {sample.due_ns: sample.taken_ns for sample in within}
    late = [taken.get(at, end_ns) - at for at in due]
    return InsideView(
        period_s=period_ns / 1e9,
        recorded_s=(end_ns - start_ns) / 1e9,
        due=len(due),
        taken=sum(at in taken for at in due),
        late_mean_s=sum(late) / len(late) / 1e9 if late else float("nan"),
        late_max_s=max(late) / 1e9 if late else float("nan"),
        covered_s=(within[-1].taken_ns - within[0].taken_ns) / 1e9 if len(within) > 1 else 0.0,
        cpu_share=cpu_share(within[0], within[-1]) if len(within) > 1 else {},
        connections_max=max((s.connections for s in within if s.connections is not None), default=None),
        samples=within,
    )


def cpu_share(before: Sample, after: Sample) -> dict[str, float]:
    """Share of the time between two samples per state; empty if there was no tick between them."""
    spent = {state: b - a for state, a, b in zip(STATES, before.ticks, after.ticks, strict=True)}
    spent["idle"] += spent["iowait"] + spent[IDLE_POLL]
    spent[IDLE_POLL] = 0
    del spent["iowait"]
    total = sum(spent.values())
    return {state: ticks / total for state, ticks in spent.items()} if total > 0 else {}


def between(before: Sample, after: Sample, into: str, out_of: str) -> dict[str, int]:
    """Packets that entered through either interface between two samples, those that left through the other,
    and the rest, which the filter blocked or no queue had room for."""
    entered = forwarded = 0
    for name in (into, out_of):
        a, b = before.counters[name], after.counters[name]
        entered += b[0] - a[0] + b[1] - a[1]
        forwarded += b[2] - a[2]
    return {"entered": entered, "forwarded": forwarded, "blocked": max(entered - forwarded, 0)}
