"""A load test of a numbering plan: from a scenario to a kept run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from weirlab.base.errors import InputError, LabError
from weirlab.base.files import Inputs
from weirlab.base.interrupts import owned, shielded
from weirlab.jobs.work import Work
from weirlab.numbering.configs.parts import address
from weirlab.numbering.lab.device import DEVICE, PassageDevice, PassageRow, bypassing, device
from weirlab.numbering.lab.loading import CallLoad, LoadResult, LoadTestLab
from weirlab.numbering.lab.switch import Frame
from weirlab.numbering.load.findings import (
    LIMITS,
    TRIALS,
    WORK,
    LoadFindings,
    LoadLimitRow,
    LoadTrialRow,
    WorkRow,
    limit_sentence,
)
from weirlab.numbering.load.trials import (
    LoadTarget,
    SippCounts,
    beside_others,
    chosen,
    counted,
    edges,
    left_out,
    named,
    searched,
)
from weirlab.numbering.proof.calling import EngineLab
from weirlab.numbering.proof.study import check_namespaces, keep_plan, plan_of, planned_by
from weirlab.numbering.proof.ways import ProofCall
from weirlab.numbering.proof.wire import speech
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import LoadScenario, LoadSection
from weirlab.store import Run, RunWriter
from weirlab.store.frames import frame_of
from weirlab.studies.contract import Ground, Outcome, Study, Summary

if TYPE_CHECKING:
    from weirlab.report.story import Story


_LEAD_S: Final = 1.0
"""Calls with speech end this long before the trial does."""
_MS: Final = 1e6
_RATES_TO_BEGIN: Final = 2
_AROUND_S: Final = 4.0
"""What a trial takes besides its calls' beginnings: they end, and engines come to rest."""


class LoadLab(EngineLab, Protocol):
    """A lab in which many calls are made at once."""

    def load(self, offered: CallLoad) -> LoadResult: ...


OpenLoadLab = Callable[[PlanNetwork, float], AbstractContextManager[LoadLab]]


LoadBed = tuple[LoadLab, tuple[LoadTarget, ...]]
"""The lab, and the numbers to call in it."""


def checked(asked: LoadScenario, inputs: Inputs) -> tuple[PlanNetwork, tuple[LoadTarget, ...]]:
    """The plan, and the numbers to call.

    Raises
    ------
    InputError
        The plan cannot be read, or a number is not a test number or cannot be called many times.
    """
    what = asked.voice_load
    if what.highest <= what.lowest:
        raise InputError(
            f"a search from {what.lowest} to {what.highest} calls/s is empty: highest must be above lowest"
        )
    network, calls = planned_by(what, inputs, fall_back=False)
    if not what.numbers:
        return network, chosen(network, calls)
    # A number that is named twice is called once.
    return network, tuple(named(network, calls, number) for number in dict.fromkeys(what.numbers))


def _in_namespaces(network: PlanNetwork, talk_s: float, device: PassageDevice | None) -> LoadTestLab:
    check_namespaces()
    return LoadTestLab(network, talk_s, device)


def _passed(lab: LoadLab, index: int, frames: Sequence[Frame], caller: str) -> list[PassageRow]:
    """What passed the device in the last trial; raises ``LabError`` if calls bypassed it."""
    rows = lab.way.passed(index)
    if missed := bypassing(rows, lab.way.title):
        raise LabError(f"the trial says nothing about {lab.way.title}: {'; '.join(missed)}")
    return speech.beside(rows, frames, address(lab.network, caller))


def trial(
    lab: LoadLab, planned: ProofCall, asked: LoadSection, index: int, rate: int
) -> tuple[LoadTrialRow, list[WorkRow], list[PassageRow]]:
    """Make a trial."""
    caller, callee, number = planned.caller, planned.way.end.engine, planned.test.number
    seconds, limit_ms = asked.trial_s, asked.setup_limit_ms
    left = lab.load(CallLoad(caller, callee, number, rate, seconds, asked.media_calls, edges(limit_ms)))
    try:
        counts = counted(left.statistics, rate, round(rate * seconds), limit_ms)
    except (ValueError, KeyError) as error:
        raise LabError(f"sipp loading from {caller} left no statistics: {error}") from None
    streams = speech.streams(left.frames, lab.folder / "load.pcap")
    places = {address(lab.network, name) for name in (caller, callee)}
    row = _row(index, number, rate, counts, [stream for stream in streams if stream.target in places])
    programs = {daemon.name: daemon.program for daemon in lab.daemons}
    work = [
        WorkRow(index, name, programs.get(name, name), share)
        for name, share in sorted(left.cpu_share.items())
    ]
    return row, work, _passed(lab, index, left.frames, caller)


def _row(
    index: int, number: str, rate: int, counts: SippCounts, streams: Sequence[speech.StreamReception]
) -> LoadTrialRow:
    expected = sum(stream.expected for stream in streams)
    opinions = [stream.mos for stream in streams if not math.isnan(stream.mos)]
    jitters = [stream.jitter_ns / _MS for stream in streams if not math.isnan(stream.jitter_ns)]
    return LoadTrialRow(
        index=index,
        number=number,
        rate_per_s=rate,
        calls=counts.calls,
        unsent=counts.unsent,
        failed=counts.failed,
        slow=counts.slow,
        retransmissions=counts.retransmissions,
        setup_p50_ms=counts.percentile_ms(0.5),
        setup_p99_ms=counts.percentile_ms(0.99),
        media_calls=len(streams) // 2,
        media_lost_ratio=sum(stream.lost for stream in streams) / expected if expected else math.nan,
        media_mos=min(opinions, default=math.nan),
        media_jitter_ms=max(jitters, default=math.nan),
    )


def stored(run: Run) -> LoadFindings:
    return LoadFindings(
        plan_of(run),
        tuple(run.rows(LoadTrialRow, TRIALS)),
        tuple(run.rows(WorkRow, WORK)),
        tuple(run.rows(LoadLimitRow, LIMITS)),
        str(run.manifest.facts.get("device", "")),
        tuple(run.rows(PassageRow, DEVICE)),
    )


class VoiceLoadStudy(Study[LoadScenario, Ground[LoadBed], LoadFindings]):
    """Searches for the highest rate of calls with short set-up times; its command is ``weir voice load``.

    ``open_lab`` opens the lab; by default, it has real engines in namespaces.
    """

    key = "voice_load"
    title = "how many calls per second the engines of a numbering plan set up"

    def __init__(self, open_lab: OpenLoadLab | None = None) -> None:
        self._open_lab = open_lab

    def scenario(self) -> type[LoadScenario]:
        return LoadScenario

    def check(self, asked: LoadScenario, work: Work) -> None:
        checked(asked, work.inputs)

    @contextmanager
    @shielded
    def open(self, asked: LoadScenario, work: Work) -> Iterator[Ground[LoadBed]]:
        """Open the lab for ``asked``: by ``self._open_lab``, or else in network namespaces."""
        network, numbers = checked(asked, work.inputs)
        talk_s = max(asked.voice_load.trial_s - _LEAD_S, asked.voice_load.trial_s / 2)
        begin = self._open_lab or partial(
            _in_namespaces, device=device(asked.voice_load.through, network, work.inputs)
        )
        with owned(lambda: begin(network, talk_s)) as lab:
            facts = {"lab": lab.lab, "dut": "voice routing", "backend": "engines", **lab.facts}
            yield Ground((lab, numbers), facts)

    def measure(
        self, ground: Ground[LoadBed], asked: LoadScenario, writer: RunWriter, work: Work
    ) -> LoadFindings:
        """Search every number; each trial is stored before the next one."""
        progress = work.progress
        (lab, numbers), what = ground.bed, asked.voice_load
        plan = lab.network.plan.plan
        begun = stored(writer.run)
        # A trial that was not stored is made again, with its work.
        kept = {row.index for row in begun.trials}
        trials, limits = [*begun.trials], [*begun.limits]
        shares = [row for row in begun.work if row.index in kept]
        through = [row for row in begun.passed if row.index in kept]
        keep_plan(writer, lab.network)
        writer.finished_beside = len(trials)
        found = {limit.number for limit in limits}
        for each in numbers:
            number = each.number
            if number in found:
                continue
            if each.no_load:
                limits.append(left_out(each))
                writer.put_table(LIMITS, frame_of(LoadLimitRow, limits))
                progress.note(limit_sentence(limits[-1]))
                continue
            progress.stage(f"calls to {number}, run {writer.run_id}")

            def attempt(rate: int, each: LoadTarget = each, number: str = number) -> LoadTrialRow:
                done = sum(row.number == number for row in trials)
                progress.advance(done, done + 1, f"{number} at {rate} calls/s")
                row, more, passed = trial(lab, each.planned, what, len(trials), rate)
                trials.append(row)
                shares.extend(more)
                through.extend(passed)
                if lab.way.title:
                    writer.put_table(DEVICE, frame_of(PassageRow, through))
                writer.put_table(WORK, frame_of(WorkRow, shares))
                writer.put_table(TRIALS, frame_of(LoadTrialRow, trials))
                writer.finished_beside = len(trials)
                return row

            known = [row for row in begun.trials if row.number == number]
            limit = beside_others(searched(what, each, attempt, known), what, trials, shares)
            limits.append(limit)
            writer.put_table(LIMITS, frame_of(LoadLimitRow, limits))
            progress.note(limit_sentence(limit))
        return LoadFindings(plan, tuple(trials), tuple(shares), tuple(limits), lab.way.title, tuple(through))

    def expected_s(self, asked: LoadScenario) -> float | None:
        """None if the numbers to call are for the plan to say."""
        what = asked.voice_load
        widths = math.log(what.highest / what.lowest) / math.log1p(what.width)
        rates = math.ceil(math.log2(max(widths, 1.0))) + _RATES_TO_BEGIN
        trials = len(what.numbers) * rates * what.trials
        return trials * (what.trial_s + _AROUND_S) if trials else None

    def summarize(self, outcome: Outcome[LoadFindings]) -> Summary:
        from weirlab.numbering.load import findings

        found = outcome.found
        shown = (
            findings.limits(found),
            findings.not_loaded(found),
            findings.trials(found),
            findings.through(found),
        )
        return Summary(found.sentence, [*filter(None, shown)])

    def headlines(self, run: Run) -> Sequence[str]:
        found = stored(run)
        return (found.sentence,) if found.limits else ()

    def page(self, run: Run) -> Story:
        from weirlab.numbering.load.page import tell

        found = stored(run)
        if not found.limits:
            raise InputError(
                f"run {run.run_id} was interrupted before its first result: weir run --resume continues it"
            )
        return tell(found, vars(run.manifest))
