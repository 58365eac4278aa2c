"""Captures: sent, analysed, drawn; and what is done with those that are none."""

from __future__ import annotations

import base64
import gzip
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient

from weirlab import trace
from weirlab.store import Store
from weirlab.web.access.guard import MOST_OF_CLIENT
from weirlab.web.service import service
from weirlab.web.settings import WebSettings

from ..calls.quality.captures import frames, pcap, talk, without
from ..trace.slow import window_limited
from .conftest import ORIGIN, Serve, send, settled


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory, capture: bytes) -> Iterator[tuple[TestClient, str]]:
    """A service and the data ID of a capture that it has analysed, for tests that only look at it."""
    with service(WebSettings(), Store(tmp_path_factory.mktemp("store"))) as made:
        client = TestClient(made.app, base_url=ORIGIN)
        data_id = send(client, gzip.compress(capture), "made.pcap.gz")
        assert settled(client, data_id)["stage"] == "ready"
        yield client, data_id


Analysed = tuple[TestClient, str]


def graphs(client: TestClient, data_id: str, **changes: Any) -> dict[str, Any]:
    asked = {"side": "a", "from": -1.0, "to": 1.0, "columns": 100, **changes}
    answer = client.get(f"/api/captures/{data_id}/connections/0/graphs", params=asked)
    assert answer.status_code == 200, answer.text
    return {layer["name"]: layer for layer in answer.json()["layers"]}


def numbers(text: str) -> list[float]:
    return np.frombuffer(base64.b64decode(text), "<f8").tolist()


def test_a_capture_is_told_as_weir_trace_tells_it(analysed: Analysed) -> None:
    client, data_id = analysed
    whole = client.get(f"/api/captures/{data_id}").json()
    assert "1 TCP connection, 1 of 6 segments was retransmitted" in whole["conclusion"]
    assert len(whole["columns"]) == len(whole["connections"][0]["cells"])
    one = client.get(f"/api/captures/{data_id}/connections/0").json()
    assert "1 of 6 segments was retransmitted" in one["conclusion"]
    assert one["busier"] == "a"
    assert ["retransmitted", "1 packet (17 % of data)", "0 packets"] in [
        [cell.strip() for cell in row] for row in one["sheet"]["rows"]
    ]


def test_graphs_hold_every_segment_and_what_was_sent_again(analysed: Analysed) -> None:
    client, data_id = analysed
    layers = graphs(client, data_id)
    segments = layers["segments"]
    assert numbers(segments["low"]) == [1.0, 1001.0, 2001.0, 3001.0, 4001.0]
    again = layers["retransmitted after dup. ACKs or SACK"]
    assert (numbers(again["low"]), numbers(again["high"])) == ([1.0], [1001.0])
    assert {layer["chart"] for layer in layers.values()} == {"sequence", "throughput", "rtt", "flight"}


def test_it_says_why_a_connection_was_not_faster(client: TestClient, tmp_path: Path) -> None:
    data_id = send(client, window_limited(tmp_path / "slow.pcap", 0.0).read_bytes())
    assert settled(client, data_id)["stage"] == "ready"
    for _ in range(2):
        why = client.get(f"/api/captures/{data_id}/connections/0/why").json()
        assert "of the time the receiver's window was full: its buffer of 8.19 kB allows" in why["sentence"]
        assert [table["caption"] for table in why["tables"]][:2] == ["Where the time went", "What shows it"]
    assert why["remedy"].startswith("Enlarge the receive buffer")
    one = client.get(f"/api/captures/{data_id}/connections/0").json()
    first, *_ = why["strip"]
    assert first["name"].startswith("receiver's window full")
    held = sum(sum(numbers(layer["low"])) for layer in why["strip"])
    assert sum(numbers(first["low"])) > 0.8 * held
    assert one["from"] <= min(numbers(first["x"])) <= one["to"]
    causes = client.get(f"/api/captures/{data_id}/causes").json()
    assert causes["0"]["cells"][0] == first["name"]
    assert causes["0"]["sort"][1] > 0
    assert client.get(f"/api/captures/{data_id}/connections/7/why").status_code == 400


def test_a_capture_of_voice_has_its_mos(client: TestClient, tmp_path: Path) -> None:
    bad = without(talk(1000), [n for start in range(50, 950, 60) for n in range(start, start + 9)])
    data_id = send(client, pcap(tmp_path / "voice.pcap", frames(bad)).read_bytes())
    assert settled(client, data_id)["stage"] == "ready"
    page = client.get(f"/api/captures/{data_id}").json()
    assert (
        "1 of 1 voice stream is below MOS 4.0: 1 by loss before the capture (stream 1)." in page["conclusion"]
    )
    (streams,) = [table for table in page["others"] if "MOS" in table["columns"]]
    assert len(streams["rows"]) == 1
    lost, delay = page["voice"]["charts"]
    assert page["voice"]["time_s"][:2] == [0.0, 1.0]
    # 50 packets a second, of which a burst is 9.
    assert sum(lost["lines"][0]["values"]) / 100 * 50 == pytest.approx(135, abs=2)
    assert max(lost["lines"][0]["values"]) == pytest.approx(18, abs=1)
    assert [chart["unit"] for chart in (lost, delay)] == ["%", "ms"]
    assert all(value is None or value >= 0 for value in delay["lines"][0]["values"])


def test_streams_without_times_of_their_own_spoil_no_axis(client: TestClient, tmp_path: Path) -> None:
    back = {"src": "192.0.2.2", "dst": "192.0.2.1", "src_port": 4002, "dst_port": 4000, "ssrc": 2}
    noise = talk(50, payload_type=13, payload_bytes=1, **back)
    made = pcap(tmp_path / "call.pcap", frames([*talk(500), *noise]))
    data_id = send(client, made.read_bytes())
    assert settled(client, data_id)["stage"] == "ready"
    voice = client.get(f"/api/captures/{data_id}").json()["voice"]
    assert voice["time_s"] == [float(second) for second in range(10)]
    for chart in voice["charts"]:
        assert [line["source"].split(" > ")[0] for line in chart["lines"]] == ["stream 1, 192.0.2.1:4000"]
    lone = send(client, pcap(tmp_path / "lone.pcap", frames(noise)).read_bytes())
    assert settled(client, lone)["stage"] == "ready"
    assert client.get(f"/api/captures/{lone}").json()["voice"] is None


def test_of_too_little_data_nothing_is_said(analysed: Analysed) -> None:
    client, data_id = analysed
    why = client.get(f"/api/captures/{data_id}/connections/0/why").json()
    assert why == {"sentence": "", "remedy": "", "tables": [], "remarks": [], "strip": []}


def test_a_look_closer_holds_what_is_there_and_one_point_on_each_side(analysed: Analysed) -> None:
    client, data_id = analysed
    times = numbers(graphs(client, data_id)["segments"]["x"])
    middle = graphs(client, data_id, **{"from": times[2] - 1e-6, "to": times[2] + 1e-6})
    assert numbers(middle["segments"]["x"]) == times[1:4]


def test_the_data_id_opens_in_another_session_and_after_a_restart(
    serve: Serve, store: Store, capture: bytes
) -> None:
    first, _ = serve()
    data_id = send(first, capture)
    settled(first, data_id)
    second, _ = serve()
    assert second.get(f"/api/measurements/{data_id}").json()["stage"] == "ready"
    assert graphs(second, data_id).keys() == graphs(first, data_id).keys()


def test_a_data_id_cannot_be_guessed_and_others_are_unknown(client: TestClient, capture: bytes) -> None:
    one, other = send(client, capture), send(client, capture)
    assert one != other
    assert len(one) == 32
    for data_id in ("0" * 32, one[:-1], one.upper() if one.upper() != one else "x", "last"):
        assert client.get(f"/api/measurements/{data_id}").status_code == 404


def test_what_was_queued_is_analysed_by_the_next_service(store: Store, capture: bytes) -> None:
    with service(WebSettings(), store) as made:
        made.children.close()
        client = TestClient(made.app, base_url=ORIGIN)
        data_id = send(client, capture)
        assert client.get(f"/api/measurements/{data_id}").json()["stage"] == "queued"
    with service(WebSettings(), store) as made:
        assert settled(TestClient(made.app, base_url=ORIGIN), data_id)["stage"] == "ready"


def test_a_hundred_uploads_are_queued_and_none_is_lost(serve: Serve, store: Store, capture: bytes) -> None:
    client, made = serve()
    # Nobody reads them, so that all wait.
    made.children.close()
    contents = {f"{number}.pcap": capture + bytes([number]) for number in range(100)}
    with ThreadPoolExecutor(MOST_OF_CLIENT) as pool:
        ids = dict(
            zip(contents, pool.map(lambda name: send(client, contents[name], name), contents), strict=True)
        )
    assert len(set(ids.values())) == 100
    found = {name: client.get(f"/api/measurements/{data_id}").json() for name, data_id in ids.items()}
    assert {each["stage"] for each in found.values()} == {"queued"}
    assert sorted(each["waiting"] for each in found.values()) == list(range(100))
    for name, data_id in ids.items():
        assert (store.root / "web" / data_id / "capture").read_bytes() == contents[name]


def test_an_upload_beyond_the_limit_is_refused_and_leaves_nothing(
    serve: Serve, store: Store, capture: bytes
) -> None:
    client, _ = serve(most_upload_bytes=100)
    announced = client.post("/api/captures", content=capture)
    streamed = client.post("/api/captures", content=iter([capture[:60], capture[60:]]))
    for answer in (announced, streamed):
        assert answer.status_code == 413
        assert "larger than the 100 B" in answer.json()["error"]["message"]
    assert list((store.root / "web").glob("*")) == []


def test_an_empty_upload_is_refused_with_what_is_expected(client: TestClient) -> None:
    answer = client.post("/api/captures", content=b"")
    assert answer.status_code == 400
    assert "pcap or pcapng" in answer.json()["error"]["message"]


def test_a_reader_that_takes_too_much_memory_is_ended_and_says_so(serve: Serve, capture: bytes) -> None:
    client, _ = serve(memory_bytes=30_000_000)
    found = settled(client, send(client, capture))
    assert found["stage"] == "failed"
    assert found["message"]
    assert client.get("/api/session").status_code == 200


def test_a_reader_that_takes_too_long_is_ended_and_says_so(serve: Serve, capture: bytes) -> None:
    client, _ = serve(most_s=0.0)
    found = settled(client, send(client, capture))
    assert found["stage"] == "failed"
    assert "longer than" in found["message"] or "processor time" in found["message"]


def test_foreign_names_do_no_harm(client: TestClient, capture: bytes) -> None:
    data_id = send(client, b"no capture", "../../\x1b[31m<script>alert(1)</script>")
    found = settled(client, data_id)
    assert found["name"] == "../../\\x1b[31m<script>alert(1)</script>"
    assert client.get(f"/api/measurements/{data_id}").headers["content-type"] == "application/json"


def test_the_capture_and_its_series_can_be_taken_away(analysed: Analysed, capture: bytes) -> None:
    client, data_id = analysed
    assert gzip.decompress(client.get(f"/api/captures/{data_id}/file").content) == capture
    assert client.get(f"/api/captures/{data_id}/series/segments.parquet").content[:4] == b"PAR1"
    assert client.get(f"/api/captures/{data_id}/series/secret.parquet").status_code == 400


def test_the_part_shown_is_a_capture_of_its_own(analysed: Analysed, capture: bytes, tmp_path: Path) -> None:
    client, data_id = analysed
    times = numbers(graphs(client, data_id)["segments"]["x"])
    part = {"from": times[1], "to": times[3], "connection": 0}
    answer = client.get(f"/api/captures/{data_id}/part.pcapng", params=part)
    assert answer.status_code == 200, answer.text
    assert "attachment" in answer.headers["content-disposition"]
    (tmp_path / "part.pcapng").write_bytes(answer.content)
    found = trace.read(tmp_path / "part.pcapng", series=True)
    with found:
        sent = found.segments.filter(pl.col("payload_bytes") > 0)["time_ns"]
    # ACKs lie between.
    assert found.capture["packets"] > len(sent) == 3
    everything = client.get(f"/api/captures/{data_id}/part.pcapng", params={"from": -1, "to": 10})
    (tmp_path / "all.pcapng").write_bytes(everything.content)
    (tmp_path / "original.pcap").write_bytes(capture)
    packets = [
        trace.read(tmp_path / name).facts["capture"]["packets"] for name in ("all.pcapng", "original.pcap")
    ]
    assert packets[0] == packets[1] > found.capture["packets"]


def test_series_are_exported_point_by_point(analysed: Analysed) -> None:
    client, data_id = analysed
    place = f"/api/captures/{data_id}/connections/0/points"
    part = {"side": "a", "from": -1.0, "to": 1.0}
    whole = pl.read_parquet(io.BytesIO(client.get(f"{place}.parquet", params=part).content))
    assert set(whole["chart"]) == {"sequence", "throughput", "rtt", "flight"}
    assert whole["time_ns"].is_sorted()
    chosen = {**part, "series": ["sequence/segments", "throughput/each byte once"]}
    table = pl.read_csv(io.BytesIO(client.get(f"{place}.csv", params=chosen).content))
    assert set(table["series"]) == {"segments", "each byte once"}
    segments = table.filter(pl.col("series") == "segments")
    assert segments["low"].to_list() == [1.0, 1001.0, 2001.0, 3001.0, 4001.0]
    assert segments["unit"].unique().to_list() == ["bytes"]
    assert client.get(f"{place}.csv", params={**part, "from": 2}).status_code == 400
    assert client.get(f"{place}.exe", params=part).status_code == 400


def test_nothing_stays_of_what_was_exported(serve: Serve, store: Store, capture: bytes) -> None:
    client, made = serve()
    data_id = send(client, capture)
    settled(client, data_id)
    folder = store.root / "web" / data_id
    for _ in range(2):
        part = {"from": 0, "to": 1}
        assert client.get(f"/api/captures/{data_id}/part.pcapng", params=part).status_code == 200
    left = folder / "part-of-a-service-that-was-killed"
    left.write_bytes(b"x")
    made.uploads.go_on()
    assert not list(folder.glob("part-*"))


def test_a_part_that_is_none_is_refused(analysed: Analysed) -> None:
    client, data_id = analysed
    place = f"/api/captures/{data_id}/connections"
    for query in ("from=2&to=1", "from=nan&to=1", "from=0", "from=0&to=1&columns=9999999"):
        assert client.get(f"{place}/0/graphs?side=a&{query}").status_code == 400, query
    assert client.get(f"{place}/0/graphs?side=c&from=0&to=1").status_code == 400
    assert client.get(f"{place}/7/graphs?side=a&from=0&to=1").status_code == 400
