"""The E-models of more than telephone bandwidth: wideband and fullband.

Wideband is ITU-T G.107.1 (06/2019 with Corrigendum 1), for speech of 50 to 7000 Hz. R goes up to 129: neither
R nor impairment factors compare with those of G.107. The Recommendation models talker echo, delay, codec and
packet loss; it takes over listener echo untested and leaves out loudness, sidetone, quantizing distortion and
the advantage factor (Is,WB = 0, A = 0). Equation numbers are the Recommendation's.

Fullband is ITU-T G.107.2, for speech of 20 to 20000 Hz. R goes up to 148. The Recommendation models delay,
codec and packet loss; echo is not part of it, and the noise of its first edition (06/2019) is a constant. MOS
is that of a listener who knows fullband speech.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.quality import emodel
from weirlab.quality.emodel import F64, EmodelParameters, Values

RO_WIDEBAND: Final = 129.0
"""Basic signal-to-noise ratio Ro,WB (7-2)."""

NOISE_FLOOR: Final = -96.0
"""Nfor of a wideband telephone, dBm0p, instead of the -64 of G.107."""

_WIDEBAND: Final = 1.29


@dataclass(frozen=True)
class WidebandRating:
    """R on the scale up to 129; ``r = RO - i_d - ie_eff``."""

    r: F64
    i_d: F64
    ie_eff: F64
    idte: F64
    idle: F64
    idd: F64

    @property
    def mos(self) -> F64:
        """MOS-CQEW: the opinion of a listener who knows wideband, so 4.5 is better speech than with G.107."""
        return wideband_mos(self.r)


@dataclass(frozen=True)
class EchoPath:
    """The path by which talkers hear themselves; delays in ms."""

    telr: Values = 65.0
    """Talker echo loudness rating."""
    wepl: Values = 110.0
    """Weighted echo path loss."""
    t: Values | None = None
    """Mean one-way delay; None: that of the connection."""
    tr: Values | None = None
    """Round-trip delay; None: twice the one-way delay."""


ECHO: Final = EchoPath()


def wideband(
    *,
    ta: Values = 0.0,
    ie: Values = 0.0,
    bpl: Values = 4.3,
    ppl: Values = 0.0,
    burst_r: Values = 1.0,
    path: EchoPath = ECHO,
) -> WidebandRating:
    """R of a wideband connection (7-1).

    Delays in ms, ``ppl`` in percent; ``ie`` and ``bpl`` are Ie,WB and Bpl,WB.
    """
    echo = ta if path.t is None else path.t
    loop = 2 * np.asarray(echo, dtype=np.float64) if path.tr is None else path.tr
    connection = EmodelParameters(telr=path.telr, wepl=path.wepl, t=echo, tr=loop, nfor=NOISE_FLOOR)
    idte = talker_echo(connection)
    idle = emodel.listener_echo(connection, RO_WIDEBAND)  # (7-11, 7-12)
    idd = _WIDEBAND * emodel.too_long(ta)  # (7-13, 7-14)
    i_d = idte + idle + idd  # (7-4)
    ie_eff = emodel.effective_equipment(ie, bpl, ppl, burst_r)  # (7-15): 95 stays 95
    parts = np.broadcast_arrays(RO_WIDEBAND - i_d - ie_eff, i_d, ie_eff, idte, idle, idd)
    return WidebandRating(*(np.asarray(part, dtype=np.float64) for part in parts))


def talker_echo(connection: EmodelParameters) -> F64:
    """Impairment by hearing oneself late, Idte,WB (7-5 to 7-10)."""
    c = connection
    delay = np.asarray(c.t, dtype=np.float64)
    # Echo disturbs less in wideband; how much less depends on the delay (7-9, 7-10).
    relief = np.where(delay < 100, 0.08 * delay + 10, 18.0)
    terv = emodel.echo_loss(c.telr, delay) + relief  # (7-8)
    roe = -1.5 * (emodel.noise(c) - c.rlr)  # (7-6)
    re = 80 + 3 * (terv - 14)  # (7-7)
    return emodel.echo_impairment(roe, re, delay)


def wideband_mos(r: Values) -> F64:
    """MOS-CQEW of R (A-1, A-2)."""
    return emodel.mos_of_r(np.asarray(r, dtype=np.float64) / _WIDEBAND)


RO_FULLBAND: Final = 148.0

_FULLBAND: Final = 1.48
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
        return fullband_mos(self.r)


def fullband(
    *, ta: Values = 0.0, ie: Values = 0.0, bpl: Values = 4.3, ppl: Values = 0.0, burst_r: Values = 1.0
) -> FullbandRating:
    """R of a fullband connection; ``ta`` in ms, ``ppl`` in percent, ``ie`` and ``bpl`` for fullband."""
    idd = _FULLBAND * emodel.too_long(ta)
    ie_eff = emodel.effective_equipment(ie, bpl, ppl, burst_r, ceiling=_CEILING)
    parts = np.broadcast_arrays(RO_FULLBAND - idd - ie_eff, idd, ie_eff)
    return FullbandRating(*(np.asarray(part, dtype=np.float64) for part in parts))


def fullband_mos(r: Values) -> F64:
    """MOS-CQEF of R (Annex A)."""
    return emodel.mos_of_r(np.asarray(r, dtype=np.float64) / _FULLBAND)
