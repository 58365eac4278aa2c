"""Which profiles a choice needs, which of them are stored, and measuring the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.base.errors import InputError, ModelError, StoreError, TrialError, WeirError
from weirlab.devices.prediction import modelling
from weirlab.jobs import machine, profiles
from weirlab.jobs.progress import Progress
from weirlab.jobs.quick import QuickProfile, profile_in_turn
from weirlab.model import DeviceModels
from weirlab.records import SIMULATION
from weirlab.store import Run, Store
from weirlab.store.manifest import host, kernel
from weirlab.traffic.sizes import mean_bytes, parse_sizes

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
    refused: str = ""
    """The stored run that would do if it counted, and why it does not; empty without one."""
    error: WeirError | None = None
    """Why nothing can be measured here; None if something can."""

    @property
    def between(self) -> tuple[int, ...]:
        """Frame sizes in bytes, mean ones of mixes, of which the stored run has no trial, only of smaller and
        larger ones."""
        if self.run is None:
            return ()
        known = _sizes(self.run)
        return tuple(_mean(size) for size in self.wanted.sizes if size not in known)


@dataclass(frozen=True)
class DeviceProfile:
    """What became of a need: models, or the error that left the device without."""

    need: ProfileNeed
    device: DeviceModels | None
    run: Run | None
    error: WeirError | None = None

    @property
    def reason(self) -> str:
        """Why there are no models, without the name of the device; empty if there are."""
        return "" if self.error is None else str(self.error).removeprefix(f"{self.need.name}: ")


def positions(rules: Sequence[int]) -> tuple[int, ...]:
    """Matching positions of a profile from which ``rules`` can be predicted."""
    most = max(rules)
    if most == 0:
        return (0,)
    return tuple(sorted({0, *rules, round(most / 4), round(most / 2), round(most * ROOM)}))


def stored_runs(store: Store, wanted: QuickProfile) -> Iterator[Run]:
    """The stored profiles that cover what is ``wanted`` and were measured here, newest first.

    They have its positions and gaps, and its frame sizes lie between theirs: service times are linear in the
    size, and models answer for the sizes that a profile encloses.
    """
    whole = wanted.scenario().model_dump(mode="json")
    needed = whole["profile"]
    for summary in store.runs():
        if summary.kind != "profile" or summary.status != "complete":
            continue
        if summary.simulated != (wanted.lab == SIMULATION):
            continue
        try:
            run = store.open(summary.run_id)
            manifest = run.manifest
            held, profile = manifest.scenario, manifest.section("profile")
        except StoreError:
            # It is damaged, or another process deletes it meanwhile.
            continue
        if (manifest.host, manifest.kernel) != (host(), kernel()):
            continue
        alike = all(held.get(key) == whole[key] for key in ("dut", "traffic"))
        covered = all(set(needed[key]) <= set(profile.get(key) or ()) for key in ("positions", "arrivals"))
        covered = covered and _encloses(_sizes(run), needed["sizes"])
        if alike and covered and profile.get("adaptive") is None:
            yield run


def _sizes(run: Run) -> tuple[str, ...]:
    return tuple(map(str, run.manifest.section("profile").get("sizes") or ()))


def _encloses(profiled: Sequence[str], sizes: Sequence[str]) -> bool:
    """Whether each of ``sizes`` was profiled, or smaller and larger frames were."""
    single = [int(size) for size in profiled if size.isdecimal()]
    return all(
        size in profiled or (bool(single) and min(single) <= _mean(size) <= max(single)) for size in sizes
    )


def _mean(size: str) -> int:
    return round(mean_bytes(parse_sizes(size)))


def needs(store: Store, wanted: Sequence[QuickProfile], *, again: bool) -> tuple[ProfileNeed, ...]:
    """What is needed for each of ``wanted``, and whether it is stored; ``again``: nothing stored counts."""
    return tuple(_unmeasured(one) if again else _need(store, one) for one in wanted)


def _need(store: Store, wanted: QuickProfile) -> ProfileNeed:
    """A stored run that counts serves first, one with the very sizes before others; for a noisy machine, also
    one that does not count.
    """
    unusable: tuple[Run, str] | None = None
    known = [ProfileNeed(wanted.device, wanted, run) for run in stored_runs(store, wanted)]
    for need in sorted(known, key=lambda each: bool(each.between)):
        run = need.run
        assert run is not None
        if not (why := machine.refusal(run)):
            return need
        if unusable is None and not run.manifest.emulated:
            unusable = run, why
    if unusable is None:
        return _unmeasured(wanted)
    run, why = unusable
    refused = f"run {run.run_id}: {why}"
    if wanted.machine == "noisy":
        return ProfileNeed(wanted.device, wanted, run, refused)
    return replace(_unmeasured(wanted), refused=refused)


def _unmeasured(wanted: QuickProfile) -> ProfileNeed:
    try:
        machine.refuse_emulated(wanted.facts, wanted.device)
    except TrialError as error:
        return ProfileNeed(wanted.device, wanted, None, error=error)
    return ProfileNeed(wanted.device, wanted, None)


def profiled(store: Store, needed: Sequence[ProfileNeed], progress: Progress) -> Iterator[DeviceProfile]:
    """What became of each of ``needed``; those that are not stored are measured, one after the other.

    A device that cannot be measured, does not count or has no model is one with an error; the others go on.
    For a noisy machine, a profile that does not count is one with models all the same.

    Raises
    ------
    InputError, StoreError
        A mistake of the user, or a run cannot be kept.
    """
    for need in needed:
        profiles.refuse_impossible(need.wanted.scenario())
    for need in needed:
        run = need.run
        try:
            if need.error is not None:
                raise need.error
            models = None if run is None else _stored_models(need, run, progress)
            if run is None or models is None:
                outcome = next(profile_in_turn(store, [need.wanted], progress))
                run, problem = outcome.run, outcome.problem()
                if problem is not None and need.wanted.machine != "noisy":
                    raise problem
                models = modelling.models_of(run) or modelling.fit_run(run, progress)
        except (InputError, StoreError):
            raise
        except WeirError as error:
            missing = DeviceProfile(need, None, run, error)
            progress.note(f"{need.name} is left out: {missing.reason}")
            yield missing
        else:
            measured = need if run == need.run else replace(need, run=None)
            yield DeviceProfile(measured, replace(modelling.described(run, models), name=need.name), run)


def _stored_models(need: ProfileNeed, run: Run, progress: Progress) -> modelling.Models | None:
    """The models of a stored run; None if it is to be measured anew: the host spoiled most of its trials, or
    it does not count and no model fits."""
    try:
        return modelling.models_of(run) or modelling.fit_run(run, progress)
    except (ModelError, TrialError) as error:
        if isinstance(error, ModelError) and not need.refused:
            raise
        progress.note(f"{need.name} is profiled again, the stored run does not serve: {error}")
        return None
