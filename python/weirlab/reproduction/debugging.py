"""Tbwtools: one connection seen by the kernels of both ends and by captures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.publications import PublishedExperiment, publication
from weirlab.report.figure import Figure
from weirlab.reproduction import claims
from weirlab.reproduction.contract import Answer, Decision, ReproducedExperiment, Runs
from weirlab.store import Run
from weirlab.transfers.tcp.measure import samples
from weirlab.transfers.tcp.page import story
from weirlab.transfers.tcp.study import kept as keeping
from weirlab.transfers.tcp.study.kept import TransferRecord

KEY: Final = "ubik-tbwtools-2007"
LOSSY: Final = ("lossy-1", "lossy-2", "lossy-3")
CLEAN: Final = "clean"
_RATE: Final = "500Mbps"
"""More than the window allows: the report does not give the rate of its path."""
_LEAST_RETRANSMISSIONS: Final = 20

COMMON: Final = (
    "The transfer crosses an emulated path with the published round trip, loss and window, at "
    f"{_RATE.removesuffix('Mbps')} Mbit/s; congestion control is Reno. Samples of TCP_INFO and captures at "
    "both ends stand for bulk, Web100 and tcpdump.",
)


def _scenario(loss_percent: float, seed: int, **own: Any) -> Mapping[str, Any]:
    about = publication(KEY)
    values = about.experiments["example-connection"].values
    up: dict[str, Any] = {"rate": _RATE, "queue": "20ms"}
    if loss_percent:
        up |= {"loss": f"{loss_percent:g}%", "seed": seed}
    asked = {
        "path": {"both": {"delay": f"{values['rtt'].number / 2:g}ms"}, "up": up},
        "block": str(about.experiments["example-connection"].settings["block_bytes"]),
        "buffer": f"{values['window'].number:g}KiB",
        "congestion": "reno",
        **own,
    }
    return {"tcp": asked}


def _lossy() -> Mapping[str, Mapping[str, Any]]:
    values = publication(KEY).experiments["example-connection"].values
    total = f"{values['data'].number:.0f}"
    return {name: _scenario(values["loss"].number, seed, total=total) for seed, name in enumerate(LOSSY, 1)}


def _sender(kept: TransferRecord) -> pl.DataFrame:
    return samples.of(kept.samples, 0, "sender")


def _most(rows: pl.DataFrame, name: str) -> float:
    """The greatest value of a column; NaN without any."""
    known = rows[name].drop_nulls() if name in rows.columns else pl.Series([], dtype=pl.Float64)
    return float(known.max()) if known.len() else math.nan  # type: ignore[arg-type]


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.median(known)) if known else math.nan


class ExampleConnection(ReproducedExperiment):
    """The published connection, three times, and once without loss."""

    key = "example-connection"
    deviations = COMMON

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return {**_lossy(), CLEAN: _scenario(0, 0, lasts="5s" if quick else "15s")}

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        lossy = [keeping.read(runs[name]) for name in LOSSY if name in runs]
        if not lossy:
            return
        summaries = [_summary(kept) for kept in lossy]
        here = {name: _median([summary[name] for summary in summaries]) for name in summaries[0]}
        for name, value in here.items():
            if name in ("data", "segment"):
                yield claims.near(published.values[name], value, 0)
            else:
                yield claims.beside(name, value)
        yield Answer("fast-retransmit", decision=_repairs(summaries))
        yield Answer("flat-window", decision=_flat_window(lossy))
        yield Answer("unsent-data", decision=_unsent(lossy))
        bounds = {"with loss": _bound(lossy, is_reached=False)}
        if CLEAN in runs:
            bounds["without"] = _bound([keeping.read(runs[CLEAN])], is_reached=True)
        rule = "never above window over round trip by more than 5 %, and without loss 80 % of it"
        yield Answer("window-bound", decision=claims.every(bounds, rule))

    def figures(self, runs: Runs, published: PublishedExperiment) -> Sequence[Figure]:
        shown = next((runs[name] for name in LOSSY if name in runs), None)
        return () if shown is None else _panels(shown)


def _panels(run: Run) -> Sequence[Figure]:
    """Everything on one time axis."""
    return [figure for figure in story.tell(run).figures if figure.section == "time"]


def _summary(kept: TransferRecord) -> Mapping[str, float]:
    """What the report sums up of its connection, in its units."""
    [direction, *_] = kept.directions
    sender = _sender(kept)
    window_bytes = _most(sender, "snd_wnd_bytes")
    crossing = kept.crossing(0)
    lost = None if crossing is None else crossing.lost_bytes
    at_sender = kept.packets.filter(pl.col("end") == "client")
    return {
        "data": float(direction.received_bytes),
        "lasts": direction.lasted_s,
        "rate": direction.throughput_bps / 1e6,
        "retransmitted": _most(sender, "total_retrans"),
        "duplicate-acks": _most(at_sender, "duplicate_acks"),
        "segment": _most(sender, "snd_mss_bytes"),
        "rtt": direction.rtt_mean_us / 1e3,
        "loss": math.nan if crossing is None or lost is None else 100 * lost / crossing.sent_bytes,
        "receiver-limited": 100 * direction.receiver_share,
        "network-limited": 100 * direction.network_share,
        "window": window_bytes / 1024,
        "window-allows": window_bytes * 8 / direction.rtt_mean_us,
        "timeouts": _most(sender, "total_rto"),
    }


def _repairs(summaries: Sequence[Mapping[str, float]]) -> Decision:
    rule = "at most one time-out for twenty retransmitted segments"
    again = sum(summary["retransmitted"] for summary in summaries)
    timeouts = sum(summary["timeouts"] for summary in summaries)
    if math.isnan(again + timeouts) or again < _LEAST_RETRANSMISSIONS:
        return Decision(claims.UNKNOWN, rule, "too few segments were retransmitted")
    found = f"{timeouts:.0f} time-outs, {again:.0f} retransmitted segments"
    return claims.decided(timeouts <= again / 20, rule, found)


def _flat_window(lossy: Sequence[TransferRecord]) -> Decision:
    rule = "in the second half, the window varies by at most 5 %, the receiver limits 5 % of the time at most"
    varied, shares = [], []
    for kept in lossy:
        windows = _sender(kept)["snd_wnd_bytes"].drop_nulls().cast(pl.Float64)
        late = windows.tail(windows.len() // 2)
        if not late.len():
            return Decision(claims.UNKNOWN, rule, "the kernel does not report the window")
        least, most = float(late.min()), float(late.max())  # type: ignore[arg-type]
        varied.append((most - least) / most)
        shares.append(kept.directions[0].receiver_share)
    found = (
        f"the window varies by up to {max(varied):.1%}, the receiver holds up {max(shares):.1%} of the time"
    )
    return claims.decided(max(varied) <= 0.05 and max(shares) <= 0.05, rule, found)


def _unsent(lossy: Sequence[TransferRecord]) -> Decision:
    rule = "until all is written, data is left to send in 99 % of the reports"
    parts = []
    for kept in lossy:
        rows = _sender(kept)
        if "notsent_bytes" not in rows.columns:
            return Decision(claims.UNKNOWN, rule, "the kernel does not report it")
        rows = rows.filter(pl.col("app_bytes") < _most(rows, "app_bytes"))
        known = rows["notsent_bytes"].drop_nulls()
        if not known.len():
            return Decision(claims.UNKNOWN, rule, "there are no reports")
        parts.append(float((known > 0).mean()))  # type: ignore[arg-type]
    return claims.decided(min(parts) >= 0.99, rule, f"in {min(parts):.1%} of the reports at least")


def _bound(records: Sequence[TransferRecord], *, is_reached: bool) -> Decision:
    shares = []
    for kept in records:
        summary = _summary(kept)
        shares.append(summary["rate"] / summary["window-allows"])
    low = 0.8 if is_reached else 0.0
    rule = f"throughput from {low:g} to 1.05 of what the window allows"
    return claims.within({f"transfer {n}": share for n, share in enumerate(shares, 1)}, low, 1.05, rule)


class Sources(ReproducedExperiment):
    """The same quantities by the kernel and from captures."""

    key = "sources"
    deviations = COMMON

    def scenarios(self, quick: bool) -> Mapping[str, Mapping[str, Any]]:
        return _lossy()

    def answers(self, runs: Runs, published: PublishedExperiment) -> Iterator[Answer]:
        lossy = {name: keeping.read(runs[name]) for name in LOSSY if name in runs}
        if not lossy:
            return
        yield Answer("panels", float(len(_panels(runs[next(iter(lossy))]))))
        rule = "counts are equal; round trips differ by no more than the two ways of measuring explain"
        pairs = [row for kept in lossy.values() for row in kept.agreement if row.place == "sender"]
        if not pairs:
            yield Answer("agreement", decision=Decision(claims.UNKNOWN, rule, "nothing was captured"))
            return
        apart = [
            f"{row.quantity}: {row.kernel:,.0f} by the kernel, {row.capture:,.0f} in the capture"
            for row in pairs
            if not row.agrees
        ]
        found = "; ".join([f"{len(pairs) - len(apart)} of {len(pairs)} quantities agree", *apart])
        yield Answer("agreement", decision=claims.decided(not apart, rule, found))


EXPERIMENTS: Final = (ExampleConnection(), Sources())
