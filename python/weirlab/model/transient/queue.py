"""A finite queue whose load changes: waiting and loss over time.

A packet that comes while the load is (rate, service time) finds the content that
the process below gives, and waits for it. Packets keep the service
time that they came with: after a step in the matching position or the frame size those
already inside, ``r`` of them, are served at their own pace first. They are gone after ``r``
of their service times; until then the content's drift is that of the old service time and
the new rate, and the work in front of an arrival is that of the old and the new packets.

The content x of the queue, in packets, has density p(t, x) on [0, K] with

    dp/dt = -v dp/dx + V d2p/dx2,    no flow through 0 and K,

time in service times, drift ``v = rho - 1`` and variability V: the process whose stationary
solution is :mod:`weirlab.model.queueing.waiting` (J. M. Harrison, "Brownian Models of Performance and
Control", ch. 6). Two schemes solve it on an even grid of width h:

- As long as a cell is finer than twice the stationary layer ``V / |v|``: exponentially fitted
  fluxes (D. L. Scharfetter and H. K. Gummel, IEEE Trans. Electron Devices 16, 1969), which
  keep densities positive and the stationary one exact, and TR-BDF2 in time (R. E. Bank et
  al., IEEE Trans. Electron Devices 32, 1985): second order, stable for steps of any length.
- If drift outweighs diffusion, those fluxes would smear the front of a filling or emptying
  queue: then the drift moves all mass by one whole cell per step of ``h / |v|``, up to the
  boundary, and diffusion takes a separate implicit step.

The push back at 0 is the share of time in which the server has nothing to do; the push
back at K is what overflows, the loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg.lapack import dgttrf, dgttrs

from weirlab.model.base import F64

CELLS: Final = 600
_COARSE: Final = 2.0
"""Cell over stationary layer from which drift moves cell by cell."""
_SETTLED: Final = 1e-5
"""Total variation from the stationary state at which it counts as reached."""
_FLUID_STEPS: Final = 200
"""Time steps while drift alone fills or empties the queue."""
_STEPS_PER_DOUBLING: Final = 10
_STILL: Final = 1e-6
"""Change per step, in total variation, at which a state of moving cells counts as settled."""
_MOST_STEPS: Final = 4000
_GAMMA: Final = 2.0 - math.sqrt(2.0)


@dataclass(frozen=True)
class Grid:
    """Nodes ``x`` from 0 to K packets, ``gap`` apart, and the lengths ``width`` they stand for: (n,)."""

    x: F64
    width: F64
    gap: float

    @classmethod
    def over(cls, places: float) -> Grid:
        """From 0 to ``places``."""
        gap = places / CELLS
        width = np.full(CELLS + 1, gap)
        width[[0, -1]] = gap / 2
        return cls(np.linspace(0.0, places, CELLS + 1), width, gap)


@dataclass(frozen=True)
class States:
    """Probability per node at each of ``times`` (in service times); shapes (t, n) and (t,).

    After the last time the state stays.
    """

    times: F64
    mass: F64

    @classmethod
    def of(cls, times: list[float], mass: list[F64], end: F64, step: float, duration: float) -> States:
        """The states of the steps taken; if they settled before ``duration``, ``end`` follows."""
        if times[-1] < duration:
            times, mass = [*times, times[-1] + step], [*mass, end]
        return cls(np.array(times), np.array(mass))


@dataclass(frozen=True)
class Diffusion:
    """The process under one constant load."""

    grid: Grid
    rho: float
    variability: float

    @property
    def drift(self) -> float:
        return self.rho - 1.0

    def stationary(self) -> F64:
        """Probability per node in the long run."""
        exponent = self.drift / self.variability * self.grid.x
        weight = self.grid.width * np.exp(exponent - exponent.max())
        return np.asarray(weight / weight.sum())

    def idle(self, mass: F64) -> F64:
        """Share of time without work in the states ``mass`` (..., n)."""
        up, _ = self._flows()
        # The part of the flow out of the outermost node that exceeds the drift.
        return np.clip(mass[..., 0] * (2 * up - self.drift), 0.0, 1.0)

    def loss_ratio(self, mass: F64) -> F64:
        """Share of arriving packets that do not fit, in the states ``mass`` (..., n)."""
        _, down = self._flows()
        return np.clip(mass[..., -1] * (2 * down + self.drift) / self.rho, 0.0, 1.0)

    def evolve(self, mass: F64, duration: float) -> States:
        """From the state ``mass`` (n,) over ``duration`` service times, or until nothing changes."""
        coarse = self.grid.gap * abs(self.drift) > _COARSE * self.variability
        return self._moved(mass, duration) if coarse else self._fitted(mass, duration)

    def _fitted(self, mass: F64, duration: float) -> States:
        """By exponentially fitted fluxes; steps grow while boundary layers settle."""
        end = self.stationary()
        places = float(self.grid.x[-1])
        # The front moves a fraction of the queue, and the slowest mode fades a little, in a step.
        longest = 1.0 / (
            _FLUID_STEPS * abs(self.drift) / places + 15 * self.variability * (math.pi / places) ** 2
        )
        layer = self.variability / max(self.drift**2, (self.variability / places) ** 2)
        step = min(longest, max(layer / 4, 0.02), duration / 20)
        up, down = self._flows()
        leave_up, leave_down = up / self.grid.width[:-1], down / self.grid.width[1:]
        solve = _TrBdf2Step(leave_down, leave_up, step)
        times, states = [0.0], [mass]
        while times[-1] < duration and len(times) < _MOST_STEPS:
            if len(times) % _STEPS_PER_DOUBLING == 0:
                if float(np.abs(mass - end).sum()) < _SETTLED:
                    break
                if step < longest:
                    step = min(2 * step, longest)
                    solve = _TrBdf2Step(leave_down, leave_up, step)
            mass = solve(mass)
            times.append(times[-1] + step)
            states.append(mass)
        return States.of(times, states, end, step, duration)

    def _moved(self, mass: F64, duration: float) -> States:
        """Drift by one cell per step, and diffusion after it."""
        step = self.grid.gap / abs(self.drift)
        rate = self.variability / self.grid.gap**2
        diffuse = _Tridiagonal(
            step * rate * self.grid.gap / self.grid.width[1:],
            step * rate * self.grid.gap / self.grid.width[:-1],
        )
        times, states = [0.0], [mass]
        while times[-1] < duration and len(times) < _MOST_STEPS:
            before, mass = mass, diffuse.solve(mass)
            mass = _shifted(mass, 1 if self.drift > 0 else -1)
            times.append(times[-1] + step)
            states.append(mass)
            if float(np.abs(mass - before).sum()) < _STILL:
                break
        return States.of(times, states, self.stationary(), step, duration)

    def _flows(self) -> tuple[float, float]:
        """Flow to the right and to the left per density, across a gap."""
        z = self.drift * self.grid.gap / self.variability
        scale = self.variability / self.grid.gap
        return scale * _bernoulli(-z), scale * _bernoulli(z)


class _Tridiagonal:
    """One implicit step ``(I - Q) after = before``, Q the generator of a chain of nodes times the step.

    ``down`` (n - 1,) leads from node i + 1 to i, ``up`` (n - 1,) from i to i + 1.
    """

    def __init__(self, down: F64, up: F64) -> None:
        self._down, self._up = down, up
        self._leave = np.append(up, 0.0) + np.append(0.0, down)
        *self._factors, _ = dgttrf(-up, 1.0 + self._leave, -down)

    def solve(self, mass: F64) -> F64:
        """The implicit step."""
        solution, _ = dgttrs(*self._factors, mass)
        return np.asarray(solution, dtype=np.float64)

    def explicit(self, mass: F64) -> F64:
        """``(I + Q) mass``."""
        after = mass - self._leave * mass
        after[:-1] += self._down * mass[1:]
        after[1:] += self._up * mass[:-1]
        return np.asarray(after)


class _TrBdf2Step:
    """One step of TR-BDF2 with the rates ``down`` and ``up`` of a chain of nodes."""

    def __init__(self, down: F64, up: F64, step: float) -> None:
        weight = 0.5 * _GAMMA * step
        self._chain = _Tridiagonal(weight * down, weight * up)

    def __call__(self, mass: F64) -> F64:
        middle = self._chain.solve(self._chain.explicit(mass))
        share = 1.0 / (_GAMMA * (2.0 - _GAMMA))
        after = self._chain.solve(share * middle - share * (1.0 - _GAMMA) ** 2 * mass)
        # The second order costs positivity by a hair where the density has a kink.
        after = np.maximum(after, 0.0)
        return np.asarray(after / after.sum())


def _shifted(mass: F64, cells: int) -> F64:
    """``mass`` moved one node forward (1) or back (-1); what would leave stays at the boundary."""
    after = np.empty_like(mass)
    if cells > 0:
        after[1:] = mass[:-1]
        after[0] = 0.0
        after[-1] += mass[-1]
    else:
        after[:-1] = mass[1:]
        after[-1] = 0.0
        after[0] += mass[0]
    return after


def _bernoulli(z: float) -> float:
    """``z / (exp(z) - 1)``."""
    if abs(z) < 1e-6:
        return 1.0 - z / 2
    return z / math.expm1(z) if z < 700 else 0.0


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
