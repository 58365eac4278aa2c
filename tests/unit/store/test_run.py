from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from weirlab.base.errors import InputError, StoreError
from weirlab.records import HostSample, TrialRecord
from weirlab.store import Run, Store, rows
from weirlab.store.codec import spec_from_json
from weirlab.testing import make_record, make_result, make_spec
from weirlab.traffic.sizes import SIMPLE_IMIX
from weirlab.traffic.spec import LoadStep, Rate


def run_of(tmp_path: Path, *records: TrialRecord) -> Run:
    with Store(tmp_path / "store").create("profile", {}, {}) as writer:
        for index, record in enumerate(records):
            writer.add(
                replace(record, run_id=writer.run_id, index=index, trial_id=f"{writer.run_id}-{index}")
            )
    return writer.run


def test_every_column_of_the_contract_is_there(tmp_path: Path) -> None:
    trials = run_of(tmp_path, make_record()).trials()
    assert trials.schema == pl.Schema(rows.TRIALS)
    promised = """
        trial_id run_id index attempt role started_at lab dut backend position stateful rate_text
        sizes_text frame_bytes flows offered_pps achieved_pps forwarding_pps sent received lost loss_ratio
        duplicated reordered delay_min_ns delay_mean_ns delay_max_ns delay_p50_ns delay_p90_ns delay_p99_ns
        delay_p999_ns jitter_ns longest_gap_ns late_mean_ns late_max_ns slipped_ns sender_steal_s
        dut_softirq_s frequency_mhz temperature_c memory_used_bytes softnet_dropped invalid valid
        dut_counters spec
    """
    assert set(promised.split()) <= set(trials.columns)


def test_a_row_says_what_was_sent_and_what_came_of_it(tmp_path: Path) -> None:
    spec = make_spec(1e5, sizes=SIMPLE_IMIX, position=400, stateful=True, flows=10, label="load 0.5")
    result = make_result(1e5, loss_ratio=0.25, delay_mean_ns=20_000, flows=10)
    host = HostSample(1.2, {"dut": {"softirq": 0.7, "steal": 0.01}}, temperature_c=51.5)
    record = make_record(result, spec, host=host, dut_counters={"in_rx_packets": 5}, invalid=("a", "b"))
    (row,) = run_of(tmp_path, record).trials().to_dicts()
    assert (row["position"], row["stateful"], row["flows"], row["label"]) == (400, True, 10, "load 0.5")
    assert (row["rate_text"], row["sizes_text"], row["offered_pps"]) == ("100kpps", "imix", 1e5)
    assert row["frame_bytes"] == pytest.approx((7 * 64 + 4 * 594 + 1518) / 12)
    assert (row["sent"], row["received"], row["lost"]) == (100_000, 75_000, 25_000)
    assert (row["loss_ratio"], row["forwarding_pps"]) == (0.25, 75_000)
    assert row["delay_mean_ns"] == 20_000
    assert row["delay_p50_ns"] == pytest.approx(18_000, rel=0.01)
    assert row["dut_softirq_s"] == 0.7
    assert row["sender_idle_s"] is None
    assert (row["temperature_c"], row["frequency_mhz"]) == (51.5, None)
    assert (row["invalid"], row["valid"]) == ("a; b", False)
    assert json.loads(row["dut_counters"]) == {"in_rx_packets": 5}
    assert spec_from_json(json.loads(row["spec"])) == spec


def test_the_other_tables_add_up_to_the_trial(tmp_path: Path) -> None:
    result = make_result(1e4, duration_s=0.2, loss_ratio=0.1, flows=3)
    run = run_of(tmp_path, make_record(result, make_spec(1e4, flows=3)))
    assert run.histograms()["count"].sum() == result.received
    assert run.series()["received"].sum() == result.received
    assert run.series()["start_ns"].to_list() == [i * 10_000_000 for i in range(20)]
    assert run.flows()["lost"].sum() == result.lost
    assert run.flows()["flow"].to_list() == [0, 1, 2]


def test_what_was_not_measured_is_null_and_never_nan(tmp_path: Path) -> None:
    run = run_of(tmp_path, make_record(make_result(1000, loss_ratio=1.0)))
    (row,) = run.trials().to_dicts()
    assert [name for name, value in row.items() if isinstance(value, float) and math.isnan(value)] == []
    assert row["delay_mean_ns"] is row["delay_p99_ns"] is row["delay_max_ns"] is None
    assert run.histograms().height == 0
    assert run.flows()["delay_mean_ns"].to_list() == [None]
    assert run.series()["delay_max_ns"].null_count() == run.series().height


def test_the_open_last_bucket_fits_into_a_signed_column(tmp_path: Path) -> None:
    result = make_result(1000)
    top = np.full_like(result.histogram.upper_ns, np.iinfo(np.uint64).max)
    result = replace(result, histogram=replace(result.histogram, upper_ns=top))
    assert run_of(tmp_path, make_record(result)).histograms()["upper_ns"].max() == np.iinfo(np.int64).max


def test_as_fast_as_possible_has_an_infinite_offered_load(tmp_path: Path) -> None:
    run = run_of(tmp_path, make_record(make_result(5e6, duration_s=0.01), make_spec(math.inf)))
    assert run.trials().select("offered_pps", "rate_text").rows() == [(math.inf, "max")]
    assert run.observations()[0].rate_pps == 5e6


def test_load_steps_stand_in_the_rate(tmp_path: Path) -> None:
    spec = make_spec(1000)
    spec = replace(spec, traffic=replace(spec.traffic, steps=(LoadStep(0.5, Rate(2000)),)))
    run = run_of(tmp_path, make_record(make_result(1500), spec))
    assert run.trials()["rate_text"].to_list() == ["1kpps, 2kpps from 0.5 s"]


def test_observations_are_what_a_model_may_believe(tmp_path: Path) -> None:
    steady = make_spec(1000, position=50)
    stepped = replace(steady, traffic=replace(steady.traffic, steps=(LoadStep(0.5, Rate(2000)),)))
    run = run_of(
        tmp_path,
        make_record(make_result(1000, delay_mean_ns=9000), steady),
        make_record(make_result(1000), steady, invalid=("steal",)),
        make_record(make_result(1000, loss_ratio=1.0), steady),
        make_record(make_result(1000), stepped),
        make_record(make_result(1000, loss_ratio=0.5), steady, role="verify"),
    )
    assert [seen.extra["index"] for seen in run.observations()] == [0, 4]
    (profiled,) = run.observations("profile")
    assert (profiled.rate_pps, profiled.frame_bytes, profiled.position) == (1000, 64, 50)
    assert (profiled.delay_mean_ns, profiled.loss_ratio, profiled.forwarding_pps) == (9000, 0, 1000)
    (verified,) = run.observations("verify")
    assert verified.loss_ratio == 0.5
    assert verified.extra["role"] == "verify"


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_an_export_holds_all_tables_and_json(tmp_path: Path, format: str) -> None:
    run = run_of(tmp_path, make_record(), make_record())
    run.put_json("models", {"a": 1})
    files = run.export(tmp_path / "out" / "here", format)  # type: ignore[arg-type]
    with_rows = {"trials", "histograms", "flows", "series"}
    assert with_rows < {*rows.TABLES}
    expected = {f"{table}.{format}" for table in with_rows} | {"manifest.json", "models.json"}
    assert (
        {path.name for path in files} == expected == {path.name for path in (tmp_path / "out/here").iterdir()}
    )
    read = pl.read_csv if format == "csv" else pl.read_parquet
    trials = read(tmp_path / "out/here" / f"trials.{format}")
    assert trials["index"].to_list() == [0, 1]
    assert trials.columns == list(rows.TRIALS)


def test_exporting_a_damaged_run_writes_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path, make_record())
    (run.path / "flows.parquet").write_bytes(b"")
    with pytest.raises(StoreError, match=r"flows\.parquet is damaged"):
        run.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_export_follows_no_link_that_somebody_planted(tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    victim.write_text("old")
    run = run_of(tmp_path, make_record())
    (out / ".trials.csv.tmp").symlink_to(victim)
    run.export(out)
    assert (out / "trials.csv").stat().st_size > 0
    (out / "manifest.json").unlink()
    (out / "manifest.json").symlink_to(victim)
    (out / "trials.csv").unlink()
    with pytest.raises(InputError, match=r"manifest\.json: that is a symbolic link"):
        run.export(out)
    assert victim.read_text() == "old"
    assert not (out / "trials.csv").exists()


def test_an_unknown_export_format_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="csv, parquet"):
        run_of(tmp_path, make_record()).export(tmp_path / "out", "xlsx")  # type: ignore[arg-type]


def test_an_export_over_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(StoreError, match="in the way"):
        run_of(tmp_path, make_record()).export(tmp_path / "out")
