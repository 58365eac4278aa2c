"""Input and output of predictions for changing loads: phases in, delay and loss over time out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.model.base import F64
from weirlab.model.spike import Spike
from weirlab.traffic.load import rate_pps
from weirlab.traffic.sizes import mean_bytes
from weirlab.traffic.spec import GAP_SCV, Traffic, stretches

DELAYS: Final = ("delay_mean_ns", "delay_p50_ns", "delay_p99_ns")
"""The delays that are predicted over time."""


@dataclass(frozen=True)
class LoadPhase:
    """A stretch of constant traffic; the next one begins where it ends.

    ``position`` is the mean matching position, ``gap_scv`` as for ``Model.predict``. The
    traffic is assumed to have been the same for a long time before the first phase.
    """

    duration_ns: float
    rate_pps: float
    frame_bytes: float
    position: float
    gap_scv: float = 0.0


@dataclass(frozen=True)
class TransientPrediction:
    """Delay and loss of packets that depart at ``at_ns`` after the start of the first phase.

    All arrays have one shape, ``(len(at_ns),)``. The quantiles are those over many
    repetitions of the same phases, at that instant.
    """

    at_ns: F64
    delay_mean_ns: F64
    delay_p50_ns: F64
    delay_p99_ns: F64
    loss_ratio: F64


def starts_ns(phases: Sequence[LoadPhase]) -> F64:
    """When each phase begins; the last element is the end of the last one, so shape (n + 1,)."""
    return np.concatenate([[0.0], np.cumsum([phase.duration_ns for phase in phases])])


def index_of(phases: Sequence[LoadPhase], at_ns: F64) -> npt.NDArray[np.intp]:
    """The phase that each time belongs to; the end of the last phase still belongs to it."""
    index = np.searchsorted(starts_ns(phases), at_ns, side="right") - 1
    return np.clip(index, 0, len(phases) - 1)


def times(phases: Sequence[LoadPhase], at_ns: npt.ArrayLike) -> F64:
    """``at_ns`` as an array.

    Raises
    ------
    InputError
        There are no phases, one has no length, or a time lies outside of them.
    """
    if not phases:
        raise InputError("a prediction over time needs at least one phase of traffic")
    for i, phase in enumerate(phases):
        if not (math.isfinite(phase.duration_ns) and phase.duration_ns > 0):
            raise InputError(
                f"phase {i + 1} lasts {phase.duration_ns:g} ns: it must be more than 0, and finite"
            )
    at = np.atleast_1d(np.asarray(at_ns, dtype=np.float64))
    end = float(starts_ns(phases)[-1])
    if at.ndim != 1 or not ((at >= 0) & (at <= end * (1 + 1e-12))).all():
        raise InputError(f"times of a prediction must form a list between 0 and the end at {end:g} ns")
    return at


def spikes(spike: Spike, phases: Sequence[LoadPhase], at_ns: F64) -> F64:
    """What the steps in the rate between ``phases`` add to the delay at ``at_ns``, in ns."""
    total = np.zeros_like(at_ns)
    if spike:
        for (before, after), start in zip(itertools.pairwise(phases), starts_ns(phases)[1:-1], strict=True):
            total += spike.ns(at_ns - start, after.rate_pps - before.rate_pps)
    return total


def phases_of(traffic: Traffic, position: float) -> list[LoadPhase]:
    """The phases of a trial's recorded part; ``position`` is the mean matching position before any step.

    Raises
    ------
    InputError
        A load is "as fast as possible", which is not known as a rate beforehand.
    """
    begins = [0.0, *(step.at_s * 1e9 for step in traffic.steps), traffic.duration_s * 1e9]
    found = []
    for (rate, place), begin, end in zip(stretches(traffic), begins[:-1], begins[1:], strict=True):
        pps = rate_pps(rate, traffic.sizes)
        if not math.isfinite(pps):
            raise InputError("a prediction over time needs loads in numbers, not 'max'; e.g. 300kpps")
        if end > begin:
            found.append(
                LoadPhase(
                    duration_ns=end - begin,
                    rate_pps=pps,
                    frame_bytes=mean_bytes(traffic.sizes),
                    position=position if place is None else float(place),
                    gap_scv=GAP_SCV[traffic.arrivals],
                )
            )
    return found
