"""Least squares: slopes from one evaluation, bounds kept, outliers without weight."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from weirlab.model import robust
from weirlab.model.base import F64

X = np.linspace(0.1, 3.0, 40)


def decay(parameters: F64) -> F64:
    """``a exp(-b x) + c``."""
    a, b, c = robust.each(parameters)
    return np.asarray(a * np.exp(-b * X) + c)


@pytest.mark.parametrize(
    "at", [[2.0, 1.0, 0.5], [0.0, 1.0, 0.5], [5.0, 3.0, 1.0]], ids=["inside", "low", "high"]
)
def test_slopes_are_those_of_each_parameter_and_no_step_leaves_the_bounds(at: list[float]) -> None:
    low, high = np.array([0.0, 0.0, 0.0]), np.array([5.0, 3.0, 1.0])
    asked: list[F64] = []

    def residual(points: F64) -> F64:
        asked.append(points)
        return decay(points)

    slopes, x = robust._Slopes(residual, low, high), np.array(at)
    values = slopes.residual(x)
    values *= 0.0
    assert slopes.jacobian(x) == pytest.approx(approx_fprime(x, decay), abs=1e-6)
    assert slopes.residual(x) == pytest.approx(decay(x), abs=0)
    (points,) = asked
    assert ((low <= points) & (points <= high)).all()


def test_a_few_outliers_pull_nothing_off() -> None:
    truth = np.array([2.0, 1.5, 0.5])
    measured = decay(truth) + 1e-4 * np.sin(50.0 * X)
    measured[[3, 20]] += 5.0
    found = robust.fit(
        lambda parameters: np.asarray(decay(parameters) - measured),
        [[1.0, 1.0, 0.0]],
        lower=[0.0, 0.0, 0.0],
        upper=[9.0, 9.0, 9.0],
        free=(True, True, True),
        scale=1e-3,
    )
    assert found.values == pytest.approx(truth, rel=1e-2)
    assert (found.stderr > 0).all()


def test_what_is_not_free_stays() -> None:
    found = robust.fit(
        lambda parameters: np.asarray(decay(parameters) - decay(np.array([2.0, 1.5, 0.5]))),
        [[1.0, 1.0, 0.5]],
        lower=[0.0, 0.0, 0.0],
        upper=[9.0, 9.0, 9.0],
        free=(True, True, False),
        scale=0.1,
    )
    assert found.values == pytest.approx([2.0, 1.5, 0.5], rel=1e-6)
    assert (found.values[2], found.free) == (0.5, 2)
