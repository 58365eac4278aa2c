"""What a comparison shows, in sentences and tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, significant, words

if TYPE_CHECKING:
    from weirlab.devices.comparison.study import ComparisonOutcome
    from weirlab.model.comparing.verdicts import ComparisonFinding


_SHOWN: Final = 5
"""Settings listed of a quantity that changed; --json has all."""


def tables(outcome: ComparisonOutcome) -> list[Table]:
    """One row per quantity, and where those that changed did so most."""
    sure = outcome.terms.certainty
    quantities = ("Quantity", "Verdict", "Change", "Interval", "Margin", "Settings", "Run to run")
    rows = [
        (
            one.title,
            one.text,
            change(one, one.change),
            interval(one, sure),
            margin(one),
            str(one.places),
            f"{significant(one.scatter * 100, 2)} % ({one.source})"
            if math.isfinite(one.scatter)
            else NOTHING,
        )
        for one in outcome.findings
    ]
    found = [Table("After against before", quantities, rows, spare=("Run to run", "Settings"))]
    if outcome.rates:
        forwarded = [
            (
                one.setting.text,
                rate(one.before_pps),
                rate(one.after_pps),
                _signed(one.packet_ns),
                NOTHING if one.rule_ns is None else _signed(one.rule_ns),
            )
            for one in outcome.rates
        ]
        columns = ("Setting", "Before", "After", "Per packet", "Per rule")
        found.append(Table("Forwarded in overload", columns, forwarded, spare=("Setting",)))
    if outcome.rules_met:
        met = [
            (one["ruleset"], one["rule"], count(one["compared"]), one["traffic"]) for one in outcome.rules_met
        ]
        heads = ("Ruleset", "Accepted by", "Rules compared", "Packets")
        found.append(Table("The rule that the packets met", heads, met, spare=("Packets",)))
    for one in outcome.findings:
        if one.verdict in ("worse", "better") and len(one.matches) > 1:
            most = sorted(one.matches, key=lambda match: -abs(match.difference))[:_SHOWN]
            listed = [(match.place.text, change(one, math.expm1(match.difference))) for match in most]
            caption = f"{one.title[0].upper()}{one.title[1:]}: most changed"
            found.append(Table(caption, ("Setting", "Change"), listed, details=True))
    return found


_LEADS: Final = {
    "worse": "Changed for the worse",
    "better": "Changed for the better",
    "unchanged": "Within the margin",
    "not worse": "Unchanged or better",
    "cannot tell": "Cannot tell",
}


def headline(outcome: ComparisonOutcome) -> str:
    """The verdict and what decides it, without numbers."""
    deciding = words([one.title for one in outcome.findings if one.verdict == outcome.verdict])
    return f"{_LEADS[outcome.verdict]}: {deciding}"


def sentence(outcome: ComparisonOutcome) -> str:
    """The verdict, what decides it, and what would help."""
    verdict = outcome.verdict
    deciding = [one for one in outcome.findings if one.verdict == verdict]
    sure = outcome.terms.certainty
    told = words([f"{one.title} {change(one, one.change)} {interval(one, sure)}" for one in deciding])
    allowed = words([f"{one.title} {margin(one)}" for one in outcome.findings])
    said = f"{_LEADS[verdict]}: {told}. Margins: {allowed}."
    return _made(outcome, " ".join((said, *_forwarded(outcome), *_rules_met(outcome), *ways_out(outcome))))


def _forwarded(outcome: ComparisonOutcome) -> list[str]:
    """Both rates, if there is one setting, and what a rule costs."""
    if len(outcome.rates) != 1:
        return []
    (one,) = outcome.rates
    per_rule = "" if one.rule_ns is None else f", {duration(one.rule_ns)} for each rule more"
    rates = f"{rate(one.before_pps)} before and {rate(one.after_pps)} after"
    return [f"In overload it forwards {rates}: {_signed(one.packet_ns)} per packet{per_rule}."]


def _signed(ns: float) -> str:
    return f"{'+' if ns > 0 else ''}{duration(ns)}"


def _rules_met(outcome: ComparisonOutcome) -> list[str]:
    """Which rules the packets met; empty without rulesets that were measured in turns."""
    met = [
        f"in {one['ruleset']} by {one['rule']} ({plural(one['compared'], 'rule')} compared)"
        for one in outcome.rules_met
    ]
    if not met:
        return []
    others = "No others were measured; weir plan --before judges all packets that the first ruleset counted."
    unmet = [f"{one['unmet']} of {one['ruleset']}" for one in outcome.rules_met if one.get("unmet")]
    known = f" No packet reached the rule for known connections ({words(unmet)})." if unmet else ""
    return [f"The same packets are accepted {words(met)}.{known} {others}"]


def answer(outcome: ComparisonOutcome) -> str:
    """As :func:`headline`, a sentence that says what was simulated; the page has the numbers below."""
    return _made(outcome, f"{headline(outcome)}.")


def _made(outcome: ComparisonOutcome, said: str) -> str:
    if outcome.simulated:
        return f"Simulated, not measured: {said}"
    some = any(run.simulated for run in (*outcome.before, *outcome.after))
    return f"In part simulated, not measured: {said}" if some else said


def ways_out(outcome: ComparisonOutcome) -> list[str]:
    """What would decide, a sentence or two for all that have the same reason; empty if it is decided."""
    from weirlab.model.comparing.verdicts import WIDE

    if outcome.verdict != "cannot tell":
        return []
    undecided = [one for one in outcome.findings if one.verdict == outcome.verdict]
    pairs = outcome.run is not None
    found = []
    for why in dict.fromkeys(one.why for one in undecided):
        alike = [one for one in undecided if one.why == why]
        titles = words([one.title for one in alike])
        found.append(f"{titles[0].upper()}{titles[1:]}: {why}.")
        found += [_runs_needed(one, pairs) for one in alike if one.runs_needed is not None and why == WIDE]
    return found


def _runs_needed(one: ComparisonFinding, pairs: bool) -> str:
    provable, wanted = (change(one, value).lstrip("+") for value in (one.provable, one.margin))
    count = one.runs_needed or 1
    more = f"--pairs {count}" if pairs else f"{plural(count, 'run')} of each, in turns"
    only = f"This can only prove {one.title} unchanged within {provable}"
    return f"{only}; for the margin of {wanted} take {more}."


def assumptions(outcome: ComparisonOutcome) -> list[str]:
    """What is assumed about the scatter from run to run."""
    assumed = [one for one in outcome.findings if one.source == "published runs"]
    if not assumed:
        return []
    known = words([f"{one.title} {significant(one.scatter * 100, 2)} %" for one in assumed])
    return [
        "How far two runs of one device are apart on this host is not known from these runs; what published "
        f"runs on another host show is assumed ({known}). To replace it, name more runs of each (--before, "
        "--after), or give --scatter."
    ]


def change(one: ComparisonFinding, value: float) -> str:
    """``+3.1 %``; of loss, in percentage points."""
    if not math.isfinite(value):
        return NOTHING
    digits, unit = (3, "points") if one.quantity == "loss" else (1, "%")
    number = f"{value * 100:+.{digits}f}"
    return f"{number if number.strip('+-0.') else '0'} {unit}"


def margin(one: ComparisonFinding) -> str:
    """``± 5.0 %``."""
    return change(one, one.margin).replace("+", "± ")


def interval(one: ComparisonFinding, certainty: float) -> str:
    """``[-12.0 %, -4.1 %] at 98 %``: the interval that the verdict rests on, and its level."""
    low, high, level = one.rests_on
    if not (math.isfinite(low) and math.isfinite(high)):
        return "[unknown]"
    sure = percent(certainty if math.isnan(level) else level)
    return f"[{change(one, low)}, {change(one, high)}] at {sure}"
