"""Carries out all attempts of a run, and stores each as soon as it is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from weirlab.base.files import NO_FILES, Inputs
from weirlab.base.limits import HIGHEST_SEED
from weirlab.measure.attempts import until_valid
from weirlab.measure.progress import OnProgress, ProgressMeter
from weirlab.measure.terms import TrialClocks
from weirlab.records import TrialRecord
from weirlab.store.frames import rows_of
from weirlab.transfers.parallel.bed.base import ParallelAttempt, ParallelBed, PathPair, PathSpan
from weirlab.transfers.parallel.plan import ParallelPlan, expected_s, timing
from weirlab.transfers.parallel.recording import AttemptEntry, reasons, record
from weirlab.transfers.parallel.rows import ATTEMPTS, ParallelAttemptRow
from weirlab.transfers.parallel.section import MOST_PATHS, CasePath, ParallelSection, share_of

if TYPE_CHECKING:
    from weirlab.store import Run, RunWriter
    from weirlab.transfers.psock.copying import SessionSettings


def rows(run: Run) -> list[ParallelAttemptRow]:
    """Every attempt that ``run`` stores, in the order in which they were made."""
    return (
        rows_of(ParallelAttemptRow, run.table(ATTEMPTS).sort("start_ns")) if run.has_table(ATTEMPTS) else []
    )


def course(planned: ParallelPlan, asked: ParallelSection, inputs: Inputs = NO_FILES) -> ParallelAttempt:
    """The course of an attempt; ``inputs`` opens the traces of its paths."""
    warmup_s, lasts_s = timing(planned.case, asked)
    every = dict(enumerate(planned.case.every_path(), 1))
    used = planned.used
    paths = {number: _pair(every[number], number, planned.repetition, inputs) for number in used}
    return ParallelAttempt(
        method=planned.method,
        paths=paths,
        buffer_bytes=_buffer_bytes(
            paths.values(), asked.buffers if planned.case.buffers is None else planned.case.buffers
        ),
        congestion=asked.congestion,
        streams=asked.streams,
        how=how(asked),
        warmup_s=warmup_s,
        lasts_s=lasts_s,
        every_s=asked.every_s,
        slack_s=asked.slack_ms / 1e3,
        outages=tuple(
            PathSpan(outage.path, outage.from_s, outage.from_s + outage.lasts_s)
            for outage in planned.case.outages
            if outage.path in used
        ),
        competitors=tuple(
            PathSpan(
                competitor.path,
                competitor.from_s,
                lasts_s if competitor.lasts_s is None else competitor.from_s + competitor.lasts_s,
            )
            for competitor in planned.case.competitors
            if competitor.path in used
        ),
    )


def _pair(path: CasePath, number: int, repetition: int, inputs: Inputs) -> PathPair:
    """Both directions. Random numbers differ from path to path and between repetitions, not by method."""
    other = 2 * (MOST_PATHS * (repetition - 1) + number - 1)
    both = path.with_traces(inputs)
    return PathPair(
        **{name: replace(each, seed=(each.seed + other) % HIGHEST_SEED) for name, each in both.items()}
    )


def _buffer_bytes(paths: Iterable[PathPair], multiple: float | None) -> int | None:
    """``multiple`` of what the fastest path holds; a connection's socket does not know over which it goes."""
    if multiple is None:
        return None
    return round(multiple * max((path.up.rate_bps or 0) * path.rtt_ns / 8e9 for path in paths))


def how(asked: ParallelSection) -> SessionSettings:
    """How sessions are carried; the scheduler is the method's."""
    from weirlab.transfers.psock.options import SessionOptions, StreamOptions

    options = SessionOptions(memory=asked.memory, congestion=asked.congestion)
    return options.how(StreamOptions(block=asked.block, unsent=asked.unsent))


@dataclass(frozen=True)
class ParallelCampaign:
    """All attempts of a run."""

    bed: ParallelBed
    asked: ParallelSection
    writer: RunWriter
    clocks: TrialClocks
    inputs: Inputs = NO_FILES

    def measure(self, planned: Sequence[ParallelPlan], on_progress: OnProgress | None = None) -> None:
        """Make those without a valid attempt in the run; spoiled attempts are stored and repeated.

        Raises
        ------
        LabError
            Paths or connections could not be made in any attempt; what was finished is kept.
        """
        wall_s = (expected_s(each, self.asked) for each in planned)
        meter = ProgressMeter(wall_s, self.clocks.seconds, on_progress, max_attempts=self.asked.max_attempts)
        for each in planned:
            if each.index in self.writer.done:
                meter.skip()
                continue
            meter.tell(each.text)
            attempt = partial(self._attempt, each)
            meter.count(each.text, until_valid(each.text, self.asked.max_attempts, attempt, meter.tell))

    def _attempt(self, planned: ParallelPlan) -> TrialRecord:
        what = course(planned, self.asked, self.inputs)
        started_at, begun_s = self.clocks.now().isoformat(timespec="milliseconds"), self.clocks.seconds()
        seen = self.bed.carry(what)
        entry = AttemptEntry(
            run_id=self.writer.run_id,
            attempt=self.writer.attempts.get(planned.index, 0) + 1,
            started_at=started_at,
            wall_s=self.clocks.seconds() - begun_s,
            lab=self.bed.lab,
            first_share=share_of(self.asked.split, planned.case.name) if self.asked.split else None,
        )
        made = record(planned, what, seen, entry, reasons(seen, self.asked.late_ms * 1e6))
        self.writer.add(made)
        return made
