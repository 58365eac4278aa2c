"""Advice on the order of rules as tables and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, significant, words
from weirlab.records import device_in_words

if TYPE_CHECKING:
    from weirlab.devices.planning.outcome import RulesetOutcome
    from weirlab.rules.advice import Advice, FixedRule

MOST_MOVES: Final = 20
"""Moves shown; --json has all."""

MOST_UNCOUNTED: Final = 3
"""Rules without a counter that are named."""


def advice_tables(found: RulesetOutcome) -> list[Table]:
    """The moves, what they gain, and the rules that stay."""
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


def _freed(one: FixedRule, found: RulesetOutcome) -> str:
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


def advice_sentence(found: RulesetOutcome) -> str:
    """How many rules packets meet, and what a better order gains."""
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
