"""The residuals of a law, as a smooth function of the settings.

Gaussian-process regression (kriging) of the residuals ``ln(measured / law)`` with a Matérn
5/2 kernel and its own noise at every point (C. E. Rasmussen and C. Williams, Gaussian
Processes for Machine Learning, 2006, ch. 2 and 4). Far from all points it returns to 0, to
the law itself; if the law explains everything, the likelihood sets its amplitude to 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.spatial.distance import cdist

from weirlab.base.documents import Array
from weirlab.model.base import F64, Bool

AMPLITUDES: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6)
"""Standard deviations that a residual may have; the likelihood chooses."""

_COARSE: Final = (0.0, 0.1, 0.35)
_TELLING: Final = 2

_FAR: Final = 1e-3
_LEAST_POINTS: Final = 3

_WORTH: Final = 3.0
"""Log-likelihood that a smooth deviation must gain; with less, the law is used alone."""


@dataclass(frozen=True, eq=False)
class ResidualField:
    """Residuals ``ln(measured / law)`` of one quantity, and the standard deviation ``noise`` of each.

    All arrays have shape (n,). A point where the quantity was not measured has the value NaN.
    ``single`` is the standard deviation of a single trial there, while ``value`` is the
    median of several.
    """

    value: Array
    noise: Array
    single: Array
    amplitude: float = 0.0


@dataclass(frozen=True, eq=False)
class Residual:
    """Smooth residual (a natural logarithm), its standard deviation, and that of a single trial around it.

    All have shape (m,).
    """

    mean: F64
    std: F64
    scatter: F64


@dataclass(frozen=True, eq=False)
class Kriging:
    """Smooth residuals by quantity over the same ``points`` (n, d), in units of ``lengths`` (d,)."""

    points: Array
    lengths: Array
    fields: dict[str, ResidualField]

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for residuals that do not belong to the points."""
        # Without points a document does not say how many dimensions they have.
        object.__setattr__(self, "points", self.points.reshape(-1, len(self.lengths)))
        columns = (column for f in self.fields.values() for column in (f.value, f.noise, f.single))
        if {len(column) for column in columns} - {len(self.points)}:
            raise ValueError("residuals and points differ in number")

    @classmethod
    def fit(
        cls,
        coordinates: F64,
        residuals: Mapping[str, ResidualField],
        lengths: Sequence[Sequence[float]],
        like: Self | None = None,
        most: float = AMPLITUDES[-1],
    ) -> Self:
        """Fit to ``residuals`` by quantity, with unknown amplitudes, at ``coordinates`` (n, d).

        Uses the most likely of the length scales in ``lengths`` (d numbers each), or those of
        ``like`` with its amplitudes if given. No amplitude is above ``most``.
        """
        if like is not None:
            fields = {q: replace(f, amplitude=like.fields[q].amplitude) for q, f in residuals.items()}
            return cls(coordinates / like.lengths, like.lengths, fields)
        unit = np.asarray(lengths[0], dtype=np.float64)
        if len(lengths) > 1:
            # The shape is common to all: a few quantities and amplitudes determine it.
            told = dict(list(residuals.items())[:_TELLING])
            likelihoods = []
            for scale in lengths:
                kernel = _correlation(coordinates, scale)
                found = (_most_likely(kernel, f, _COARSE, most)[0] for f in told.values())
                likelihoods.append(sum(found))
            unit = np.asarray(lengths[int(np.argmax(likelihoods))], dtype=np.float64)
        kernel = _correlation(coordinates, unit)
        fields = {
            q: replace(f, amplitude=_most_likely(kernel, f, AMPLITUDES, most)[1])
            for q, f in residuals.items()
        }
        return cls(coordinates / unit, unit, fields)

    @classmethod
    def none(cls, dimensions: int, quantities: Sequence[str]) -> Self:
        """No residuals at all."""
        nothing = ResidualField(np.empty(0), np.empty(0), np.empty(0))
        return cls(np.empty((0, dimensions)), np.ones(dimensions), dict.fromkeys(quantities, nothing))

    def flat(self) -> Self:
        """The same trials taken as noise around the law alone."""
        return replace(self, fields={q: replace(f, amplitude=0.0) for q, f in self.fields.items()})

    def at(self, coordinates: F64, spread_of: Collection[str] | None = None) -> dict[str, Residual]:
        """Residuals by quantity at ``coordinates`` (m, d).

        Only those of ``spread_of``, which are all for None, have a ``std``: it takes the longest.
        """
        nothing = np.zeros(len(coordinates))
        answer = dict.fromkeys(self.fields, Residual(nothing, nothing, nothing))
        if not len(self.points) or not len(coordinates):
            return answer
        kernel = _kernel(coordinates / self.lengths, self.points)
        for quantity, field in self.fields.items():
            known = np.isfinite(field.value)
            if not known.any():
                continue
            # Every point counts a little, so that the average holds far away from all of them.
            weight = kernel[:, known] + _FAR
            scatter = np.sqrt(weight @ field.single[known] ** 2 / weight.sum(axis=1))
            mean, std = nothing, nothing
            if quantity in self._solved:
                factor, weights = self._solved[quantity]
                power = field.amplitude**2
                near = kernel if known.all() else kernel[:, known]
                if spread_of is None or quantity in spread_of:
                    explained = solve_triangular(factor, power * near.T, lower=True, check_finite=False)
                    std = np.sqrt(np.maximum(power - (explained**2).sum(axis=0), 0.0))
                mean = power * (near @ weights)
            answer[quantity] = Residual(mean, std, scatter)
        return answer

    @cached_property
    def _solved(self) -> dict[str, tuple[F64, F64]]:
        """Cholesky factor and weights by quantity with an amplitude."""
        found: dict[str, tuple[F64, F64]] = {}
        kernel = _kernel(self.points, self.points)
        for quantity, field in self.fields.items():
            known = np.isfinite(field.value)
            if field.amplitude > 0 and known.any():
                found[quantity] = _solve(kernel[np.ix_(known, known)], field, known)
        return found


def _correlation(coordinates: F64, lengths: Sequence[float] | F64) -> F64:
    scaled = coordinates / np.asarray(lengths, dtype=np.float64)
    return _kernel(scaled, scaled)


def _kernel(a: F64, b: F64) -> F64:
    """Matérn 5/2 correlation of rows (n, d) and (m, d), shape (n, m)."""
    if not len(a) or not len(b):
        return np.zeros((len(a), len(b)))
    distance = math.sqrt(5.0) * cdist(a, b)
    return np.asarray((1.0 + distance + distance**2 / 3.0) * np.exp(-distance))


def _solve(kernel: F64, field: ResidualField, known: Bool) -> tuple[F64, F64]:
    covariance = field.amplitude**2 * kernel + np.diag(field.noise[known] ** 2)
    factor, _ = cho_factor(covariance, lower=True)
    weights = cho_solve((factor, True), field.value[known])
    return np.tril(factor), np.asarray(weights)


def _most_likely(
    kernel: F64, field: ResidualField, amplitudes: Sequence[float], most: float
) -> tuple[float, float]:
    """Log marginal likelihood and amplitude: the best of ``amplitudes`` up to ``most``."""
    known = np.isfinite(field.value)
    if known.sum() < _LEAST_POINTS:
        return 0.0, 0.0
    rows = np.ix_(known, known)
    best = (-math.inf, 0.0)
    for amplitude in (a for a in amplitudes if a <= most):
        try:
            factor, weights = _solve(kernel[rows], replace(field, amplitude=amplitude), known)
        except LinAlgError:
            continue
        likelihood = -0.5 * float(field.value[known] @ weights) - float(np.log(np.diag(factor)).sum())
        if amplitude > 0:
            likelihood -= _WORTH
        if likelihood > best[0]:
            best = (likelihood, amplitude)
    return best
