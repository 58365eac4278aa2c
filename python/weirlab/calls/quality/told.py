"""The streams of a capture in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weirlab.cli.quantities import clock, count, duration, percent, plural

if TYPE_CHECKING:
    from weirlab.calls.quality.streams import CaptureStream
    from weirlab.calls.quality.study import QualityOutcome


def sentence(outcome: QualityOutcome) -> str:
    """How many streams lost nothing, and which was worst."""
    streams, mos = outcome.streams, outcome.mos
    voice = np.array([stream.is_voice for stream in streams])
    known = voice & np.array([stream.loss_known for stream in streams])
    lossless = int((known & (outcome.table.streams.losses.count == 0)).sum())
    lasted_s = (outcome.capture["last_ns"] - outcome.capture["first_ns"]) / 1e9
    lasted = clock(lasted_s) if lasted_s >= 2 else duration(lasted_s * 1e9)
    said = f"{_streams(streams)} in {lasted}"
    if known.any():
        said += ", none with loss" if lossless == voice.sum() else f", {count(lossless)} without loss"
    if known.sum() < voice.sum():
        said += f", {count(int(voice.sum() - known.sum()))} with unknown loss"
    if np.isnan(mos).all():
        return f"{said}; no MOS is known." if voice.any() else f"{said}."
    worst = int(np.nanargmin(mos))
    median = f"median MOS {np.nanmedian(mos):.2f}, worst" if np.isfinite(mos).sum() > 2 else "worst MOS"
    many = f"{median if voice.sum() > 1 else 'MOS'} {mos[worst]:.2f}"
    beyond = f", {percent(outcome.table.beyond[worst])} behind it" if outcome.table.beyond[worst] else ""
    lost = f"{percent(outcome.loss_ratio[worst])} lost{' before the capture' if beyond else ''}{beyond}"
    return f"{said}; {many} (stream {streams[worst].number}, {lost}); {_delay(outcome)}."


def _streams(streams: Sequence[CaptureStream]) -> str:
    """``3 voice streams and 2 others``."""
    voice = sum(stream.is_voice for stream in streams)
    others = len(streams) - voice
    if not voice:
        return f"{plural(others, 'stream')}, none of voice,"
    return plural(voice, "voice stream") + (f" and {plural(others, 'other')}" if others else "")


def _delay(outcome: QualityOutcome) -> str:
    table = outcome.table
    if table.network_ms is not None:
        return f"network delay {table.network_ms:g} ms as given"
    return "network delay by RTCP" if np.isfinite(table.network_ns).any() else "network delay not measured"
