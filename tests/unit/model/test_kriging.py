import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.documents import plain, typed
from weirlab.model.queueing.kriging import Kriging, ResidualField

LENGTHS = ((0.3,), (1.0,))


def field(value: np.ndarray, noise: float) -> ResidualField:
    return ResidualField(value, np.full(len(value), noise), np.full(len(value), 2 * noise))


def wave(noise: float = 0.02, n: int = 40, seed: int = 1) -> tuple[np.ndarray, ResidualField]:
    x = np.linspace(0, 3, n)
    value = 0.3 * np.sin(2 * x) + np.random.default_rng(seed).normal(0, noise, n)
    return x[:, None], field(value, noise)


def test_a_smooth_deviation_is_found_between_the_points() -> None:
    x, points = wave()
    found = Kriging.fit(x, {"a": points}, LENGTHS).at(np.array([[0.71], [1.93]]))["a"]
    assert found.mean == pytest.approx(0.3 * np.sin([1.42, 3.86]), abs=0.02)
    assert (found.std < 0.02).all()
    assert found.scatter == pytest.approx(0.04, rel=1e-6)


def test_far_from_all_points_the_law_holds_and_the_doubt_is_the_whole_amplitude() -> None:
    x, points = wave()
    kriging = Kriging.fit(x, {"a": points}, LENGTHS)
    found = kriging.at(np.array([[30.0]]))["a"]
    assert found.mean == pytest.approx(0, abs=1e-6)
    assert found.std == pytest.approx(kriging.fields["a"].amplitude)


def test_pure_noise_leaves_the_law_alone() -> None:
    x = np.linspace(0, 3, 40)[:, None]
    noise = np.random.default_rng(2).normal(0, 0.05, 40)
    kriging = Kriging.fit(x, {"a": field(noise, 0.05)}, LENGTHS)
    assert kriging.fields["a"].amplitude == 0
    assert kriging.at(x)["a"].mean == pytest.approx(0)


def test_quantities_share_points_but_not_amplitudes() -> None:
    x, points = wave()
    flat = field(np.zeros(40), 0.02)
    kriging = Kriging.fit(x, {"a": points, "b": flat}, LENGTHS)
    assert kriging.fields["a"].amplitude > 0.1
    assert kriging.fields["b"].amplitude == 0


def test_points_where_a_quantity_was_not_measured_do_not_count() -> None:
    x, points = wave()
    value = points.value.copy()
    value[::2] = np.nan
    gappy = Kriging.fit(x, {"a": ResidualField(value, points.noise, points.single)}, LENGTHS)
    half = Kriging.fit(x[1::2], {"a": field(value[1::2], 0.02)}, LENGTHS)
    at = np.array([[0.5], [2.2]])
    assert gappy.at(at)["a"].mean == pytest.approx(half.at(at)["a"].mean)


def test_a_fit_like_another_keeps_its_amplitudes_and_lengths() -> None:
    x, points = wave()
    first = Kriging.fit(x, {"a": points}, LENGTHS)
    second = Kriging.fit(x[:20], {"a": field(points.value[:20], 0.02)}, LENGTHS, first)
    assert second.fields["a"].amplitude == first.fields["a"].amplitude
    assert second.lengths == pytest.approx(first.lengths)


@given(st.integers(0, 2**32 - 1))
def test_json_keeps_every_prediction(seed: int) -> None:
    x, points = wave(seed=seed)
    kriging = Kriging.fit(x, {"a": points}, LENGTHS)
    again = typed(Kriging, plain(kriging))
    at = np.linspace(-1, 4, 7)[:, None]
    assert again.at(at)["a"].mean == pytest.approx(kriging.at(at)["a"].mean)
    assert again.at(at)["a"].std == pytest.approx(kriging.at(at)["a"].std)


def test_damaged_json_is_refused() -> None:
    x, points = wave()
    data = plain(Kriging.fit(x, {"a": points}, LENGTHS))
    data["points"] = data["points"][:-1]
    with pytest.raises(ValueError, match="differ in number"):
        typed(Kriging, data)
