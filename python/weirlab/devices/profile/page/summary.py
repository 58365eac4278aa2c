"""The answer in two sentences, and the few key numbers."""

from __future__ import annotations

import math
from typing import Final

import polars as pl

from weirlab.devices.profile.page import takeaways
from weirlab.devices.profile.page.curves import LossFreeLoad, by_load, loss_free, thresholds
from weirlab.devices.profile.page.drawing import VOICE_FRAME_BYTES, voice_panel
from weirlab.devices.profile.page.source import ProfileEvidence
from weirlab.model.score import REPEATABILITY
from weirlab.report.numbers import NOTHING, count, duration, percent, plural, rate, words
from weirlab.report.tables import Tile
from weirlab.store.reasons import reason_counts

_TOLERATED_GAPS: Final = 0.05

G711_PPS: Final = 50
"""Packets per second of a G.711 call in one direction: 20 ms of speech each (RFC 3551)."""


def headline(evidence: ProfileEvidence) -> list[str]:
    """What the device carries without loss and, if its frames are those of G.711, how many calls that is."""
    panel = voice_panel(evidence.telling)
    chosen = takeaways.ends(loss_free(_of(evidence.telling, panel)))
    exactness = evidence.calibration.get("summary") or {}
    if evidence.manifest.get("kind") == "calibrate" and exactness:
        return [
            f"Over a plain cable, time stamps are {duration(exactness['delay_p50_ns'], 2)} late in the "
            f"median (p99 {duration(exactness['delay_p99_ns'], 2)}), and packets leave on time within "
            f"{percent(exactness['pacing_error_ratio'])} at up to {rate(exactness['paced_limit_pps'])}."
        ]
    if not chosen:
        return ["There is no valid trial, so there is nothing to say about the device yet."]
    device = "The simulated device" if evidence.simulated else evidence.device
    carried = [entry for entry in chosen if entry.loss_free_pps > 0]
    lossy = [entry for entry in chosen if entry.loss_free_pps == 0]
    if not carried:
        lowest = min(entry.next_pps for entry in chosen)
        return [f"{device} lost packets even at the lowest load tested, {rate(lowest)} ({panel})."]
    loads = [f"{_at_least(entry)} {takeaways.named(entry)}" for entry in carried]
    first = f"{device} carried up to {words(loads)} without loss ({panel})"
    if lossy:
        first += f", but lost packets at every load tested {words([takeaways.named(e) for e in lossy])}"
    if not _has_voice_frames(evidence):
        return [f"{first}."]
    number, *others = [f"{count(calls_both_ways(entry.loss_free_pps))}" for entry in carried]
    calls = [f"{number} simultaneous G.711 calls {takeaways.named(carried[0])}"]
    calls += [f"{other} {takeaways.named(entry)}" for other, entry in zip(others, carried[1:], strict=True)]
    return [f"{first}.", f"That is {words(calls)}, at {2 * G711_PPS} packets/s per call (both directions)."]


def caution(evidence: ProfileEvidence) -> str:
    """Why the answer should not be trusted, or is too low; else empty."""
    judged = evidence.judgement
    if judged.undecided or not judged.good:
        models = f"No verdict on the models: {judged.undecided}." if judged.undecided else ""
        return f"{'' if judged.good else judged.machine} {models}".strip()
    attempts = evidence.attempts
    trials = attempts.group_by("role", "index").agg(pl.col("valid").any())
    lost = trials.filter(~pl.col("valid")).height
    if lost <= _TOLERATED_GAPS * trials.height:
        return ""
    why, *_ = reason_counts(attempts.filter(~pl.col("valid"))["invalid"])
    return (
        f"{lost:,} of {plural(trials.height, 'trial')} never got a valid attempt; the most frequent reason: "
        f"{why}. The loads given here may be too low; measure again on a quiet machine."
    )


def calls_note(evidence: ProfileEvidence) -> str:
    """What else to know about the number of calls; empty without one."""
    if not _has_voice_frames(evidence):
        return ""
    return (
        f"If only one direction of each call ({G711_PPS} packets/s) passes the device, it carries twice "
        "as many. Calls are the loss-free load divided by the packets per call; leave room for other traffic."
    )


def _has_voice_frames(evidence: ProfileEvidence) -> bool:
    """Whether the headline's frames are G.711 packets, so that its loads are numbers of calls."""
    frames = _of(evidence.telling, voice_panel(evidence.telling))["frame_bytes"]
    return bool(len(frames)) and bool((frames == VOICE_FRAME_BYTES).all())


def calls_both_ways(pps: float) -> int:
    """Whole G.711 calls whose both directions fit into ``pps``, rounded down to three digits."""
    calls = math.floor(pps / (2 * G711_PPS))
    step = int(10 ** max(len(str(calls)) - 3, 0))
    return calls // step * step


def tiles(evidence: ProfileEvidence) -> list[Tile]:
    """The numbers that a planner looks for first; what was not measured says so."""
    panel = voice_panel(evidence.telling)
    trials = _of(evidence.telling, panel)
    found = []
    limits = thresholds(trials)
    varied = evidence.varied
    cost = takeaways.cost_ns(limits, varied)
    over, two = "per packet, mean over the rule counts tested", "rule counts"
    if varied.percents:
        over, two = "its first packet and the answer, mean over the shares tested", "shares"
    found.append(
        Tile(varied.cost, duration(cost, 2), over)
        if math.isfinite(cost) and cost > 0
        else Tile(varied.cost, NOTHING, f"not measured: needs overload at two {two}")
    )
    found.append(_half_load_tile(trials, limits))
    found.append(_prediction_tile(evidence))
    found.append(_exactness_tile(evidence))
    invalid = evidence.attempts.filter(~pl.col("valid")).height
    note = f"{plural(invalid, 'more attempt')} invalid, see below" if invalid else "no attempt was invalid"
    found.append(Tile("Trials", count(evidence.attempts.height - invalid), f"valid; {note}"))
    return found


def _of(trials: pl.DataFrame, panel: str) -> pl.DataFrame:
    return trials.filter(pl.col("panel") == panel)


def _at_least(entry: LossFreeLoad) -> str:
    return (
        rate(entry.loss_free_pps)
        if math.isfinite(entry.next_pps)
        else f"at least {rate(entry.loss_free_pps)}"
    )


def _half_load_tile(trials: pl.DataFrame, limits: pl.DataFrame) -> Tile:
    label = "Delay below the threshold"
    if not limits.height:
        return Tile(label, NOTHING, "not measured: no threshold")
    first = limits.row(0, named=True)
    loads = by_load(trials.filter(pl.col("setup") == first["setup"]))
    calm = loads.filter(~pl.col("overload") & pl.col("delay_p50_ns").is_not_null())
    if not calm.height:
        return Tile(label, NOTHING, "not measured")
    threshold = first["threshold_kpps"] * 1e3
    row = calm.sort((pl.col("achieved_pps") - threshold / 2).abs()).row(0, named=True)
    label = f"Delay at {percent(row['achieved_pps'] / threshold)} of the threshold"
    tail = f"median; p99 {duration(row['delay_p99_ns'], 2)}"
    return Tile(
        label, duration(row["delay_p50_ns"], 2), f"{tail} ({rate(row['achieved_pps'])}, {first['words']})"
    )


def _prediction_tile(evidence: ProfileEvidence) -> Tile:
    label = "Prediction error, delay"
    if evidence.judgement.undecided:
        return Tile(label, NOTHING, f"no verdict: {evidence.judgement.undecided}")
    errors = {
        (row.model, row.quantity): row.mape_percent
        for row in evidence.errors
        if row.per == "trial" and not row.extrapolated
    }
    delays = {model: error for (model, quantity), error in errors.items() if quantity == "delay_mean_below"}
    itself = delays.pop(REPEATABILITY, None)
    if not delays:
        return Tile(label, NOTHING, "not measured: no held-out trials below the threshold")
    best = min(delays, key=lambda model: delays[model])
    notes = [f"{best} model, mean delay below the threshold"]
    if itself is not None:
        notes.append(f"trials of one setting differ by {percent(itself / 100)}")
    return Tile(label, percent(delays[best] / 100), "; ".join(notes))


def _exactness_tile(evidence: ProfileEvidence) -> Tile:
    label = "Time-stamp error"
    if evidence.simulated:
        return Tile(label, NOTHING, "not measured: a simulation has none")
    summary = evidence.calibration.get("summary") or {}
    p50, p99 = summary.get("delay_p50_ns"), summary.get("delay_p99_ns")
    if p50 is None:
        return Tile(label, NOTHING, "not measured: no calibration was in force")
    note = "over a plain cable, median" + (f"; p99 {duration(p99, 2)}" if p99 is not None else "")
    return Tile(label, duration(p50, 2), note)
