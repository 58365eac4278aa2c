"""What a scenario of a sweep may say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import AfterValidator, Field

from weirlab.scenario.conflicts import Conflict
from weirlab.scenario.model import Lab, Root, Section
from weirlab.scenario.values import NotEmpty, Position, RateText, Repetitions, Seconds, Seed, no_repeats
from weirlab.traffic.load import parse_rate, rate_pps
from weirlab.traffic.sizes import Constant

SimulatorChoice = Literal["weir", "ns3"]

WARMUP: Final = 0.2
"""Share of a simulation that is not counted, while the queue fills."""
FEWEST_PACKETS: Final = 100

Rates = Annotated[tuple[RateText, ...], NotEmpty, AfterValidator(no_repeats)]
Rules = Annotated[tuple[Position, ...], NotEmpty, AfterValidator(no_repeats)]
Frames = Annotated[
    tuple[Annotated[int, Field(strict=True, ge=64, le=9216)], ...], NotEmpty, AfterValidator(no_repeats)
]


@dataclass(frozen=True)
class SweepPoint:
    """A steady load of equal frames at equal distances."""

    number: int
    repetition: int
    rules: int
    rate_pps: float
    frame_bytes: int
    seconds: float
    """Simulated time, warm-up included."""
    seed: int


class SimulationSection(Section):
    """Every combination of these."""

    rates: Rates
    """Offered loads."""
    rules: Rules = (0,)
    """Matching positions."""
    frames: Frames = (64,)
    """Frame sizes in bytes, FCS included."""
    repetitions: Repetitions = 1
    """Simulations of each combination, with other random numbers."""
    trial_s: Seconds = 0.5
    """Simulated time of each, in s, of which the last four fifths count."""
    simulator: SimulatorChoice = "weir"
    """``weir``: Weir's own; ``ns3``: the module that ``weir export --to ns3`` writes."""
    seed: Seed = 1
    """Seed of all random numbers."""


class SimulationScenario(Root, title="Weir scenario: simulated sweep"):
    """A scenario of a sweep; ``model`` below ``lab`` names the measured device."""

    KEY = "simulation"

    lab: Lab = Lab(kind="sim")
    simulation: SimulationSection

    def conflicts(self) -> Iterator[Conflict]:
        what = self.simulation
        if self.lab.kind not in ("sim", "auto"):
            yield ("lab", "kind"), "a sweep is simulated: write sim, or leave it out"
        if what.simulator == "ns3" and self.lab.model is None:
            yield ("simulation", "simulator"), "ns3 simulates a measured device: name its model (lab: model)"
        if all(parse_rate(text).unit != "max" for text in what.rates):
            slowest = min(
                rate_pps(parse_rate(text), Constant(frame))
                for text, frame in product(what.rates, what.frames)
            )
            if slowest * what.trial_s * (1 - WARMUP) < FEWEST_PACKETS:
                yield (
                    ("simulation", "trial_s"),
                    f"at the lowest rate less than {FEWEST_PACKETS} packets count: simulate longer",
                )
        else:
            yield ("simulation", "rates"), "max is no steady load: give rates"

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        what = self.simulation
        yield (("simulation",), len(what.rates) * len(what.rules) * len(what.frames) * what.repetitions)

    def points(self) -> list[SweepPoint]:
        """Every simulation, combination after combination."""
        what = self.simulation
        found = []
        combinations = product(what.rules, what.frames, what.rates)
        for number, (rules, frame, text) in enumerate(combinations):
            rate = rate_pps(parse_rate(text), Constant(frame))
            for repetition in range(what.repetitions):
                words = np.random.SeedSequence([what.seed, number, repetition]).generate_state(1)
                seed = int(words[0]) % (1 << 31)
                found.append(SweepPoint(number, repetition, rules, rate, frame, what.trial_s, seed))
        return found
