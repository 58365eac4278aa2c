"""The quality cost of a codec: impairment factors for the E-models, and the delay of the encoder.

Values are those of ITU-T G.113 if it has them: Table I.1 (Ie without loss), Table I.4 (Bpl), Table IV.1
(wideband). Otherwise a value is either missing, so that no MOS can be computed, or is marked
``provisional`` and says where it comes from. ITU-T calls even its own "provisional planning values".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from weirlab.traffic.calls.codecs import CODECS, Codec

Band = Literal["narrowband", "wideband", "fullband"]
"""Which E-model: G.107, G.107.1 or G.107.2. Their R do not compare, and MOS of different bands hardly do."""

NAN: Final = float("nan")


@dataclass(frozen=True)
class Impairment:
    """A codec as an E-model sees it.

    ``ie`` and ``bpl`` are NaN if no values are published; ``note`` then says so. Without ``bpl``
    there is a MOS for calls that lost nothing, and none for others.
    """

    band: Band
    ie: float
    bpl: float
    lookahead_ms: float
    """Speech beyond the packet that the encoder waits for, or holds back."""
    source: str
    provisional: bool = False
    """At least one value is not ITU-T's for this codec."""
    note: str = ""


_NO_VALUES: Final = "ITU-T G.113 has no values for it"

G711_WITHOUT_CONCEALMENT_BPL: Final = 4.3

_TABLE: Final[dict[str, Impairment]] = {
    "g711": Impairment("narrowband", 0, 25.1, 0, "G.113 Table I.4, concealment of G.711 Appendix I"),
    "g726-40": Impairment("narrowband", 2, 4.3, 0, "G.113 Table I.1"),
    "g726-32": Impairment("narrowband", 7, 4.3, 0, "G.113 Table I.1"),
    "g726-24": Impairment("narrowband", 25, 4.3, 0, "G.113 Table I.1"),
    "g726-16": Impairment("narrowband", 50, 4.3, 0, "G.113 Table I.1"),
    # Table I.1 has 10 for G.729 without loss; 11 and 19 belong together: G.729A with VAD.
    "g729": Impairment("narrowband", 11, 19, 5, "G.113 Table I.4, G.729A with VAD"),
    "g723.1-6.3": Impairment("narrowband", 15, 16.1, 7.5, "G.113 Table I.4, 6.3 kbit/s with VAD"),
    "g723.1-5.3": Impairment("narrowband", 19, 16.1, 7.5, "G.113 Table I.1"),
    "gsm": Impairment("narrowband", 20, 10, 0, "G.113 Table I.1"),
    "gsm-efr": Impairment("narrowband", 5, 10, 0, "G.113 Table I.4"),
    "ilbc-20": Impairment("narrowband", NAN, NAN, 5, "", note=_NO_VALUES),
    "ilbc-30": Impairment("narrowband", NAN, NAN, 10, "", note=_NO_VALUES),
    # Two quadrature mirror filters of 24 taps at 16 kHz.
    "g722": Impairment("wideband", 13, 4.3, 1.5, "G.113 Table IV.1, 64 kbit/s"),
}

_PROVISIONAL: Final[dict[str, str]] = {
    "g726-40": "Bpl is that of G.711 without concealment, which codes samples as well",
    "g726-32": "Bpl is that of G.711 without concealment, which codes samples as well",
    "g726-24": "Bpl is that of G.711 without concealment, which codes samples as well",
    "g726-16": "Bpl is that of G.711 without concealment, which codes samples as well",
    "g723.1-5.3": "Bpl is that of G.723.1 at 6.3 kbit/s",
    "gsm": "Bpl is that of GSM enhanced full rate, which repeats lost frames the same way",
    "g722": "Bpl is the least of wideband codecs in G.113 Table IV.4 (AMR-WB)",
}
"""The source of a substitute for the packet-loss robustness that G.113 does not give."""

# Opus at constant bit rate, super-wideband: kbit/s, Ie,fb, Bpl,fb under random loss.
_OPUS: Final = np.array(
    [
        (16, 36.88, 13.30),
        (19, 29.58, 10.74),
        (22, 23.38, 10.01),
        (25, 22.64, 10.57),
        (28, 23.65, 11.67),
        (31, 21.74, 11.51),
        (34, 20.62, 11.78),
        (37, 16.23, 10.62),
        (40, 15.90, 11.35),
    ]
)
_OPUS_SOURCE: Final = "M. Alahmadi, E-model factors of Opus (super-wideband, constant bit rate), 2021"
_OPUS_LOOKAHEAD_MS: Final = 6.5
"""RFC 6716, 2: 5 ms of SILK and 1.5 ms of resampling, or 2.5 ms and 4 ms with CELT."""


def impairment(codec: Codec, concealment: bool = True) -> Impairment:
    """The impairment by ``codec`` at its bit rate.

    ``concealment`` matters only for G.711, whose decoder need not conceal losses; all others with a Bpl in
    G.113 always do.
    """
    if codec.name == "opus":
        return _opus(codec.bit_rate_bps / 1e3)
    return named(codec.name, concealment)


def named(name: str, concealment: bool = True) -> Impairment:
    """The impairment by the codec called ``name``; without values if the name is not known."""
    found = _TABLE.get(name)
    if found is None:
        return Impairment("narrowband", NAN, NAN, 0, "", note=_NO_VALUES)
    if name == "g711" and not concealment:
        return replace(found, bpl=G711_WITHOUT_CONCEALMENT_BPL, source="G.113 Table I.4, no concealment")
    if name in _PROVISIONAL:
        return replace(found, provisional=True, note=_PROVISIONAL[name])
    return found


def of_encoding(
    encoding: str, payload_bytes: float, packet_ms: float, concealment: bool = True
) -> Impairment:
    """The impairment by a codec as a session description names it (``PCMU``), in packets of this size.

    The size tells codecs with the same name in SDP apart: modes of AMR and AMR-WB, G.723.1, iLBC, Opus.
    """
    name = encoding.lower()
    kbps = 8 * payload_bytes / packet_ms if packet_ms > 0 else NAN
    if name == "opus":
        return _opus(kbps)
    if name in _MODES:
        return _of_mode(_MODES[name], payload_bytes, packet_ms)
    if name == "gsm-efr":
        return named(name)
    name = {"pcma": "pcmu"}.get(name, name)
    same = [codec for codec in CODECS if codec.encoding.split("/")[0].lower() == name]
    if not same:
        note = f"{_NO_VALUES} or Weir does not know it: {encoding}" if encoding else "the codec is not known"
        return Impairment("narrowband", NAN, NAN, 0, "", note=note)
    return impairment(min(same, key=lambda codec: abs(codec.bit_rate_bps / 1e3 - kbps)), concealment)


@dataclass(frozen=True)
class _Mode:
    """A mode of AMR or AMR-WB: its bits in a frame of 20 ms (3GPP TS 26.101 and 26.201)."""

    bits: int
    impairment: Impairment

    def sizes(self, frames: int) -> tuple[int, int]:
        """Payloads of so many frames, bandwidth-efficient and octet-aligned (RFC 4867, 4.3 and 4.4)."""
        return math.ceil((4 + frames * (6 + self.bits)) / 8), 1 + frames * (1 + math.ceil(self.bits / 8))


_FRAME_MS: Final = 20


_EFR_BPL: Final = 10
_INTERPOLATED: Final = "Ie is interpolated between AMR at 7.4 and 12.2 kbit/s"


def _amr(bits: int, ie: float, source: str, note: str = "") -> _Mode:
    return _Mode(bits, Impairment("narrowband", ie, _EFR_BPL, 5, source, bool(note), note))


def _amr_without_values(kbps: float, bits: int) -> _Mode:
    note = f"{_NO_VALUES}: AMR at {kbps:g} kbit/s"
    return _Mode(bits, Impairment("narrowband", NAN, NAN, 5, "", note=note))


def _amr_wb(bits: int, ie: float, bpl: float | None = None) -> _Mode:
    """Look-ahead of 5 ms, and 0.94 ms of resampling."""
    note = (
        "Bpl is that of listening with both ears, the only one in G.113 Table IV.4"
        if bpl
        else "Bpl is the least of those of AMR-WB in G.113 Table IV.4"
    )
    return _Mode(bits, Impairment("wideband", ie, bpl or 4.3, 5.94, "G.113 Table IV.1, G.722.2", True, note))


_MODES: Final[dict[str, tuple[_Mode, ...]]] = {
    # G.113 has no AMR, but the codecs that two of its modes are (3GPP TS 26.071): GSM enhanced full rate at
    # 12.2, and IS-641 at 7.4 kbit/s.
    "amr": (
        _amr_without_values(4.75, 95),
        _amr_without_values(5.15, 103),
        _amr_without_values(5.9, 118),
        _amr_without_values(6.7, 134),
        _amr(148, 10, "G.113 Table I.1, IS-641", "Bpl is that of GSM enhanced full rate"),
        _amr(159, 9.4, "G.113 Table I.1, IS-641 and GSM-EFR", _INTERPOLATED),
        _amr(204, 7.1, "G.113 Table I.1, IS-641 and GSM-EFR", _INTERPOLATED),
        _amr(244, 5, "G.113 Tables I.1 and I.4, GSM-EFR"),
    ),
    "amr-wb": (
        _amr_wb(132, 41),
        _amr_wb(177, 26),
        _amr_wb(253, 13, 4.3),
        _amr_wb(285, 10),
        _amr_wb(317, 7),
        _amr_wb(365, 5),
        _amr_wb(397, 3),
        _amr_wb(461, 1, 4.6),
        _amr_wb(477, 8, 4.9),
    ),
}


_MOST_BEYOND: Final = 2
"""Bytes by which a packet may be larger or smaller than those of its mode."""


def _of_mode(modes: tuple[_Mode, ...], payload_bytes: float, packet_ms: float) -> Impairment:
    """The mode whose payload has this size."""
    frames = round(packet_ms / _FRAME_MS)

    def error(mode: _Mode) -> float:
        return min(abs(size - payload_bytes) for size in mode.sizes(frames))

    nearest = min(modes, key=error)
    if frames < 1 or not error(nearest) <= _MOST_BEYOND:
        note = f"no mode of it has packets of {payload_bytes:g} B every {packet_ms:g} ms"
        return replace(nearest.impairment, ie=NAN, bpl=NAN, source="", provisional=False, note=note)
    return nearest.impairment


def _opus(kbps: float) -> Impairment:
    """Interpolated between the bit rates that were tested; above them as at the highest."""
    if not math.isfinite(kbps) or kbps < _OPUS[0, 0]:
        note = f"there are no published fullband values for Opus below {_OPUS[0, 0]:g} kbit/s"
        return Impairment("fullband", NAN, NAN, _OPUS_LOOKAHEAD_MS, "", note=note)
    ie, bpl = (float(np.interp(kbps, _OPUS[:, 0], _OPUS[:, column])) for column in (1, 2))
    note = "ITU-T G.113 has no values for Opus; these come from research"
    return Impairment("fullband", ie, bpl, _OPUS_LOOKAHEAD_MS, _OPUS_SOURCE, True, note)
