"""The page in words: which pair interrupts calls for how long, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import polars as pl

from weirlab.calls.failover import charts, tables
from weirlab.calls.failover.switches.compare import NOBODY_SAW, conclusions
from weirlab.calls.failover.tables import SwitchEvidence, SwitchRun, groups, median
from weirlab.report.figure import Figure
from weirlab.report.numbers import NOTHING, count, duration, plural, rate, words
from weirlab.report.story import Chapter, Story, place, setting
from weirlab.report.tables import Pairs, Tile

_TERMS: Final = (
    (
        "Soft, hard, return",
        "The master steps down in good order; its daemons are killed and its links cut; the old "
        "master comes back.",
    ),
    (
        "Gap",
        "The longest time between two arrivals of a stream around the event. A stream of packets "
        "every 20 ms has gaps of 20 ms when nothing is wrong.",
    ),
    (
        "Outage",
        "The longest time without any arrival of any stream in a direction.",
    ),
    (
        "Lost / rate",
        "Packets lost from the event on, over the rate at which they were sent: how Woernhard 2006 "
        "counts an interruption. It equals the gap only if everything in between is lost.",
    ),
    (
        "Dead stream",
        "Heard before the event, but not in the last part of the trial. Admission is closed before "
        "the event, so a stream goes on only if the new master knows its connection state.",
    ),
    (
        "Timers",
        "When the protocol lets the other firewall take over, counted from the master's last "
        "advertisement: an event between two advertisements is followed after somewhat less.",
    ),
    (
        "Affected seconds",
        "The part of the conversation that follows the event.",
    ),
)


def tell(campaign: SwitchRun) -> Story:
    """The page about ``campaign``."""
    found = groups(campaign)
    manifest, facts = campaign.manifest, campaign.manifest.get("facts") or {}
    lab = str(facts.get("lab", ""))
    answer, *rest = _answer(found)
    return Story(
        subject=_subject(campaign),
        manifest=manifest,
        simulated=lab == "sim",
        answer=answer,
        lede=tuple(rest),
        caution=_caution(campaign, found),
        place=place(manifest, "netns", "pairs of Linux firewalls"),
        tiles=tuple(_tiles(campaign, found)),
        chapters=tuple(_chapters(campaign, found)),
        terms=_TERMS,
    )


def _subject(campaign: SwitchRun) -> str:
    """The pairs by their protocols: ``pairs with keepalived and ucarp``."""
    protocols = list(dict.fromkeys(row.protocol for row in campaign.rows))
    return f"pairs with {words(protocols)}" if protocols else "redundant pairs"


def _answer(found: list[SwitchEvidence]) -> list[str]:
    """What to do and what to expect, at most three sentences."""
    hard = [group for group in found if group.kind == "hard" and not group.dead]
    soft = [group for group in found if group.kind == "soft" and not group.dead]
    back = [group for group in found if group.kind == "return" and not group.dead]
    dead = [group for group in found if group.dead]
    said = []
    if hard:
        best = min(hard, key=lambda group: group.median("gap_p50_ns"))
        worst = max(hard, key=lambda group: group.median("gap_p50_ns"))
        lead = f"When the active firewall dies, callers hear nothing for {best.gap_text} ({best.pair})"
        if worst is not best:
            lead += f" to {worst.gap_text} ({worst.pair})"
        said.append(f"{lead}.")
    lossless = [group for group in soft if group.found.lossless]
    if lossless:
        said.append(
            f"When it steps down in good order, {lossless[0].pair} loses nothing in "
            f"{plural(len(lossless[0].runs), 'run')}."
        )
    elif soft:
        best = min(soft, key=lambda group: group.median("lost"))
        lost = best.found.spread["lost"]
        least = f"{count(lost.low)} to " if lost.low < lost.high else ""
        said.append(
            f"When it steps down in good order, the gentlest pair ({best.pair}) loses "
            f"{least}{count(lost.high)} packets."
        )
    if back and len(said) + bool(dead) < 3:
        worst = max(back, key=lambda group: group.found.spread["lost"].high)
        most = worst.found.spread["lost"].high
        told = "nothing is" if worst.found.lossless else f"{count(most)} packets are"
        said.append(f"When a dead firewall comes back, {told} lost at worst ({worst.pair}).")
    if dead:
        one = dead[0]
        number = f"{count(one.median('dead'))} of {count(one.median('streams'))} streams"
        if one.found.unseen:
            said.append(f"{number} never came back ({one.pair}).")
        else:
            lead = "Without its state on the other firewall a call does not come back"
            said.append(f"{lead}: {number} died ({one.pair}).")
    return said or ["No switch was measured."]


def _caution(campaign: SwitchRun, found: list[SwitchEvidence]) -> str:
    spoiled = len(campaign.rows) - len(campaign.valid)
    load, parts = campaign.load, []
    if load is not None and load.reduced:
        carried = load.carried or load.calls
        of_wanted = f"{count(carried)} of the {count(load.wanted_calls)} calls requested"
        if load.by_host:
            parts.append(
                f"Only {of_wanted} could be sent undisturbed: the host, not the pair, sets the limit."
            )
        else:
            parts.append(f"The pairs carry {of_wanted} without loss ({load.limited_by} sets the limit).")
        if load.calls < carried:
            parts.append(f"They were switched with {count(load.calls)}, a little below this limit.")
    if silent := [group.name for group in found if group.found.unseen and group.found.lossless]:
        parts.append(f"Nothing was lost ({words(silent)}): {NOBODY_SAW}.")
    if spoiled:
        parts.append(f"Left out: {plural(spoiled, 'attempt')} spoiled by the host or by a slow cut.")
    return " ".join(parts)


def _tiles(campaign: SwitchRun, found: list[SwitchEvidence]) -> Iterator[Tile]:
    for kind, label in (("hard", "Master dies"), ("soft", "Master steps down")):
        mine = [group for group in found if group.kind == kind and not group.dead]
        if mine:
            best = min(mine, key=lambda group: group.median("gap_p50_ns"))
            yield Tile(
                f"{label}: gap of the median call",
                best.gap_text,
                f"{best.pair}, median of {plural(len(best.runs), 'run')}",
            )
        else:
            yield Tile(f"{label}: gap of the median call", NOTHING, "not measured")
    if valid := campaign.valid:
        yield Tile(
            "Load",
            rate(median([row.achieved_pps for row in valid])),
            f"{count(median([row.calls for row in valid]))} calls at once",
        )
        yield Tile(
            "Switches",
            count(len(valid)),
            f"{plural(len({g.pair for g in found}), 'pair')}, every packet logged",
        )


def _chapters(campaign: SwitchRun, found: list[SwitchEvidence]) -> Iterator[Chapter]:
    attempts = sorted(campaign.rows, key=lambda row: (row.index, row.attempt))
    said = tuple(conclusions(campaign.compared))
    yield Chapter(
        "compared",
        "Pairs compared",
        "Compared",
        figures=tuple(_compared(found)),
        parts=(Chapter("sentences", "Pair by pair", said=said, missing="", folded=True),),
    )
    yield Chapter(
        "arrivals",
        "Around the switch",
        "Arrivals",
        figures=tuple(_arrivals(campaign, found)),
        missing="Not measured: no packet log of a valid switch was kept.",
    )
    yield Chapter("calls", "From call to call", "Calls", figures=tuple(_calls(campaign, found)), folded=True)
    yield setting(_setting(campaign))
    yield Chapter(
        "numbers",
        "All numbers",
        "Numbers",
        tables=tuple(tables.compared([one.found for one in found])),
        details=(tables.attempts(attempts),) if attempts else (),
        folded=True,
    )


def _setting(campaign: SwitchRun) -> Pairs:
    facts = campaign.manifest.get("facts") or {}
    pairs: Pairs = [
        ("Host", str(campaign.manifest.get("host") or NOTHING)),
        ("Kernel", str(campaign.manifest.get("kernel") or NOTHING)),
    ]
    if valid := campaign.valid:
        pairs.append(("Calls at once", count(max(row.calls for row in valid))))
        pairs.append(("Packets sent", rate(median([row.achieved_pps for row in valid]))))
        closed = all(row.admission_closed for row in valid)
        pairs.append(("New calls during the event", "not admitted" if closed else "admitted"))
    known = {
        "keepalived": "keepalived",
        "ucarp": "ucarp",
        "conntrackd": "conntrackd",
        "filter": "Packet filter",
    }
    pairs += [(label, str(facts[name])) for name, label in known.items() if facts.get(name)]
    return pairs


def _compared(found: list[SwitchEvidence]) -> Iterator[Figure]:
    if not found:
        return
    frame = charts.gap_rows(found)
    alive = [group for group in found if not group.dead]
    title = "Every stream died in every switch."
    if alive:
        fastest = min(alive, key=lambda group: group.median("gap_p50_ns"))
        slowest = max(alive, key=lambda group: group.median("gap_p50_ns"))
        title = f"Gaps of calls that went on reach from {fastest.gap_text} to {slowest.gap_text}."
        if fastest is slowest:
            title = f"{fastest.name}: the median call hears nothing for {fastest.gap_text}."
    yield Figure(
        "failover-gaps",
        "compared",
        "how long the median call hears nothing",
        title,
        "A point is one run. Grey: when the protocol's timers let the other firewall take over after a "
        "sudden death. A cross is a stream that never came back; its gap lasts to the end of the trial.",
        "Points: the median call's gap in each run, one row per pair and event.",
        charts.gaps(frame),
        frame,
    )
    rated = charts.mos_rows(found)
    if rated["mos"].drop_nulls().len():
        worst = min(found, key=lambda group: _or_five(group.median("mos_affected")))
        yield Figure(
            "failover-mos",
            "compared",
            "what callers think of it",
            f"The conversation around the event falls to MOS {worst.median('mos_affected'):.2f} at worst "
            f"({worst.name}).",
            "Medians over calls and runs. Dashed: MOS 3.6, below which many callers are dissatisfied.",
            "MOS of the median call before, in the affected seconds and after, per pair and event.",
            charts.mos(rated),
            rated,
        )


def _arrivals(campaign: SwitchRun, found: list[SwitchEvidence]) -> Iterator[Figure]:
    kept = set(campaign.series["trial_id"].to_list()) if campaign.series.height else set()
    frames = {
        group.key: charts.arrival_rows(group, campaign.series)
        for group in found
        if group.typical.trial_id in kept
    }
    for group in found:
        frame = frames.get(group.key)
        if frame is None or not frame.height:
            continue
        top = 1.15 * max(float(frame["arrived"].max() or 0.0), float(frame["sent"].max() or 0.0))  # type: ignore[arg-type]
        yield Figure(
            f"failover-arrivals-{group.key}",
            "arrivals",
            group.name,
            _switch_title(group),
            "Packets that arrived around the event (dashed) in the run with the middle gap. Grey: when the "
            "protocol's timers let the other firewall take over.",
            f"Arrivals over time around the event: {group.name}.",
            charts.arrivals(frame, group.expected_ns, top),
            frame,
        )


def _switch_title(group: SwitchEvidence) -> str:
    if group.dead:
        why = "" if group.found.unseen else ": the new master does not know the streams"
        return f"Nothing arrives any more{why}."
    lost = group.median("lost")
    if group.found.lossless:
        return f"Nothing is lost; the longest silence of a call is {duration(group.median('gap_max_ns'))}."
    return f"A gap of {group.gap_text} for the median call; {count(lost)} packets are lost."


def _calls(campaign: SwitchRun, found: list[SwitchEvidence]) -> Iterator[Figure]:
    frame = charts.call_rows(found, campaign.calls) if campaign.calls.height else pl.DataFrame()
    if not frame.height:
        return
    alive = [group for group in found if not group.dead]
    uneven = max(
        alive, key=lambda group: group.median("gap_max_ns") - group.median("gap_min_ns"), default=None
    )
    title = "All streams were interrupted for good."
    if uneven is not None:
        title = (
            f"Calls of one switch differ by up to "
            f"{duration(uneven.median('gap_max_ns') - uneven.median('gap_min_ns'))} ({uneven.name})."
        )
    yield Figure(
        "failover-calls",
        "calls",
        "distribution over the streams",
        title,
        "How to read it: half of the streams have a silence of at least the value at 50 %. Runs with the "
        "middle gap; dead streams count to the end of the trial.",
        "Share of the streams whose longest silence exceeds a length, per pair and event.",
        charts.over_calls(frame),
        frame,
    )


def _or_five(value: float) -> float:
    return value if math.isfinite(value) else 5.0
