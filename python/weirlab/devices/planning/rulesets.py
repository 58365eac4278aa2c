"""Advice on the order of rules as tables and a sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, significant, words
from weirlab.records import device_in_words
from weirlab.rules.advice import NO_COUNTER, WORTH
from weirlab.rules.walking import spans

if TYPE_CHECKING:
    from weirlab.devices.planning.outcome import RulesetOutcome
    from weirlab.rules.advice import Advice, FixedRule
    from weirlab.rules.costs import KnownAdvice, SetAdvice

MOST_MOVES: Final = 20
"""Moves, and rules that stay, shown; --json has all."""
WORTH_SAYING: Final = 1.0
"""Comparisons per packet from which the sentence names what saves more than a new order."""
MOST_RANKED: Final = 10
"""Rules that are listed by their comparisons; --json has all."""
MOST_VALUES: Final = 4
"""Values of a set that are named."""


def advice_tables(found: RulesetOutcome) -> list[Table]:
    """The moves, what they gain, and the rules that stay."""
    advice = found.advice
    result = []
    moves = advice.moves
    if moves:
        rows: list[tuple[str, ...]] = [
            (
                move.chain,
                str(move.place),
                str(move.new_place),
                percent(move.share),
                significant(move.saved),
                move.text,
            )
            for move in moves[:MOST_MOVES]
        ]
        caption = f"Rules to move (the first {MOST_MOVES} of {len(moves)})"
        columns = ("Chain", "From place", "To place", "Matches", "Saves", "Rule")
        result.append(Table(caption if len(moves) > MOST_MOVES else "Rules to move", columns, rows))
    if found.gains and moves:
        devices = ("Device", "Threshold now", "Then", "p99 delay now", "p99 delay then")
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
        result.append(Table("Gain from the new order", devices, gains))
    result += cost_tables(advice)
    remarks = [("keep their place", text) for text in _uncounted(advice)]
    others = [one for one in advice.kept if one.why != NO_COUNTER]
    remarks += [("keeps its place", f"{one.text}{_freed(one, found)}") for one in others[:MOST_MOVES]]
    if (more := len(others) - MOST_MOVES) > 0:
        remarks.append(("keep their place", f"{plural(more, 'more rule')} (see --json)"))
    remarks += [("note", text) for text in advice.notes]
    if remarks:
        result.append(Table("Rules that stay", ("", ""), remarks, details=True))
    return result


def cost_tables(advice: Advice) -> list[Table]:
    """Which rules matter, which match nothing, and what a set, or ESTABLISHED first, would save."""
    if not math.isfinite(advice.before.mean_position):
        return []
    ranked = sorted((cost for cost in advice.costs if cost.share), key=lambda cost: -(cost.share or 0.0))
    result = []
    rows: list[tuple[str, ...]] = [
        (
            cost.chain,
            str(cost.place),
            percent(cost.share or 0.0),
            significant(cost.comparisons),
            significant(cost.saved),
            cost.text,
        )
        for cost in ranked[:MOST_RANKED]
    ]
    caption = "Rules that match most packets"
    more = f"{caption} (the first {MOST_RANKED} of {len(ranked)})" if len(ranked) > MOST_RANKED else caption
    columns = ("Chain", "Place", "Matches", "Comparisons", "Saves if moved alone", "Rule")
    result.append(Table(more, columns, rows, details=True))
    if idle := [cost for cost in advice.costs if cost.share == 0]:
        places = sorted((cost.chain, cost.place) for cost in idle)
        saves = significant(sum(cost.comparisons for cost in idle))
        row = (count(len(idle)), saves, spans(places))
        caption = "Rules that matched nothing"
        result.append(Table(caption, ("Rules", "Saves if removed", "Chain and places"), [row], details=True))
    grouped = [
        (one.chain, f"{one.first}-{one.last}", significant(one.saved), _set(one), one.text)
        for one in advice.sets
        if one.saved >= WORTH * advice.before.mean_position
    ]
    if grouped:
        result.append(Table("One set instead of rules", ("Chain", "Places", "Saves", "Set", "Rule"), grouped))
    known = [
        (one.chain, str(one.place), percent(one.share), significant(one.saved), _blocked(one))
        for one in advice.known_first
        if one.saved >= WORTH * advice.before.mean_position
    ]
    if known:
        result.append(
            Table(
                "ESTABLISHED belongs first",
                ("Chain", "Place", "Matches", "Saves in place 1", "In its way"),
                known,
            )
        )
    return result


def _blocked(one: KnownAdvice) -> str:
    """The rules that keep it where it is: they decide otherwise about some packets of such connections."""
    if not one.blocked_by:
        return "nothing"
    rules, last = plural(len(one.blocked_by), "rule"), one.blocked_by[-1]
    more = significant(one.last_saves)
    saves = f" (without that one, it could move further up and save {more} more)" if one.last_saves else ""
    return (
        f"{rules}, the last of them rule {last}{saves}; if they are meant for new connections only, let them "
        "match state NEW"
    )


def _set(one: SetAdvice) -> str:
    values = words(one.values, most=MOST_VALUES)
    return f"{one.set_type}: {values}" if one.set_type else values


def _uncounted(advice: Advice) -> list[str]:
    """The rules of each chain that keep their place for want of a counter, and what counters could gain."""
    found = []
    without = [one for one in advice.kept if one.why == NO_COUNTER]
    for chain in dict.fromkeys(one.chain for one in without):
        rules = [(one.chain, one.place) for one in without if one.chain == chain]
        gain = _if_better(
            _with_counters(advice, chain),
            advice.best_mean_position,
            f"; if all of them had one: at best {{}} rules on average instead of "
            f"{significant(advice.best_mean_position)}, each in the best order",
        )
        found.append(f"{spans(sorted(rules))} ({plural(len(rules), 'rule')}): {NO_COUNTER}{gain}")
    return found


def _with_counters(advice: Advice, chain: str | None = None) -> float:
    """Mean position at best if the rules without a counter of ``chain``, or of the best chain, had one."""
    freed = [
        one.freed_mean_position
        for one in advice.kept
        if one.why == NO_COUNTER and chain in (None, one.chain) and one.freed_mean_position is not None
    ]
    return min(freed, default=math.inf)


def _freed(one: FixedRule, found: RulesetOutcome) -> str:
    """What a kept rule would gain in the best order if it could move."""
    now = found.advice.best_mean_position
    instead = f"rules on average instead of {significant(now)}, each in the best order"
    if one.freed_mean_position is None:
        return ""
    gains = [
        f"{device_in_words(gain.device)} {duration(freed.saved_ns)} per packet less, threshold "
        f"{rate(freed.threshold_pps)} ({percent(freed.gain_ratio)} more)"
        for gain in found.gains
        for freed in gain.freed
        if freed.rule == one.text
    ]
    told = f" ({'; '.join(gains)})" if gains else ""
    alone = _if_better(one.freed_mean_position, now, f"; if it could move: {{}} {instead}{told}")
    counted = one.counted_mean_position
    if counted is None:
        return alone or "; nothing would be gained if it could move"
    return (
        f"{alone}; if it could move and every rule without a counter had one: at best {significant(counted)} "
        f"{instead}"
    )


def _if_better(position: float, now: float, sentence: str) -> str:
    return sentence.format(significant(position)) if position < now else ""


def advice_sentence(found: RulesetOutcome) -> str:
    """How many rules packets meet, and what a better order gains."""
    advice = found.advice
    now = (
        f"{count(advice.before.packets)} forwarded packets met "
        f"{significant(advice.before.mean_position)} rules on average{_left_out(advice)}"
    )
    untried = "".join(f" {text}." for text in advice.untried) + _beside(advice) + _beyond_order(advice)
    if found.unproven_mean_position is not None:
        return (
            f"{now}. Another order would make it {significant(found.unproven_mean_position)}, but is not "
            f"given, because it is not proven here that it means the same: {found.proof.failure}.{untried}"
        )
    if not advice.moves:
        return f"{now}; no better order with the same meaning was found.{untried}"
    where = f" The new order is in {found.written}." if found.written else ""
    proven = (
        f"with the same verdict for every packet: {count(found.proof.packets)} test packets at the limits of "
        "what the rules match passed through both orders alike"
    )
    gain = ""
    if found.gains:
        one = found.gains[0]
        name = device_in_words(one.device)
        if one.ratio <= one.error_ratio:
            return (
                f"{now}. The order is as good as can be told: moving {plural(len(advice.moves), 'rule')} "
                f"raises the threshold of {name} by {percent(one.ratio)}, and the model may be off by "
                f"{percent(one.error_ratio)}, {proven}.{where}{untried}"
            )
        gain = f", which raises the threshold of {name} by {percent(one.ratio)}"
    before, after = advice.before.mean_position, advice.after.mean_position
    makes = f"makes it {significant(after)}"
    if significant(before) == significant(after):
        makes = f"saves {significant(before - after)} of them"
    return (
        f"{now}; moving {plural(len(advice.moves), 'rule')} {makes}{_best(advice)}{gain}, "
        f"{proven}.{where}{untried}"
    )


def _beside(advice: Advice) -> str:
    """Further chains with rules, which the mean leaves out."""
    if not advice.left_out:
        return ""
    return f" Left out: {words([str(each) for each in advice.left_out])}, which packets also walk."


def _beyond_order(advice: Advice) -> str:
    """The set, and the place of a rule for known connections, that would save more than the new order."""
    least = max(advice.before.mean_position - advice.after.mean_position, WORTH_SAYING)
    found = []
    for one in advice.sets[:1]:
        if one.saved > least:
            places = f"{one.chain} {one.first}-{one.last}"
            found.append(f"one set instead of the rules {places} ({significant(one.saved)})")
    for known in advice.known_first[:1]:
        if known.saved > least:
            rule = f"rule {known.chain} {known.place} for established connections"
            found.append(
                f"{rule} in the first place ({significant(known.saved)}), which changes verdicts unless the "
                "rules before it match new connections alone"
            )
    return f" More comparisons per packet are saved by {' or by '.join(found)}." if found else ""


def _best(advice: Advice) -> str:
    """What the best order would make of it, if it takes more moves."""
    now = significant(advice.after.mean_position)
    if advice.best is None or significant(advice.best[1]) == now:
        return ""
    moves, position = advice.best
    return f" ({count(moves)} moves would make it {significant(position)})"


def _left_out(advice: Advice) -> str:
    """Rules whose packets nobody counts, so that the mean leaves them out."""
    rules = advice.before.uncounted
    if not rules:
        return ""
    stay = "stays" if len(rules) == 1 else "stay"
    least = _with_counters(advice)
    gain = _if_better(least, advice.best_mean_position, " (with counters on them: {} at best)")
    return (
        f", without those that {plural(len(rules), 'rule')} without a counter decided about "
        f"({spans(rules)}), which {stay} in place{gain}"
    )
