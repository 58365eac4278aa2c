"""Quick profiles of devices that a command names in a word, for commands that measure several."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.base.files import HOST_FILES
from weirlab.base.storage import EMULATED, SIMULATION
from weirlab.jobs import machine, profiles
from weirlab.jobs.profiles import ProfileOutcome, ProfileTerms
from weirlab.jobs.progress import Progress
from weirlab.lab.dut import is_emulated
from weirlab.measure.profile import estimate_s
from weirlab.scenario import QUICK, Scenario, from_options
from weirlab.store import Store

OWN: Final = "ruleset"
"""The device that takes a user's rules."""


@dataclass(frozen=True)
class QuickProfile:
    """What is profiled, and where; the rest is as with ``weir profile --quick``."""

    device: str
    """A device under test, or a file with rules."""
    positions: tuple[int, ...] | None = None
    """Matching positions; None: those of a quick profile."""
    frames: tuple[int, ...] | None = None
    """Frame sizes in bytes; None: those of a quick profile."""
    _: KW_ONLY
    mixes: tuple[str, ...] = ()
    """Mixes of frame sizes, besides ``frames``."""
    repetitions: int | None = None
    lab: str = "auto"
    machine: str = "usual"
    match: str | None = None
    """The rule of a file that traffic is to match; None: see ``weirlab.rules.aiming``."""
    flows: int = 1
    answered: bool = False
    """The flows are known to connection tracking, and answered."""

    @property
    def ruleset(self) -> Path | None:
        """The file, if the device is one with rules."""
        path = Path(self.device)
        return path if "/" in self.device or path.is_file() else None

    @property
    def sizes(self) -> tuple[str, ...]:
        """Frame sizes and mixes as text; empty: those of a quick profile."""
        return (*map(str, self.frames or ()), *self.mixes)

    def scenario(self) -> Scenario:
        """As a scenario; raises ``InputError`` for a device or settings that do not exist."""
        dut: dict[str, Any] = {"name": self.device}
        if self.ruleset is not None:
            dut = {"name": OWN, "ruleset": str(self.ruleset), "match": self.match}
        positions = (0,) if dut["name"] in ("ruleset", "image") else self.positions
        said = {
            "positions": positions,
            "sizes": self.sizes or None,
            "repetitions": self.repetitions,
        }
        return from_options(
            {
                "name": "profile" if self.ruleset is None else f"profile of {self.ruleset.name}",
                "machine": self.machine,
                "lab": {"kind": self.lab},
                "dut": dut,
                "traffic": {"flows": self.flows, "answered": self.answered},
                "profile": {**QUICK, **{name: value for name, value in said.items() if value is not None}},
            }
        )

    @property
    def command(self) -> str:
        """The command that measures the same."""
        words = ["weir", "profile", "--quick"]
        words += ["--dut", self.device] if self.ruleset is None else ["--ruleset", self.device]
        if self.positions is not None and self.ruleset is None:
            words += ["--rules", ",".join(map(str, self.positions))]
        if self.frames:
            words += ["--frame", ",".join(map(str, self.frames))]
        for mix in self.mixes:
            words += ["--sizes", mix]
        if self.repetitions is not None:
            words += ["--repetitions", str(self.repetitions)]
        if self.lab != "auto":
            words += ["--lab", self.lab]
        words += [] if self.match is None else ["--match", self.match]
        words += ["--answered"] if self.answered else []
        words += ["--flows", str(self.flows)] if self.flows > 1 else []
        if self.machine != "usual":
            words += ["--machine", self.machine]
        return shlex.join(words)

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of the device's bed before it is built."""
        return {EMULATED: self.lab != SIMULATION and self.ruleset is None and is_emulated(self.device)}

    @property
    def settings(self) -> int:
        """How many settings it has: matching positions times frame sizes, with equal and random gaps."""
        return self.places * len(self.scenario().profile.arrivals)

    @property
    def places(self) -> int:
        """Matching positions times frame sizes."""
        profile = self.scenario().profile
        return len(profile.positions) * len(profile.sizes)

    @property
    def expected_s(self) -> float:
        """How long it should take."""
        return estimate_s(profiles.to_measure(self.scenario()))


def profile_in_turn(
    store: Store, wanted: Sequence[QuickProfile], progress: Progress
) -> Iterator[ProfileOutcome]:
    """Measure each of ``wanted`` as a run of its own, one after the other.

    All are checked before the first is measured. Raises as :func:`weirlab.jobs.profiles.profile`, and
    ``TrialError`` for an emulated device, whose numbers mean nothing.
    """
    scenarios = [each.scenario() for each in wanted]
    for scenario in scenarios:
        profiles.refuse_impossible(scenario)
    for each, scenario in zip(wanted, scenarios, strict=True):
        own = each.ruleset is not None
        machine.refuse_emulated(each.facts, each.device)
        yield profiles.profile(
            store,
            scenario,
            progress,
            command=each.command,
            inputs=HOST_FILES,
            terms=ProfileTerms(unnamed=not own, any_size=own and not each.sizes, real=True),
        )
