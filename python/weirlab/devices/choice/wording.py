"""A choice as one table, one sentence and a page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from weirlab.base import files
from weirlab.base.errors import ModelError, TrialError
from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, significant, words
from weirlab.cli.results import gates
from weirlab.devices.choice.profiling import DeviceProfile
from weirlab.devices.choice.study import ChoiceOutcome, ChoiceRow, between
from weirlab.devices.planning import reasons
from weirlab.devices.planning import wording as plans
from weirlab.devices.planning.outcome import PlanOutcome
from weirlab.jobs.spoiled import REPETITIONS
from weirlab.model.planning.planner import Conclusion, PlanAnswer
from weirlab.report.story import Chapter, PageOrigin, Story
from weirlab.report.tables import Tile

_VERDICTS: Final[dict[Conclusion | Literal["not measured"], str]] = {
    "meets": "will do",
    "undecided": "undecided",
    "misses": "will not do",
    "not profiled": "not profiled",
    "not measured": "not measured",
}
NOISY: Final = ("--machine", "noisy")

_TERMS: Final = (
    ("Threshold", "Load from which on packets are lost, however long the queue."),
    (
        "Most calls",
        "Most calls that meet every limit with the certainty, at any load up to that; 0: none do.",
    ),
    ("Headroom", "These calls, divided by the calls in question."),
    ("Undecided", "Trials scatter too much to tell on which side of a limit they lie."),
)


def why(answer: PlanAnswer, plan: PlanOutcome) -> str:
    """What limits a device, or leaves it undecided."""
    return reasons.because(answer, plan.question) if plan.question is not None else ""


def choice_tables(outcome: ChoiceOutcome, rows: list[ChoiceRow]) -> list[Table]:
    """The devices with the calls in question, one row each, and as details in all other cases."""
    first = outcome.cases[0]
    asked = f"{plural(first.calls, 'call')} behind {plural(first.rules, 'rule')}"
    more = [row for row in rows if not outcome.is_base(row)]
    return [
        _table(outcome, f"Choice for {asked}", [row for row in rows if outcome.is_base(row)]),
        *(
            [replace(_table(outcome, "Other calls, rules and loads", more, cases=True), details=True)]
            if more
            else []
        ),
    ]


def _table(outcome: ChoiceOutcome, caption: str, rows: list[ChoiceRow], *, cases: bool = False) -> Table:
    """A row for each device, with the case that it is about if there are several ``cases``."""
    request = outcome.request
    share = f"{200 * request.terms.certainty - 100:.4g} %"
    columns = {
        "Device": [row.device for row in rows],
        "Codecs": [row.codecs for row in rows] if cases and len(request.streams) > 1 else [],
        "Rules": [count(row.rules) for row in rows] if cases and len(request.rules) > 1 else [],
        "Load": [f"{row.factor:g} ×" for row in rows] if cases and len(request.factors) > 1 else [],
        "Verdict": [_VERDICTS[row.verdict] for row in rows],
        "Most calls": [count(row.most_calls) for row in rows],
        "Headroom": [_headroom(row) for row in rows],
        f"p99, {share}": [
            _ends(row, row.delay_p99_floor_ns, row.delay_p99_bound_ns, duration) for row in rows
        ],
        f"Loss, {share}": [_ends(row, row.loss_floor, row.loss_bound, percent) for row in rows],
        "Threshold": [rate(row.threshold_pps) for row in rows],
        "p99 delay": [duration(row.delay_p99_ns) for row in rows],
        "Because": [row.why for row in rows],
    }
    columns = {name: cells for name, cells in columns.items() if cells}
    spare = ("Because", "p99 delay", "Threshold", f"Loss, {share}")
    return Table(caption, tuple(columns), list(zip(*columns.values(), strict=True)), spare=spare)


def _headroom(row: ChoiceRow) -> str:
    return f"{significant(row.headroom_ratio, 2)} ×" if math.isfinite(row.headroom_ratio) else NOTHING


def _ends(row: ChoiceRow, low: float, high: float, show: Callable[[float], str]) -> str:
    """The interval of a trial, as ``weir predict`` shows it."""
    if math.isnan(row.threshold_pps):
        return NOTHING
    return f"{show(low)} to {show(high)}" if math.isfinite(low) and math.isfinite(high) else "cannot tell"


def tables(outcome: ChoiceOutcome, rows: list[ChoiceRow]) -> list[Table]:
    """The choice, and the requirements at the load in question."""
    requirements = gates.table(outcome.base.judged_devices, "Predicted")
    return [
        *choice_tables(outcome, rows),
        *([replace(requirements, details=True)] if requirements.rows else []),
    ]


def sentence(outcome: ChoiceOutcome, command: str) -> str:
    """The answer for the load in question, then what other rules and loads change."""
    return " ".join(
        [*_unmet(outcome), _conclusion(outcome), *_more_cases(outcome), *remedies(outcome, command)]
    )


def _unmet(outcome: ChoiceOutcome) -> list[str]:
    """What the device that is chosen does not meet beside the limits."""
    unmet = gates.failure(outcome.base.judged) if outcome.best is not None else None
    said = str(unmet or "")
    return [f"{said[:1].upper()}{said[1:]}."] if said else []


def _conclusion(outcome: ChoiceOutcome) -> str:
    """The answer for the load in question."""
    if not outcome.base.answers:
        return "No device was measured."
    said = plans.conclusion(outcome.base)
    if outcome.bare:
        return f"No tunnel was measured; without one: {said}"
    plain = outcome.cases[0].plain
    if plain is None:
        return said
    without = f"Without a tunnel, {_verdicts(plain)}{_most_headroom(plain)}."
    return f"{without} Behind a tunnel: {said} {_costs(outcome.base, plain)}"


def _costs(behind: PlanOutcome, plain: PlanOutcome) -> str:
    """How many calls each device carries without a tunnel, and behind each."""
    found = []
    for bare in plain.answers:
        name = f"{bare.device} + "
        tunnels = [
            f"behind {one.device.removeprefix(name)} {_most(one, behind)}"
            for one in behind.answers
            if one.device.startswith(name)
        ]
        found.append(f"{plain.name(bare.device)} {_most(bare, plain)}, {words(tunnels)}")
    return f"Most calls that surely pass: {'; '.join(found)}."


def _most(one: PlanAnswer, plan: PlanOutcome) -> str:
    """``2,659``, or ``0 (66 by the prediction alone)``; the tunnel's cost is the difference."""
    room, question = one.headroom, plan.question
    if room is None or question is None:
        return "not known"
    value = room.reach.value
    sure = 0 if value is None or question.call_pps is None else int(value / question.call_pps)
    alone = reasons.amount(one, room.foreseen_pps, question) if math.isfinite(room.foreseen_pps) else ""
    return f"0 ({alone} by the prediction alone)" if not sure and alone else count(sure)


def remedies(outcome: ChoiceOutcome, command: str) -> list[str]:
    """A sentence on each device that was not measured, with the command that would help."""
    return [f"Not measured: {one.need.name}. {_remedy(one, command)}" for one in outcome.failures]


def _remedy(failed: DeviceProfile, command: str) -> str:
    if isinstance(failed.error, ModelError):
        more = replace(failed.need.wanted, repetitions=REPETITIONS).command
        return f"It may be enough to profile it with more trials, then to choose again: {more}"
    if isinstance(failed.error, TrialError) and failed.need.error is None:
        if failed.need.wanted.machine == "noisy":
            return f"On a quieter machine: {command}"
        typed = shlex.split(command)
        return f"To measure in spite of other work on this machine: {shlex.join([*typed, *NOISY])}"
    return f"Where that is mended: {command}"


def _more_cases(outcome: ChoiceOutcome) -> list[str]:
    """A sentence on each verdict of the other cases."""
    found: list[str] = []
    if not outcome.base.answers:
        return found
    several = len(outcome.request.streams) > 1
    cases: dict[tuple[str, str], list[str]] = {}
    for case in outcome.cases:
        kind = f", {case.stream.title}," if several else ""
        asked = f"with {plural(case.calls, 'call')}{kind} behind {plural(case.rules, 'rule')}"
        bare = "" if case.plain is None else f"; without a tunnel, {_verdicts(case.plain)}"
        cases.setdefault((_verdicts(case.plan), bare), []).append(asked)
    (_, *same), *others = cases.values()
    if len(same) > 1 and not others:
        return [f"Verdicts are the same in all {count(len(outcome.cases))} cases."]
    found += [f"Verdicts are the same {'; '.join(same)}."] if same else []
    for (verdicts, bare), asked_with in zip([*cases][1:], others, strict=True):
        listed = "; ".join(asked_with)
        found.append(f"{listed[:1].upper()}{listed[1:]}: {verdicts}{bare}.")
    return found


def _most_headroom(plan: PlanOutcome) -> str:
    """``; new has the most headroom, 20 ×``, if several devices were judged."""
    best = plan.best
    if best is None or best.headroom is None or len(plan.answers) < 2:
        return ""
    return f"; {plan.name(best.device)} has the most headroom, {significant(best.headroom.ratio, 2)} ×"


def _verdicts(plan: PlanOutcome) -> str:
    """``old and new will do; third is undecided``."""
    found: dict[Conclusion, list[str]] = {}
    for answer in plan.answers:
        found.setdefault(plan.concluded(answer), []).append(plan.name(answer.device))
    parts = [
        f"{words(found[verdict])} {'are ' if len(found[verdict]) > 1 else 'is '}{text}"
        if verdict in ("undecided", "not profiled")
        else f"{words(found[verdict])} {text}"
        for verdict, text in _VERDICTS.items()
        if verdict in found
    ]
    return "; ".join(parts)


def _headline(outcome: ChoiceOutcome, best: ChoiceRow | None) -> str:
    """The choice in one line; what it rests on follows in the first paragraph."""
    calls = plural(outcome.cases[0].calls, "call")
    if not outcome.base.answers:
        return "No device was measured."
    if outcome.bare:
        return "No tunnel was measured."
    if best is None:
        plain = outcome.cases[0].plain
        if plain is not None and plain.best is not None:
            return f"Without a tunnel, {_verdicts(plain)}; behind one, none surely carries {calls}."
        return f"No device surely carries {calls}."
    headroom = f"{significant(best.headroom_ratio, 2)} × headroom"
    return f"{best.device} carries {calls} behind {plural(best.rules, 'rule')}, with {headroom}."


def write_page(
    outcome: ChoiceOutcome, rows: list[ChoiceRow], out: Path, command: str, more: Sequence[Chapter] = ()
) -> None:
    """Write an HTML page with the answer, the table and ``more``; ``StoreError`` if that is impossible."""
    base = outcome.base
    simulated = bool(base.simulated)
    chosen = None if outcome.best is None else base.name(outcome.best.device)
    best = next((row for row in rows if row.device == chosen), None)
    tiles = (
        []
        if best is None
        else [
            Tile("Device", best.device, "no other has more headroom"),
            Tile("Headroom", f"{significant(best.headroom_ratio, 2)} ×", "over the calls in question"),
            Tile("Calls", count(best.most_calls), "at most"),
            Tile("Threshold", rate(best.threshold_pps), "of packets"),
        ]
    )
    notes = [*outcome.warnings, *map(_origin, outcome.profiles)]
    story = Story(
        subject=f"choice among {plural(len(base.answers), 'device')}",
        simulated=simulated,
        answer=_headline(outcome, best),
        lede=(*_unmet(outcome), _conclusion(outcome), *_more_cases(outcome)),
        caution=" ".join(remedies(outcome, command)),
        tiles=tuple(tiles),
        chapters=(
            Chapter("choice", "All devices", "Choice", tables=tuple(choice_tables(outcome, rows))),
            Chapter(
                "requirements",
                "Requirements at the load in question",
                "Requirements",
                tables=(gates.table(base.judged_devices, "Predicted"),) if base.answers else (),
                said=tuple(notes),
            ),
            *more,
        ),
        terms=_TERMS,
        made_from=PageOrigin(
            name="choice",
            source=words([one.run.run_id for one in outcome.profiles if one.run]) or "the given profiles",
            again=(("This chooses again, from stored profiles where they serve.", command),),
        ),
    )
    files.write_bytes(out, story.html().encode())


def _origin(one: DeviceProfile) -> str:
    if one.error is not None or one.run is None or one.device is None:
        return f"{one.need.name}: not measured. {one.reason}."
    doubt = f" It does not count: {one.device.unusable}." if one.device.unusable else ""
    origin = "measured for this choice" if one.need.run is None else f"stored before{between(one.need)}"
    return f"{one.need.name}: profile of run {one.run.run_id}, {origin}.{doubt}"
