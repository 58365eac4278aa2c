"""Draws the figures of docs/model.md from the trials of a published benchmark.

.venv/bin/python docs/figures.py [bench/runs/model-DATE-N]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from weirlab.model import PiecewiseModel, QueueingModel, regimes
from weirlab.model.base import ObservationTable
from weirlab.model.queueing import waiting
from weirlab.records import Observation
from weirlab.report import bundle
from weirlab.report.palette import LIGHT, chart_config, models, ramp

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
DEVICE = "iptables-legacy"
QUEUEING, PIECEWISE = models(2)
POISSON, CONSTANT = ramp(2)
WIDTH, HEIGHT = 620, 300
SEED = 1


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else newest()
    trials = pl.read_parquet(folder / f"{DEVICE}-1.parquet")
    profile = observations(trials.filter(role="profile"))
    for name, chart in figures(profile):
        (IMAGES / f"model-{name}.png").write_bytes(bundle.png(drawn(chart)))
        print(IMAGES / f"model-{name}.png")


def newest() -> Path:
    """The latest published benchmark of the models."""
    found = sorted(path.parent for path in (ROOT / "bench/runs").glob(f"model-*/{DEVICE}-1.parquet"))
    if not found:
        sys.exit("no benchmark of the models in bench/runs; make bench-model measures one")
    return found[-1]


def observations(trials: pl.DataFrame) -> list[Observation]:
    return [Observation(**row) for row in trials.drop("role").iter_rows(named=True)]


def figures(profile: list[Observation]) -> Iterator[tuple[str, alt.TopLevelMixin]]:
    model = QueueingModel.fit(profile)
    yield "service", service(profile, model, PiecewiseModel.fit(profile))
    yield "waiting", waits()
    yield "tail", tails(profile, model)
    yield "delay", delays(profile, model)


def drawn(chart: alt.TopLevelMixin) -> dict[str, Any]:
    found: dict[str, Any] = chart.to_dict()
    found["config"] = chart_config() | {"background": LIGHT["paper"], "padding": 16}
    return found


def service(profile: list[Observation], model: QueueingModel, curves: PiecewiseModel) -> alt.TopLevelMixin:
    """Measured service times, the law alone, the law with its residual, and the thesis' exponential."""
    table = ObservationTable.of(o for o in profile if o.gap_scv == 0)
    sorted_ = regimes.sort(table)
    measured = [
        {"position": s.position, "service_us": 1e6 / pps}
        for s, pps in zip(sorted_.settings, sorted_.threshold_pps(table), strict=True)
        if np.isfinite(pps) and s.frame_bytes == table.frame_bytes.min()
    ]
    n = np.linspace(0, table.position.max(), 300)
    frame = np.full_like(n, table.frame_bytes.min())
    lines = {
        "queueing": model.service.ns(n, frame) / 1e3,
        "its law alone": model.service.law_ns(n, frame) / 1e3,
        "piecewise (exponential)": 1e6 / curves.threshold_pps(n, frame),
    }
    rows = [
        {"position": x, "service_us": y, "line": name}
        for name, values in lines.items()
        for x, y in zip(n, values, strict=True)
    ]
    y = alt.Y("service_us:Q", title="service time, µs")
    x = alt.X("position:Q", title="matching position (rules)")
    curve = (
        alt.Chart(pl.DataFrame(rows))
        .mark_line(clip=True)
        .encode(
            x,
            y.scale(domainMax=1.1 * max(row["service_us"] for row in measured)),
            color=alt.Color("line:N", title=None).scale(
                domain=list(lines), range=[QUEUEING, QUEUEING, PIECEWISE]
            ),
            strokeDash=alt.StrokeDash("line:N", title=None).scale(
                domain=list(lines), range=[[1, 0], [2, 3], [8, 4]]
            ),
        )
    )
    dots = alt.Chart(pl.DataFrame(measured)).mark_point(size=60, color=LIGHT["ink"]).encode(x, y)
    return sized(curve + dots)


def waits() -> alt.TopLevelMixin:
    """The formula compared with simulated events, for gamma-distributed service times."""
    cv = 0.5
    rows = []
    for gaps, scv in (("constant gaps", 0.0), ("Poisson process", 1.0)):
        loads = np.linspace(0.05, 0.96, 120)
        told = waiting.variability(scv, cv**2) * loads / (1 - loads) * waiting.rarity(loads, scv, cv**2)
        rows += [
            {"load": 100 * load, "wait": wait, "gaps": gaps, "kind": "formula"}
            for load, wait in zip(loads, told, strict=True)
        ]
        for load in (0.3, 0.5, 0.65, 0.75, 0.85, 0.9, 0.94):
            rows.append(
                {"load": 100 * load, "wait": simulated(load, scv, cv), "gaps": gaps, "kind": "events"}
            )
    base = alt.Chart(pl.DataFrame(rows)).encode(
        alt.X("load:Q", title="load, % of the threshold"),
        alt.Y("wait:Q", title="mean waiting, service times").scale(
            type="log", domain=[0.003, 20], clamp=True
        ),
        alt.Color("gaps:N", title=None).scale(
            domain=["constant gaps", "Poisson process"], range=[CONSTANT, POISSON]
        ),
    )
    lines = base.transform_filter("datum.kind == 'formula'").mark_line(clip=True)
    return sized(lines + base.transform_filter("datum.kind == 'events'").mark_point(size=60))


def simulated(load: float, gap_scv: float, cv: float, packets: int = 400_000) -> float:
    """Mean waiting in service times, by Lindley's recursion over ``packets`` arrivals."""
    rng = np.random.default_rng(SEED)
    gaps = rng.exponential(1 / load, packets) if gap_scv else np.full(packets, 1 / load)
    walk = np.cumsum(rng.gamma(1 / cv**2, cv**2, packets) - gaps)
    return float(np.mean((walk - np.minimum.accumulate(np.minimum(walk, 0)))[packets // 20 :]))


def tails(profile: list[Observation], model: QueueingModel) -> alt.TopLevelMixin:
    """Median, p99 and p99.9 at the last position: of single trials, and predicted."""
    position = max(o.position for o in profile)
    own = [o for o in profile if o.position == position and o.gap_scv == 0 and o.frame_bytes <= 64]
    threshold = float(model.threshold_pps(position, 64))
    names = {"delay_p50_ns": "p50", "delay_p99_ns": "p99", "delay_p999_ns": "p99.9"}
    dots = [
        {"load": 100 * o.rate_pps / threshold, "delay_us": getattr(o, field) / 1e3, "quantile": name}
        for o in own
        if o.rate_pps < 0.97 * threshold
        for field, name in names.items()
    ]
    loads = np.linspace(0.02, 0.96, 150)
    found = model.predict(loads * threshold, 64, position)
    lines = [
        {"load": 100 * load, "delay_us": value / 1e3, "quantile": name}
        for field, name in names.items()
        for load, value in zip(loads, getattr(found, field), strict=True)
    ]
    colour = alt.Color("quantile:N", title=None).scale(domain=list(names.values()), range=ramp(3))
    x = alt.X("load:Q", title=f"load, % of the threshold, {position:g} rules")
    y = alt.Y("delay_us:Q", title="delay, µs").scale(type="log")
    drawn_lines = alt.Chart(pl.DataFrame(lines)).mark_line().encode(x, y, colour)
    return sized(drawn_lines + alt.Chart(pl.DataFrame(dots)).mark_point(size=30).encode(x, y, colour))


def delays(profile: list[Observation], model: QueueingModel) -> alt.TopLevelMixin:
    """Mean delay over load: trials and predictions."""
    known = sorted({o.position for o in profile if o.gap_scv == 0})
    chosen = [known[0], known[len(known) // 2], known[-1]]
    dots: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    for position in chosen:
        threshold = float(model.threshold_pps(position, 64))
        label = f"{position:g} rules"
        own = [o for o in profile if o.position == position and o.gap_scv == 0 and o.frame_bytes <= 64]
        dots += [
            {"load": 100 * o.rate_pps / threshold, "delay_us": o.delay_mean_ns / 1e3, "position": label}
            for o in own
            if o.rate_pps < 0.96 * threshold
        ]
        loads = np.linspace(0.02, 0.95, 300)
        found = model.predict(loads * threshold, 64, position)
        lines += [
            {"load": 100 * load, "delay_us": value / 1e3, "position": label}
            for load, value in zip(loads, found.delay_mean_ns, strict=True)
        ]
    colour = alt.Color("position:N", title=None).scale(
        domain=[f"{n:g} rules" for n in chosen], range=ramp(len(chosen))
    )
    x = alt.X("load:Q", title="load, % of the threshold")
    y = alt.Y("delay_us:Q", title="mean delay, µs").scale(type="log")
    drawn_lines = alt.Chart(pl.DataFrame(lines)).mark_line().encode(x, y, colour)
    return sized(drawn_lines + alt.Chart(pl.DataFrame(dots)).mark_point(size=30).encode(x, y, colour))


def sized(chart: alt.LayerChart) -> alt.TopLevelMixin:
    return chart.properties(width=WIDTH, height=HEIGHT)


if __name__ == "__main__":
    main()
