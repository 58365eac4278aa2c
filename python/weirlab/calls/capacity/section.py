"""Scenarios that ask how many calls a device carries: files with the key ``capacity``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Annotated, Final

import numpy as np
from pydantic import ConfigDict, Field

from weirlab.quality.assess import StreamCoding, opinion
from weirlab.quality.codecs import impairment
from weirlab.scenario.calls import CallShape
from weirlab.scenario.conflicts import Conflict, of_device, of_lab
from weirlab.scenario.model import NO_DEVICE, CalibrationSection, Dut, Lab, Root, Section
from weirlab.scenario.profile import ProfileSection
from weirlab.scenario.values import Attempts, Count, Positions, Repetitions, Seconds, Seed, Shares, WarmUp
from weirlab.traffic.calls.codecs import VoiceStream, describe_codec

_RUN: Final = re.compile(r"last(~\d+)?|\d{8}-[0-9a-z_-]*")
"""What names a run, whole or by its beginning."""

Mos = Annotated[float, Field(ge=1, le=5, allow_inf_nan=False)]
Ratio = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class SweepSection(Section):
    """Numbers of calls to try in random order, whatever the results."""

    around: Shares = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4)
    """Numbers of calls as shares of the numbers that the search found at each position: shares below 1 are of
    the least of its goals, shares above 1 of the greatest. Both numbers are always tried."""
    first: Count | None = None
    """Fewest calls. With ``last``: fixed numbers at all positions instead, tried before the search."""
    last: Count | None = None
    """Most calls, with ``first``."""
    step: Count = 100
    """Calls from one number to the next, with ``first`` and ``last``."""
    repetitions: Repetitions = 7
    """Trials per number of calls and position."""
    trial_s: Seconds = 1.0
    """Recorded part of a trial, in s."""
    warmup_s: WarmUp = 0.2
    """How long calls are in progress before recording, in s."""

    @property
    def fixed(self) -> range:
        """The numbers of calls, ascending; none where they come from the search."""
        if self.first is None or self.last is None:
            return range(0)
        return range(self.first, self.last + 1, self.step)


class CallSearch(Section):
    """The search for the most calls that the device carries."""

    mos: Mos | None = 4.0
    """MOS that a good call must reach; ``null``: only search for the most calls without loss."""
    good_share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.99
    """Share of the calls that must be good."""
    loss_ratio: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of all packets that may be lost when calls still count as without loss."""
    trial_s: Seconds = 2.0
    """Recorded part of a trial, in s."""
    warmup_s: WarmUp = 0.2
    """How long calls are in progress before recording, in s."""
    trials: Repetitions = 7
    """Maximum trials per number of calls."""
    bad_share: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.5
    """Share of these trials that may fail."""
    width: Ratio = 0.02
    """The search ends when its bounds are this close (a ratio)."""
    min_calls: Count = 50
    """Fewest calls to try."""
    max_calls: Count | None = None
    """Most calls to try; left out: as many as the sender can make."""


class PredictionSection(Section):
    """What the queueing model of a profile says about the same device."""

    model: str | None = None
    """A run with a fitted profile (its ID or ``last``), or a model file; left out: the same run measures a
    profile first."""
    tunnel: str | None = None
    """A run with a fitted profile of a tunnel without rules, or a model file. ``model`` is then that of the
    rules without a tunnel. The prediction is for the tunnel behind the rules, on one CPU."""
    profile: ProfileSection | None = None
    """The profile to measure; left out: a quick one around the positions, with the calls' frame size."""
    flows: Count | None = None
    """Flows of that profile; left out: as many as the voice streams of the most calls of a sweep with fixed
    numbers, or else of 3000 calls."""


class Capacity(Section):
    """How many calls the device carries."""

    positions: Positions = (0, 400)
    """Matching positions; 0: no rules."""
    sweep: SweepSection | None = SweepSection()
    """``null``: no sweep."""
    search: CallSearch | None = CallSearch()
    """``null``: no search."""
    predict: PredictionSection | None = PredictionSection()
    """``null``: no prediction."""
    inside: bool = True
    """Observe the device from inside while calls are in progress."""
    max_attempts: Attempts = 5
    """Maximum attempts at a trial that the host spoils."""
    seed: Seed = 1
    """Seed of the order of trials."""


class CapacityScenario(Root):
    """A scenario about the number of calls that a device carries."""

    KEY = "capacity"
    model_config = ConfigDict(title="Weir scenario: capacity in calls")

    lab: Lab = Lab()
    dut: Dut = Dut()
    calls: CallShape = CallShape()
    calibrate: CalibrationSection | None = None
    """Left out: the calibration in force is used."""
    capacity: Capacity

    def conflicts(self) -> Iterator[Conflict]:
        wanted = self.capacity
        yield from of_lab(self.lab, self.dut)
        yield from of_device(self.dut, iter([(("capacity", "positions"), wanted.positions)]))
        if self.dut.name == NO_DEVICE:
            yield ("dut", "name"), "a plain cable has no capacity to find; name a device"
        if wanted.sweep is None and wanted.search is None:
            yield ("capacity",), "neither a sweep nor a search is left to do; leave one of them in"
        if wanted.sweep is not None:
            yield from _of_sweep(wanted.sweep, searched=wanted.search is not None)
        search = wanted.search
        if search is not None and search.max_calls is not None and search.max_calls <= search.min_calls:
            yield ("capacity", "search", "max_calls"), f"must be above 'min_calls' ({search.min_calls})"
        if search is not None and search.mos is not None:
            kinds = self.calls.calls(1).classes
            best = [best_mos(kind.stream) for kind in kinds]
            bad = [i for i, reached in enumerate(best) if not reached >= search.mos]
            if sum(kinds[i].share for i in bad) > 1 - search.good_share + 1e-9:
                named = self.calls.codec if len(kinds) == 1 else describe_codec(kinds[bad[0]].stream)
                few = "no call is" if len(bad) == len(kinds) else "too few calls are"
                yield (
                    ("capacity", "search", "mos"),
                    f"{named} {_reaches(best[bad[0]])}, so {few} good enough: "
                    "ask for less, or write 'mos: null' to search without",
                )
        if wanted.predict is not None and wanted.predict.model and wanted.predict.profile:
            yield (
                ("capacity", "predict", "profile"),
                "a model is named already: leave out one of 'model' and 'profile'",
            )
        if wanted.predict is not None and wanted.predict.model and wanted.predict.flows:
            yield ("capacity", "predict", "flows"), "belongs to a profile to measure, but a model is named"
        if wanted.predict is not None and wanted.predict.tunnel and not wanted.predict.model:
            yield (
                ("capacity", "predict", "tunnel"),
                "stands behind rules: name their profile as 'model', measured with a device without a tunnel",
            )

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        """See :meth:`Root.trials`; those of a search follow from each other and are few."""
        what = self.capacity
        if what.sweep is not None:
            yield (
                ("capacity", "sweep"),
                len(what.positions) * len(what.sweep.fixed or what.sweep.around) * what.sweep.repetitions,
            )
        if what.predict is not None and what.predict.profile is not None:
            yield ("capacity", "predict", "profile"), what.predict.profile.trials

    def files(self) -> Iterator[tuple[int | str, ...]]:
        yield from super().files()
        predict = self.capacity.predict
        # What is no run is a model file.
        for name in ("model", "tunnel"):
            source = None if predict is None else getattr(predict, name)
            if source is not None and not _RUN.fullmatch(source):
                yield "capacity", "predict", name


def _of_sweep(sweep: SweepSection, *, searched: bool) -> Iterator[Conflict]:
    where = ("capacity", "sweep")
    if (sweep.first is None) != (sweep.last is None):
        missing = "first" if sweep.first is None else "last"
        yield where, f"'first' and 'last' go together, {missing!r} is missing"
    elif sweep.first is None and not searched:
        yield where, "without a search there is nothing to sweep around: give 'first' and 'last'"
    elif sweep.first is not None and sweep.last is not None and sweep.last < sweep.first:
        yield (*where, "last"), f"must not be below 'first' ({sweep.first})"


def best_mos(stream: VoiceStream) -> float:
    """MOS of a call that loses nothing and meets no delay but its packets'; NaN where nobody knows."""
    kind = impairment(stream.codec)
    coded = StreamCoding((kind,), np.zeros(1, np.int64))
    _, mos = opinion(coded, np.array([stream.packet_ms + kind.lookahead_ms]), np.zeros(1), np.ones(1))
    return float(mos[0])


def _reaches(best: float) -> str:
    return "has no published quality" if math.isnan(best) else f"reaches MOS {best:.2f} at best"
