"""A finite queue whose load changes: waiting and loss over time.

A packet that comes while the load is (rate, service time) finds the content that
:mod:`weirlab.model.transient.diffusion` gives, and waits for it. Packets keep the service
time that they came with: after a step in the matching position or the frame size those
already inside, ``r`` of them, are served at their own pace first. They are gone after ``r``
of their service times; until then the content's drift is that of the old service time and
the new rate, and the work in front of an arrival is that of the old and the new packets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.model.base import F64
from weirlab.model.transient.diffusion import Diffusion, Grid

QUANTILES: Final[dict[str, float | None]] = {"delay_mean_ns": None, "delay_p50_ns": 0.5, "delay_p99_ns": 0.99}
_LEAST_VARIABILITY: Final = 1e-3
_LEAST_OLD: Final = 0.05
"""Number of packets inside at a step below which they get no separate stage."""


@dataclass(frozen=True)
class QueuePhase:
    """Constant traffic at the queue; ``rarity`` as in :mod:`weirlab.model.queueing.waiting`."""

    duration_ns: float
    rate_pps: float
    service_ns: float
    variability: float
    rarity: float = 1.0

    @property
    def rho(self) -> float:
        return self.rate_pps * self.service_ns / 1e9


@dataclass(frozen=True)
class QueueTransient:
    """Waiting (mean and quantiles, ns) and loss ratio over one stretch, and the values they tend to.

    ``times_ns`` counts from the start of the stretch; all arrays have shape (t,), the values
    by the names in ``QUANTILES`` and ``loss_ratio``. Interpolate between them.
    """

    times_ns: F64
    values: dict[str, F64]
    settled: dict[str, float]

    def at(self, name: str, since_ns: F64) -> F64:
        return np.asarray(np.interp(since_ns, self.times_ns, self.values[name]))


def courses(stretches: Sequence[QueuePhase], places: float) -> list[QueueTransient]:
    """The queue of ``places`` packets under ``stretches``, settled at the start of the first."""
    grid = Grid.over(places)
    found: list[QueueTransient] = []
    first = stretches[0]
    mass = _process(grid, first.service_ns, first).stationary()
    inside = _OldPackets(0.0, first.service_ns)
    for stretch in stretches:
        course, mass, inside = _course(grid, stretch, mass, inside)
        found.append(course)
    return found


@dataclass(frozen=True)
class _OldPackets:
    """The first ``old`` packets in the queue need ``old_ns`` each."""

    old: float
    old_ns: float

    def work_ns(self, content: F64, new_ns: float) -> F64:
        """Work in front of an arrival that finds ``content`` packets."""
        old = np.minimum(content, self.old)
        return np.asarray(old * self.old_ns + (content - old) * new_ns)


def _course(
    grid: Grid, stretch: QueuePhase, mass: F64, inside: _OldPackets
) -> tuple[QueueTransient, F64, _OldPackets]:
    """One stretch; also the state at its end, and the packets then inside."""
    after = _process(grid, stretch.service_ns, stretch)
    content = float(mass @ grid.x)
    changed = content * abs(inside.old_ns - stretch.service_ns) > 0
    old = _OldPackets(content, inside.old_ns) if changed else _OldPackets(0.0, stretch.service_ns)
    left_ns = stretch.duration_ns
    times: list[F64] = []
    rows: list[dict[str, F64]] = []
    begin_ns = 0.0
    if changed and content > _LEAST_OLD:
        before = _process(grid, old.old_ns, stretch)
        lasts_ns = min(old.old * old.old_ns, left_ns)
        states = before.evolve(mass, lasts_ns / old.old_ns)
        stage_ns = np.append(states.times[states.times * old.old_ns < lasts_ns] * old.old_ns, lasts_ns)
        masses = _at(states.times * old.old_ns, states.mass, stage_ns)
        remaining = [_OldPackets(max(old.old - t / old.old_ns, 0.0), old.old_ns) for t in stage_ns]
        work = np.stack([r.work_ns(grid.x, stretch.service_ns) for r in remaining])
        times.append(stage_ns)
        rows.append(_seen(before, masses, work, stretch.rarity))
        mass, begin_ns, left_ns = masses[-1], lasts_ns, left_ns - lasts_ns
        old = remaining[-1]
    if left_ns > 0:
        states = after.evolve(mass, left_ns / stretch.service_ns)
        stage_ns = np.append(
            states.times[states.times * stretch.service_ns < left_ns] * stretch.service_ns, left_ns
        )
        masses = _at(states.times * stretch.service_ns, states.mass, stage_ns)
        work = np.broadcast_to(grid.x * stretch.service_ns, masses.shape)
        times.append(begin_ns + stage_ns)
        rows.append(_seen(after, masses, work, stretch.rarity))
        mass, old = masses[-1], _OldPackets(0.0, stretch.service_ns)
    end = after.stationary()
    settled = _seen(after, end[None, :], (grid.x * stretch.service_ns)[None, :], stretch.rarity)
    course = QueueTransient(
        times_ns=np.concatenate(times),
        values={name: np.concatenate([row[name] for row in rows]) for name in settled},
        settled={name: float(value[0]) for name, value in settled.items()},
    )
    return course, mass, _mixed(mass, grid, old, stretch.service_ns)


def _mixed(mass: F64, grid: Grid, inside: _OldPackets, service_ns: float) -> _OldPackets:
    """The packets inside at the end of a stretch, as packets of one kind with the same total work."""
    content = float(mass @ grid.x)
    work_ns = float(mass @ inside.work_ns(grid.x, service_ns))
    return _OldPackets(0.0, work_ns / content if inside.old > 0 and content > 0 else service_ns)


def _seen(process: Diffusion, masses: F64, work_ns: F64, rarity: float) -> dict[str, F64]:
    """Waiting and loss of arrivals in the states ``masses`` (t, n), with ``work_ns`` (t, n) before them.

    An arrival finds the server idle, and nothing to wait for, with the probability that the
    content is pushed back at 0, and more often if the gaps are even: as the stationary
    ``1 - rho`` becomes ``1 - rho * rarity``, so does any other share.
    """
    more = (1.0 - process.rho * rarity) / (1.0 - process.rho) if process.rho < 1.0 else 1.0
    busy = 1.0 - np.minimum(more * process.idle(masses), 1.0)
    cumulative = np.cumsum(masses, axis=1) - 0.5 * masses
    found = {"loss_ratio": process.loss_ratio(masses)}
    for name, q in QUANTILES.items():
        if q is None:
            found[name] = busy * (masses * work_ns).sum(axis=1)
        else:
            share = np.clip((q - (1.0 - busy)) / np.maximum(busy, 1e-12), 0.0, 1.0)
            found[name] = np.array(
                [np.interp(s, c, w) for s, c, w in zip(share, cumulative, work_ns, strict=True)]
            )
    return found


def _at(times: F64, values: F64, wanted: F64) -> F64:
    """Rows of ``values`` (t, n) at the times ``wanted``, interpolated."""
    right = np.clip(np.searchsorted(times, wanted, side="left"), 1, len(times) - 1)
    share = (wanted - times[right - 1]) / (times[right] - times[right - 1])
    share = np.clip(share, 0.0, 1.0)[:, None]
    return np.asarray((1.0 - share) * values[right - 1] + share * values[right])


def _process(grid: Grid, service_ns: float, stretch: QueuePhase) -> Diffusion:
    """Arrivals of ``stretch`` at a server that takes ``service_ns`` for each packet."""
    return Diffusion(grid, stretch.rate_pps * service_ns / 1e9, max(stretch.variability, _LEAST_VARIABILITY))
