"""One run of one device: a profile, and trials at settings that the profile leaves out."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from weirlab.base.errors import InputError
from weirlab.devices.prediction import modelling, verification
from weirlab.jobs import profiles, testbeds
from weirlab.jobs.progress import Progress
from weirlab.measure.profile import expected
from weirlab.measure.verify import drawn_positions
from weirlab.scenario import Scenario, from_plain
from weirlab.store import Run, Store

SIMULATED = "simulated"
"""Stands for a device's name in the simulated lab."""

POSITIONS = 4
"""Held-out positions per run, each from another gap between profiled positions."""

DRAWS = 4
"""Loads below the threshold, drawn per position and size."""


@dataclass(frozen=True)
class Job:
    """What one run measures; ``seed`` draws the held-out settings and is different for each run."""

    device: str
    number: int
    seed: int
    profile: dict[str, Any]
    """Settings of the scenario's section ``profile`` that differ from the default."""

    @property
    def name(self) -> str:
        return f"{self.device}-{self.number}"

    def scenario(self) -> Scenario:
        """The profile, and held-out positions in gaps between profiled ones, at all of its sizes."""
        simulated = self.device == SIMULATED
        plan = from_plain(
            {
                "name": f"bench {self.name}",
                "lab": {"kind": "sim" if simulated else "netns"},
                "dut": {} if simulated else {"name": self.device},
                "profile": self.profile,
            },
            "the bench",
        )
        positions = plan.profile.positions
        inside = tuple(n for n in drawn_positions(positions, self.seed) if n < max(positions))
        if not inside:
            raise InputError(f"positions {positions} leave no other one between them to hold out")
        if len(inside) > POSITIONS:
            inside = tuple(sorted(random.Random(self.seed).sample(inside, POSITIONS)))
        default = verification.default(plan, self.seed)
        held_out = default.model_copy(
            update={
                "positions": inside,
                "draws": DRAWS,
                "trial_s": plan.profile.trial_s,
                "warmup_s": plan.profile.warmup_s,
            }
        )
        return plan.model_copy(update={"verify": (held_out,)})


def trials(scenario: Scenario) -> tuple[int, int]:
    """Number of trials of the profile per repetition (without scouting), and of everything else."""
    from weirlab.measure.adaptive import AdaptivePlan

    what = scenario.profile
    places = len(what.positions) * len(what.sizes)
    rest = places + sum(
        len(each.positions) * len(each.sizes) * (each.draws + len(each.overload_shares)) * each.repetitions
        for each in scenario.verify
    )
    grid = profiles.to_measure(scenario)
    if what.adaptive is None:
        return (len(expected(grid)) - places) // grid.repetitions, rest
    return 0, rest - places + AdaptivePlan(grid, what.adaptive.budget).budget


def measure(store: Store, job: Job, progress: Progress, command: str) -> Run:
    """Measure ``job``, or the rest of it after an interruption."""
    begun = {run.name: run.run_id for run in store.runs()}.get(f"bench {job.name}")
    if begun is None:
        scenario = job.scenario()
        profiles.refuse_impossible(scenario)
    else:
        _, scenario = profiles.interrupted(store, begun)
    with testbeds.open_bed(scenario.lab, scenario.dut, progress) as bed:
        if begun is None:
            writer = profiles.begin(store, scenario, bed, command)
        else:
            writer = profiles.go_on(store, store.open(begun), bed)
        with writer:
            profiles.measured(bed, scenario, writer, progress)
            progress.stage(f"fitting the models of {job.name}")
            verification.measure(bed, modelling.fit_run(writer.run), scenario, writer, progress)
    return writer.run
