"""The queue's content from one stationary state to the next: reflected Brownian motion in time.

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
