"""The fullband E-model, ITU-T G.107.2, for speech of 20 to 20000 Hz.

R goes up to 148. The Recommendation models delay, codec and packet loss; echo is not part of it, and the
noise of its first edition (06/2019) is a constant. MOS is that of a listener who knows fullband speech.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.quality import emodel
from weirlab.quality.emodel import F64, Values

RO: Final = 148.0

_SCALE: Final = 1.48
_CEILING: Final = 132.0
"""Impairment by total loss, instead of the 95 of G.107."""


@dataclass(frozen=True)
class FullbandRating:
    """R on the scale up to 148; ``r = RO - idd - ie_eff``."""

    r: F64
    idd: F64
    ie_eff: F64

    @property
    def mos(self) -> F64:
        """MOS-CQEF."""
        return mos_of_r(self.r)


def rate(
    *, ta: Values = 0.0, ie: Values = 0.0, bpl: Values = 4.3, ppl: Values = 0.0, burst_r: Values = 1.0
) -> FullbandRating:
    """R of a fullband connection; ``ta`` in ms, ``ppl`` in percent, ``ie`` and ``bpl`` for fullband."""
    idd = _SCALE * emodel.too_long(ta)
    ie_eff = emodel.effective_equipment(ie, bpl, ppl, burst_r, ceiling=_CEILING)
    parts = np.broadcast_arrays(RO - idd - ie_eff, idd, ie_eff)
    return FullbandRating(*(np.asarray(part, dtype=np.float64) for part in parts))


def mos_of_r(r: Values) -> F64:
    """MOS-CQEF of R (Annex A)."""
    return emodel.mos_of_r(np.asarray(r, dtype=np.float64) / _SCALE)
