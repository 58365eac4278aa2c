from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from weirlab.calls.calls import tables
from weirlab.calls.calls.study import CallsOutcome
from weirlab.quality.jitterbuffer import Buffers
from weirlab.records import CallTable
from weirlab.store import Run
from weirlab.testing import make_call_table, make_record
from weirlab.traffic.calls.spec import parse_calls

from ...conftest import Weir

SMALL = ("--calls", "20", "--duration", "1", "--warmup", "0.5", "--send", "--lab", "sim")


class Measured(Run):
    """A run of a real device, of which nothing is stored."""

    simulated = False


def outcome(table: CallTable, **changes: Any) -> CallsOutcome:
    settings: dict[str, Any] = {"heard": "best", "buffers": Buffers(), "packets": None, **changes}
    record = replace(make_record(role="calls"), calls=table)
    run = Measured(Path("20261121-072500-calls-3fa2"))
    return CallsOutcome(run, parse_calls(3), None, (record,), **settings)


def row(outcome: CallsOutcome, title: str, name: str) -> list[str]:
    """Cells of the row ``name`` in the table headed by ``title``."""
    (table,) = (t for t in tables.tables(outcome) if title in (t.caption, t.columns[0]))
    (cells,) = (cells for cells in table.rows if cells[0] == name)
    return list(cells[1:])


def test_the_worst_callers_come_first_with_what_happened_to_them() -> None:
    table = make_call_table(3)
    table.mos[3] = 1.5
    table.lost[3], table.longest_run[3] = 40, 25
    worst = tables.tables(outcome(table))[-1]
    assert worst.caption == "Worst callers"
    assert worst.rows[0][:5] == ("1", "back", "1.50", "40 of 100", "25")
    assert len(worst.rows) == 5


def test_the_sentence_tells_how_many_hear_well_and_who_worst() -> None:
    table = make_call_table(3)
    table.mos[3] = 1.5
    said = tables.sentence(outcome(table))
    assert "5 of 6 callers hear MOS 4.0 or better; the worst, call 1 back, hears 1.50" in said
    assert "1 is below 3.6" in said


def test_shares_below_the_marks_are_told_per_direction() -> None:
    table = make_call_table(4)
    table.mos[table.back] = 3.7
    found = outcome(table)
    assert row(found, "Callers", "all")[3:5] == ["50 %", "0 %"]
    assert row(found, "Callers", "hear the receiver's side (back)")[3] == "100 %"
    assert row(found, "Callers", "hear the sender's side (forward)")[3] == "0 %"


@pytest.mark.parametrize(("kind", "mos"), [("best", "4.30"), ("fixed", "4.20"), ("adaptive", "4.30")])
def test_mos_is_that_behind_the_jitter_buffer_asked_for(kind: str, mos: str) -> None:
    found = outcome(make_call_table(3), heard=kind)
    assert row(found, "Over callers", "MOS")[2] == mos
    assert kind.replace("best", "better one") in row(found, "Trial", "jitter buffer")[0]


def test_r_is_only_told_behind_the_buffer_that_it_belongs_to() -> None:
    quantities = {
        kind: [cells[0] for cells in tables.tables(outcome(make_call_table(3), heard=kind))[1].rows]
        for kind in ("best", "fixed")
    }
    assert "R factor" in quantities["best"]
    assert "R factor" not in quantities["fixed"]
    assert np.isnan(outcome(make_call_table(3), heard="fixed").spreads["r_factor"].p50)


def test_one_codec_over_two_transports_is_two_classes() -> None:
    table = make_call_table(2)
    table.call_class[2:] = 1
    mixed = replace(outcome(table), calls=parse_calls(2, "g711/rtp:50,g711/iax2:50"))
    assert row(mixed, "Callers", "G.711 in packets of 20 ms over RTP")[0] == "2"
    assert row(mixed, "Callers", "G.711 in packets of 20 ms over IAX2")[0] == "2"


def test_what_was_not_measured_shows_as_such() -> None:
    table = make_call_table(2)
    for name in ("mos", "mos_fixed", "mos_adaptive", "r_factor", "delay_mean_ns", "jitter_ns"):
        getattr(table, name)[:] = np.nan
    found = outcome(table)
    assert row(found, "Over callers", "MOS") == ["–"] * 5
    assert "not measured for any of 4 callers" in tables.sentence(found)
    assert [t.caption for t in tables.tables(found)].count("Worst callers") == 0


def test_calls_through_the_simulated_device_are_heard_and_kept(weir: Weir) -> None:
    found = weir("calls", *SMALL, "--rules", "100", "--json").json
    assert (found["kind"], found["lab"], found["role"], found["valid"]) == ("calls", "sim", "calls", True)
    assert found["position"] == 100
    everyone = found["quality"]["everyone"]
    assert everyone["callers"] == 40
    assert everyone["worst"]["mos"] > 4.3
    assert everyone["below_dissatisfied"] == 0
    assert found["lost"] == 0
    assert found["spec"]["rules"]["both_ways"] is True
    shown = weir("show", found["run_id"])
    assert shown.code == 0
    assert found["run_id"] in weir("runs").out


def test_the_same_command_for_people(weir: Weir) -> None:
    answer = weir("calls", *SMALL, "--details")
    assert answer.code == 0, answer.err
    for text in ("What callers hear", "Worst callers", "jitter (RFC 3550)", "better one", "20 calls, G.711"):
        assert text in answer.out
    assert "40 of 40 callers hear MOS 4.0 or better" in answer.out.splitlines()[0]


def test_one_direction_needs_no_rules_for_the_other(weir: Weir) -> None:
    found = weir("calls", *SMALL, "--directions", "forward", "--json").json
    assert found["quality"]["everyone"]["callers"] == 20
    assert found["quality"]["back"] is None
    assert "both_ways" not in found["spec"]["rules"]


def test_a_log_of_all_packets_is_kept_if_wanted(weir: Weir) -> None:
    assert weir("calls", *SMALL, "--json").json["packets"] is None
    found = weir("calls", *SMALL, "--keep-packets", "--no-rtcp", "--no-signalling", "--json").json
    log = pl.read_parquet(found["packets"])
    assert log.height == found["received"] == 20 * 2 * 50
    assert log["delay_ns"].min() > 0
    assert log["media"].all()
    speech = log.group_by("call", "back").agg(pl.col("seq").sort())
    assert speech.height == 40
    assert all(numbers.to_list() == list(range(50)) for numbers in speech["seq"])
    # Times count from the start of recording.
    assert 0 <= log["sent_ns"].min() < log["sent_ns"].max() < 1e9  # type: ignore[operator]


def test_a_shallower_jitter_buffer_means_less_delay(weir: Weir) -> None:
    deep = weir("calls", *SMALL, "--jitter-buffer", "fixed:200ms", "--json").json
    shallow = weir("calls", *SMALL, "--jitter-buffer", "fixed:20ms", "--json").json
    assert deep["jitter_buffer"]["fixed_ms"] == 200
    assert deep["quality"]["everyone"]["mos"]["p50"] < shallow["quality"]["everyone"]["mos"]["p50"]


def test_speech_too_short_for_the_probe_can_be_calculated_but_not_sent(weir: Weir) -> None:
    assert weir("calls", "--codec", "g729:10ms").code == 0
    answer = weir("calls", "--codec", "g729:10ms", "--send", "--lab", "sim")
    assert answer.code == 2
    assert "Packets of 20 ms have it" in answer.err


def test_a_capture_says_how_to_go_on(weir: Weir, tmp_path: Path) -> None:
    file = tmp_path / "calls.pcap"
    found = weir("calls", "--calls", "3", "--duration", "1", "--write", file, "--json").json
    assert found["warmup_s"] == 0.5
    assert found["path"] == str(file)
    assert found["file_bytes"] == file.stat().st_size
    assert found["frames"] >= 3 * 2 * 50
    answer = weir("calls", "--calls", "3", "--duration", "1", "--write", file)
    assert f"weir quality {file}" in answer.out


def test_a_capture_that_memory_cannot_hold_is_refused(weir: Weir, tmp_path: Path) -> None:
    file = tmp_path / "calls.pcap"
    answer = weir("calls", "--calls", "500k", "--duration", "3600", "--write", file)
    assert answer.code == 2
    assert "memory" in answer.err
    assert not file.exists()


def test_spoiled_calls_have_no_mos_as_a_result() -> None:
    good = outcome(make_call_table(3))
    spoiled = replace(good, records=(replace(good.record, invalid=("sender late",)),))
    assert tables.sentence(spoiled).startswith(tables.SPOILED)
    (only,) = tables.tables(spoiled)
    assert only.caption == "Trial"
    assert not only.details
    assert ("valid", "no: sender late") in only.rows
