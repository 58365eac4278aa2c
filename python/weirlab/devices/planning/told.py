"""Plans as tables and a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from weirlab.cli.quantities import (
    NOTHING,
    count,
    duration,
    percent,
    plural,
    rate,
    significant,
    words,
)
from weirlab.cli.quantities import rules as whole_rules
from weirlab.cli.results import gates
from weirlab.cli.results.wording import MORE_TRIALS, of_device
from weirlab.records import device_in_words
from weirlab.tables import Table

if TYPE_CHECKING:
    from weirlab.devices.planning.outcome import PlanOutcome, RulesetOutcome
    from weirlab.model.planning import Answer, Conclusion, Headroom, Limit, Outlook, Question, Reach
    from weirlab.rules.advice import Advice, Kept
    from weirlab.traffic.calls.codecs import VoiceStream

MOST_MOVES: Final = 20
"""Moves shown; --json has all."""

MOST_UNCOUNTED: Final = 3
"""Rules without a counter that are named."""

_MEETS: Final[dict[Conclusion, str]] = {
    "meets": "yes",
    "undecided": "undecided",
    "misses": "no",
    "not profiled": "not profiled",
}

_SHOWN: Final = (
    ("delay mean", "delay_mean_ns"),
    ("delay p50", "delay_p50_ns"),
    ("delay p90", "delay_p90_ns"),
    ("delay p99", "delay_p99_ns"),
    ("delay p99.9", "delay_p999_ns"),
    ("jitter", "jitter_ns"),
    ("loss", "loss_ratio"),
    ("threshold", "threshold_pps"),
)


def tables(outcome: PlanOutcome) -> list[Table]:
    """Requirements, every device's answer and prediction, and the ruleset's moves."""
    found: list[Table] = []
    if outcome.judged:
        found.append(gates.table(outcome.judged))
    if outcome.change is not None:
        found.append(outcome.change.table())
    if outcome.question is not None:
        found.append(_answers(outcome))
        found += _outlooks(outcome)
    if outcome.ruleset is not None:
        found += _ruleset(outcome.ruleset)
    return found


def conclusion(outcome: PlanOutcome) -> str:
    """The answer in a sentence, and one about the ruleset."""
    parts = []
    if outcome.question is not None:
        parts.append(_sentence(outcome))
    if outcome.change is not None:
        parts.append(outcome.change.sentence)
    if outcome.ruleset is not None:
        parts.append(_ruleset_sentence(outcome.ruleset))
    some = 0 < len(outcome.simulated) < len(outcome.answers)
    if some:
        parts.append(f"Simulated, not measured: {words(outcome.simulated)}.")
    return of_device(bool(outcome.simulated) and not some, " ".join(parts))


def _answers(outcome: PlanOutcome) -> Table:
    question = outcome.question
    assert question is not None
    headroom = question.find in ("delay", "loss", "device")
    columns = ["Device", "Meets it", question.find.capitalize() if not headroom else "Most load", "Because"]
    if headroom:
        columns += ["Headroom", "Spare load"]
    rows = []
    for one in outcome.answers:
        row = [one.device, _MEETS[one.verdict]]
        row += [_value(one), _because(one)]
        if headroom:
            room = one.headroom
            row += [
                f"{significant(room.ratio)} ×" if room else NOTHING,
                rate(room.left_pps) if room else NOTHING,
            ]
        rows.append(row)
    return Table("Answers", columns, rows)


def _outlooks(outcome: PlanOutcome) -> list[Table]:
    question = outcome.question
    assert question is not None
    looks = {one.device: one.outlook for one in outcome.answers if one.outlook is not None}
    if not looks:
        return []
    kept = f"{question.certainty * 100:g} %"
    columns = ["Quantity"]
    for device in looks:
        columns += [device, f"{device}, {kept}"]
    rows = [
        ["load", *(cell for look in looks.values() for cell in (rate(look.rate_pps), ""))],
        ["frame", *(cell for look in looks.values() for cell in (f"{look.frame_bytes:.4g} B", ""))],
        ["rules", *(cell for look in looks.values() for cell in (f"{look.position:.6g}", ""))],
    ]
    for label, name in _SHOWN:
        shows: dict[str, Callable[[float], str]] = {"loss_ratio": percent, "threshold_pps": rate}
        show = shows.get(name, duration)
        sign = "≥ " if name == "threshold_pps" else "≤ "
        rows.append(
            [
                label,
                *(
                    cell
                    for look in looks.values()
                    for cell in (show(look.predicted[name]), _bound(sign, look.bounds[name], show))
                ),
            ]
        )
    caption = f"Predictions, and bounds that {kept} of trials keep"
    return [Table(caption, columns, rows, details=True)]


def _bound(sign: str, value: float, show: object) -> str:
    assert callable(show)
    return f"{sign}{show(value)}" if math.isfinite(value) else NOTHING


def _value(one: Answer) -> str:
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


def _because(one: Answer) -> str:
    if one.refused:
        return "; ".join(one.refused)
    if one.find == "frame":
        return "" if one.outlook is None or one.outlook.met else f"{one.outlook.binding.label} too high"
    reach = one.headroom.reach if one.headroom else one.reach
    return _end(reach) if reach is not None else ""


def _end(reach: Reach) -> str:
    if reach.ended == "limit" and reach.binding is not None:
        if reach.value is None:
            return f"even the lowest profiled value misses: {reach.binding.text}"
        return f"beyond: {_missed(reach.binding)}"
    if reach.ended == "profile":
        return f"not profiled beyond: {'; '.join(reach.why)}"
    return "larger values were not tried"


def rules_text(position: float) -> str:
    """``400 rules``; a mean matching position to four digits."""
    return whole_rules(float(f"{position:.4g}"))


def _missed(limit: Limit) -> str:
    if limit.quantity == "loss_ratio":
        return "packets are lost" if limit.text == "no loss" else f"loss above {percent(limit.at_most)}"
    return f"{limit.label} above {duration(limit.at_most)}"


def _sentence(outcome: PlanOutcome) -> str:
    question = outcome.question
    assert question is not None
    best = outcome.best
    sure = f"at {question.certainty * 100:g} % certainty"
    if best is not None and best.uncertain:
        sure = "by the prediction alone, without certainty"
    demand = words([limit.text for limit in question.limits])
    if outcome.verdict == "undecided":
        return " ".join(
            _undecided(one, outcome, question) for one in outcome.answers if one.verdict == "undecided"
        )
    if best is None or best.outlook is None:
        nobody = "The device" if len(outcome.answers) == 1 else "No device"
        verb = "does not meet" if len(outcome.answers) == 1 else "meets"
        closest = min(
            (one for one in outcome.answers if one.outlook is not None),
            key=lambda one: one.outlook.used if one.outlook else math.inf,
            default=None,
        )
        why = ""
        if closest is not None and closest.outlook is not None:
            why = f"; first to fail on {device_in_words(closest.device)}: {_missed(closest.outlook.binding)}"
        return f"{nobody} {verb} {demand} {sure}{why}."
    look, who = best.outlook, device_in_words(best.device, first=True)

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
        said = f"{who} carries {what} with {demand} {sure}{_foreseen(best, question)}; {_end(reach)}."
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
    meeting = [one.device for one in outcome.answers if one.met]
    if len(outcome.answers) > 1:
        said += f" {len(meeting)} of {plural(len(outcome.answers), 'device')} will do: {words(meeting)}."
    return said


def _room(room: Headroom) -> str:
    """The multiple of the load that the device carries, and what limits it."""
    if room.reach.ended != "limit" or room.reach.binding is None:
        return f"at least {significant(room.ratio)} × headroom"
    missed = _missed(room.reach.binding)
    return f"{significant(room.ratio)} × headroom, beyond it {missed}"


def _undecided(one: Answer, outcome: PlanOutcome, question: Question) -> str:
    """The prediction, which meets the limits, how far off a trial may be, and how to decide."""
    look = one.outlook
    assert look is not None
    foreseen = words([f"{limit.label} {_shown(limit, look.predicted)}" for limit in question.limits])
    unsure = words(
        [
            f"{limit.label} stays below {_shown(limit, look.bounds)}"
            for limit in question.limits
            if look.bounds[limit.quantity] > limit.at_most
        ]
    )
    return (
        f"Undecided: the profile of {device_in_words(one.device)} is too noisy. For {_where(look, outcome)} "
        f"the prediction is {foreseen}, which meets {words([limit.text for limit in question.limits])}; but "
        f"at {question.certainty * 100:g} % certainty all that can be said is that {unsure}"
        f"{_foreseen(one, question)}. {MORE_TRIALS}; a lower certainty (--certainty 75%) needs fewer."
    )


def _foreseen(one: Answer, question: Question) -> str:
    """How far the prediction alone reaches, if that is further."""
    if one.foreseen is None or one.foreseen.value is None:
        return ""
    sure = None if one.reach is None or one.reach.value is None else _amount(one, one.reach.value, question)
    most = _amount(one, one.foreseen.value, question)
    return "" if most == sure else f" ({most} by the prediction alone)"


def _amount(one: Answer, value: float, question: Question) -> str:
    if one.find == "rules":
        return f"{count(value)} rules"
    if one.find == "calls" and question.call_pps is not None:
        return f"{count(value // question.call_pps)} calls"
    return rate(value)


def _shown(limit: Limit, values: Mapping[str, float]) -> str:
    value = values[limit.quantity]
    return percent(value) if limit.quantity == "loss_ratio" else duration(value)


def _where(look: Outlook, outcome: PlanOutcome) -> str:
    return f"{_load(look, outcome)} behind {rules_text(look.position)}"


def _load(look: Outlook, outcome: PlanOutcome) -> str:
    """The load, in calls if the question is about calls, else in packets."""
    if outcome.calls is not None and outcome.stream is not None:
        return f"{count(outcome.calls)} {_calls(outcome, outcome.stream)}"
    return f"{rate(look.rate_pps)} of {look.frame_bytes:.4g}-byte frames"


def _calls(outcome: PlanOutcome, stream: VoiceStream) -> str:
    return f"{'two-way' if outcome.directions == 2 else 'one-way'} calls, {stream.title},"


def _ruleset(found: RulesetOutcome) -> list[Table]:
    advice = found.advice
    result = []
    moves = advice.moves
    if moves:
        rows = [
            (move.chain, str(move.place), str(move.new_place), percent(move.share), move.text)
            for move in moves[:MOST_MOVES]
        ]
        caption = f"Rules to move (the first {MOST_MOVES} of {len(moves)})"
        columns = ("Chain", "From place", "To place", "Matches", "Rule")
        result.append(Table(caption if len(moves) > MOST_MOVES else "Rules to move", columns, rows))
    if found.gains and moves:
        columns = ("Device", "Threshold now", "Then", "p99 delay now", "p99 delay then")
        gains = [
            (
                gain.device + (" (extrapolated)" if gain.why_extrapolated else ""),
                rate(gain.threshold_before_pps),
                rate(gain.threshold_after_pps),
                duration(gain.before.predicted["delay_p99_ns"]) if gain.before else NOTHING,
                duration(gain.after.predicted["delay_p99_ns"]) if gain.after else NOTHING,
            )
            for gain in found.gains
        ]
        result.append(Table("Gain from the new order", columns, gains))
    remarks = [("keeps its place", f"{one.text}{_freed(one, found)}") for one in advice.kept]
    remarks += [("note", text) for text in advice.notes]
    if remarks:
        result.append(Table("Rules that stay", ("", ""), remarks, details=True))
    return result


def _freed(one: Kept, found: RulesetOutcome) -> str:
    """What a kept rule would gain on top of the new order if it could move."""
    position, now = one.freed_mean_position, found.advice.after.mean_position
    if position is None:
        return ""
    if not position < now:
        return "; nothing would be gained if it could move"
    gains = [
        f"{device_in_words(gain.device)} {duration(freed.saved_ns)} per packet less, threshold "
        f"{rate(freed.threshold_pps)} ({percent(freed.threshold_pps / gain.threshold_after_pps - 1)} more)"
        for gain in found.gains
        for freed in gain.freed
        if freed.rule == one.text
    ]
    told = f" ({'; '.join(gains)})" if gains else ""
    return f"; if it could move: {significant(position)} rules on average instead of {significant(now)}{told}"


def _ruleset_sentence(found: RulesetOutcome) -> str:
    advice = found.advice
    now = (
        f"{count(advice.before.packets)} forwarded packets met "
        f"{significant(advice.before.mean_position)} rules on average{_left_out(advice)}"
    )
    untried = "".join(f" {text}." for text in advice.untried)
    if found.unproven_mean_position is not None:
        return (
            f"{now}. Another order would make it {significant(found.unproven_mean_position)}, but is not "
            f"given, because it is not proven here that it means the same: {found.proof.failure}.{untried}"
        )
    if not advice.moves:
        return f"{now}; no better order with the same meaning was found.{untried}"
    gain = ""
    if found.gains:
        one = found.gains[0]
        more = one.threshold_after_pps / one.threshold_before_pps - 1
        gain = f", which raises the threshold of {device_in_words(one.device)} by {percent(more)}"
    where = f" The new order is in {found.written}." if found.written else ""
    return (
        f"{now}; moving {plural(len(advice.moves), 'rule')} makes it "
        f"{significant(advice.after.mean_position)}{gain}, with the same verdict for every packet: "
        f"{count(found.proof.packets)} test packets at the limits of what the rules match passed "
        f"through both orders alike.{where}{untried}"
    )


def _left_out(advice: Advice) -> str:
    """Rules whose packets nobody counts, so that the mean leaves them out."""
    places = advice.before.uncounted
    if not places:
        return ""
    shown = words(places[:MOST_UNCOUNTED])
    more = f" and {len(places) - MOST_UNCOUNTED} more" if len(places) > MOST_UNCOUNTED else ""
    has = "has" if len(places) == 1 else "have"
    return f", without those that {shown}{more} decided about, which {has} no counter and so stay in place"
