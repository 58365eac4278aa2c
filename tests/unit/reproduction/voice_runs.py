"""Stored runs of the experiments of Woernhard 2006, made of values that tests put in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from weirlab.calls.capacity.findings import CapacityConclusions
from weirlab.calls.capacity.study import RESULT
from weirlab.calls.capacity.trials.rows import CAPACITY, CapacityRow
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal
from weirlab.calls.failover.switches.rows import SWITCHES, SwitchRow
from weirlab.store import Run, Store
from weirlab.store.frames import frame_of


class CableRun:
    """A profile over a cable, by its trials."""

    def __init__(self, trials: Sequence[Mapping[str, Any]]) -> None:
        self._trials = pl.DataFrame(
            [{"valid": True, "loss_ratio": 0.0, "spec": "{}", **row} for row in trials]
        )

    def trials(self) -> pl.DataFrame:
        return self._trials


def fastest(ns: Mapping[int, float]) -> CableRun:
    """Three trials as fast as possible for every size with FCS, by the time per packet."""
    return CableRun(
        [
            {"frame_bytes": float(size), "offered_pps": math.inf, "achieved_pps": 1e9 / (time + off)}
            for size, time in ns.items()
            for off in (-0.01, 0.0, 0.01)
        ]
    )


def stored(tmp_path: Path, tables: Mapping[str, pl.DataFrame], documents: Mapping[str, object] = {}) -> Run:
    with Store(tmp_path).create("test", {"name": "test"}, {}) as writer:
        for name, frame in tables.items():
            writer.put_table(name, frame)
        for name, content in documents.items():
            writer.put_json(name, content)
    return writer.run


def capacity(tmp_path: Path, limit_pps: float, *, softirq: bool = True, loaded: float = 1.0) -> Run:
    """A firewall that forwards up to ``limit_pps``, and ``loaded`` of that in overload."""
    rows = []
    for share in (0.25, 0.5, 0.75, 0.9, 1.05, 1.4):
        for run in range(3):
            offered = share * limit_pps
            forwarded = offered if share < 1 else limit_pps * (loaded if share > 1.2 else 1.0)
            rows.append(
                CapacityRow(
                    trial_id=f"{share}-{run}",
                    index=len(rows),
                    attempt=1,
                    valid=True,
                    phase="sweep",
                    position=0,
                    calls=round(offered / 50),
                    run=run,
                    offered_pps=offered,
                    achieved_pps=offered,
                    forwarded_pps=forwarded + run,
                    sent=1000,
                    lost=round(1000 * (1 - forwarded / offered)),
                    loss_ratio=1 - forwarded / offered,
                    delay_mean_ns=1e4,
                    cpu_irq=0.0,
                    cpu_softirq=min(share, 1.0) if softirq else math.nan,
                    samples_due=10,
                    samples_taken=10 - round(7 * share),
                )
            )
    goal = CallGoal("without loss", 0.0)
    found = CapacityConclusions(
        search=(CallCapacity(goal, 0, round(limit_pps / 50), round(limit_pps / 49), pps=limit_pps),)
    )
    return stored(tmp_path, {CAPACITY: frame_of(CapacityRow, rows)}, {RESULT: found})


def switch(index: int, kind: str, pair: str, glitch_ms: float, **more: Any) -> SwitchRow:
    return SwitchRow(
        **{
            "trial_id": f"t{index}",
            "index": index,
            "attempt": 1,
            "repetition": 1,
            "pair": pair,
            "protocol": "ucarp",
            "advert_s": 1.0,
            "sharing": "direct",
            "nat": False,
            "preempt": False,
            "kind": kind,
            "valid": True,
            "invalid": "",
            "calls": 1632,
            "offered_pps": 81_600.0,
            "achieved_pps": 81_600.0,
            "glitch_ms": glitch_ms,
            "outage_ns": glitch_ms * 1e6,
            "lost": round(glitch_ms * 81.6),
            "states_known": 1632,
            "streams": 1632,
            "alive": 1632,
            **more,
        }
    )


def switches(tmp_path: Path, rows: Sequence[SwitchRow]) -> Run:
    return stored(tmp_path, {SWITCHES: frame_of(SwitchRow, list(rows))})


def loaded(tmp_path: Path, **more: Any) -> Run:
    table = [("soft", "firewall1", 10.0), ("soft", "firewall2", 200.0), ("hard", "firewall1", 2900.0)]
    table.append(("hard", "firewall2", 2400.0))
    return switches(tmp_path, [switch(i, *row, **more) for i, row in enumerate(table)])
