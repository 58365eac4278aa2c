from __future__ import annotations

from weirlab.devices.prediction.outcome import PredictionOutcome


def test_quantities_are_judged_one_by_one_and_impossible_delays_named() -> None:
    def found(mean_ns: float) -> dict[str, float]:
        return {"threshold_pps": 400_000.0, "delay_mean_ns": mean_ns, "delay_p50_ns": 5_000.0}

    bands = {"delay_mean_ns": {90: (5e3, 9e3)}, "delay_p99_ns": {90: (1e4, 2e5)}}
    told = PredictionOutcome(
        "250kpps", 250_000.0, "64", 64.0, 200.0, {"one": found(9e3), "other": found(0.0)}, (), {"one": bands}
    )
    assert told.unsure == ("delay_p99_ns",)
    assert told.impossible == ("other",)
