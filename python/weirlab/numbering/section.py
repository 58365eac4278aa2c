"""Scenarios about a numbering plan: keys ``voice``, a proof by calls, and ``voice_load``, a load test."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from weirlab.base import limits
from weirlab.numbering.plan.values import Dialled
from weirlab.scenario.model import Dut, Root, Section
from weirlab.scenario.values import Seconds

Rate = Annotated[int, Field(strict=True, ge=1, le=100_000)]
Ratio = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class PassageSection(Dut):
    """The device under test between the caller and everybody else."""

    rules: Annotated[int, Field(strict=True, ge=0, le=limits.MOST_RULES)] = 0
    """Matching position: rules up to and including the one that accepts the calls; 0: no rules."""


class PlanSection(Section):
    """The plan, the day and the device of a scenario."""

    plan: Path
    """The numbering plan: a file, or the name of one that comes with Weir."""
    date: datetime.date | None = None
    """Apply the plan as of this day; left out: the day of the run."""
    through: PassageSection | None = None
    """The device that the calls pass; left out: none."""


class ProofSection(PlanSection):
    """The calls of a proof."""

    fall_back: bool = True
    """Call each number with a fall-back again while the preferred engine fails."""
    talk_s: Seconds = 2.0
    """How long caller and callee talk in each call, in s."""
    partly: bool = False
    """Leave out calls through engines that the lab has no program for; else they count as not proved."""


class LoadSection(PlanSection):
    """The load test."""

    numbers: Annotated[tuple[Dialled, ...], Field(max_length=20)] = ()
    """Test numbers to call; left out: the first by a route, the first by ENUM, one for each translation."""
    setup_limit_ms: Annotated[int, Field(strict=True, ge=1, le=30_000)] = 500
    """A call is bad if its set-up takes longer, or if it fails."""
    bad_share: Ratio = 0.01
    """Largest share of bad calls in a good trial."""
    trial_s: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = 5.0
    """How long new calls begin in a trial, in s."""
    trials: Annotated[int, Field(strict=True, ge=1, le=99)] = 3
    """Maximum trials per rate; fewer if they agree."""
    lowest: Rate = 10
    """Lowest rate to try, in calls/s."""
    highest: Rate = 2000
    """Highest rate to try, in calls/s."""
    width: Ratio = 0.05
    """Distance of the bounds at which the search ends, as a share of the upper one."""
    media_calls: Annotated[int, Field(strict=True, ge=0, le=50)] = 4
    """Calls with speech during each trial."""


class PlanScenario(Root):
    """A scenario about a numbering plan."""

    def beside(self, folder: Path) -> Self:
        """The scenario with its paths relative to ``folder``, unless the plan comes with Weir."""
        moved: dict[str, object] = {}
        if not (self._asked.plan.is_absolute() or self._is_ready):
            moved["plan"] = folder / self._asked.plan
        if self._asked.through is not None:
            moved["through"] = self._asked.through.beside(folder)
        if not moved:
            return self
        return self.model_copy(update={self.KEY: self._asked.model_copy(update=moved)})

    def files(self) -> Iterator[tuple[int | str, ...]]:
        found = super().files()
        return (place for place in found if place != (self.KEY, "plan") or not self._is_ready)

    @property
    def _asked(self) -> PlanSection:
        asked = getattr(self, self.KEY)
        assert isinstance(asked, PlanSection)
        return asked

    @property
    def _is_ready(self) -> bool:
        """Whether the plan is the name of one that comes with Weir."""
        from weirlab.numbering.plan import ready

        return str(self._asked.plan) in ready.names()


class VoiceScenario(PlanScenario, title="Weir scenario: voice routing"):
    """A scenario that proves a numbering plan."""

    KEY = "voice"

    voice: ProofSection


class LoadScenario(PlanScenario, title="Weir scenario: calls per second of a numbering plan"):
    """A scenario that finds how many calls per second the engines of a plan set up."""

    KEY = "voice_load"

    voice_load: LoadSection
