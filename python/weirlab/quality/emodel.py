"""The E-models of ITU-T: from a connection to R and MOS, for telephone bandwidth (G.107, 06/2015) and more.

Numbers in brackets are those of the Recommendation's equations. Every function takes numbers or arrays
that broadcast against each other and returns arrays. Loudness ratings and losses are in dB, noise in dBm0p,
room noise in dB(A), delays in ms, packet loss in percent, as in the Recommendation.

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
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Values = F64 | float

Sensitivity = Literal["default", "low", "very low"]

SENSITIVITY: Final[dict[Sensitivity, tuple[float, float]]] = {
    "default": (1.0, 100.0),
    "low": (0.55, 120.0),
    "very low": (0.4, 150.0),
}
"""Table 1: sT and mT (ms) of each class of delay sensitivity. Telephony uses the default."""


@dataclass(frozen=True)
class EmodelParameters:
    """The E-model's parameters of a connection; defaults are those of Table 3."""

    slr: Values = 8.0
    """Send loudness rating."""
    rlr: Values = 2.0
    """Receive loudness rating."""
    stmr: Values = 15.0
    """Sidetone masking rating."""
    lstr: Values | None = None
    """Listener sidetone rating; None: STMR + Dr."""
    ds: Values = 3.0
    """D-value of the telephone, send side."""
    dr: Values = 3.0
    """D-value of the telephone, receive side."""
    telr: Values = 65.0
    """Talker echo loudness rating."""
    wepl: Values = 110.0
    """Weighted echo path loss."""
    t: Values = 0.0
    """Mean one-way delay of the echo path, ms."""
    tr: Values = 0.0
    """Round-trip delay in a four-wire loop, ms."""
    ta: Values = 0.0
    """Absolute delay in echo-free connections, ms."""
    qdu: Values = 1.0
    """Quantization distortion units."""
    ie: Values = 0.0
    """Equipment impairment factor."""
    bpl: Values = 4.3
    """Packet-loss robustness factor."""
    ppl: Values = 0.0
    """Packet loss, percent."""
    burst_r: Values = 1.0
    """Mean length of a run of losses over that of random loss; values below 1 count as 1."""
    nc: Values = -70.0
    """Circuit noise referred to the 0 dBr point."""
    nfor: Values = -64.0
    """Noise floor at the receive side."""
    ps: Values = 35.0
    """Room noise at the send side."""
    pr: Values = 35.0
    """Room noise at the receive side."""
    a: Values = 0.0
    """Advantage factor."""
    sensitivity: Sensitivity = "default"


@dataclass(frozen=True)
class NarrowbandRating:
    """R and what it is made of; ``r = ro - i_s - i_d - ie_eff + a``."""

    r: F64
    ro: F64
    i_s: F64
    i_d: F64
    ie_eff: F64
    iolr: F64
    ist: F64
    iq: F64
    idte: F64
    idle: F64
    idd: F64

    @property
    def mos(self) -> F64:
        """MOS-CQE, estimated conversational quality."""
        return mos_of_r(self.r)


def rate(connection: EmodelParameters) -> NarrowbandRating:
    """Transmission rating factor R of a connection (7-1)."""
    c = connection
    no = noise(c)
    ro = 15 - 1.5 * (_f(c.slr) + no)  # (7-2)
    iolr, ist, iq = too_loud(c, no), sidetone(c), quantizing(c, ro)
    idte = talker_echo(c, no, ist)
    idle = listener_echo(c, ro)
    idd = too_long(c.ta, c.sensitivity)
    # (7-18), with the sidetone's part where it is weak: (7-24).
    talker = np.where(_f(c.stmr) > 20, np.hypot(idte, ist), idte)
    i_s, i_d = iolr + ist + iq, talker + idle + idd
    ie_eff = effective_equipment(c.ie, c.bpl, c.ppl, c.burst_r)
    r = ro - i_s - i_d - ie_eff + c.a
    parts = np.broadcast_arrays(r, ro, i_s, i_d, ie_eff, iolr, ist, iq, idte, idle, idd)
    return NarrowbandRating(*(np.asarray(part, dtype=np.float64) for part in parts))


def noise(connection: EmodelParameters) -> F64:
    """Sum of all noise, No in dBm0p at the 0 dBr point (7-3)."""
    c = connection
    olr = _f(c.slr) + c.rlr
    nos = c.ps - _f(c.slr) - c.ds - 100 + 0.004 * (c.ps - olr - c.ds - 14) ** 2  # (7-4)
    lstr = _f(c.stmr) + c.dr if c.lstr is None else _f(c.lstr)
    pre = c.pr + 10 * np.log10(1 + 10 ** ((10 - lstr) / 10))  # (7-6)
    nor = c.rlr - 121 + pre + 0.008 * (pre - 35) ** 2  # (7-5)
    nfo = _f(c.nfor) + c.rlr  # (7-7)
    return _db(10 ** (_f(c.nc) / 10) + 10 ** (nos / 10) + 10 ** (nor / 10) + 10 ** (nfo / 10))


def too_loud(connection: EmodelParameters, no: F64) -> F64:
    """Impairment by too low an overall loudness rating, Iolr (7-9)."""
    c = connection
    x = _f(c.slr) + c.rlr + 0.2 * (64 + no - c.rlr)  # (7-10)
    return np.asarray(20 * ((1 + (x / 8) ** 8) ** (1 / 8) - x / 8))


def sidetone(connection: EmodelParameters) -> F64:
    """Impairment by sidetone that is not optimal, Ist (7-11)."""
    c = connection
    stmro = -_db(10 ** (-_f(c.stmr) / 10) + np.exp(-_f(c.t) / 4) * 10 ** (-_f(c.telr) / 10))  # (7-12)
    return np.asarray(
        12 * (1 + ((stmro - 13) / 6) ** 8) ** (1 / 8)
        - 28 * (1 + ((stmro + 1) / 19.4) ** 35) ** (1 / 35)
        - 13 * (1 + ((stmro - 3) / 33) ** 13) ** (1 / 13)
        + 29
    )


def quantizing(connection: EmodelParameters, ro: F64) -> F64:
    """Impairment by quantizing distortion, Iq (7-13)."""
    # Below one unit the reference implementation counts one.
    q = 37 - 15 * np.log10(np.maximum(connection.qdu, 1))  # (7-17)
    g = 1.07 + 0.258 * q + 0.0602 * q**2  # (7-16)
    y = (ro - 100) / 15 + 46 / 8.4 - g / 9  # (7-14)
    z = 46 / 30 - g / 40  # (7-15)
    return np.asarray(15 * np.log10(1 + 10**y + 10**z))


def echo_loss(telr: Values, t: Values) -> F64:
    """Talker echo loudness rating with the delay's effect, TERV without the sidetone's part (7-22)."""
    delay = _f(t)
    return np.asarray(
        telr - 40 * np.log10((1 + delay / 10) / (1 + delay / 150)) + 6 * np.exp(-0.3 * delay**2)
    )


def talker_echo(connection: EmodelParameters, no: F64, ist: F64) -> F64:
    """Impairment by hearing oneself late, Idte (7-19)."""
    c = connection
    # Strong sidetone masks echo: TERVs of (7-23) takes the place of TERV.
    terv = echo_loss(c.telr, c.t) + np.where(_f(c.stmr) < 9, ist / 2, 0)
    roe = -1.5 * (no - c.rlr)  # (7-20)
    re = 80 + 2.5 * (terv - 14)  # (7-21)
    return echo_impairment(roe, re, c.t)


def echo_impairment(roe: Values, re: Values, t: Values) -> F64:
    """The form of (7-19), which wideband shares; 0 below 1 ms, where echo is sidetone."""
    half, delay = (_f(roe) - re) / 2, _f(t)
    impairment = (half + np.sqrt(half**2 + 100) - 1) * -np.expm1(-delay)
    return np.where(delay < 1, 0.0, impairment)


def listener_echo(connection: EmodelParameters, ro: Values) -> F64:
    """Impairment by listener echo, Idle (7-25)."""
    rle = 10.5 * (_f(connection.wepl) + 7) * (_f(connection.tr) + 1) ** -0.25  # (7-26)
    half = (_f(ro) - rle) / 2
    return np.asarray(half + np.sqrt(half**2 + 169))


def too_long(ta: Values, sensitivity: Sensitivity = "default") -> F64:
    """Impairment by delay alone, Idd of ``ta`` ms (7-27)."""
    s, m = SENSITIVITY[sensitivity]
    # Below mT the impairment is 0, as the formula is at mT.
    x = np.log2(np.maximum(_f(ta), m) / m)  # (7-28)
    power = 6 * s
    return np.asarray(25 * ((1 + x**power) ** (1 / power) - 3 * (1 + (x / 3) ** power) ** (1 / power) + 2))


def effective_equipment(
    ie: Values, bpl: Values, ppl: Values, burst_r: Values = 1.0, ceiling: float = 95.0
) -> F64:
    """Impairment by codec and packet loss, Ie-eff (7-29).

    ``ppl`` in percent. ``burst_r`` below 1 (losses more even than random ones) counts as 1, the
    least that the Recommendation allows. The result may exceed ``ceiling`` for long runs.
    """
    loss = _f(ppl)
    return np.asarray(ie + (ceiling - _f(ie)) * loss / (loss / np.maximum(burst_r, 1.0) + bpl))


def mos_of_r(r: Values) -> F64:
    """MOS-CQE of R: 1 up to R = 0, 4.5 from R = 100 (B-4)."""
    held = np.clip(_f(r), 0, 100)
    # Just above R = 0 the cubic dips below 1, which no scale has.
    return np.maximum(1 + 0.035 * held + held * (held - 60) * (100 - held) * 7e-6, 1.0)


def _f(values: Values) -> F64:
    return np.asarray(values, dtype=np.float64)


def _db(power: F64) -> F64:
    return np.asarray(10 * np.log10(power))


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
    idte = wideband_talker_echo(connection)
    idle = listener_echo(connection, RO_WIDEBAND)  # (7-11, 7-12)
    idd = _WIDEBAND * too_long(ta)  # (7-13, 7-14)
    i_d = idte + idle + idd  # (7-4)
    ie_eff = effective_equipment(ie, bpl, ppl, burst_r)  # (7-15): 95 stays 95
    parts = np.broadcast_arrays(RO_WIDEBAND - i_d - ie_eff, i_d, ie_eff, idte, idle, idd)
    return WidebandRating(*(np.asarray(part, dtype=np.float64) for part in parts))


def wideband_talker_echo(connection: EmodelParameters) -> F64:
    """Impairment by hearing oneself late, Idte,WB (7-5 to 7-10)."""
    c = connection
    delay = np.asarray(c.t, dtype=np.float64)
    # Echo disturbs less in wideband; how much less depends on the delay (7-9, 7-10).
    relief = np.where(delay < 100, 0.08 * delay + 10, 18.0)
    terv = echo_loss(c.telr, delay) + relief  # (7-8)
    roe = -1.5 * (noise(c) - c.rlr)  # (7-6)
    re = 80 + 3 * (terv - 14)  # (7-7)
    return echo_impairment(roe, re, delay)


def wideband_mos(r: Values) -> F64:
    """MOS-CQEW of R (A-1, A-2)."""
    return mos_of_r(np.asarray(r, dtype=np.float64) / _WIDEBAND)


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
    idd = _FULLBAND * too_long(ta)
    ie_eff = effective_equipment(ie, bpl, ppl, burst_r, ceiling=_CEILING)
    parts = np.broadcast_arrays(RO_FULLBAND - idd - ie_eff, idd, ie_eff)
    return FullbandRating(*(np.asarray(part, dtype=np.float64) for part in parts))


def fullband_mos(r: Values) -> F64:
    """MOS-CQEF of R (Annex A)."""
    return mos_of_r(np.asarray(r, dtype=np.float64) / _FULLBAND)
