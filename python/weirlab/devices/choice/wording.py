"""A choice as one table, one sentence and a page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from weirlab.base import files
from weirlab.base.errors import ModelError, NotMet, TrialError, WeirError
from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, significant, words
from weirlab.cli.results import gates
from weirlab.cli.results.tables import of_device
from weirlab.devices.choice.profiling import DeviceProfile
from weirlab.devices.choice.study import ChoiceOutcome, ChoiceRow, between
from weirlab.devices.planning import reasons
from weirlab.devices.planning import wording as plans
from weirlab.devices.planning.outcome import PlanOutcome
from weirlab.jobs.spoiled import REPETITIONS
from weirlab.model.planning.planner import Conclusion, PlanAnswer
from weirlab.model.planning.requirements import LIMITED
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
    if plan.doubt(answer):
        return f"{plan.disturbed[answer.device]}: cannot tell"
    return reasons.because(answer, plan.question) if plan.question is not None else ""


def choice_tables(outcome: ChoiceOutcome, rows: list[ChoiceRow]) -> list[Table]:
    """The devices with the calls in question, the headroom in every case, and as details all other cases."""
    first = outcome.cases[0]
    asked = f"{plural(first.calls, 'call')} behind {plural(first.rules, 'rule')}"
    more = [row for row in rows if not outcome.is_base(row)]
    return [
        _table(outcome, f"Choice for {asked}", [row for row in rows if outcome.is_base(row)]),
        *([_what_if(outcome, rows)] if more else []),
        *(
            [replace(_table(outcome, "Other calls, rules and loads", more, cases=True), details=True)]
            if more
            else []
        ),
    ]


def _table(outcome: ChoiceOutcome, caption: str, rows: list[ChoiceRow], *, cases: bool = False) -> Table:
    """A row for each device, with the case that it is about if there are several ``cases``."""
    request = outcome.request
    rows = sorted(rows, key=_rank)
    share = f"{200 * request.terms.certainty - 100:.4g} %"
    columns = {
        "Device": [row.device for row in rows],
        "Codecs": [row.codecs for row in rows] if cases and len(request.streams) > 1 else [],
        "Rules": [count(row.rules) for row in rows] if cases and len(request.rules) > 1 else [],
        "Load": [f"{row.factor:g} ×" for row in rows] if cases and len(request.factors) > 1 else [],
        "Verdict": [_VERDICTS[row.verdict] for row in rows],
        "Most calls": [count(row.most_calls) for row in rows],
        "Headroom": [_headroom(row) for row in rows],
        "p99 delay": [duration(row.delay_p99_ns) for row in rows],
        f"p99, {share}": [
            _ends(row, row.delay_p99_floor_ns, row.delay_p99_bound_ns, duration) for row in rows
        ],
        f"Loss, {share}": [_ends(row, row.loss_floor, row.loss_bound, percent) for row in rows],
        "Threshold": [rate(row.threshold_pps) for row in rows],
        "Because": [row.why for row in rows],
    }
    columns = {name: cells for name, cells in columns.items() if cells}
    spare = ("Because", "Threshold", f"Loss, {share}", f"p99, {share}")
    return Table(caption, tuple(columns), list(zip(*columns.values(), strict=True)), spare=spare)


def _rank(row: ChoiceRow) -> tuple[int, float]:
    """Devices that will do come first, those with the most headroom before others."""
    return [*_VERDICTS].index(row.verdict), -row.headroom_ratio if math.isfinite(row.headroom_ratio) else 0.0


def _what_if(outcome: ChoiceOutcome, rows: list[ChoiceRow]) -> Table:
    """The headroom of every device in every case, or the verdict where it has none."""
    request = outcome.request
    ranked = [row.device for row in sorted(filter(outcome.is_base, rows), key=_rank)]
    cases: dict[str, dict[str, str]] = {}
    for row in rows:
        label = [plural(row.calls, "call")]
        label += [row.codecs] if len(request.streams) > 1 else []
        label += [plural(row.rules, "rule")] if len(request.rules) > 1 else []
        cell = _headroom(row) if row.verdict == "meets" else _VERDICTS[row.verdict]
        cases.setdefault(", ".join(label), {})[row.device] = cell
    cells = [[label, *(found.get(device, NOTHING) for device in ranked)] for label, found in cases.items()]
    return Table("Headroom in every case", ("Case", *ranked), cells, spare=ranked[:1:-1])


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
        [*_unmet(outcome), _conclusion(outcome), *_same_cases(outcome), *remedies(outcome, command)]
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
    base = outcome.base
    if base.best is None:
        said = f"{_verdicts(base)}."
        doubts = dict.fromkeys(filter(None, map(base.doubt, base.answers)))
        said = " ".join(
            [said, *(f"{text[:1].upper()}{text[1:]}." for text in doubts), base.assumption]
        ).strip()
    simulated = len(base.simulated) == len(base.answers)
    said = said.removeprefix(of_device(simulated, ""))
    return of_device(simulated, f"{without} Behind a tunnel: {said} {_costs(base, plain)}")


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
    if not sure and plan.doubt(one) and one.outlook is not None:
        lossless = reasons.amount(one, one.outlook.predicted["threshold_pps"], question)
        return f"not known ({alone or lossless} by the prediction alone{'' if alone else ', without loss'})"
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


def _same_cases(outcome: ChoiceOutcome) -> list[str]:
    """Whether all cases have the same verdicts; the table of headroom shows those that differ."""
    found = {(_verdicts(case.plan), case.plain and _verdicts(case.plain)) for case in outcome.cases}
    if not outcome.base.answers or len(found) > 1 or len(outcome.cases) < 2:
        return []
    return [f"Verdicts are the same in all {count(len(outcome.cases))} cases."]


def notes_on(outcome: ChoiceOutcome) -> list[str]:
    """What the profiles stand for."""
    found = [
        f"{one.need.name} was measured as {backend}; Debian's iptables is iptables-nft unless changed "
        "(compare them: weir choose iptables-legacy iptables-nft ...)"
        for one in outcome.profiles
        if one.device is not None and (backend := one.device.facts.get("dut")) == "iptables-legacy"
    ]
    if outcome.request.tunnels:
        found.append(
            "calls go both ways, a tunnel's profile one way: the packets of both directions are counted, "
            "each encrypted and decrypted on the one CPU that both gateways share in the lab"
        )
    return found


def failure(outcome: ChoiceOutcome) -> WeirError | None:
    """The error of the requirements: if no device meets them, all devices and what was required of them."""
    found = None if outcome.failures else gates.failure(outcome.judged)
    base = outcome.base
    if not isinstance(found, NotMet) or base.best is not None or base.question is None:
        return found
    asked = [one.text for one in base.demands] or [limit.text for limit in base.question.limits]
    return NotMet(f"not met: {words(asked)}; {_verdicts(base)}")


def confirmation(outcome: ChoiceOutcome) -> str:
    """The command for real calls through the device that is chosen without a tunnel; empty if none is."""
    request, case = outcome.request, outcome.cases[0]
    plan = case.plain or case.plan
    best = plan.best
    if best is None or best.device not in request.devices:
        return ""
    typed = ["weir", "calls", "--send", "--dut", best.device, "--rules", str(case.rules)]
    typed += ["--calls", str(case.calls), "--codec", case.stream.text]
    typed += [
        word for one in request.terms.demands if one.quantity in LIMITED for word in ("--require", one.text)
    ]
    return shlex.join(typed)


def _most_headroom(plan: PlanOutcome) -> str:
    """``; new has the most headroom, 20 ×``, if several devices were judged."""
    best = plan.best
    if best is None or best.headroom is None or len(plan.answers) < 2:
        return ""
    p99 = "" if best.outlook is None else f", at p99 delay {duration(best.outlook.predicted['delay_p99_ns'])}"
    return f"; {plan.name(best.device)} has the most headroom, {significant(best.headroom.ratio, 2)} ×{p99}"


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
    p99 = f"{headroom} and p99 delay {duration(best.delay_p99_ns)}"
    return f"{best.device} carries {calls} behind {plural(best.rules, 'rule')}, with {p99}."


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
    notes = [*outcome.warnings, *notes_on(outcome), *map(_origin, outcome.profiles)]
    story = Story(
        subject=f"choice among {plural(len(base.answers), 'device')}",
        simulated=simulated,
        answer=_headline(outcome, best),
        lede=(*_unmet(outcome), _conclusion(outcome), *_same_cases(outcome)),
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
