"""Wideband and fullband E-models.

G.107.1 and G.107.2 print one number each: 129 and 148, the ratings of undisturbed speech. Everything else
is checked against implementations of others: for wideband github.com/bgrewell/loom, core/emodel (six
digits) and NormB/sipnab (MOS of AMR-WB's Ie,WB), for fullband the same equation in sipwise/rtpengine.
"""

from __future__ import annotations

import numpy as np
import pytest

from weirlab.quality import emodel


def test_undisturbed_wideband_speech_is_rated_129() -> None:
    assert round(float(emodel.wideband().r)) == 129
    assert float(emodel.wideband().mos) == pytest.approx(4.499152, abs=1e-6)


# Delay in ms, Ie,WB: Idte, Idle, Idd, R, MOS.
WIDEBAND = [
    ((0, 5), (0.0, 0.153685, 0.0, 123.846315, 4.456839)),
    ((50, 0), (0.092907, 0.652075, 0.0, 128.255018, 4.495632)),
    ((150, 5), (0.355448, 1.012266, 0.210955, 122.421331, 4.439743)),
]


@pytest.mark.parametrize(("point", "expected"), WIDEBAND)
def test_wideband_working_points_of_another_implementation_agree(
    point: tuple[float, float], expected: tuple[float, ...]
) -> None:
    rating = emodel.wideband(ta=point[0], ie=point[1])
    found = (rating.idte, rating.idle, rating.idd, rating.r, rating.mos)
    assert [float(value) for value in found] == pytest.approx(expected, abs=1e-5)


# Ie,WB of AMR-WB modes (G.113 Table IV.1, and for 56 Table IV.3): MOS without delay.
AMR_WB = [(0, 4.5), (1, 4.4940), (8, 4.4206), (13, 4.3371), (41, 3.5123), (56, 2.9220)]


@pytest.mark.parametrize(("ie", "mos"), AMR_WB)
def test_wideband_mos_is_that_of_r_over_1_29(ie: float, mos: float) -> None:
    assert float(emodel.wideband_mos(129.0 - ie)) == pytest.approx(mos, abs=5e-4)


def test_wideband_loss_counts_on_the_scale_of_95() -> None:
    # AMR-WB 12.65, both ears: Ie,WB 20, Bpl,WB 4.3 (G.113 Table IV.4), 2 % loss.
    rating = emodel.wideband(ie=20.0, bpl=4.3, ppl=2.0)
    assert float(rating.ie_eff) == pytest.approx(43.8095, abs=1e-4)
    assert float(emodel.wideband_mos(129 - float(rating.ie_eff))) == pytest.approx(3.4062, abs=5e-4)


def test_wideband_delay_costs_1_29_times_as_much() -> None:
    delays = np.array([100.0, 200.0, 400.0])
    assert emodel.wideband(ta=delays).idd == pytest.approx(1.29 * emodel.too_long(delays))


def test_undisturbed_fullband_speech_is_rated_148() -> None:
    assert float(emodel.fullband().r) == 148
    assert float(emodel.fullband().mos) == 4.5


def test_fullband_follows_its_equations() -> None:
    # EVS at 24.4 kbit/s (G.113 Appendix V: 7.2 and 11.4), 2 % loss, 200 ms, where X = 1.
    rating = emodel.fullband(ta=200.0, ie=7.2, bpl=11.4, ppl=2.0)
    idd = 1.48 * 25 * (2 ** (1 / 6) - 3 * (1 + (1 / 3) ** 6) ** (1 / 6) + 2)
    ie_eff = 7.2 + (132 - 7.2) * 2 / (2 + 11.4)
    assert float(rating.r) == pytest.approx(148 - idd - ie_eff)
    rx = float(rating.r) / 1.48
    assert float(rating.mos) == pytest.approx(1 + 0.035 * rx + rx * (rx - 60) * (100 - rx) * 7e-6)
