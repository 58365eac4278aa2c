"""What switches showed, in sentences and tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from weirlab.cli.output import Table
from weirlab.cli.quantities import NOTHING, clock, count, duration, percent, plural, significant
from weirlab.studies.failover.switches import Group
from weirlab.studies.failover.switches.compare import Spread

if TYPE_CHECKING:
    from weirlab.studies.contract import Outcome
    from weirlab.studies.failover.study import FailoverFindings


def conclusion(outcome: Outcome[FailoverFindings]) -> str:
    """A sentence per pair and kind of event, and where everything is."""
    from weirlab.studies.failover.study import load_text

    found = outcome.found
    lines = [*found.conclusions] or ["No switch was measured."]
    attempts, valid = len(found.rows), sum(row.valid for row in found.rows)
    spoiled = f", {plural(attempts - valid, 'attempt')} spoiled by the host" if attempts > valid else ""
    took = f" in {clock(found.elapsed_s)}" if found.elapsed_s else ""
    report = "" if outcome.report is None else f" Report: {outcome.report.path}"
    told = load_text(found.load)
    lines.append(f"{told[0].upper()}{told[1:]}.")
    lines.append(
        f"Run {outcome.run.run_id}: {valid} of {found.planned} switches measured{took}{spoiled}.{report}"
    )
    return "\n".join(lines)


def tables(found: FailoverFindings) -> list[Table]:
    """Medians per pair and kind: how long nothing arrived, what was lost, what callers heard."""
    groups = tuple(group for group in found.groups if group.runs)
    return [_gaps(groups), _losses(groups), _heard(groups)] if groups else []


_WHERE = ("pair", "event")


def _gaps(groups: tuple[Group, ...]) -> Table:
    columns = (
        *_WHERE,
        "runs",
        "no packet for",
        "back after",
        "timers say",
        "forward",
        "back",
        "a call's gap",
        "longest",
    )
    rows = [
        (
            group.pair,
            group.kind,
            str(group.runs),
            _span(group.spread["outage_ns"], duration),
            # Where nothing was lost, nothing had to come back.
            "" if group.lossless else duration(group.spread["resumed_ns"].median),
            f"{group.expected_s[0]:.3g} to {group.expected_s[1]:.3g} s" if group.expected_s[1] else "",
            *(duration(group.spread[f"outage_{way}_ns"].median) for way in ("forward", "back")),
            duration(group.spread["gap_p50_ns"].median),
            duration(group.spread["gap_max_ns"].high),
        )
        for group in groups
    ]
    title = "time without packets: median of the runs (least to greatest)"
    return Table(columns, rows, title=title, right=columns[2:])


def _losses(groups: tuple[Group, ...]) -> Table:
    columns = (
        *_WHERE,
        "lost",
        "lost/rate, ms",
        "reordered",
        "duplicated",
        "streams alive",
        "states kept",
        "event took",
        "spoiled",
    )
    rows = [
        (
            group.pair,
            group.kind,
            _span(group.spread["lost"], count),
            significant(group.spread["glitch_ms"].median),
            *(count(group.spread[name].median) for name in ("reordered", "duplicated")),
            f"{_span(group.spread['alive'], count)} of {count(group.spread['streams'].median)}",
            count(group.spread["states_surviving"].median),
            duration(group.spread["cut_off_ns" if group.kind == "hard" else "event_took_ns"].median),
            str(group.invalid),
        )
        for group in groups
    ]
    return Table(columns, rows, title="packets, streams and states", right=columns[2:])


def _heard(groups: tuple[Group, ...]) -> Table:
    columns = (
        *_WHERE,
        "MOS before",
        "affected",
        "worst",
        "3.6 or better",
        "after",
        "jitter before",
        "during",
        "after ",
    )
    rows = [
        (
            group.pair,
            group.kind,
            *(_mos(group.spread[name]) for name in ("mos_before", "mos_affected", "mos_affected_min")),
            percent(group.spread["mos_affected_good"].median),
            _mos(group.spread["mos_after"]),
            *(duration(group.spread[f"jitter_{part}_ns"].median) for part in ("before", "during", "after")),
        )
        for group in groups
    ]
    return Table(columns, rows, title="what callers heard: medians over calls and runs", right=columns[2:])


def _span(found: Spread, shown: Any) -> str:
    """Median, and the extremes where they differ."""
    if not math.isfinite(found.median):
        return NOTHING
    middle, low, high = shown(found.median), shown(found.low), shown(found.high)
    return middle if low == high else f"{middle} ({low} to {high})"


def _mos(found: Spread) -> str:
    return f"{found.median:.2f}" if math.isfinite(found.median) else NOTHING
