"""Plans as tables and a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, significant, words
from weirlab.cli.quantities import rules as whole_rules
from weirlab.cli.results import gates
from weirlab.cli.results.tables import of_device
from weirlab.devices.planning import reasons
from weirlab.devices.planning.rulesets import advice_sentence, advice_tables
from weirlab.jobs.spoiled import PROFILE_AGAIN
from weirlab.records import device_in_words

if TYPE_CHECKING:
    from weirlab.devices.planning.outcome import PlanOutcome
    from weirlab.model.planning.planner import (
        Conclusion,
        Headroom,
        PlanAnswer,
        PlanForecast,
        PlanningQuestion,
    )
    from weirlab.traffic.calls.mix import VoiceMix

_MEETS: Final[dict[Conclusion, str]] = {
    "meets": "yes",
    "undecided": "undecided",
    "misses": "no",
    "not profiled": "not profiled",
}


_SHOWN: Final = (
    ("Threshold", "threshold_pps"),
    ("Delay p99", "delay_p99_ns"),
    ("Loss", "loss_ratio"),
    ("Delay mean", "delay_mean_ns"),
    ("Delay p50", "delay_p50_ns"),
    ("Delay p90", "delay_p90_ns"),
    ("Delay p99.9", "delay_p999_ns"),
    ("Jitter", "jitter_ns"),
)


def tables(outcome: PlanOutcome) -> list[Table]:
    """Requirements, every device's answer and prediction, and the ruleset's moves."""
    found: list[Table] = []
    if outcome.judged:
        found.append(
            gates.table(outcome.judged_devices, "Counted" if outcome.question is None else "Predicted")
        )
    if outcome.change is not None:
        found += outcome.change.tables()
    if outcome.question is not None:
        found.append(_answers(outcome))
        found += _outlooks(outcome)
    if outcome.ruleset is not None:
        found += advice_tables(outcome.ruleset)
    return found


def conclusion(outcome: PlanOutcome) -> str:
    """The answer in a sentence, and one about the ruleset."""
    parts = []
    if outcome.question is not None:
        parts.append(_sentence(outcome))
    if outcome.change is not None:
        parts.append(outcome.change.sentence)
    if outcome.ruleset is not None:
        parts.append(advice_sentence(outcome.ruleset))
    gaps: dict[str, list[str]] = {}
    for one in outcome.answers:
        if one.outlook is not None and one.outlook.unchecked:
            gaps.setdefault(one.outlook.unchecked, []).append(outcome.name(one.device))
    for gap, names in gaps.items():
        said = gap if len(names) == len(outcome.answers) else f"{words(names)}: {gap}"
        parts.append(f"{said[:1].upper()}{said[1:]}.")
    parts += filter(None, [outcome.assumption])
    some = 0 < len(outcome.simulated) < len(outcome.answers)
    if some:
        parts.append(f"Simulated, not measured: {words(outcome.simulated)}.")
    for device, why in outcome.unusable.items():
        parts.insert(
            0, f"{device_in_words(device, first=True)} is known from a run that does not count: {why}."
        )
    return of_device(bool(outcome.simulated) and not some, " ".join(parts))


def _answers(outcome: PlanOutcome) -> Table:
    question = outcome.question
    assert question is not None
    headroom = question.find in ("delay", "loss", "device")
    most = f"Most load, {question.certainty * 100:g} %" if headroom else question.find.capitalize()
    columns = ["Device", "Meets it", most, "Because"]
    if headroom:
        columns += ["Headroom", "Spare load"]
    rows = []
    for one in outcome.answers:
        row = [outcome.name(one.device), _MEETS[one.verdict]]
        row += [_value(one), reasons.because(one, question)]
        if headroom:
            room = one.headroom
            row += [
                f"{significant(room.ratio)} ×" if room and math.isfinite(room.ratio) else NOTHING,
                rate(room.left_pps) if room else NOTHING,
            ]
        rows.append(row)
    return Table("Answers", columns, rows)


def _outlooks(outcome: PlanOutcome) -> list[Table]:
    question = outcome.question
    assert question is not None
    looks = [(one, one.outlook) for one in outcome.answers if one.outlook is not None]
    if not looks:
        return []
    columns = ["Device", *(label for label, _ in _SHOWN), "Load", "Frame", "Rules"]
    rows = [
        [
            outcome.name(one.device),
            *(_with_bound(look, name) for _, name in _SHOWN),
            rate(look.rate_pps),
            f"{look.frame_bytes:.4g} B",
            f"{look.position:.6g}",
        ]
        for one, look in looks
    ]
    caption = f"Predictions, in brackets what {question.certainty * 100:g} % of trials keep"
    return [Table(caption, columns, rows, details=True)]


def _with_bound(look: PlanForecast, name: str) -> str:
    """``12.2 µs (≤ 12.3 µs)``."""
    shows: dict[str, Callable[[float], str]] = {"loss_ratio": percent, "threshold_pps": rate}
    show = shows.get(name, duration)
    bound = look.bounds[name]
    sign = "≥" if name == "threshold_pps" else "≤"
    return show(look.predicted[name]) + (f" ({sign} {show(bound)})" if math.isfinite(bound) else "")


def _value(one: PlanAnswer) -> str:
    if one.refused:
        return NOTHING
    if one.find == "frame":
        return ", ".join(f"{a}" if a == b else f"{a}–{b} B" for a, b in one.frames) or "none"
    reach = one.headroom.reach if one.headroom else one.reach
    if reach is None or reach.value is None:
        return "none"
    least = "" if reach.ended == "limit" else "at least "
    if one.find == "calls":
        return f"{least}{count(one.calls or 0)}"
    return f"{least}{count(reach.value) if one.find == 'rules' else rate(reach.value)}"


def rules_text(position: float) -> str:
    """``400 rules``; a mean matching position to four digits."""
    return whole_rules(float(f"{position:.4g}"))


def _sentence(outcome: PlanOutcome) -> str:
    question = outcome.question
    assert question is not None
    best = outcome.best
    sure = f"at {question.certainty * 100:g} % certainty"
    if best is not None and best.uncertain:
        sure = "by the prediction alone, without certainty"
    demand = words([limit.text for limit in question.limits])
    if outcome.verdict == "undecided":
        found = [_undecided(one, outcome, question) for one in outcome.answers if one.verdict == "undecided"]
        return " ".join([*found, *_others(outcome, None), more_trials(outcome)])
    if best is None or best.outlook is None:
        nobody = "The device" if len(outcome.answers) == 1 else "No device"
        verb = "does not meet" if len(outcome.answers) == 1 else "meets"
        closest = min(
            (one for one in outcome.answers if one.outlook is not None),
            key=lambda one: reasons.distance(one.outlook, question) if one.outlook else (math.inf, math.inf),
            default=None,
        )
        why = ""
        if closest is not None and closest.outlook is not None:
            missed = reasons.missing(closest.outlook, question)
            name = device_in_words(outcome.name(closest.device), first=True)
            alone = len(outcome.answers) == 1
            why = f": {missed}" if alone else f". {name} comes closest, with {missed}"
        return f"{nobody} {verb} {demand} {sure}{why}."
    look, who = best.outlook, device_in_words(outcome.name(best.device), first=True)

    if best.find in ("rate", "calls", "rules"):
        reach = best.reach
        assert reach is not None
        what = _value(best)
        if best.find == "calls" and outcome.stream is not None:
            what += f" {_calls(outcome, outcome.stream)} behind {rules_text(look.position)}"
        elif best.find == "rules":
            what += f" rules at {_load(look, outcome)}"
        else:
            what += f" of {look.frame_bytes:.4g}-byte frames behind {rules_text(look.position)}"
        said = (
            f"{who} carries {what} with {demand} {sure}{_foreseen(best, question)}; {reasons.end_of(reach)}."
        )
    elif best.find == "frame":
        said = (
            f"{who} meets {demand} with frames of {_value(best)} behind {rules_text(look.position)} {sure}."
        )
    else:
        room = best.headroom
        what = {
            "delay": f"mean delay {duration(look.predicted['delay_mean_ns'])} and p99 "
            f"{duration(look.predicted['delay_p99_ns'])}, below "
            f"{duration(look.bounds['delay_p99_ns'])} {sure}",
            "loss": f"loss {percent(look.predicted['loss_ratio'])}, at most "
            f"{percent(look.bounds['loss_ratio'])} {sure}",
        }.get(best.find, f"{demand} {sure}")
        left = f"; {_room(room)}" if room is not None and math.isfinite(room.ratio) else ""
        said = f"{who} carries {_where(look, outcome)} with {what}{left}."
    meeting = [outcome.name(one.device) for one in outcome.answers if outcome.concluded(one) == "meets"]
    if len(outcome.answers) > 1:
        listed = f": {words(meeting)}" if meeting else ""
        said += f" {len(meeting)} of {plural(len(outcome.answers), 'device')} will do{listed}."
    return " ".join([said, *_others(outcome, best), *filter(None, [more_trials(outcome)])])


def _others(outcome: PlanOutcome, chosen: PlanAnswer | None) -> list[str]:
    """A sentence on each device that the plan does not choose and that does not meet the requirement.

    Devices that were not profiled for it share a sentence if they lack the same.
    """
    question = outcome.question
    assert question is not None
    found, lacking = [], dict[str, list[str]]()
    for one in outcome.answers:
        name = device_in_words(outcome.name(one.device), first=True)
        if one.verdict == "undecided" and chosen is not None:
            better = ", although its prediction is better" if _foreseen_better(one, chosen) else ""
            why = outcome.doubt(one) or reasons.unsure(one, question)
            found.append(f"{name} is undecided{better}: {why}.")
        elif one.verdict == "misses" and one.outlook is not None:
            look = (one.headroom and one.headroom.lighter) or one.outlook
            found.append(f"{name} will not do: {reasons.missing(look, question)}.")
        elif one.verdict == "not profiled":
            lacking.setdefault("; ".join(one.refused), []).append(name)
    for why, names in lacking.items():
        found.append(f"{words(names)} {'was' if len(names) == 1 else 'were'} not profiled for this: {why}.")
    return found


def _foreseen_better(one: PlanAnswer, chosen: PlanAnswer) -> bool:
    """Whether ``one`` reaches further than ``chosen``, by the predictions alone."""
    if one.foreseen is not None and chosen.foreseen is not None:
        return (one.foreseen.value or 0.0) > (chosen.foreseen.value or 0.0)
    if one.outlook is None or chosen.outlook is None:
        return False
    return one.outlook.predicted["threshold_pps"] > chosen.outlook.predicted["threshold_pps"]


def more_trials(outcome: PlanOutcome) -> str:
    """What settles the answers that are undecided, once for all of them; empty if none is."""
    undecided = [one.device for one in outcome.answers if one.verdict == "undecided"]
    if not undecided:
        return ""
    ways = [way for device in undecided for way in outcome.more_trials.get(device, [PROFILE_AGAIN])]
    idle = any(map(reasons.unsure_when_idle, outcome.answers))
    quieter = " More trials need a quieter machine (weir doctor --require-quiet tells)." if idle else ""
    said = words(list(dict.fromkeys(ways)))
    return f"To settle it, {said}; a lower certainty (--certainty 75%) needs fewer trials.{quieter}"


def _room(room: Headroom) -> str:
    """The multiple of the load that the device carries, and what limits it."""
    if room.reach.ended != "limit" or room.reach.binding is None:
        return f"at least {significant(room.ratio)} × headroom"
    missed = reasons.limit_missed(room.reach.binding)
    return f"{significant(room.ratio)} × headroom, beyond it {missed}"


def _undecided(one: PlanAnswer, outcome: PlanOutcome, question: PlanningQuestion) -> str:
    """Why a device is undecided, for the load in question."""
    look = one.outlook
    assert look is not None
    name = device_in_words(outcome.name(one.device), first=True)
    where = _where(look, outcome)
    why = outcome.doubt(one) or reasons.unsure(one, question)
    return f"Undecided: {name}, for {where}: {why}{_foreseen(one, question)}."


def _foreseen(one: PlanAnswer, question: PlanningQuestion) -> str:
    """How far the prediction alone reaches, if that is further."""
    if one.foreseen is None or one.foreseen.value is None:
        return ""
    sure = (
        None
        if one.reach is None or one.reach.value is None
        else reasons.amount(one, one.reach.value, question)
    )
    most = reasons.amount(one, one.foreseen.value, question)
    return "" if most == sure else f" ({most} by the prediction alone)"


def _where(look: PlanForecast, outcome: PlanOutcome) -> str:
    return f"{_load(look, outcome)} behind {rules_text(look.position)}"


def _load(look: PlanForecast, outcome: PlanOutcome) -> str:
    """The load, in calls if the question is about calls, else in packets."""
    if outcome.calls is not None and outcome.stream is not None:
        return f"{count(outcome.calls)} {_calls(outcome, outcome.stream)}"
    return f"{rate(look.rate_pps)} of {look.frame_bytes:.4g}-byte frames"


def _calls(outcome: PlanOutcome, stream: VoiceMix) -> str:
    calls = "call" if outcome.calls == 1 else "calls"
    return f"{'two-way' if outcome.directions == 2 else 'one-way'} {calls}, {stream.title},"
