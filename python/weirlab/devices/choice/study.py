"""Which device carries given calls: profiles, a plan for every kind of calls, number of rules and load."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, Literal

from weirlab.base.errors import (
    InputError,
    LabError,
    MissingCapability,
    ModelError,
    NotMet,
    TrialError,
    Undecided,
    WeirError,
)
from weirlab.base.quantities import plural, words
from weirlab.cli.quantities import clock
from weirlab.devices.choice.profiling import DeviceProfile, ProfileNeed, needs, positions, profiled
from weirlab.devices.planning.outcome import PlanOutcome, PlanRequest
from weirlab.devices.planning.study import plan
from weirlab.jobs.progress import Progress
from weirlab.jobs.quick import QuickProfile
from weirlab.model import DeviceModels
from weirlab.model.planning.planner import Conclusion, PlanAnswer
from weirlab.model.planning.requirements import for_calls
from weirlab.records import SIMULATION
from weirlab.requirements import DemandJudgement
from weirlab.store import Store
from weirlab.traffic.calls.mix import VoiceMix
from weirlab.traffic.sizes import Constant, SizeMix, describe, largest_bytes, smallest_bytes

MOST_SIZES: Final = 4
"""Frame sizes of calls up to which a profile has all of them."""


@dataclass(frozen=True)
class ChoiceRequest:
    """What the user gives."""

    devices: tuple[str, ...]
    """Empty with ``profiles``."""
    tunnels: tuple[str, ...]
    """Tunnels behind the devices; with ``profiles``, runs or model files of tunnels."""
    profiles: tuple[str | DeviceModels, ...]
    """Runs, model files or models to choose from, without measuring."""
    rules: tuple[int, ...]
    calls: int
    streams: tuple[VoiceMix, ...]
    """Kinds of calls: each is answered, the first decides which device is best."""
    factors: tuple[float, ...]
    """Multiples of ``calls``; the first decides."""
    terms: PlanRequest
    """Requirements besides those of calls, certainty and direction of each plan."""
    profile: QuickProfile
    """How devices are profiled; its device does not count."""
    again: bool = False
    """Measure also what is stored."""


@dataclass(frozen=True)
class ChoiceCase:
    """The devices with one kind of calls, at one number of rules and one multiple of the calls."""

    stream: VoiceMix
    rules: int
    factor: float
    calls: int
    plan: PlanOutcome
    plain: PlanOutcome | None = None
    """The same devices without the tunnels behind them, to compare with."""


@dataclass(frozen=True)
class ChoiceRow:
    """One device in one case."""

    device: str
    codecs: str
    """Codecs and packet times of the calls."""
    rules: int
    factor: float
    calls: int
    """Calls in question."""
    verdict: Conclusion | Literal["not measured"]
    threshold_pps: float
    delay_p99_ns: float
    delay_p99_bound_ns: float
    """What the certainty of trials stays below; NaN if the model has no interval."""
    delay_p99_floor_ns: float
    """What as many stay above."""
    loss_ratio: float
    loss_bound: float
    loss_floor: float
    most_calls: int | None
    """Calls that meet the requirement with the certainty; None if that is not known."""
    headroom_ratio: float
    why: str


@dataclass(frozen=True)
class ChoiceOutcome:
    """Every case, and the profiles that the answers rest on."""

    request: ChoiceRequest
    cases: tuple[ChoiceCase, ...]
    profiles: tuple[DeviceProfile, ...] = ()
    """What became of each device and tunnel; empty if profiles were given."""

    @property
    def failures(self) -> tuple[DeviceProfile, ...]:
        """The devices and tunnels without a profile."""
        return tuple(one for one in self.profiles if one.error is not None)

    @property
    def bare(self) -> bool:
        """Whether no tunnel has a profile although some were asked for: no case has one."""
        tunnels = self.profiles[len(self.request.devices) :]
        return bool(tunnels) and all(one.error is not None for one in tunnels)

    @property
    def best(self) -> PlanAnswer | None:
        """The answer of the device that is chosen; None if none will do, or if no tunnel was measured."""
        return None if self.bare else self.base.best

    @property
    def base(self) -> PlanOutcome:
        """The case that decides: the first kind of calls, number of rules and factor.

        If :attr:`bare`, that is one without a tunnel.
        """
        return self.cases[0].plan

    def problem(self) -> WeirError | None:
        """The error of a device that was not measured, or the worst of all cases at the first factor."""
        if (missing := incomplete(self.failures)) is not None:
            return missing
        found = [case.plan.problem() for case in self._deciding]
        worst = max(filter(None, found), key=lambda error: error.exit_code, default=None)
        return worst or self._divided()

    @property
    def judged(self) -> tuple[DemandJudgement, ...]:
        """How each requirement is met by the best device of every case at the first factor."""
        return tuple(one for case in self._deciding for one in case.plan.judged)

    @property
    def _deciding(self) -> list[ChoiceCase]:
        return [case for case in self.cases if case.factor == self.request.factors[0]]

    def _divided(self) -> WeirError | None:
        """The error if every case has a device that will do, but none will do in all of them."""
        found: dict[str, set[Conclusion]] = {}
        for case in self._deciding:
            for answer in case.plan.answers:
                found.setdefault(answer.device, set()).add(answer.verdict)
        if any(verdicts == {"meets"} for verdicts in found.values()):
            return None
        if any("misses" not in verdicts for verdicts in found.values()):
            return Undecided("undecided: no device surely carries the calls of every case in the table")
        return NotMet("the answer is no: no device carries the calls of every case in the table")

    def rows(self, why: Callable[[PlanAnswer, PlanOutcome], str]) -> list[ChoiceRow]:
        """A row for each device and case; ``why`` explains an answer."""
        found = []
        for case in self.cases:
            if not self.bare:
                found += [_row(case, case.plan, one, why(one, case.plan)) for one in case.plan.answers]
            if (plain := case.plan if self.bare else case.plain) is not None:
                rows = [_row(case, plain, answer, why(answer, plain)) for answer in plain.answers]
                found += [replace(row, device=f"{row.device}, no tunnel") for row in rows]
            found += [_missing_row(case, name, failed) for name, failed in self._left_out()]
        return found

    def _left_out(self) -> Iterator[tuple[str, DeviceProfile]]:
        """Rows without numbers: a device, or a device and a tunnel, and which of them has no profile."""
        ends = len(self.request.devices)
        filters, tunnels = self.profiles[:ends], self.profiles[ends:]
        rows: list[tuple[DeviceProfile, ...]] = [(one, two) for one in filters for two in tunnels] or [
            (one,) for one in filters
        ]
        for parts in rows:
            if failed := [part for part in parts if part.error is not None]:
                yield " + ".join(part.need.name for part in parts), failed[0]

    def is_base(self, row: ChoiceRow) -> bool:
        """Whether ``row`` is one of the case that decides."""
        case = self.cases[0]
        return (row.codecs, row.rules, row.factor) == (case.stream.name, case.rules, case.factor)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader must know, once for all cases."""
        return tuple(dict.fromkeys(text for case in self.cases for text in case.plan.warnings))

    def document(self, rows: Sequence[ChoiceRow]) -> dict[str, Any]:
        base = self.base
        return {
            "kind": "choice",
            "best": self.best.device if self.best else None,
            "verdict": None if self.bare else base.verdict,
            "certainty": self.request.terms.certainty,
            "limits": base.question.limits if base.question else (),
            "requirements": [] if self.bare else [one.document() for one in base.judged],
            "rows": rows,
            "profiles": [
                {
                    "device": one.need.name,
                    "run_id": None if one.run is None else one.run.run_id,
                    "measured": one.run is not None and one.need.run is None,
                    "frames_between": one.need.between,
                    "unusable": None if one.device is None else one.device.unusable or None,
                    "problem": one.reason or None,
                }
                for one in self.profiles
            ],
            "warnings": self.warnings,
        }


def _row(case: ChoiceCase, plan: PlanOutcome, answer: PlanAnswer, why: str) -> ChoiceRow:
    look, room, question = answer.outlook, answer.headroom, plan.question
    most = None
    if room is not None and question is not None and question.call_pps is not None:
        sure = room.reach.value
        most = int(sure / question.call_pps) if sure is not None else None if plan.doubt(answer) else 0
    return ChoiceRow(
        plan.name(answer.device),
        case.stream.name,
        case.rules,
        case.factor,
        case.calls,
        plan.concluded(answer),
        look.predicted["threshold_pps"] if look else math.nan,
        look.predicted["delay_p99_ns"] if look else math.nan,
        look.bounds["delay_p99_ns"] if look else math.nan,
        look.floors["delay_p99_ns"] if look else math.nan,
        look.predicted["loss_ratio"] if look else math.nan,
        look.bounds["loss_ratio"] if look else math.nan,
        look.floors["loss_ratio"] if look else math.nan,
        most,
        room.ratio if room else math.nan,
        why,
    )


def _missing_row(case: ChoiceCase, name: str, failed: DeviceProfile) -> ChoiceRow:
    nan = math.nan
    why = failed.reason if failed.need.name == name else f"{failed.need.name}: {failed.reason}"
    return ChoiceRow(
        name,
        case.stream.name,
        case.rules,
        case.factor,
        case.calls,
        "not measured",
        nan,
        nan,
        nan,
        nan,
        nan,
        nan,
        nan,
        None,
        nan,
        why,
    )


def incomplete(failures: Sequence[DeviceProfile]) -> WeirError | None:
    """The error if there are devices without a profile, of the kind that the first of them has."""
    if not failures:
        return None
    error = failures[0].error
    kinds = (MissingCapability, LabError, ModelError)
    kind = next((kind for kind in kinds if isinstance(error, kind)), TrialError)
    told = "; ".join(f"{one.need.name}: {one.reason}" for one in failures)
    return kind(f"the answer is incomplete, not measured: {told}")


def profiled_sizes(sizes: Sequence[SizeMix]) -> Sequence[SizeMix]:
    """The sizes to profile for traffic of ``sizes``: all of them, or of more than :data:`MOST_SIZES`, the
    first, which decides, and the ends, since service times are linear in the size.
    """
    found = list(dict.fromkeys(sizes))
    if len(found) <= MOST_SIZES:
        return found
    ends = {each(size) for size in found for each in (smallest_bytes, largest_bytes)}
    return list(dict.fromkeys([found[0], Constant(min(ends)), Constant(max(ends))]))


def wanted_profiles(
    store: Store, request: ChoiceRequest
) -> tuple[tuple[ProfileNeed, ...], tuple[ProfileNeed, ...]]:
    """The profiles of devices and of tunnels; raises ``InputError`` for what cannot be profiled."""
    sizes = profiled_sizes([stream.sizes for stream in request.streams])
    usual = replace(
        request.profile,
        frames=tuple(sorted(size.frame_bytes for size in sizes if isinstance(size, Constant))),
        mixes=tuple(describe(size) for size in sizes if not isinstance(size, Constant)),
    )
    filters = [
        replace(usual, device=device, positions=positions(request.rules)) for device in request.devices
    ]
    tunnels = [replace(usual, device=tunnel, positions=(0,)) for tunnel in request.tunnels]
    for each in (*filters, *tunnels):
        if each.ruleset is not None:
            raise InputError(
                f"{each.device} is a file with rules; for those: weir plan --ruleset AFTER --before BEFORE, "
                "or weir compare --measure BEFORE AFTER"
            )
        each.scenario()
    return needs(store, filters, again=request.again), needs(store, tunnels, again=request.again)


def estimate(needed: Sequence[ProfileNeed]) -> str:
    """What will be measured, how long that takes, and which stored runs serve."""
    missing = [each for each in needed if each.run is None and each.error is None]
    stored = [f"{each.name}: run {each.run.run_id}{between(each)}" for each in needed if each.run is not None]
    parts = []
    if missing:
        names = words([each.name for each in missing])
        seconds = sum(each.wanted.expected_s for each in missing)
        real = any(each.wanted.lab != SIMULATION for each in missing)
        # As in machine.foretold: with a simulated device the time is not worth mentioning.
        took = f", about {clock(seconds)}" if real else ""
        parts.append(f"Profiling {names}: {plural(len(missing), 'profile')}{took}")
    if stored:
        parts.append(f"stored profiles serve for {words(stored)} (--again measures them, too)")
    parts += [
        f"for {each.name} there is only a run that does not count, {each.refused}"
        if each.run is not None
        else f"what is stored for {each.name} does not count and is left alone, {each.refused}"
        for each in needed
        if each.refused
    ]
    said = "; ".join(parts)
    return said[:1].upper() + said[1:]


def between(need: ProfileNeed) -> str:
    """Of which frames a stored profile has no trials; empty if it has trials of all."""
    frames = words([f"{frame} B" for frame in need.between])
    return f" ({frames} between smaller and larger frames)" if frames else ""


def choose(store: Store, request: ChoiceRequest, progress: Progress) -> ChoiceOutcome:
    """Profile what is missing, and plan every case.

    Raises
    ------
    InputError
        There is nothing to choose from, or something cannot be profiled or planned.
    ModelError
        Every device would have to extrapolate.
    """
    known: tuple[DeviceProfile, ...] = ()
    sources: Sequence[str | DeviceModels]
    tunnels: Sequence[str | DeviceModels]
    if request.profiles:
        if request.devices:
            raise InputError("--profiles chooses among profiles: leave the devices out")
        sources, tunnels = request.profiles, request.tunnels
    else:
        if not request.devices:
            raise InputError("nothing to choose from: name devices, or --profiles RUN")
        filters, behind = wanted_profiles(store, request)
        needed = (*filters, *behind)
        if told := estimate(needed):
            progress.note(told)
        known = tuple(profiled(store, needed, progress))
        sources, tunnels = (
            [one.device for one in part if one.device is not None]
            for part in (known[: len(filters)], known[len(filters) :])
        )
    cases = []
    for stream, rules, factor in product(request.streams, request.rules, request.factors):
        calls = max(round(request.calls * factor), 1)
        if not sources:
            cases.append(ChoiceCase(stream, rules, factor, calls, PlanOutcome(None, (), ())))
            continue
        asked = replace(
            request.terms,
            sources=tuple(sources),
            tunnels=tuple(tunnels),
            find="device",
            stream=stream,
            calls=calls,
            position=float(rules),
            requirements=(*map(for_calls, stream.packet_times_ms), *request.terms.requirements),
        )
        plain = plan(store, replace(asked, tunnels=())) if tunnels else None
        cases.append(ChoiceCase(stream, rules, factor, calls, plan(store, asked), plain))
    return ChoiceOutcome(request, tuple(cases), known)
