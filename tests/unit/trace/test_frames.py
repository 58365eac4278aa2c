from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weirlab import trace
from weirlab.base.errors import InputError
from weirlab.testing.tcp import pcap
from weirlab.trace import schema
from weirlab.trace.analysis import SERIES, analyse

from . import made

Answer = Callable[..., list[dict[str, Any]]]


def test_connections_and_directions_have_the_documented_columns(answer: Answer) -> None:
    answer(
        made.analysis(
            [made.connection(3), made.connection(4, b=made.side("::1", 1, options=None, window=None))]
        )
    )
    read = trace.read("made.pcap")
    assert dict(read.connections.schema) == schema.CONNECTIONS
    assert read.connections["connection"].to_list() == [3, 4]
    assert read.connections["handshake_a_ns"].to_list() == [20_000_000] * 2
    assert dict(read.directions.schema) == schema.DIRECTIONS
    one = read.directions.row(0, named=True)
    assert (one["from_side"], one["retransmissions"], one["retransmissions_spurious"]) == ("a", 5, 1)
    assert (one["rtt_max_ns"], one["flight_max_bytes"], one["mss_bytes"]) == (12_790_000, 673_320, 1460)
    last = read.directions.row(3, named=True)
    assert (last["addr"], last["mss_bytes"], last["window_max_bytes"], last["rtt_max_ns"]) == (
        "::1",
        None,
        None,
        None,
    )


def test_an_empty_capture_has_empty_frames_with_columns(answer: Answer) -> None:
    answer(made.analysis())
    read = trace.read("made.pcap")
    assert read.connections.is_empty()
    assert dict(read.directions.schema) == schema.DIRECTIONS
    assert read.streams.is_empty()
    assert read.esp.is_empty()


def test_streams_and_esp_have_a_row_each(answer: Answer) -> None:
    answer(made.analysis(streams=[made.stream(), made.stream(gap_max_ns=None)], esp=[made.esp(ports=(1, 2))]))
    read = trace.read("made.pcap")
    assert read.streams.select("lost", "gap_max_ns").rows() == [(5, 60_000_000), (5, None)]
    assert dict(read.streams.schema) == schema.STREAMS
    assert read.streams["payload_types"][0][0]["encoding"] == "PCMU"
    assert dict(read.esp.schema) == schema.ESP
    assert read.esp.select("src_port", "dst_port", "spi").row(0) == (1, 2, 0xC0FFEE)


def test_series_have_words_for_codes_and_go_with_the_trace(answer: Answer) -> None:
    asked = answer(made.analysis([made.connection()]))
    with trace.read("made.pcap", series=True) as read:
        folder = Path(asked[0]["series"])
        assert folder.is_dir()
        assert read.segments.schema["meaning"] == pl.Enum(schema.MEANINGS)
        assert read.segments.schema["from_side"] == pl.Enum(schema.SIDES)
        assert read.segments.filter(pl.col("meaning") == "timeout").height == 1
        assert read.rtt["method"].unique().to_list() == ["ack"]
        assert read.sack.schema["duplicate"] == pl.Boolean
        assert read.scan_periods().select(pl.col("payload_bytes").sum()).collect().item() > 0
        first = read.rtt.select(trace.to_datetime("time_ns")).item(0, 0)
        assert first > datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert not folder.exists()
    with pytest.raises(InputError, match="has no series"):
        read.scan_rtt()


def test_series_in_a_folder_of_the_callers_stay(answer: Answer, tmp_path: Path) -> None:
    answer(made.analysis([made.connection()]))
    with trace.read("made.pcap", series=tmp_path / "kept"):
        pass
    again = trace.from_folder(tmp_path / "kept", "segments").collect()
    assert again.height > 3000
    with pytest.raises(InputError, match=r"nothing\.parquet does not exist"):
        trace.from_folder(tmp_path / "kept", "nothing")


def test_the_window_may_be_dates_text_or_ns(answer: Answer) -> None:
    asked = answer(made.analysis())
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    trace.read("made.pcap", start=noon, end=made.START_NS + 5)
    trace.read("made.pcap", start="1.5")
    assert [(a["from_ns"], a["to_ns"], a["relative"]) for a in asked] == [
        (made.START_NS, made.START_NS + 5, False),
        (1_500_000_000, None, True),
    ]
    with pytest.raises(InputError, match="has no zone"):
        trace.read("made.pcap", start=datetime(2026, 1, 31, 12))


def test_nothing_stays_behind_when_the_engine_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    def refuse(*_: object, **settings: Any) -> None:
        seen.append(Path(settings["series"]))
        raise InputError("made.pcap: neither pcap nor pcapng")

    monkeypatch.setattr("weirlab._engine.analyse", refuse, raising=False)
    with pytest.raises(InputError, match="neither pcap nor pcapng"):
        trace.read("made.pcap", series=True)
    assert not seen[0].exists()


def test_no_file_and_a_folder_that_cannot_be_are_refused(answer: Answer, tmp_path: Path) -> None:
    answer(made.analysis())
    with pytest.raises(InputError, match="no capture file"):
        trace.read([])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="that is not a folder"):
        trace.read("made.pcap", series=tmp_path / "file" / "sub")


def test_series_replace_no_link_and_leave_nothing_else(tmp_path: Path) -> None:
    capture, series = tmp_path / "made.pcap", tmp_path / "series"
    capture.write_bytes(pcap([]))
    series.mkdir()
    (series / "rtt.parquet").symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match=r"--series .*rtt\.parquet: that is a symbolic link"):
        analyse(capture, series=series)
    (series / "rtt.parquet").unlink()
    analyse(capture, series=series)
    assert {path.name for path in series.iterdir()} == {f"{name}.parquet" for name in SERIES}
