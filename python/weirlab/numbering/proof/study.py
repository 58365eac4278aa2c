"""The proof of a numbering plan by calls: from a scenario to a stored run with a verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import InputError
from weirlab.base.files import NO_FILES, Inputs
from weirlab.base.interrupts import owned, shielded
from weirlab.base.quantities import plural, words
from weirlab.jobs.work import Work
from weirlab.lab.finding import Finding
from weirlab.numbering.lab import VoiceLab, engines
from weirlab.numbering.lab.device import DEVICE, PassageDevice, PassageRow, device
from weirlab.numbering.plan import of_scenario
from weirlab.numbering.proof.calling import CallLab, OpenLab, carried, not_tried
from weirlab.numbering.proof.chart import MAP, Chart, charted
from weirlab.numbering.proof.coverage import not_called
from weirlab.numbering.proof.findings import (
    CALLS,
    LOGS,
    MESSAGES,
    LogRow,
    MessageRow,
    ProofCallRow,
    ProofFindings,
    titled,
)
from weirlab.numbering.proof.ways import NO_TESTS, ProofCall, planned
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import PlanSection, VoiceScenario
from weirlab.store import Run, RunWriter
from weirlab.store.frames import frame_of, rows_of
from weirlab.studies.contract import Ground, Outcome, Study, Summary

if TYPE_CHECKING:
    from weirlab.report.story import Story


PLAN: Final = "plan"
"""Name under which a run keeps its plan's name, day and digest."""


def keep_plan(writer: RunWriter, network: PlanNetwork, left_out: Iterable[str] = ()) -> None:
    """Record the plan of a run, and what no call shows.

    Raises ``InputError`` if the run was begun with another plan.
    """
    says = hashlib.sha256(network.plan.model_dump_json().encode()).hexdigest()
    now = {
        "plan": network.plan.plan,
        "name": network.book.name,
        "day": network.day.isoformat(),
        "sha256": says,
        "not_called": [*left_out],
    }
    before = _kept(writer.run)
    if before.get("sha256", says) != says:
        raise InputError(f"{network.book.name} has changed since run {writer.run_id} began: start a new run")
    if (day := before.get("day", now["day"])) != now["day"]:
        raise InputError(
            f"run {writer.run_id} was begun with {network.book.name} as of {day}, "
            f"not as of {now['day']}: start a new run; "
            "a run whose scenario has a date can be resumed on any day"
        )
    writer.put_json(PLAN, now)


def plan_of(run: Run) -> str:
    """The name of the plan of a run."""
    return str(_kept(run).get("plan", "the plan"))


def _kept(run: Run) -> Mapping[str, Any]:
    return run.get_json(PLAN, dict) if run.has(PLAN) else {}


_LAB_S: Final = 5.0
"""Time to start the engines, and to end them."""
_CALL_S: Final = 1.5
"""What a call takes beside the speech."""


ProofBed = tuple[CallLab, tuple[ProofCall, ...]]
"""The lab, and the calls to make in it."""


def checked(asked: VoiceScenario, inputs: Inputs) -> tuple[PlanNetwork, tuple[ProofCall, ...]]:
    """The plan and its calls.

    Raises
    ------
    InputError
        The plan cannot be read, or has no call that the lab and the device can carry.
    """
    network, calls = planned_by(asked.voice, inputs, fall_back=asked.voice.fall_back)
    if all(call.impossible for call in calls):
        reasons = words(list(dict.fromkeys(call.impossible for call in calls)), most=3)
        raise InputError(f"{network.book.name}: none of its calls can be tried: {reasons}")
    return network, tuple(calls)


def planned_by(what: PlanSection, inputs: Inputs, *, fall_back: bool) -> tuple[PlanNetwork, list[ProofCall]]:
    """The plan of a scenario, and the calls to its test numbers, which the device can carry."""
    network = PlanNetwork(of_scenario(what.plan, inputs), what.date or date.today())
    network.is_dated = what.date is not None
    calls = planned(network, fall_back=fall_back)
    if not calls:
        raise InputError(f"{network.book.name}: {NO_TESTS}")
    device(what.through, network, inputs)
    return network, calls


def open_lab(network: PlanNetwork, talk_s: float, device: PassageDevice | None = None) -> VoiceLab:
    """The lab of a plan; raises ``MissingCapability`` with what is missing."""
    check_namespaces()
    return VoiceLab(network, talk_s, device)


def check_namespaces() -> None:
    """Raise ``MissingCapability`` if there can be no lab."""
    from weirlab.lab.doctor import need_namespaces

    need_namespaces("the voice lab needs")


def _said(lab: CallLab) -> Iterable[LogRow]:
    for daemon in lab.daemons:
        for line in lab.output(daemon.name).splitlines():
            yield LogRow(daemon.name, line)


def stored(run: Run) -> ProofFindings:
    from weirlab.jobs.inventory import scenario_of

    rows = run.rows(ProofCallRow, CALLS)
    partly = scenario_of(run, VoiceScenario).voice.partly
    title = str(run.manifest.facts.get("device", ""))
    through = run.rows(PassageRow, DEVICE)
    left_out = tuple(_kept(run).get("not_called", ()))
    return ProofFindings(plan_of(run), tuple(rows), partly, title, tuple(through), left_out)


class VoiceStudy(Study[VoiceScenario, Ground[ProofBed], ProofFindings]):
    """A numbering plan: commands check it and turn it into files, and calls in a lab prove it.

    ``open_lab`` opens the lab; by default, it has real engines in namespaces.
    """

    key = "voice"
    title = "how calls find their way: one numbering plan, checked, explained, and proved by calls"

    def __init__(self, open_lab: OpenLab | None = None) -> None:
        self._open_lab = open_lab

    def scenario(self) -> type[VoiceScenario]:
        return VoiceScenario

    def checks(self) -> Sequence[Finding]:
        return (engines.finding(),)

    def check(self, asked: VoiceScenario, work: Work) -> None:
        checked(asked, work.inputs)

    @contextmanager
    @shielded
    def open(self, asked: VoiceScenario, work: Work) -> Iterator[Ground[ProofBed]]:
        """Open the lab for ``asked``: by ``self._open_lab``, or else in network namespaces."""
        network, calls = checked(asked, work.inputs)
        begin = self._open_lab or partial(open_lab, device=device(asked.voice.through, network, work.inputs))
        with owned(lambda: begin(network, asked.voice.talk_s)) as lab:
            facts = {"lab": lab.lab, "dut": "voice routing", "backend": "engines", **lab.facts}
            yield Ground((lab, calls), facts)

    def measure(
        self, ground: Ground[ProofBed], asked: VoiceScenario, writer: RunWriter, work: Work
    ) -> ProofFindings:
        """Make every call that the run does not have yet; each is stored before the next one."""
        lab, calls = ground.bed
        run = writer.run
        rows = run.rows(ProofCallRow, CALLS)
        messages = run.rows(MessageRow, MESSAGES)
        through = run.rows(PassageRow, DEVICE)
        keep_plan(writer, lab.network, not_called(lab.network, calls))
        writer.put_json(MAP, charted(lab.network, calls, lab.way.title).document())
        work.progress.stage(f"{plural(len(calls), 'call')}, run {writer.run_id}")
        done = {row.index for row in rows}
        writer.finished_beside = len(rows)
        # A call that was not stored is made again, with its messages.
        messages = [row for row in messages if row.index in done]
        through = [each for each in through if each.index in done]
        try:
            for call in calls:
                if call.index in done:
                    continue
                row = not_tried(lab.network, call, calls)
                work.progress.advance(len(rows), len(calls), titled(row))
                if not call.impossible:
                    row, listed, passed = carried(lab, call, calls)
                    messages += listed
                    through += passed
                rows.append(row)
                writer.put_table(MESSAGES, frame_of(MessageRow, messages))
                if lab.way.title:
                    writer.put_table(DEVICE, frame_of(PassageRow, through))
                writer.put_table(CALLS, frame_of(ProofCallRow, rows))
                writer.finished_beside = len(rows)
        finally:
            writer.put_table(LOGS, frame_of(LogRow, _said(lab)))
        plan = lab.network.plan.plan
        left_out = tuple(not_called(lab.network, calls))
        return ProofFindings(plan, tuple(rows), asked.voice.partly, lab.way.title, tuple(through), left_out)

    def expected_s(self, asked: VoiceScenario) -> float | None:
        """None for a plan in a file, which is not read for it."""
        with suppress(InputError):
            _, calls = checked(asked, NO_FILES)
            possible = sum(not call.impossible for call in calls)
            return _LAB_S + possible * (asked.voice.talk_s + _CALL_S)
        return None

    def summarize(self, outcome: Outcome[ProofFindings]) -> Summary:
        from weirlab.numbering.proof import findings

        found = outcome.found
        report = "" if outcome.report is None else f" Report: {outcome.report.path}"
        shown = (
            findings.acceptance(found.rows, found.uneven),
            findings.kinds_table(found.kinds),
            findings.differing(found.rows),
            findings.media(found.rows, found.uneven),
            findings.through(found.rows, found.passed, found.device),
        )
        conclusion = f"{found.sentence}{found.remark} Run {outcome.run.run_id}.{report}"
        return Summary(conclusion, [*filter(None, shown)])

    def headlines(self, run: Run) -> Sequence[str]:
        found = stored(run)
        return (found.sentence,) if found.rows else ()

    def page(self, run: Run) -> Story:
        from weirlab.numbering.proof.page import tell

        found = stored(run)
        if not found.rows:
            raise InputError(f"run {run.run_id} was interrupted before its first call: start a new run")
        messages = rows_of(MessageRow, run.table(MESSAGES, MessageRow))
        chart = run.get_json(MAP, Chart.of) if run.has(MAP) else None
        return tell(found, messages, vars(run.manifest), chart)
