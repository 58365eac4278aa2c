"""What the engine gives is what the tables here promise."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from weirlab import trace
from weirlab.base.errors import InputError
from weirlab.trace import facts, schema, wording
from weirlab.transfers.trace.page.story import tell

from . import slow


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return slow.five(tmp_path / "made.pcap")


def test_facts_have_the_documented_names(file: Path) -> None:
    found = trace.analyse(file)
    one = found["connections"][0]
    for kind, mapping in (
        (facts.Analysis, found),
        (facts.Capture, found["capture"]),
        (facts.File, found["capture"]["files"][0]),
        (facts.Connection, one),
        (facts.Side, one["a"]),
        (facts.TimeSummary, one["a"]["rtt"]),
        (facts.Retransmissions, one["a"]["retransmissions"]),
        (facts.SynOptions, one["a"]["options"]),
    ):
        needed = {name for name, of in kind.__annotations__.items() if "NotRequired" not in str(of)}
        assert needed <= mapping.keys(), kind.__name__
    assert one["begin"] in facts.BEGINS
    assert one["end"] in facts.ENDS
    assert one["place"] in facts.PLACES
    assert "1 of 6 segments was retransmitted" in wording.conclusion(one)


def test_files_of_series_have_the_documented_columns(file: Path) -> None:
    with trace.read(file, series=True) as read:
        assert read.folder is not None
        for name, columns in schema.FILES.items():
            assert pl.read_parquet_schema(read.folder / f"{name}.parquet") == columns, name
        flat = pl.read_parquet_schema(read.folder / "connections.parquet")
        sides = [f"{side}_{column}" for side in schema.SIDES for column in schema.SIDE]
        assert list(flat) == [*schema.CONNECTIONS, *sides]
        assert {flat[f"a_{column}"] == kind for column, kind in schema.SIDE.items()} == {True}


def test_frames_files_and_the_page_agree(file: Path) -> None:
    with trace.read(file, series=True) as read:
        a = read.directions.row(0, named=True)
        mine = read.segments.filter(pl.col("from_side") == "a")
        assert mine.filter(pl.col("meaning") == "fast").height == a["retransmissions_fast"] == 1
        assert mine["payload_bytes"].sum() == a["data_bytes"] == 6000
        assert (
            read.periods.filter(pl.col("from_side") == "a")["unique_bytes"].sum() == a["unique_bytes"] == 5000
        )
        by_ack = read.rtt.filter(pl.col("method") == "ack", pl.col("from_side") == "a")
        assert by_ack.height == a["rtt_count"]
        html = tell(read, connection=0).html()
    assert "retransmitted after dup. ACKs or SACK" in html


def test_a_window_of_time_counts_from_the_first_packet(file: Path) -> None:
    whole, rest = trace.read(file), trace.read(file, start="12ms")
    assert rest.capture["selected"] < whole.capture["selected"] == whole.capture["packets"]
    assert rest.connections["begin"].to_list() == ["middle"]


def test_what_is_no_capture_is_refused_by_name(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("this is no capture at all")
    with pytest.raises(InputError, match="text"):
        trace.read(text)
