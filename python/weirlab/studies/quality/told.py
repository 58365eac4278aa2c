"""The streams of a capture in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weirlab.cli.quantities import clock, count, duration, percent, plural

if TYPE_CHECKING:
    from weirlab.studies.quality.study import QualityOutcome


def sentence(outcome: QualityOutcome) -> str:
    """How many streams lost nothing, and which was worst."""
    streams, mos = outcome.streams, outcome.mos
    known = np.array([stream.loss_known for stream in streams])
    lossless = int((known & (outcome.table.streams.losses.count == 0)).sum())
    lasted_s = (outcome.capture["last_ns"] - outcome.capture["first_ns"]) / 1e9
    lasted = clock(lasted_s) if lasted_s >= 2 else duration(lasted_s * 1e9)
    said = f"{plural(len(streams), 'voice stream')} in {lasted}"
    if known.any():
        said += ", none with loss" if lossless == len(streams) else f", {count(lossless)} without loss"
    if not known.all():
        said += f", {count(int((~known).sum()))} with unknown loss"
    delay = (
        "network delay not measured"
        if outcome.table.network_ms is None
        else f"network delay {outcome.table.network_ms:g} ms as given"
    )
    if np.isnan(mos).all():
        return f"{said}; no MOS is known."
    worst = int(np.nanargmin(mos))
    median = f"median MOS {np.nanmedian(mos):.2f}, worst" if np.isfinite(mos).sum() > 2 else "worst MOS"
    many = f"{median if len(streams) > 1 else 'MOS'} {mos[worst]:.2f}"
    which = f" (stream {streams[worst].number}, {percent(outcome.loss_ratio[worst])} lost)"
    return f"{said}; {many}{which}; {delay}."
