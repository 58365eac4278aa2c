from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.trace import Trace
from weirlab.trace.facts import RETRANSMISSIONS
from weirlab.transfers.trace.page import series
from weirlab.transfers.trace.page.story import build, tell

from . import made


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    made.write_series(tmp_path / "series", segments=3000)
    listed = [made.connection(0), made.connection(1, a=made.sender("<script>", 1))]
    return Trace(
        made.analysis(listed, capture={"files": [{**made.files(1)[0], "path": "x/made.pcap"}]}),
        tmp_path / "series",
    )


def render(trace: Trace, *, connection: int, command: str = "") -> str:
    return tell(trace, connection=connection, command=command).html()


def layers_of(html: str) -> dict[str, list[dict[str, Any]]]:
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert embedded is not None
    layers = json.loads(embedded[1])["layers"]
    assert isinstance(layers, dict)
    return layers


def doubles(text: str) -> list[float]:
    raw = base64.b64decode(text)
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))


def test_the_page_says_the_conclusion_and_loads_nothing(trace: Trace) -> None:
    html = render(trace, connection=0, command="weir trace made.pcap --out x.html")
    assert re.search(r'<h1 id="answer-title">\d+ % of the time ', html)
    assert "a sent 2.89 MB in 2.00 s (11.6 Mbit/s); 5 of 2,000 segments were retransmitted" in html
    assert "weir trace made.pcap --out x.html" in html
    assert "weir report" not in html
    assert not re.search(r'(?:src|href)="(?!#)', html)
    assert "Leon Sorokin" in html


def test_names_from_the_capture_cannot_become_markup(trace: Trace) -> None:
    assert "&lt;script&gt;:1" in render(trace, connection=0)


def test_every_repetition_is_drawn_under_its_cause(trace: Trace) -> None:
    layers = layers_of(render(trace, connection=0))["a"]
    marks = {layer["name"]: len(doubles(layer["x"])) for layer in layers if layer["kind"] == "marks"}
    assert marks == {
        "retransmitted after a time-out": 2,
        "retransmitted after dup. ACKs or SACK": 1,
        "tail probe": 1,
        "SYN retransmitted": 1,
        "retransmitted, no visible reason": 1,
    }
    assert len(RETRANSMISSIONS) == len(marks)


def test_graphs_share_one_axis_in_seconds_since_the_first_packet(trace: Trace) -> None:
    layers = layers_of(render(trace, connection=0))["a"]
    assert {layer["chart"] for layer in layers} == {"sequence", "throughput", "rtt", "flight"}
    assert all(0 <= x <= 2.1 for layer in layers for x in doubles(layer["x"]))
    rtt = next(layer for layer in layers if layer["chart"] == "rtt")
    assert doubles(rtt["high"]) == pytest.approx([6.44] * 1500, abs=0.01)
    flight = next(layer for layer in layers if layer["name"] == "in flight")
    assert max(doubles(flight["high"])) == 400 * made.MSS
    rate = next(layer for layer in layers if layer["name"] == "each byte once")
    assert sum(doubles(rate["high"])) * 0.1 / 8 == pytest.approx(3000 * made.MSS, rel=0.01)


def test_a_side_without_data_still_has_its_direction(trace: Trace) -> None:
    assert [layer["chart"] for layer in layers_of(render(trace, connection=0))["b"]] == [
        "sequence",
        "sequence",
        "flight",
    ]


def test_voice_and_esp_have_tables_where_there_are_any(trace: Trace) -> None:
    assert "Voice and ESP" not in render(trace, connection=0)
    trace.facts["streams"] = [made.stream()]
    trace.facts["streams_left_out"] = 2
    trace.facts["esp"] = [made.esp()]
    html = render(trace, connection=0)
    for text in (
        "192.0.2.1:4000",
        "PCMU",
        "0.99 %",
        "2.00 ms",
        "60.0 ms",
        ": 1 of 3, --json has 1 of them<",
        "0x00c0ffee",
        ">ESP flows<",
    ):
        assert text in html


def test_windows_of_unknown_scale_are_not_drawn_and_said_to_be_unscaled(trace: Trace) -> None:
    for name in ("a", "b"):
        trace.facts["connections"][0][name]["options"] = None
    html = render(trace, connection=0)
    assert "64.3 kB – 3.14 MB unscaled" in html
    names = {layer["name"] for layers in layers_of(html).values() for layer in layers}
    assert not names & {"window's edge", "receiver's window"}


def test_the_page_is_written_in_full_and_misses_are_refused(trace: Trace, tmp_path: Path) -> None:
    out = build(trace, tmp_path / "page.html", connection=1)
    assert out.read_text().endswith("</html>")
    with pytest.raises(InputError, match="no connection 9"):
        build(trace, tmp_path / "page.html", connection=9)
    with pytest.raises(InputError, match="has no series"):
        render(Trace(trace.facts, None), connection=0)


def test_few_rows_are_drawn_as_they_are() -> None:
    rows = pl.LazyFrame({"time_ns": [3, 1, 2], "v": [30, 10, 20]})
    assert series.spans(rows, "v", "v", columns=3).rows() == [
        (1, 10, 10, 10.0),
        (2, 20, 20, 20.0),
        (3, 30, 30, 30.0),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 1000)), min_size=1, max_size=300),
    st.integers(1, 20),
)
def test_columns_keep_both_extremes_and_stay_few(rows: list[tuple[int, int]], columns: int) -> None:
    frame = pl.LazyFrame(
        {"time_ns": [made.START_NS + time for time, _ in rows], "v": [value for _, value in rows]}
    )
    drawn = series.spans(frame, "v", "v", columns)
    assert len(drawn) <= columns
    assert drawn["low"].min() == min(value for _, value in rows)
    assert drawn["high"].max() == max(value for _, value in rows)
    assert drawn["time_ns"].is_sorted()
    assert drawn["time_ns"][0] == made.START_NS + min(time for time, _ in rows)


def test_of_very_many_events_every_nth_is_kept_and_the_rest_counted() -> None:
    rows = pl.DataFrame({"time_ns": range(1000, 0, -1), "low": 1, "high": 2})
    kept = series.events(rows, most=300)
    assert kept["time_ns"].to_list() == list(range(1, 1001, 4))
    assert series.events(rows, most=1000)["time_ns"].to_list() == list(range(1, 1001))
    layer = series.Layer("sequence", "marks", "odd", "fast", kept, left_out=750)
    assert layer.to_json(0)["leftOut"] == 750
