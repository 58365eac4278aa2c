"""Made-up runs for the report's tests: the queueing law plus noise. Nothing here was measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from weirlab.devices.profile.page.source import VerificationEvidence
from weirlab.model import ErrorRow
from weirlab.model.base import Band
from weirlab.model.score import Statistics
from weirlab.records import Observation

FIXED_NS, PER_RULE_NS, PER_BYTE_NS, QUEUE, BASE_NS = 1_150.0, 2.45, 0.12, 256, 6_000.0
POSITIONS, HELD_OUT, SIZES = (0, 50, 100, 400, 1000), (200,), (64, 594, 1518)
SHARES = (0.02, 0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.96, 1.04, 1.15, 1.4)
CPU_STATES = ("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait")


def service_ns(position: Any, frame_bytes: Any, per_rule: float = PER_RULE_NS) -> Any:
    return (
        FIXED_NS
        + per_rule * np.asarray(position, dtype=float)
        + PER_BYTE_NS * np.asarray(frame_bytes, dtype=float)
    )


def law(rate_pps: Any, frame_bytes: Any, position: Any, per_rule: float = PER_RULE_NS) -> SimpleNamespace:
    rate, service = np.broadcast_arrays(
        np.asarray(rate_pps, dtype=float), service_ns(position, frame_bytes, per_rule)
    )
    load = rate * service / 1e9
    waiting = np.minimum(
        service * 0.5 * load / np.maximum(1e-9, 1 - np.minimum(load, 0.999999)), QUEUE * service
    )
    calm = load < 1
    median = np.where(calm, BASE_NS + service + waiting, QUEUE * service)
    return SimpleNamespace(
        threshold_pps=1e9 / service,
        loss_ratio=np.where(calm, 0.0, 1 - 1 / np.maximum(load, 1.0)),
        delay_mean_ns=median * np.where(calm, 1.12, 1.0),
        delay_p50_ns=median,
        delay_p90_ns=median * np.where(calm, 1.6, 1.01),
        delay_p99_ns=median * np.where(calm, 3.2, 1.03),
        delay_p999_ns=median * np.where(calm, 4.0, 1.04),
        jitter_ns=median * 0.2,
        extrapolated=np.zeros(np.shape(median), dtype=bool),
    )


@dataclass
class FakeModel:
    """Predicts by the law, with ``per_rule`` off the truth on purpose; intervals are ``wide`` of it."""

    name: str
    per_rule: float = PER_RULE_NS
    words: tuple[str, ...] = ()
    wide: float = 0.0

    def predict(self, rate_pps: Any, frame_bytes: Any, position: Any, gap_scv: Any = 0.0) -> SimpleNamespace:
        found = law(rate_pps, frame_bytes, position, self.per_rule)
        found.intervals = {
            name: {90: Band(value * (1 - self.wide), value * (1 + self.wide))}
            for name, value in vars(found).items()
            if self.wide and name != "extrapolated"
        }
        return found

    def threshold_pps(self, position: Any, frame_bytes: Any) -> Any:
        return 1e9 / service_ns(position, frame_bytes, self.per_rule)

    def parameters(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                name="a", value=1150.0, stderr=12.0, unit="ns", meaning="service time without rules"
            ),
            SimpleNamespace(
                name="b", value=self.per_rule, stderr=0.03, unit="ns", meaning="service time per rule"
            ),
            SimpleNamespace(name="K", value=256.0, stderr=1.9, unit="packets", meaning="queue length"),
        ]

    def in_words(self) -> list[str]:
        return list(self.words)


@dataclass
class SyntheticRun:
    """Offers what the report reads of a run."""

    frame: pl.DataFrame
    buckets: pl.DataFrame
    manifest: Any
    files: dict[str, Any] = field(default_factory=dict)

    def trials(self) -> pl.DataFrame:
        return self.frame

    def histograms(self) -> pl.DataFrame:
        return self.buckets

    def series(self) -> pl.DataFrame:
        names = ("start_ns", "sent", "received", "delay_mean_ns", "delay_max_ns")
        return pl.DataFrame(schema={"trial_id": pl.String} | dict.fromkeys(names, pl.Float64))

    def has(self, name: str) -> bool:
        return name in self.files

    def get_json(self, name: str) -> Any:
        return self.files[name]

    def observations(self, role: str | None = None) -> list[Observation]:
        rows = self.frame.filter(pl.col("valid") & (pl.col("role") == role))
        names = (
            "frame_bytes", "position", "forwarding_pps", "loss_ratio", "delay_mean_ns", "delay_p50_ns",
            "delay_p90_ns", "delay_p99_ns", "jitter_ns",
        )  # fmt: skip
        return [
            Observation(rate_pps=row["achieved_pps"], **{name: float(row[name]) for name in names})
            for row in rows.iter_rows(named=True)
        ]


def trial_row(
    index: int, role: str, position: int, frame_bytes: int, offered: float, rng: Any, **more: Any
) -> dict[str, Any]:
    truth = law(offered, frame_bytes, position)
    noise = rng.normal(1.0, 0.03, 4)
    loss = float(truth.loss_ratio)
    loss = float(np.clip(loss * noise[0], 0, 0.99)) if loss > 0 else 0.0
    seconds = 0.5
    sent = int(offered * seconds)
    busy = min(1.0, offered * float(service_ns(position, frame_bytes)) / 1e9)
    cpu = dict.fromkeys(CPU_STATES, 0.0)
    cpu |= {"system": 0.86 * busy, "softirq": 0.12 * busy, "steal": 0.004, "user": 0.003}
    cpu["idle"] = max(0.0, 1 - sum(cpu.values()))
    row = {
        "trial_id": f"t{index:04d}",
        "run_id": "synthetic",
        "index": index,
        "attempt": 1,
        "role": role,
        "label": "",
        "lab": "netns",
        "dut": "iptables-legacy",
        "backend": "xdp",
        "position": position,
        "mean_position": float(position),
        "new_share": None,
        "stateful": False,
        "places": "",
        "cross_traffic": False,
        "sizes_text": str(frame_bytes),
        "frame_bytes": float(frame_bytes),
        "flows": 100,
        "offered_pps": offered,
        "achieved_pps": offered * rng.normal(1.0, 0.001),
        "forwarding_pps": offered * (1 - loss),
        "sent": sent,
        "received": round(sent * (1 - loss)),
        "lost": round(sent * loss),
        "loss_ratio": loss,
        "delay_mean_ns": float(truth.delay_mean_ns) * noise[1],
        "delay_p50_ns": float(truth.delay_p50_ns) * noise[1],
        "delay_p90_ns": float(truth.delay_p90_ns) * noise[1],
        "delay_p99_ns": float(truth.delay_p99_ns) * max(noise[1], noise[1] * noise[2]),
        "jitter_ns": float(truth.jitter_ns) * noise[3],
        "invalid": "",
        "valid": True,
        "spec": json.dumps({"traffic": {"steps": []}}),
    }
    row |= {f"dut_{state}_s": share * seconds for state, share in cpu.items()}
    return row | more


def histogram_rows(row: dict[str, Any], rng: Any) -> pl.DataFrame:
    spread = 0.03 if row["loss_ratio"] > 0 else 0.4
    delays = row["delay_p50_ns"] * rng.lognormal(0.0, spread, 4000)
    edges = np.unique(np.floor(100 * 1.01 ** np.arange(1200)).astype(np.int64))
    count, _ = np.histogram(delays, edges)
    used = count > 0
    return pl.DataFrame(
        {
            "trial_id": row["trial_id"],
            "lower_ns": edges[:-1][used],
            "upper_ns": edges[1:][used],
            "count": count[used],
        }
    )


def synthetic_run(sizes: tuple[int, ...] = SIZES, lab: str = "netns", seed: int = 7) -> SyntheticRun:
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for size in sizes:
        for position in (*POSITIONS, *HELD_OUT):
            role = "verify" if position in HELD_OUT else "profile"
            for share in SHARES:
                load = float(f"{share * 1e9 / service_ns(position, size):.3g}")
                for _ in range(3):
                    rows.append(trial_row(len(rows), role, position, size, load, rng, lab=lab))
    for share in (0.33, 0.6, 0.85, 1.25):
        load = float(f"{share * 1e9 / service_ns(0, sizes[0]):.3g}")
        rows += [trial_row(len(rows) + i, "verify", 0, sizes[0], load, rng, lab=lab) for i in range(3)]
    for i, reason in (
        (4, "steal 3.1 % of the sender's core (limit 1 %)"),
        (40, "sender late: 2.3 % below nominal"),
    ):
        spoiled = rows[i] | {"trial_id": f"x{i}", "invalid": reason, "valid": False}
        rows.append(spoiled)
        rows[i] = rows[i] | {"attempt": 2}
    buckets = pl.concat([histogram_rows(row, rng) for row in rows[:: max(1, len(rows) // 400)]])
    manifest = SimpleNamespace(
        run_id="synthetic-0000",
        kind="profile",
        status="complete",
        created="2000-01-01T00:00:00+00:00",
        scenario={"dut": "iptables-legacy", "lab": lab, "profile": {"positions": list(POSITIONS)}},
        versions={"weirlab": "0.1.0", "python": "3.11.7"},
        host="example",
        kernel="6.1.0-example",
        calibration="cal-0001",
        facts={
            "cores": {"sender": 0, "dut": 1},
            "iptables": "iptables v1.8.9 (legacy)",
            "threaded_napi": True,
            "mtu_bytes": 2048,
            "command": "weir profile --dut iptables-legacy",
        },
    )
    point = {
        "rate_text": "100kpps",
        "nominal_pps": 1e5,
        "achieved_pps": 99_990.0,
        "pacing_error_ratio": -0.0001,
        "late_mean_ns": 90.0,
        "late_max_ns": 5000.0,
        "delay_p50_ns": 780.0,
        "delay_p99_ns": 2900.0,
        "sent": 150_000,
        "lost": 0,
        "valid": 3,
        "invalid": 0,
    }
    summary = {
        "pacing_error_ratio": 0.0021,
        "delay_p50_ns": 780.0,
        "delay_p99_ns": 2900.0,
        "false_loss_ratio": 0.0,
        "sent": 150_000,
        "lost": 0,
        "max_pps": None,
        "paced_limit_pps": 1e6,
    }
    calibration = {
        "id": "cal-0001",
        "when": "2000-01-01T00:00:00+00:00",
        "points": [point],
        "summary": summary,
    }
    return SyntheticRun(pl.DataFrame(rows), buckets, manifest, {"calibration": calibration})


@pytest.fixture(scope="session", name="law")
def _law() -> Callable[..., SimpleNamespace]:
    return law


@pytest.fixture(scope="session")
def run() -> SyntheticRun:
    return synthetic_run()


@pytest.fixture(scope="session")
def small_run() -> SyntheticRun:
    return synthetic_run(sizes=(64,))


@pytest.fixture(scope="session")
def simulated_run() -> SyntheticRun:
    return synthetic_run(sizes=(64,), lab="sim")


@pytest.fixture(scope="session")
def models() -> dict[str, Any]:
    sentence = "A packet costs 1.15 µs, and 2.45 ns more for every rule before the match."
    return {
        "queueing": FakeModel("queueing", PER_RULE_NS * 1.02, (sentence,), wide=0.1),
        "piecewise": FakeModel("piecewise", PER_RULE_NS * 1.3),
    }


@pytest.fixture(scope="session")
def verification(run: SyntheticRun) -> VerificationEvidence:
    errors = tuple(
        ErrorRow(
            model,
            quantity,
            unit,
            "trial",
            False,
            36,
            12,
            Statistics(abs(mean), mean, mean - std / 3, mean + std / 3, std, largest),
            None if unit == "%-points" else Statistics(mape, mape, mape - 1, mape + 1, 2.0, 3 * mape),
            {50: 48.0, 90: 91.7, 99: 100.0} if model == "queueing" else {},
            2 if unit == "%-points" else None,
        )
        for model, quantity, unit, mape, mean, std, largest in (
            ("queueing", "threshold", "pps", 3.1, -9e3, 4e3, -15e3),
            ("piecewise", "threshold", "pps", 19.0, 88e3, 12e3, 120e3),
            ("repeatability", "threshold", "pps", 1.1, 0.0, 2e3, 5e3),
            ("queueing", "delay_mean_below", "ns", 6.4, 400.0, 1100.0, 3900.0),
            ("piecewise", "delay_mean_below", "ns", 31.0, 4400.0, 6100.0, 30900.0),
            ("queueing", "loss", "%-points", float("nan"), 0.2, 0.3, -0.9),
        )
    )
    return VerificationEvidence(run.trials().filter(pl.col("role") == "verify"), errors)
