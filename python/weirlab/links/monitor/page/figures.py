"""The figures of the page, with titles that say what they show."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from weirlab.links.monitor.bed.base import RECORDING, WORDS
from weirlab.links.monitor.page import charts
from weirlab.links.monitor.page.source import MonitorEvidence, cost_name, load_words, reference, when
from weirlab.links.monitor.trials.compare import MonitorGroup
from weirlab.links.monitor.trials.plan import CUT_BYTES
from weirlab.report.figure import Figure
from weirlab.report.numbers import percent, words


def losses(evidence: MonitorEvidence) -> Iterator[Figure]:
    """What is not in the records, over the payload size."""
    for load in evidence.loads:
        groups = evidence.groups_at(load)
        columns = [("logged_loss_ratio", "Not logged, % of the frames sent")]
        if load == "max":
            columns.append(("record_loss_ratio", "Missed, % of what reached the record"))
        for column, axis in columns:
            of_sent = column == "logged_loss_ratio"
            frame = charts.loss_rows(
                groups,
                column,
                published=of_sent and load in ("max", f"{reference().settings['link_mbit_s']}Mbps"),
            )
            if not frame.height or "payload" not in frame.columns:
                continue
            yield Figure(
                f"monitor-loss-{_key(load)}{'' if of_sent else '-by'}",
                "loss",
                f"sent {load_words(load)}{'' if of_sent else ', of the frames that reached the record'}",
                _loss_title(groups, column, load),
                f"Medians over the runs{', bars from the least to the greatest' if of_sent else ''}. "
                "The axis is logarithmic down to 0.001 %, and linear from there to 0.",
                f"Share of frames that are not in the record over payload size, sent {load_words(load)}.",
                charts.loss(frame, axis),
                frame,
            )


def _loss_title(groups: list[MonitorGroup], column: str, load: str) -> str:
    worst: dict[str, float] = {}
    for group in groups:
        ratio = float(getattr(group, column))
        if group.method in RECORDING and math.isfinite(ratio):
            worst[group.method] = max(worst.get(group.method, 0.0), ratio)
    clean = [WORDS[method] for method, value in worst.items() if value <= 0]
    lossy = {method: value for method, value in worst.items() if value > 0}
    if not lossy:
        return "Every frame is in every record (median run)."
    most = max(lossy, key=lambda method: lossy[method])
    told = f"{WORDS[most]} misses up to {percent(lossy[most])} {when(load)}"
    told = told[0].upper() + told[1:]
    return f"{told}; {words(clean)} miss{'es' * (len(clean) == 1)} nothing." if clean else f"{told}."


def where(evidence: MonitorEvidence) -> Iterator[Figure]:
    """Where frames were lost, per method."""
    for load in evidence.loads:
        groups = evidence.groups_at(load)
        payloads = sorted({group.payload_bytes for group in groups})
        shown = [group for group in groups if group.payload_bytes in (payloads[0], payloads[-1])]
        frame = charts.fate_rows(shown)
        if not frame.height:
            continue
        yield Figure(
            f"monitor-where-{_key(load)}",
            "where",
            f"sent {load_words(load)}",
            _where_title(frame, load),
            "Of all frames sent in all runs, with the smallest and the largest payload: how many are in the "
            "record's files (without a recorder: how many arrived), and where the others were lost.",
            f"Where frames were lost, per method, sent {load_words(load)}.",
            charts.fates(frame),
            frame,
        )


def _where_title(frame: pl.DataFrame, load: str) -> str:
    lost = frame.filter((pl.col("order") > 0) & (pl.col("percent") > 0)).sort("percent", descending=True)
    if not lost.height:
        return f"Nothing was lost anywhere {when(load)}."
    worst = lost.row(0, named=True)
    return f"Most frames are lost here: {worst['fate']} ({worst['row']}, {percent(worst['percent'] / 100)})."


def costs(evidence: MonitorEvidence) -> Iterator[Figure]:
    """What copying costs the link; nothing where that was not measured."""
    if not evidence.costs:
        return
    frame = charts.cost_rows(evidence.costs)
    worst = min(evidence.costs, key=lambda cost: cost.ratio)
    overload = all(cost.overload for cost in evidence.costs)
    yield Figure(
        "monitor-cost",
        "cost",
        "the link in overload" if overload else "sent as fast as possible",
        f"The most expensive copies leave the link {percent(worst.ratio, 3)} of its rate "
        f"({cost_name(worst)}).",
        "Medians over runs with and without copies in turn. Where the recorder shares the bridge's CPU, its "
        "work is part of the cost." + _doubts(evidence),
        "Rate at the far end with copies and without, per method and payload.",
        charts.link_rates(frame, "in overload" if overload else "when sent as fast as possible"),
        frame,
    )


def _doubts(evidence: MonitorEvidence) -> str:
    """Why a cost may be too low."""
    said = ""
    least = min((cost.logged_ratio for cost in evidence.costs), default=1.0)
    if least < 0.999:
        said += (
            f" At worst, {percent(least, 3)} of the frames that reached the record are in it: a copy that "
            "finds no room costs less."
        )
    most = max((cost.cut_ratio for cost in evidence.costs), default=0.0)
    if most > 0:
        said += (
            f" The link comes first: when the bridge had no time left, it cut copies to {CUT_BYTES} bytes "
            f"(of at most {percent(most, 3)} of the frames). Whole copies are never cut."
        )
    if not all(cost.overload for cost in evidence.costs):
        said += " Where a bridge was not in overload, the sender set the limit."
    return said


def _key(load: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in load).strip("-").lower()
