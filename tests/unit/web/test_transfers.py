"""Live TCP tests: begun by a form, followed by events, kept under their data ID."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from weirlab._engine import TcpServer
from weirlab.base.errors import MissingCapability
from weirlab.store import Store
from weirlab.transfers.tcp.measure.samples import IntervalMerger
from weirlab.transfers.tcp.results import Interval
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.web.transfers import explaining, recording, rows
from weirlab.web.transfers.asking import TransferRequest, settings

from .conftest import Serve, settled

NOBODY = 9


@contextmanager
def serving(token: str, *, errands: bool) -> Iterator[int]:
    """The port of a server that needs a token; ``errands``: it may be the client of others."""
    server = TcpServer(
        address="127.0.0.1", port=0, token=token, most_ns=None, most_bytes=None, most_clients=2, options=[],
        errands=errands,
    )  # fmt: skip
    try:
        yield server.address[1]
    finally:
        server.stop()


def begun(client: TestClient, /, **asked: Any) -> str:
    answer = client.post("/api/transfers", json={"host": "127.0.0.1", "interval_ms": 50, **asked})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["data_id"])


def followed(client: TestClient, data_id: str) -> list[dict[str, Any]]:
    """All events, until the last."""
    with client.stream("GET", f"/api/transfers/{data_id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]


def test_a_transfer_is_followed_while_it_runs_and_kept(serve: Serve, store: Store, port: int) -> None:
    client, _ = serve()
    data_id = begun(client, port=port, lasts_s=None, total_bytes=20_000_000)
    events = followed(client, data_id)
    assert [events[0]["event"], events[-1]["event"]] == ["started", "done"]
    intervals = [event for event in events if event["event"] == "interval"]
    assert sum(each["received_bytes"] for each in intervals) == 20_000_000
    assert events[-1]["stage"] == "ready"
    assert "To the server" in events[-1]["conclusion"]
    told = client.get("/metrics").text
    assert 'weir_web_transfer_received_bytes_total{direction="up"} 20000000\n' in told
    assert 'weir_web_transfer_retransmissions_total{direction="down"} 0\n' in told
    later, _ = serve()
    again = followed(later, data_id)
    assert [each for each in again if each["event"] == "interval"] == intervals
    assert later.get(f"/api/measurements/{data_id}").json()["kind"] == "transfer"


def test_when_it_ends_it_says_why_it_was_not_faster(client: TestClient, port: int) -> None:
    data_id = begun(client, port=port, lasts_s=1, rate="20Mbit/s", connections=2)
    last = followed(client, data_id)[-1]
    assert last["stage"] == "ready"
    assert "unexplained" not in last
    assert len({each["ends"] for each in last["why"]}) == 2
    assert last["on_one_axis"]
    drawn = client.get(f"/api/transfers/{data_id}/axis").json()
    assert len(drawn["time_s"]) > 10
    first = drawn["charts"][0]
    assert (first["title"], first["unit"]) == ("Throughput", "bit/s")
    assert {each["source"] for each in first["lines"]} == {
        f"{number}: {end}'s kernel" for number in (0, 1) for end in ("sender", "receiver")
    }
    assert all(len(each["values"]) == len(drawn["time_s"]) for each in first["lines"])
    for each in last["why"]:
        assert "of the time" in each["sentence"]
        assert each["tables"][0]["caption"] == "Where the time went"
        assert f":{port}" in each["ends"]


@pytest.mark.parametrize("direction", ["up", "both"])
def test_two_other_hosts_are_asked_and_their_tokens_kept_nowhere(
    client: TestClient, store: Store, direction: str
) -> None:
    with (
        serving("token of the client", errands=True) as far,
        serving("token of the server", errands=False) as port,
    ):
        data_id = begun(
            client, port=port, token="token of the server", client="127.0.0.1", client_port=far,
            client_token="token of the client", direction=direction, lasts_s=1, rate="20Mbit/s", capture=True,
        )  # fmt: skip
        last = followed(client, data_id)[-1]
    assert (last["stage"], last["message"]) == ("ready", "")
    assert all(each["received_bytes"] for each in last["result"]["directions"])
    assert {each["remote"][1] for each in last["result"]["connections"]} == {port}
    assert len(last["why"]) == len(last["result"]["connections"])
    # Neither allows captures, and this host is none of the two ends.
    assert [each["where"] for each in last["captures"]] == ["127.0.0.1", "127.0.0.1"]
    assert all("--allow-capture" in each["why_not"] for each in last["captures"])
    told = client.get(f"/api/measurements/{data_id}").json()
    assert told["name"] == "TCP test from 127.0.0.1 to 127.0.0.1"
    assert told["facts"]["asked"]["client_port"] == far
    kept = b"".join(path.read_bytes() for path in (store.root / "web" / data_id).iterdir())
    assert b"token of the client" not in kept
    assert b"token of the server" not in kept


def test_a_host_that_must_not_be_a_client_says_how_it_may(client: TestClient) -> None:
    with (
        serving("token of the client", errands=False) as far,
        serving("token of the server", errands=False) as port,
    ):
        data_id = begun(
            client, port=port, token="token of the server", client="127.0.0.1", client_port=far,
            client_token="token of the client",
        )  # fmt: skip
        last = followed(client, data_id)[-1]
    assert last["stage"] == "failed"
    assert "--allow-client" in last["message"]


def test_the_address_of_the_browser_is_told_where_it_is_another_host(serve: Serve) -> None:
    _, made = serve(token="a token long enough")
    for address, told in (("192.0.2.7", "192.0.2.7"), ("127.0.0.1", ""), ("testclient", "")):
        browser = TestClient(made.app, base_url="http://192.0.2.1:29180", client=(address, 50_000))
        assert browser.get("/api/session").json()["browser"] == told


def test_what_would_be_too_much_to_keep_is_not_explained() -> None:
    few = TransferSettings("h", up=1, lasts_s=10, interval_s=0.1)
    assert explaining.period_s(few, 300) == 0.01
    assert explaining.period_s(replace(few, up=32, down=32), 300) == pytest.approx(0.064)
    many = replace(few, up=32, down=32)
    assert explaining.period_s(replace(many, lasts_s=300), 300) is None
    # Bytes may be there within a moment.
    assert explaining.period_s(replace(many, lasts_s=None), 300) == 0.1


@pytest.mark.parametrize(("most", "explained"), [(5, False), (explaining.MOST_REPORTS, True)])
def test_bytes_that_last_too_long_are_not_explained(
    client: TestClient, port: int, monkeypatch: pytest.MonkeyPatch, most: int, explained: bool
) -> None:
    monkeypatch.setattr(explaining, "MOST_REPORTS", most)
    asked = {"lasts_s": None, "total_bytes": 1_000_000, "rate": "20Mbit/s", "connections": 4}
    last = followed(client, begun(client, port=port, direction="both", **asked))[-1]
    assert last["stage"] == "ready"
    assert ("why" in last, "unexplained" in last) == (explained, not explained)


def interval(from_s: float, to_s: float, received: int) -> Interval:
    rows = ({"connection": 0, "received_bytes": received, "rtt_us": received},)
    return Interval("up", from_s, to_s, received, received, 1, 50.0, 10, None, rows)


def test_frequent_reports_become_the_intervals_that_are_drawn() -> None:
    coarser = IntervalMerger(0.1)
    reports = [interval(n / 100, (n + 1) / 100 + 1e-4, n) for n in range(25)]
    drawn = [each for one in reports for each in coarser.take(one)]
    drawn += coarser.rest()
    assert [round(each.to_s, 2) for each in drawn] == [0.1, 0.2, 0.25]
    assert sum(each.received_bytes for each in drawn) == sum(range(25))
    assert drawn[0].retransmissions == 10
    (row,) = drawn[0].connections
    assert (row["received_bytes"], row["rtt_us"]) == (sum(range(10)), 9)
    assert list(coarser.rest()) == []


def test_an_interval_has_the_sum_of_its_connections_where_the_kernel_tells() -> None:
    told = {"unacked": 3, "snd_mss_bytes": 1448, "notsent_bytes": 500, "snd_wnd_bytes": 65_536}
    one = replace(interval(0.0, 0.1, 9), connections=(told, told))
    row = rows.interval(one)
    assert (row["flight_bytes"], row["unsent_bytes"], row["window_bytes"]) == (8688, 1000, 131_072)
    assert row["delivery_bps"] is None
    assert rows.interval(replace(one, connections=()))["flight_bytes"] is None


def test_its_numbers_are_exported(client: TestClient, port: int) -> None:
    data_id = begun(client, port=port, lasts_s=None, total_bytes=5_000_000, direction="both")
    followed(client, data_id)
    text = client.get(f"/api/transfers/{data_id}/export/intervals.csv").text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["direction"] for row in rows} == {"up", "down"}
    assert sum(int(row["received_bytes"]) for row in rows) == 10_000_000
    each = client.get(f"/api/transfers/{data_id}/export/connections.csv").text
    assert "snd_cwnd" in each.splitlines()[0]
    for table in ("intervals", "connections"):
        assert client.get(f"/api/transfers/{data_id}/export/{table}.parquet").content[:4] == b"PAR1"
    assert client.get(f"/api/transfers/{data_id}/export/secret.csv").status_code == 400


def test_one_at_a_time_and_it_can_be_stopped(client: TestClient, port: int) -> None:
    data_id = begun(client, port=port, lasts_s=60)
    refused = client.post("/api/transfers", json={"host": "127.0.0.1", "port": port})
    assert refused.status_code == 409
    assert client.post(f"/api/transfers/{data_id}/stop", json={}).status_code == 200
    assert followed(client, data_id)[-1]["event"] == "done"
    assert settled(client, data_id)["stage"] in ("ready", "failed")
    assert client.post(f"/api/transfers/{data_id}/stop", json={}).status_code == 400


def test_where_nobody_listens_the_reason_is_told(client: TestClient) -> None:
    data_id = begun(client, port=NOBODY, lasts_s=1)
    last = followed(client, data_id)[-1]
    assert last["stage"] == "failed"
    assert "weir tcp serve" in last["message"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"lasts_s": 9999}, "at most 300 s"),
        ({"lasts_s": 1e-300}, "lasts_s"),
        ({"total_bytes": 5}, "one of them"),
        ({"total_bytes": 767, "lasts_s": None, "connections": 32}, "at least 768 bytes"),
        ({"total_bytes": 2**63 - 1, "lasts_s": None}, "total_bytes"),
        ({"port": 2**63 - 1}, "port"),
        ({"interval_ms": -(2**63)}, "interval_ms"),
        ({"host": ""}, "host"),
        ({"port": 0}, "port"),
        ({"congestion": "a; rm -rf"}, "congestion"),
        ({"rate": "fast"}, "not understood"),
        ({"block": "23"}, "24 bytes"),
        ({"buffer": "much"}, "no size"),
        ({"buffer": "64KiB", "client": "192.0.2.1"}, "another host"),
        ({"connections": 1000}, "connections"),
        ({"command": "id"}, "command"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    client: TestClient, asked: dict[str, Any], why: str
) -> None:
    answer = client.post("/api/transfers", json={"host": "127.0.0.1", **asked})
    assert answer.status_code == 400
    assert why in answer.json()["error"]["message"]


def test_the_token_of_the_other_host_is_kept_nowhere(serve: Serve, store: Store, port: int) -> None:
    client, _ = serve()
    data_id = begun(client, port=port, token="a secret of others", lasts_s=None, total_bytes=1_000_000)
    followed(client, data_id)
    kept = b"".join(path.read_bytes() for path in (store.root / "web" / data_id).iterdir())
    assert b"a secret of others" not in kept


def test_captures_are_asked_for_and_why_there_is_none_is_said(
    client: TestClient, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> object:
        raise MissingCapability("recording needs CAP_NET_RAW; run as root")

    monkeypatch.setattr(recording, "WebRecorderProcess", refused)
    data_id = begun(client, port=port, lasts_s=None, total_bytes=1_000_000, capture=True)
    last = followed(client, data_id)[-1]
    assert last["stage"] == "ready", last
    here, there = last["captures"]
    assert (here["where"], here["why_not"]) == ("this host", "recording needs CAP_NET_RAW")
    assert (there["where"], there["data_id"]) == ("127.0.0.1", None)
    assert "--allow-capture" in there["why_not"]
    plain = begun(client, port=port, lasts_s=None, total_bytes=1_000_000)
    assert followed(client, plain)[-1]["captures"] == []


def test_a_capture_of_the_service_is_analysed_like_an_upload(
    serve: Serve, tmp_path: Path, capture: bytes
) -> None:
    client, service = serve()
    file = tmp_path / "taken.pcap"
    file.write_bytes(capture)
    one = service.uploads.adopt("TCP test at h.pcapng", file, service.space.claim(len(capture)))
    assert not file.exists()
    assert settled(client, one.data_id)["stage"] == "ready"
    assert client.get(f"/api/captures/{one.data_id}").json()["connections"]


def test_blocks_and_buffers_are_those_of_the_ends_that_use_them() -> None:
    made = settings(TransferRequest(host="h", direction="down", block="8KiB", buffer="64KiB"), 300)
    assert (made.block_bytes, made.options) == (8192, (("SO_RCVBUF", "65536"),))
    both = settings(TransferRequest(host="h", direction="both", buffer="64KiB"), 300)
    assert dict(both.options) == {"SO_SNDBUF": "65536", "SO_RCVBUF": "65536"}
