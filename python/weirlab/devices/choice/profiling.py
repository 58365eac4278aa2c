"""Which profiles a choice needs, which of them are stored, and measuring the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.devices.prediction import modelling
from weirlab.jobs.progress import Progress
from weirlab.jobs.quick import QuickProfile, profile_in_turn
from weirlab.model import DeviceModels
from weirlab.records import SIMULATION
from weirlab.store import Run, Store
from weirlab.store.manifest import host, kernel

ROOM: Final = 1.25
"""How much further than the rules in question a profile reaches: between positions, bounds are surest."""


@dataclass(frozen=True)
class ProfileNeed:
    """A profile that a choice needs: of a filter, or of a tunnel without rules."""

    name: str
    """What the user calls the device."""
    wanted: QuickProfile
    run: Run | None
    """The stored run that will do; None if it has to be measured."""


def positions(rules: Sequence[int]) -> tuple[int, ...]:
    """Matching positions of a profile from which ``rules`` can be predicted."""
    most = max(rules)
    if most == 0:
        return (0,)
    return tuple(sorted({0, *rules, round(most / 4), round(most / 2), round(most * ROOM)}))


def stored_run(store: Store, wanted: QuickProfile) -> Run | None:
    """The newest stored profile that contains what is ``wanted`` and was measured here; None without one."""
    scenario = wanted.scenario()
    for summary in store.runs():
        if summary.kind != "profile" or summary.status != "complete":
            continue
        run = store.open(summary.run_id)
        manifest = run.manifest
        if (manifest.host, manifest.kernel) != (host(), kernel()):
            continue
        if run.simulated != (wanted.lab == SIMULATION):
            continue
        held = manifest.scenario
        whole = scenario.model_dump(mode="json")
        profile, needed = held.get("profile") or {}, whole["profile"]
        alike = all(held.get(key) == whole[key] for key in ("dut", "traffic"))
        covered = all(
            set(needed[key]) <= set(profile.get(key) or ()) for key in ("positions", "sizes", "arrivals")
        )
        if alike and covered and profile.get("adaptive") is None:
            return run
    return None


def needs(store: Store, wanted: Sequence[QuickProfile], *, again: bool) -> tuple[ProfileNeed, ...]:
    """What is needed for each of ``wanted``, and whether it is stored; ``again``: nothing stored counts."""
    return tuple(
        ProfileNeed(
            each.device,
            each,
            None if again else stored_run(store, each),
        )
        for each in wanted
    )


def measured(store: Store, needed: Sequence[ProfileNeed], progress: Progress) -> Iterator[Run]:
    """The runs of ``needed``, in order; those that are not stored are measured, one after the other.

    Raises as :func:`weirlab.jobs.profiles.profile`, and the error of a profile that does not count.
    """
    outcomes = profile_in_turn(store, [each.wanted for each in needed if each.run is None], progress)
    for each in needed:
        if each.run is not None:
            yield each.run
            continue
        outcome = next(outcomes)
        if (problem := outcome.problem()) is not None:
            raise problem
        yield outcome.run


def fitted(run: Run, name: str, progress: Progress) -> DeviceModels:
    """The device of ``run`` with its models, which are fitted if they are not yet, as ``name``."""
    models = modelling.models_of(run) or modelling.fit_run(run, progress)
    return replace(modelling.described(run, models), name=name)
