"""Scenarios that prove a numbering plan by calls: key ``voice``."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import ConfigDict

from weirlab.scenario.model import Root, Seconds, Section


class Proof(Section):
    """Which calls."""

    plan: Path
    """The numbering plan: a file, or the name of one that comes with Weir."""
    date: datetime.date | None = None
    """What holds on this day; left out: the day of the run."""
    fall_back: bool = True
    """Call each number with a fall-back again while the preferred engine is switched off."""
    talk_s: Seconds = 2.0
    """For how long caller and callee talk in each call, in s."""
    partly: bool = False
    """Leave out calls that need engines which the lab has no program for; else they count as not proved."""


class VoiceScenario(Root):
    """A scenario that proves a numbering plan."""

    KEY = "voice"
    model_config = ConfigDict(title="Weir scenario: voice routing")

    voice: Proof

    def beside(self, folder: Path) -> Self:
        """With the plan beside the scenario, unless it is the name of one that comes with Weir."""
        if self.voice.plan.is_absolute() or self._is_ready:
            return self
        proof = self.voice.model_copy(update={"plan": folder / self.voice.plan})
        return self.model_copy(update={"voice": proof})

    def files(self) -> Iterator[tuple[int | str, ...]]:
        found = super().files()
        return (place for place in found if place != ("voice", "plan") or not self._is_ready)

    @property
    def _is_ready(self) -> bool:
        """Whether the plan is the name of one that comes with Weir."""
        from weirlab.studies.voice.plan import ready

        return str(self.voice.plan) in ready.names()
