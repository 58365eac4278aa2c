"""All figures of a report, in its order: chart, sentence, caption and data belong together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from weirlab.devices.profile.page import accuracy, charts, curves, distributions, takeaways, transients
from weirlab.devices.profile.page.settings import machine, sizes
from weirlab.devices.profile.page.source import TRIAL, ProfileEvidence, finite
from weirlab.report import axes
from weirlab.report.axes import Domain
from weirlab.report.figure import Figure
from weirlab.report.numbers import plural

VOICE_FRAME_BYTES: Final = 218
"""Ethernet frame of a G.711 packet of 20 ms in RTP over UDP over IPv4, FCS included."""

_DISTRIBUTION: Final = (
    "How to read it: one packet in a hundred exceeds the delay at 1 % (the 99th percentile)."
)
_CPU_TIME: Final = (
    "Time on the core that forwards, by state, mean of the repetitions. system and softirq: the kernel's "
    "packet processing; steal: taken away by the machine below."
)
_STEP: Final = (
    "Mean delay of the packets that departed at a time: points are bins of the time series, mean of the "
    "repetitions, lines are what the models say."
)
_MOST_STEPS: Final = 12
_MOST_SHARE: Final = 150.0
"""Of the threshold, in %: beyond lies only more of the same overload."""
_LETTERS: Final = (
    "The thickest box holds half of the trials, the next one three quarters, and so on; the gap is the "
    "median. Grey: how far trials of one setting are apart, which no model can undercut by much."
)
_RAREST_PERCENT: Final = 0.001
_UNSEEN: Final = "Trials that no model has seen (points), and what the models predict (lines)."
_BAND: Final = " Shaded: where 90 % of single trials lie according to the {model} model."
_DELAY: Final = "Points are trials, lines are what the models say."
_LOSS: Final = "Drawn as the delay."


def draw(evidence: ProfileEvidence) -> list[Figure]:
    """Every figure for which there are data."""
    return [
        *_over_load(evidence),
        *_thresholds(evidence),
        *([] if evidence.judgement.undecided else _verification(evidence)),
        *_accuracy(evidence),
        *_distributions(evidence),
        *_transients(evidence),
        *_cpu(evidence),
        *sizes.figures(evidence),
        *distributions.figures(evidence, voice_panel(evidence.telling)),
        *machine.figures(evidence),
    ]


def voice_panel(frames: pl.DataFrame) -> str:
    """The panel whose frames are closest to a G.711 packet's; empty without trials."""
    if not frames.height:
        return ""
    nearest = frames.sort((pl.col("frame_bytes") - VOICE_FRAME_BYTES).abs(), maintain_order=True)
    return str(nearest["panel"][0])


def _over_load(evidence: ProfileEvidence) -> Iterator[Figure]:
    varied = evidence.varied
    within = curves.within_chart(evidence.profile)
    panels, left_out = _panels(within), evidence.profile.height - within.height
    note = (
        f" Left out: {plural(left_out, 'trial')} at more than twice the highest threshold."
        if left_out
        else ""
    )
    tables = {panel: curves.over_load(trials, evidence.models) for panel, trials in panels}
    x, y = _domains(list(tables.values()))
    losses = [v for table in tables.values() for v in table["loss_percent"].to_list()]
    most = (0.0, _full_tens(losses))
    delays = {panel: curves.with_shares(tables[panel], trials) for panel, trials in panels}
    if all("load_percent" in frame.columns for frame in delays.values()):
        across, far = (0.0, _MOST_SHARE), pl.col("load_percent") > _MOST_SHARE
        points = pl.col("source") == TRIAL
        beyond = sum(frame.filter(points & far).height for frame in delays.values())
        left = f" Only in the download: {plural(beyond, 'point')} beyond {_MOST_SHARE:g} %." if beyond else ""
    else:
        across, delays, left = x, tables, note
    for panel, trials in panels:
        frame = delays[panel]
        yield Figure(
            f"delay-over-load-{_slug(panel)}",
            "delay",
            panel,
            takeaways.delay(trials),
            _DELAY + _band(frame) + left,
            takeaways.description(frame, f"One-way delay over offered load, {panel},", varied),
            charts.over_load(frame, across, y, varied),
            frame.select(pl.exclude("^loss_.*$")),
            switchable=True,
        )
    for panel, trials in panels:
        frame = tables[panel]
        yield Figure(
            f"loss-over-load-{_slug(panel)}",
            "loss",
            panel,
            takeaways.loss(trials),
            _LOSS + note,
            takeaways.description(frame, f"Frame loss ratio over offered load, {panel},", varied),
            charts.over_load(frame, x, most, varied, loss=True),
            frame.select("source", "setup", "position", "load_kpps", pl.col("^loss_.*$")),
        )


def _thresholds(evidence: ProfileEvidence) -> list[Figure]:
    varied = evidence.varied
    tables = []
    for panel, trials in _panels(evidence.profile):
        heldout = evidence.heldout.filter(pl.col("panel") == panel)
        frame = curves.threshold_curves(trials, heldout, evidence.models)
        if frame.filter(pl.col("source") == TRIAL).height:
            tables.append((panel, trials, heldout, frame))
    tops = [curves.span(frame, column) for *_, frame in tables for column in ("high_kpps",)]
    top = max((span[1] for span in tops if span), default=0.0)
    return [
        Figure(
            f"threshold-over-position-{_slug(panel)}",
            "threshold",
            panel,
            takeaways.threshold(trials, heldout, varied),
            f"Forwarding rate in overload, by {varied.caption}: median, and a line from the lowest to the "
            "highest trial.",
            f"Threshold over {varied.legend.lower() if varied.percents else 'matching position'}, {panel}.",
            charts.threshold(frame, (0.0, top * 1.08), varied),
            frame,
        )
        for panel, trials, heldout, frame in tables
    ]


def _verification(evidence: ProfileEvidence) -> Iterator[Figure]:
    varied = evidence.varied
    pairs = curves.held_out(evidence.profile, evidence.heldout, evidence.models)
    if not pairs.height:
        return
    known = set(evidence.profile["position"].to_list())
    unseen = evidence.heldout.filter(~pl.col("position").is_in(list(known)))
    shown = curves.within_chart(unseen if unseen.height else evidence.heldout)
    tables = {panel: curves.over_load(trials, evidence.models) for panel, trials in _panels(shown)}
    x, y = _domains(list(tables.values()))
    for panel, frame in tables.items():
        of_panel = pairs.filter(pl.col("panel") == panel)
        yield Figure(
            f"held-out-delay-{_slug(panel)}",
            "verification-curves",
            panel,
            takeaways.held_out_curve(of_panel, varied),
            _UNSEEN,
            takeaways.description(frame, f"Held-out delay over offered load, {panel},", varied),
            charts.over_load(frame, x, y, varied),
            frame,
            switchable=True,
        )
    delays = pairs.select(
        "model", "setup", "position", "panel", "held_out", "regime", "load_kpps", pl.col("^.*_us$")
    )
    losses = pairs.select(
        "model", "setup", "position", "panel", "held_out", "regime", "load_kpps", pl.col("^.*_loss_percent$")
    )
    observed = finite([v for c in delays.columns if c.startswith("trial_") for v in delays[c].to_list()])
    predicted = finite([v for c in delays.columns if c.startswith("predicted_") for v in delays[c].to_list()])
    if observed:
        # A wild prediction sits at the chart's edge instead of squeezing everything else together.
        low = max(min([*observed, *(v for v in predicted if v > 0)]), min(observed) / 10)
        high = min(max([*observed, *predicted]), max(observed) * 10)
        yield Figure(
            "predicted-delay",
            "verification",
            "Delay",
            takeaways.scatter(pairs),
            "Each point is one held-out trial. On the line, the prediction is exact.",
            f"Predicted over {evidence.observed} delay.",
            charts.scatter(delays, evidence.observed, axes.log_domain(low, high), varied),
            delays,
            switchable=True,
        )
    most = _full_tens([v for c in losses.columns if c.endswith("_percent") for v in losses[c].to_list()])
    yield Figure(
        "predicted-loss",
        "verification",
        "Loss",
        takeaways.scatter(pairs, in_loss=True),
        "Each point is one held-out trial. On the line, the prediction is exact.",
        f"Predicted over {evidence.observed} loss.",
        charts.scatter(losses, evidence.observed, (0.0, most), varied, loss=True),
        losses,
    )


def _accuracy(evidence: ProfileEvidence) -> Iterator[Figure]:
    for panel, (leading, names) in accuracy.PANELS.items():
        frame = accuracy.table(evidence.deviations, names)
        if frame.height:
            title = accuracy.takeaway(evidence.deviations, leading)
            yield Figure(
                f"errors-{_slug(panel)}",
                "accuracy",
                panel,
                title,
                _LETTERS,
                "Letter-value plot of the relative errors on single held-out trials.",
                accuracy.letter_value_plot(frame, evidence.observed),
                frame,
            )


def _distributions(evidence: ProfileEvidence) -> list[Figure]:
    found: list[tuple[str, str, str, pl.DataFrame]] = []
    trials = curves.within_chart(evidence.telling).filter(pl.col("panel") == voice_panel(evidence.telling))
    for setup, phrase, rows in _end_setups(trials):
        chosen = distributions.telling_trials(rows)
        frame = distributions.distributions(chosen, evidence.histograms)
        if frame.height:
            found.append((setup, phrase, takeaways.distribution(chosen, phrase), frame))
    spans = [span for *_, frame in found if (span := curves.span(frame, "delay_us"))]
    domain = axes.log_domain(min((s[0] for s in spans), default=1.0), max((s[1] for s in spans), default=1.0))
    shares = [span[0] for *_, frame in found if (span := curves.span(frame, "slower_percent"))]
    lowest = max(10.0 ** math.floor(math.log10(min(shares, default=1.0))), _RAREST_PERCENT)
    return [
        Figure(
            f"delay-distribution-{_slug(setup)}-rules",
            "distribution",
            _capital(phrase),
            title,
            _DISTRIBUTION,
            "Share of packets slower than a delay.",
            charts.distribution(frame, domain, lowest),
            frame,
        )
        for setup, phrase, title, frame in found
    ]


def _transients(evidence: ProfileEvidence) -> list[Figure]:
    if not evidence.models:
        return []
    views = [view for series in evidence.steps for view in transients.views(series, evidence.models)]
    more = len(views) - _MOST_STEPS
    note = f" Left out: {plural(more, 'later step')}." if more > 0 else ""
    return [
        Figure(
            f"step-{i}",
            "transient",
            f"{view.what}; step at {view.at_s:g} s",
            view.title,
            _STEP + note,
            "Mean delay over time around a step.",
            transients.chart(view.frame),
            view.frame,
        )
        for i, view in enumerate(views[:_MOST_STEPS], start=1)
    ]


def _cpu(evidence: ProfileEvidence) -> Iterator[Figure]:
    if evidence.simulated:
        return
    trials = curves.within_chart(evidence.telling).filter(pl.col("panel") == voice_panel(evidence.telling))
    for setup, phrase, rows in _end_setups(trials):
        frame = curves.cpu_states(rows)
        if frame.height:
            title = takeaways.cpu(frame, phrase)
            yield Figure(
                f"cpu-states-{_slug(setup)}-rules", "cpu", _capital(phrase), title, _CPU_TIME,
                "CPU states over offered load.", charts.cpu_states(frame), frame,
            )  # fmt: skip


def _panels(trials: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    ordered = trials.sort("frame_bytes", "position", "achieved_pps")
    return [(str(panel), rows) for (panel,), rows in ordered.group_by("panel", maintain_order=True)]


def _end_setups(trials: pl.DataFrame) -> list[tuple[str, str, pl.DataFrame]]:
    """The settings with the fewest and the most rules: label, phrase and trials."""
    settings = trials.sort("position", "stateful").select("setup", "words").unique(maintain_order=True).rows()
    chosen = dict.fromkeys(settings[:1] + settings[-1:])
    return [(setup, phrase, trials.filter(pl.col("setup") == setup)) for setup, phrase in chosen]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _band(frame: pl.DataFrame) -> str:
    """What the shaded bands of a chart over load are; empty without any."""
    model = curves.banded(frame)
    return _BAND.format(model=model) if model else ""


def _domains(tables: list[pl.DataFrame]) -> tuple[Domain, Domain]:
    """Axes that neighbouring charts share: load from 0, delay over all trials."""
    trials = [table.filter(pl.col("source") == TRIAL) for table in tables]
    loads = finite([v for table in trials for v in table["load_kpps"].to_list()])
    delays = finite(
        [v for table in trials for c in ("p50_us", "p99_us", "mean_us") for v in table[c].to_list()]
    )
    positive = [v for v in delays if v > 0]
    x = (0.0, max(loads, default=1.0) * 1.03)
    return x, axes.log_domain(min(positive, default=1.0), max(positive, default=1000.0))


def _full_tens(percents: list[float | None]) -> float:
    """The end of an axis of percentages."""
    return min(100.0, 10.0 * math.ceil(max([10.0, *finite(percents)]) / 10))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower().replace(",", "")).strip("-")
