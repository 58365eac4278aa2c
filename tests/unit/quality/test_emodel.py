"""The E-model against what has been published of it.

Sources of the numbers:

- ITU-T G.107 (06/2015) itself: 7.7 (R = 93.2 for the defaults), Table 1 (classes of delay
  sensitivity), Table B.1 (R, MOS, GoB, PoW).
- "Controlling voice quality", in: Internet Traffic Engineering, Telektronikk 2/3.2001, Telenor, table 3:
  the longest mouth-to-ear delay that keeps R at 70, per codec, with perfect echo control.
- An implementation of others, of 2015's equations in Go, whose tests have six digits
  (github.com/bgrewell/loom, core/emodel): every component at seven working points.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.quality import emodel
from weirlab.quality.emodel import EmodelParameters, Sensitivity, rate


def test_the_defaults_give_the_rating_that_the_recommendation_states() -> None:
    rating = rate(EmodelParameters())
    assert round(float(rating.r), 1) == 93.2
    assert round(float(rating.mos), 2) == 4.41


# R (lower limit), MOS: G.107, Table B.1.
TABLE_B1 = [(90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58)]


@pytest.mark.parametrize(("r", "mos"), TABLE_B1)
def test_table_b1_is_reproduced(r: float, mos: float) -> None:
    # The table's 4.03 stands for 4.024.
    assert float(emodel.mos_of_r(r)) == pytest.approx(mos, abs=0.0065)


# Ie of the codec (G.113 Table I.1), longest mouth-to-ear delay in ms for R = 70 without echo.
LONGEST_DELAY = [
    (0, 400),
    (2, 375),
    (5, 342),
    (7, 322),
    (10, 294),
    (15, 251),
    (19, 219),
    (20, 210),
    (23, 177),
]


@pytest.mark.parametrize(("ie", "delay_ms"), LONGEST_DELAY)
def test_published_bounds_of_the_delay_are_reproduced(ie: float, delay_ms: float) -> None:
    # Their R without impairment is "about 94", before the revision of 2000; delays are whole ms, worth 0.07.
    assert 94.15 - ie - float(emodel.too_long(delay_ms)) == pytest.approx(70, abs=0.13)


# Delay in ms, Ie, Bpl, loss in %: Idte, Idle, Idd, Ie-eff, R, MOS.
WORKING_POINTS = [
    ((0, 0, 25.1, 0), (0.0, 0.149046, 0.0, 0.0, 93.206208, 4.409406)),
    ((100, 0, 25.1, 0), (1.963791, 0.727733, 0.0, 0.0, 90.663730, 4.354920)),
    ((150, 0, 25.1, 0), (2.811844, 0.840747, 0.163531, 0.0, 89.539132, 4.327546)),
    ((250, 0, 25.1, 0), (4.242856, 1.018587, 8.916710, 0.0, 79.177101, 3.992519)),
    ((0, 0, 25.1, 1), (0.0, 0.149046, 0.0, 3.639847, 89.566361, 4.328232)),
    ((0, 0, 25.1, 5), (0.0, 0.149046, 0.0, 15.780731, 77.425477, 3.923091)),
    ((0, 11, 19, 2), (0.0, 0.149046, 0.0, 19.0, 74.206208, 3.787558)),
]


@pytest.mark.parametrize(("point", "expected"), WORKING_POINTS)
def test_working_points_of_another_implementation_agree(
    point: tuple[float, float, float, float], expected: tuple[float, ...]
) -> None:
    delay, ie, bpl, ppl = point
    rating = rate(EmodelParameters(t=delay, ta=delay, tr=2 * delay, ie=ie, bpl=bpl, ppl=ppl))
    found = (rating.idte, rating.idle, rating.idd, rating.ie_eff, rating.r, rating.mos)
    assert [float(value) for value in found] == pytest.approx(expected, abs=1e-5)
    assert float(rating.ro) == pytest.approx(94.768822, abs=1e-6)
    assert float(rating.i_s) == pytest.approx(1.413568, abs=1e-6)


def test_the_parts_add_up_to_the_rating() -> None:
    delays = np.linspace(0, 500, 26)
    rating = rate(EmodelParameters(t=delays, ta=delays, tr=2 * delays, ppl=3.0, a=5.0, stmr=25.0))
    assert rating.r == pytest.approx(rating.ro - rating.i_s - rating.i_d - rating.ie_eff + 5.0)


def test_bursts_of_loss_hurt_more_than_the_same_loss_at_random() -> None:
    # 95 * 5 / (5 / 2 + 25.1)
    assert float(emodel.effective_equipment(0, 25.1, 5, 2)) == pytest.approx(17.210145, abs=1e-6)
    even = emodel.effective_equipment(0, 25.1, 5, 0.5)
    assert even == emodel.effective_equipment(0, 25.1, 5, 1)


@pytest.mark.parametrize(("sensitivity", "threshold_ms"), [("default", 100), ("low", 120), ("very low", 150)])
def test_delay_costs_nothing_up_to_the_class_threshold(sensitivity: Sensitivity, threshold_ms: float) -> None:
    delays = np.array([0, threshold_ms, threshold_ms + 50.0])
    below, at, above = emodel.too_long(delays, sensitivity)
    assert below == at == pytest.approx(0, abs=1e-12)
    assert above > 0


def test_users_who_mind_delay_less_rate_it_higher() -> None:
    costs = [float(emodel.too_long(400.0, kind)) for kind in ("default", "low", "very low")]
    # 25 {(1 + 2^6)^(1/6) - 3 (1 + (2/3)^6)^(1/6) + 2} at two octaves above 100 ms.
    expected = 25 * ((1 + 2**6) ** (1 / 6) - 3 * (1 + (2 / 3) ** 6) ** (1 / 6) + 2)
    assert costs[0] == pytest.approx(expected)
    assert costs[0] > costs[1] > costs[2] > 0


def test_strong_sidetone_masks_echo_and_weak_sidetone_adds_to_it() -> None:
    def echoing(stmr: float) -> emodel.NarrowbandRating:
        return rate(EmodelParameters(t=100.0, ta=100.0, tr=200.0, telr=40.0, stmr=stmr))

    weak, strong = echoing(25.0), echoing(7.0)
    # (7-24): the talker's part is the root of the sum of squares with Ist.
    assert float(weak.i_d) == pytest.approx(float(np.hypot(weak.idte, weak.ist) + weak.idle + weak.idd))
    # (7-23): TERV grows by Ist / 2, Re by 2.5 times as much; the echo costs less for it.
    assert float(strong.ist) > 0
    no = emodel.noise(EmodelParameters(stmr=7.0))
    re = 80 + 2.5 * (float(emodel.echo_loss(40.0, 100.0)) + float(strong.ist) / 2 - 14)
    assert float(strong.idte) == pytest.approx(float(emodel.echo_impairment(-1.5 * (no - 2), re, 100.0)))


def test_what_is_not_known_stays_unknown() -> None:
    rating = rate(EmodelParameters(ta=np.array([np.nan, 50.0]), ppl=1.0, bpl=np.array([4.3, np.nan])))
    assert np.isnan(rating.r).all()
    assert np.isnan(rating.mos).all()


def test_arrays_of_connections_are_rated_as_each_alone() -> None:
    losses, delays = np.array([0.0, 1.0, 10.0]), np.array([0.0, 150.0, 400.0])
    together = rate(EmodelParameters(t=delays, ta=delays, tr=2 * delays, ppl=losses)).r
    alone = [
        float(rate(EmodelParameters(t=float(d), ta=float(d), tr=2 * float(d), ppl=float(p))).r)
        for d, p in zip(delays, losses, strict=True)
    ]
    assert together == pytest.approx(alone)


@given(st.floats(-500, 500))
def test_mos_stays_on_its_scale(r: float) -> None:
    assert 1 <= float(emodel.mos_of_r(r)) <= 4.5
