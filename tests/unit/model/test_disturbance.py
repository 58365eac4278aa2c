import numpy as np
import pytest

from weirlab.model.queueing.disturbance import DisturbanceLaw, fit_disturbance, joined

HOST = DisturbanceLaw(share=0.02, scale_ns=40_000.0, tail=2.5)
RHO = np.linspace(0.02, 0.85, 30)
NOTHING = np.zeros_like(RHO)
PATH = np.full_like(RHO, 5_000.0)


def measured(q: float) -> np.ndarray:
    return PATH + HOST.quantile_ns(q, RHO)


def test_a_heavy_tail_is_recovered_from_two_quantiles() -> None:
    found = fit_disturbance((0.99, 0.999), RHO, PATH, (NOTHING, NOTHING), (measured(0.99), measured(0.999)))
    for q in (0.99, 0.999, 0.9999):
        expected = HOST.quantile_ns(q, RHO)
        assert found.quantile_ns(q, RHO) == pytest.approx(expected, rel=0.05, abs=100)


def test_a_device_without_disturbance_has_none() -> None:
    found = fit_disturbance((0.99, 0.999), RHO, PATH, (NOTHING, NOTHING), (PATH, PATH))
    assert found.share == 0
    assert found.quantile_ns(0.999, RHO) == pytest.approx(0)


def test_the_same_function_is_seen_through_any_load() -> None:
    busy, idle = np.array([0.9]), np.array([0.0])
    assert HOST.quantile_ns(0.99, busy) == pytest.approx(HOST.quantile_ns(0.999, idle))


def test_quantiles_rise_with_load_and_rank() -> None:
    p99, p999 = HOST.quantile_ns(0.99, RHO), HOST.quantile_ns(0.999, RHO)
    assert (np.diff(p99) >= 0).all()
    assert (p999 > p99).all()


def test_what_is_rarer_than_the_quantile_does_not_show() -> None:
    assert HOST.quantile_ns(0.5, RHO) == pytest.approx(0)


def test_p999_may_be_missing() -> None:
    missing = np.full_like(RHO, np.nan)
    found = fit_disturbance((0.99, 0.999), RHO, PATH, (NOTHING, NOTHING), (measured(0.99), missing))
    assert found.quantile_ns(0.99, RHO) == pytest.approx(HOST.quantile_ns(0.99, RHO), rel=0.05, abs=100)


def test_joined_delays_are_no_less_than_the_larger() -> None:
    assert joined(np.array([3.0]), np.array([4.0])) == pytest.approx(5.0)
    assert joined(np.array([3.0]), np.array([0.0])) == pytest.approx(3.0)
