"""Trials one after the other, each kept as soon as it is over, so that an interruption costs one trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from weirlab.base.errors import InputError, StoreError
from weirlab.lab.base import TestBed
from weirlab.measure.attempts import VISIT, TrialQueue
from weirlab.measure.progress import OnProgress, ProgressMeter, trial_s
from weirlab.measure.terms import USUAL, TrialTerms
from weirlab.measure.trial import NOBODY, Hooks, Role, TrialEntry, run_trial
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.store import Run, RunWriter, states
from weirlab.store.codec import spec_from_json, spec_to_json
from weirlab.store.rows import rate_text
from weirlab.store.run import HOST
from weirlab.traffic.places import describe_places
from weirlab.traffic.sizes import describe

Stopped = Literal["", "time", "noise"]


@dataclass(frozen=True)
class SequenceOutcome:
    """The outcome of a sequence."""

    trials: int
    """Trials planned."""
    attempts: int
    """Attempts made in this session."""
    invalid: tuple[int, ...]
    """Indices of trials without a valid attempt; resuming the run tries them again."""
    elapsed_s: float
    stopped: Stopped = ""
    """Why it ended before every trial was tried: its ``time`` was used up, or the ``noise`` of the host left
    almost nothing valid; empty otherwise."""


@dataclass(frozen=True)
class TrialPlan:
    """Trials to do; the first has the index ``first_index`` in its run."""

    specs: tuple[TrialSpec, ...]
    first_index: int = 0


@dataclass(frozen=True)
class Part:
    """Trials of a run that belong together."""

    role: Role
    plan_name: str
    """Under which the run keeps them."""
    first_index: int = 0
    """Of the first of them in the run."""
    settle: bool = True
    """False if more trials follow. The host's state that counts is that of most of all trials, so it is not
    decided yet, and no trial is repeated because of it."""


def keep_plan(writer: RunWriter, name: str, plan: TrialPlan) -> None:
    """Keep ``plan`` in the run as JSON, so that it can be resumed."""
    content = {"first_index": plan.first_index, "specs": [spec_to_json(spec) for spec in plan.specs]}
    writer.put_json(name, content)


def kept_plan(writer: RunWriter | Run, name: str) -> TrialPlan:
    """The plan that :func:`keep_plan` kept; raises ``StoreError`` naming the run when it is damaged."""
    content: Any = writer.get_json(name)
    try:
        specs = tuple(spec_from_json(value) for value in content["specs"])
        return TrialPlan(specs, int(content["first_index"]))
    except (KeyError, TypeError, ValueError, StoreError) as error:
        raise StoreError(
            f"{writer.path / name}.json is damaged ({error}); start a new run, the trials stay readable"
        ) from error


def run(
    bed: TestBed,
    specs: Sequence[TrialSpec] | None,
    writer: RunWriter,
    part: Part,
    told: ProgressMeter | OnProgress | None = None,
    *,
    terms: TrialTerms = USUAL,
    hooks: Hooks = NOBODY,
) -> SequenceOutcome:
    """Carry out ``specs``, leaving out those with a valid attempt in the run.

    The order is that of :class:`~weirlab.measure.attempts.TrialQueue`: every setting once before any twice,
    and trials that the host spoiled again later. It ends early when the budget of the ``terms`` is used up,
    or when almost nothing is valid.

    If the host changes its state meanwhile (:mod:`weirlab.store.states`), the state of most trials becomes
    the run's, and trials in another state are repeated for as long as the patience of the ``terms`` lasts,
    including the wait for the state.

    The plan is kept in the run under the name of ``part``. If it is there already, ``specs``
    may be None; specs that differ from the kept ones are refused with ``InputError``. A trial that
    stays invalid does not stop the sequence. ``told`` is called with the progress; if the trials are part of
    a longer run, it is the meter that counts all of them.
    """
    plan_name, budget, clocks = part.plan_name, terms.budget, terms.clocks
    if writer.has(plan_name):
        plan = kept_plan(writer, plan_name)
        if specs is not None and tuple(specs) != plan.specs:
            raise InputError(
                f"run {writer.run_id} was begun with other trials; "
                "resume it with the settings it was begun with, or start a new run"
            )
    elif specs is None:
        raise InputError(f"run {writer.run_id} was stopped before its trials were planned; start a new run")
    else:
        plan = TrialPlan(tuple(specs), part.first_index)
        keep_plan(writer, plan_name, plan)
    max_attempts = terms.attempts if budget is None else terms.max_attempts
    if isinstance(told, ProgressMeter):
        meter = told
    else:
        expected_s = map(trial_s, plan.specs)
        meter = ProgressMeter(expected_s, clocks.seconds, told, budget=budget, max_attempts=max_attempts)
    start_s = clocks.seconds()
    attempts = 0

    def keep(record: TrialRecord) -> None:
        writer.add(record)
        if hooks.on_record is not None:
            hooks.on_record(record)

    rules: RuleSetup | None = None
    settled_ns = writer.run.host_reference_ns() if writer.has(HOST) else None

    def counts(record: TrialRecord) -> bool:
        """Valid, and made in the state of the host that the run has settled on."""
        handover_ns = record.host.handover_ns
        if settled_ns is None or handover_ns is None:
            return record.valid
        return record.valid and states.same(handover_ns, settled_ns)

    def do(place: int, most: int) -> list[TrialRecord]:
        nonlocal rules, attempts
        index, spec = plan.first_index + place, plan.specs[place]
        records = run_trial(
            bed,
            spec,
            TrialEntry(writer.run_id, index, part.role, writer.attempts.get(index, 0) + 1),
            terms=replace(terms, max_attempts=most),
            hooks=Hooks(
                on_attempt=lambda _, last: meter.tell(again(spec, last)) if last else None,
                on_record=keep,
                completed=hooks.completed,
            ),
            set_rules=spec.rules != rules,
        )
        rules = spec.rules
        attempts += len(records)
        meter.learn(trial_s(spec), [counts(record) for record in records])
        return records

    def left_s() -> float:
        return budget.left_s if budget is not None else math.inf

    def affordable(spec: TrialSpec) -> int:
        """Attempts that fit into the time left."""
        each_s = meter.pace.attempts_s(1, trial_s(spec))
        return VISIT if left_s() >= VISIT * each_s else int(left_s() >= each_s)

    patience_left = RetryBudget(
        terms.patience * sum(map(trial_s, plan.specs)), clocks.seconds, clocks.sleep, left_s
    )
    everything = range(len(plan.specs))
    # Those of another state count as missing once the run has settled on one.
    planned = range(plan.first_index, plan.first_index + len(plan.specs))
    missing = () if settled_ns is None else without_valid(writer, planned)
    done = {index - plan.first_index for index in writer.done.difference(missing)}.intersection(everything)
    for _ in done:
        meter.skip()
    queue = TrialQueue(plan.specs, done, meter.share, trial_s, max_attempts)
    stopped: Stopped = ""
    while (place := queue.next(scarce=meter.rest_s() > left_s())) is not None:
        spec = plan.specs[place]
        meter.tell(describe_spec(spec))
        if settled_ns is not None:
            patience_left.wait_for(bed, settled_ns, meter.tell)
        if (most := affordable(spec)) == 0:
            stopped = "time"
            break
        records = do(place, min(most, queue.attempts_left(place)))
        last = records[-1]
        if queue.over(place, sum(not counts(record) for record in records), counts(last)):
            meter.count(describe_spec(spec), last, trial_s(spec))
        else:
            meter.tell(f"again later: {describe_spec(spec)}", last)
        if budget is not None and budget.hopeless(
            meter.share, queue.settings, queue.without_valid, meter.pace.attempts_s(1, trial_s(spec))
        ):
            stopped = "noise"
            break
    writer.prepare_reading()
    if part.settle:
        settled_ns = writer.run.settle_host()
    missing = without_valid(writer, planned)
    if part.settle and settled_ns is not None and not stopped:
        meter.expect_more(trial_s(plan.specs[index - plan.first_index]) for index in missing)
        for index in missing:
            spec = plan.specs[index - plan.first_index]
            waited = patience_left.wait_for(bed, settled_ns, meter.tell)
            if not waited or (most := affordable(spec)) == 0:
                break
            with patience_left.spending():
                last = do(index - plan.first_index, most)[-1]
                meter.count(f"again: {describe_spec(spec)}", last, trial_s(spec))
        missing = without_valid(writer, planned)
    return SequenceOutcome(len(plan.specs), attempts, missing, clocks.seconds() - start_s, stopped)


def without_valid(writer: RunWriter, indices: Iterable[int]) -> tuple[int, ...]:
    """Those of ``indices`` that have no valid attempt, as far as the host's state is known."""
    done = set(writer.run.trials().filter("valid")["index"].to_list())
    return tuple(index for index in indices if index not in done)


def next_index(writer: RunWriter, *plan_names: str) -> int:
    """The first index that neither a trial in the run nor one of the kept plans takes."""
    ends = [index + 1 for index in writer.attempts]
    for name in plan_names:
        if writer.has(name):
            plan = kept_plan(writer, name)
            ends.append(plan.first_index + len(plan.specs))
    return max(ends, default=0)


def describe_spec(spec: TrialSpec) -> str:
    """One line for people: ``position 400, 64 B, 250kpps``."""
    rules, sizes = spec.rules, describe(spec.traffic.sizes)
    if (calls := spec.traffic.calls) is not None:
        return f"position {rules.position}{', stateful' if rules.stateful else ''}, {calls.count:,} calls"
    unit = " B" if sizes.isdigit() else ""
    where = f"positions {describe_places(rules.places)}" if rules.places else f"position {rules.position}"
    differences = [
        *(["stateful"] if rules.stateful else []),
        *(["cross traffic"] if spec.cross_traffic else []),
        *(["Poisson arrivals"] if spec.traffic.arrivals == "poisson" else []),
    ]
    return ", ".join([where, f"{sizes}{unit}", rate_text(spec.traffic), *differences])


def again(spec: TrialSpec, last: TrialRecord) -> str:
    """The progress line after an attempt that does not count: what is repeated, and why."""
    return f"{describe_spec(spec)}, again: {last.invalid[0]}"


_LOOK_EVERY_S: Final = 0.2


class RetryBudget:
    """Time that may be spent on repeating, and on waiting for a host that changes; ``clock``, ``sleep`` in s.

    ``run_left_s`` returns how long the run may still take, which is never exceeded.
    """

    def __init__(
        self,
        left_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        run_left_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._left_s = left_s
        self._run_left_s = run_left_s
        self._clock = clock
        self._sleep = sleep

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time spent inside the ``with`` block."""
        begun_s = self._clock()
        try:
            yield
        finally:
            self._left_s -= self._clock() - begun_s

    def wait_for(self, bed: TestBed, reference_ns: float, tell: Callable[[str], object]) -> bool:
        """Wait until the host is in the state of ``reference_ns``; False when the time is used up."""
        with self.spending():
            begun_s = self._clock()
            while self._clock() - begun_s < self._left_s and self._run_left_s() > 0:
                handover_ns = bed.host().handover_ns
                if handover_ns is None or states.same(handover_ns, reference_ns):
                    return True
                apart = f"{handover_ns:.0f} ns apart, not {reference_ns:.0f} ns"
                tell(f"waiting for the host: its CPUs are {apart}")
                self._sleep(_LOOK_EVERY_S)
        return False
