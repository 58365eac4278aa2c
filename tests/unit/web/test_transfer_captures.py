"""Captures at both ends of a TCP test: read by a child process, and told beside what the kernels say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from weirlab.diagnosis.causes import APPLICATION_READ, UNKNOWN
from weirlab.diagnosis.finding import DiagnosisFinding
from weirlab.testing.tcp import Packet, TcpConversation, write_pcap
from weirlab.transfers.tcp.ends import TransferOutcome
from weirlab.transfers.tcp.measure.capturing import End, TransferCapture
from weirlab.transfers.tcp.measure.measuring import TransferMeasurement
from weirlab.transfers.tcp.measure.samples import CAPTURED, RECEIVING, USUAL, Start
from weirlab.web.children import ChildFailure, Children
from weirlab.web.launching.jobs import ServiceFolders
from weirlab.web.launching.launcher import DirectLauncher
from weirlab.web.settings import WebSettings
from weirlab.web.transfers import axis as drawing
from weirlab.web.transfers import explaining
from weirlab.web.transfers.explaining import Reader
from weirlab.web.transfers.service import WebTransfer

WAY_NS = 5_000_000
DATA_ID = "0123456789abcdef" * 2
AHEAD_NS = 3_000_000_000
"""The server's clock, of the client's."""
SAMPLES = {"time_ns": pl.Int64, "end": pl.String, "connection": pl.Int64, "role": pl.String}


def talked(messages: int = 20) -> TcpConversation:
    """A client that sends, and waits for 200 ms before each of its small messages, with a path of 10 ms."""
    talk = TcpConversation()
    talk.handshake(rtt_ms=10)
    for _ in range(messages):
        talk.a.send(1000)
        talk.wait(10)
        talk.b.ack()
        talk.wait(200)
    talk.a.fin()
    talk.b.fin()
    return talk


def at_server(talk: TcpConversation) -> list[Packet]:
    """What is captured there: data later, ACKs earlier, all by another clock."""
    moved = [
        replace(each, time_ns=each.time_ns + AHEAD_NS + (WAY_NS if each.sender == "a" else -WAY_NS))
        for each in talk.segments
    ]
    talk.segments = sorted(moved, key=lambda each: each.time_ns)
    return talk.packets()


@pytest.fixture
def tapes(tmp_path: Path) -> Path:
    """The folder of the captures of a test."""
    made = tmp_path / "web" / DATA_ID / "tapes-1"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def reader(tapes: Path) -> Iterator[Reader]:
    children = Children(1, DirectLauncher.of(ServiceFolders(tapes.parents[2])))
    yield Reader(WebSettings(), children)
    children.close()


@pytest.fixture
def measured() -> TransferMeasurement:
    one = {"up": True, "local": ["192.0.2.1", 40_000], "remote": ["198.51.100.2", 80], "congestion": "cubic"}
    none = pl.DataFrame(schema=SAMPLES)
    return TransferMeasurement(
        TransferOutcome([], [], {"connections": [one]}), none, Start(0, 0, 0), None, same_clock=False
    )


def captures(folder: Path) -> dict[End, TransferCapture]:
    talk = talked()
    client = write_pcap(folder / "capture.pcapng", talk.packets())
    server = write_pcap(folder / "server-capture.pcapng", at_server(talk))
    return {"client": TransferCapture(client), "server": TransferCapture(server, shift_ns=-AHEAD_NS)}


def test_each_capture_and_both_together_say_why(
    reader: Reader, measured: TransferMeasurement, tapes: Path
) -> None:
    (seen,) = reader.read(measured, captures(tapes), tapes, 0.1).connections
    assert list(seen.diagnoses) == ["both", "sender", "receiver"]
    assert {each.main.key for each in seen.diagnoses.values()} == {"application_write"}
    (crossing,) = (each for each in seen.tables if each["caption"].startswith("Between two captures"))
    assert crossing["rows"][0][:3] == ["0", "sender to receiver", "20.0 kB"]


def test_all_places_are_compared_and_each_one_is_told(
    reader: Reader, measured: TransferMeasurement, tapes: Path
) -> None:
    seen = reader.read(measured, captures(tapes), tapes, 0.1).connections
    (told,) = explaining.why(measured, seen)
    assert "the application had nothing to send" in told["sentence"]
    assert told["compared"][0]["caption"] == "The same transfer from each place"
    places = ["The captures at both ends", "A capture at the sender", "A capture at the receiver"]
    assert [each["from"] for each in told["places"]] == places
    assert all(each["sentence"] and each["tables"] for each in told["places"])
    assert explaining.why(measured) == []


def test_kernels_and_captures_lie_on_one_axis(
    reader: Reader, measured: TransferMeasurement, tapes: Path
) -> None:
    start_ns = talked().segments[0].time_ns
    rows = [
        (start_ns + at * 1_000_000, end, 0, role, 100 * at, 70_000 if role == "sender" else None)
        for at in range(0, 4000, 10)
        for end, role in (("client", "sender"), ("server", "receiver"))
    ]
    schema = {**SAMPLES, "app_bytes": pl.Int64, "snd_wnd_bytes": pl.Int64}
    started = {"connections": measured.outcome.started["connections"]}
    samples = pl.DataFrame(rows, schema=schema, orient="row")
    told = TransferMeasurement(
        TransferOutcome([], [], started), samples, Start(0, 0, start_ns), None, same_clock=False
    )
    found = reader.read(told, captures(tapes), tapes, 0.5).axis
    assert found is not None
    charts = {
        (each["title"], line["source"]): line["values"] for each in found["charts"] for line in each["lines"]
    }
    assert found["time_s"][:3] == [0.0, 0.5, 1.0]
    assert charts["Throughput", "sender's kernel"][1] == pytest.approx(800_000, rel=0.05)
    assert charts["Receiver's window", "sender's kernel"][0] == 70_000
    rtts = [each for each in charts["Round trip", "capture at the client"] if each is not None]
    assert rtts == pytest.approx([10] * len(rtts), abs=0.1)
    delays = [each for each in charts["One-way delay", "capture at the server"] if each is not None]
    assert delays == pytest.approx([5] * len(delays), abs=0.1)
    assert min(len(rtts), len(delays)) > 5


def test_one_capture_alone_is_read_too(reader: Reader, measured: TransferMeasurement, tapes: Path) -> None:
    made = {**captures(tapes), "server": TransferCapture(None, why_not="it was not wanted")}
    (seen,) = reader.read(measured, made, tapes, 0.1).connections
    assert list(seen.diagnoses) == ["sender"]


def test_a_capture_that_begins_with_the_answer_of_the_server_is_read_too(
    reader: Reader, measured: TransferMeasurement, tapes: Path
) -> None:
    """Without a handshake, the trace takes the end that sent the first packet for the client."""
    talk = talked(30)
    first = next(n for n, each in enumerate(talk.segments) if each.sender == "b" and n > 2)
    talk.segments = talk.segments[first:]
    made: dict[End, TransferCapture] = {
        "client": TransferCapture(write_pcap(tapes / "capture.pcapng", talk.packets()))
    }
    (seen,) = reader.read(measured, made, tapes, 0.1).connections
    assert list(seen.diagnoses) == ["sender"]


def test_the_window_scale_of_a_capture_without_the_handshake_is_the_kernels(
    reader: Reader, measured: TransferMeasurement, tapes: Path
) -> None:
    """Windows of 64 kB on a path of 100 ms, from the first data on, as the server of ndt7 records them."""
    talk = TcpConversation()
    talk.handshake(rtt_ms=100)
    talk.segments.clear()
    for _ in range(30):
        for _ in range(45):
            talk.a.send(1448)
        talk.wait(100)
        talk.b.ack()
    made: dict[End, TransferCapture] = {
        "client": TransferCapture(write_pcap(tapes / "capture.pcapng", talk.packets()))
    }
    (blind,) = reader.read(measured, made, tapes, 0.1).connections
    assert blind.diagnoses["sender"].main.key != "receive_window"
    told = {each.what for each in blind.diagnoses["sender"].blind}
    assert "whether the receiver's window was full" in told
    start_ns = talk.segments[0].time_ns
    rows = [(start_ns + at * 1_000_000, "server", 0, "receiver", 600 * at, 7, 7) for at in range(0, 3000, 10)]
    schema = {**SAMPLES, "app_bytes": pl.Int64, "rcv_wscale": pl.UInt64, "snd_wscale": pl.UInt64}
    reported = pl.DataFrame(rows, schema=schema, orient="row")
    known = replace(measured, samples=reported, start=Start(0, 0, start_ns))
    found = reader.read(known, made, tapes, 0.1)
    (seen,) = found.connections
    assert seen.diagnoses["sender"].main.key == "receive_window"
    assert seen.diagnoses["sender"].blind == ()
    assert found.axis is not None
    (window,) = (chart for chart in found.axis["charts"] if chart["title"] == "Receiver's window")
    assert {value for value in window["lines"][0]["values"] if value is not None} == {65_536}


def test_a_capture_tells_of_an_upload_what_the_receivers_kernel_cannot(
    reader: Reader, measured: TransferMeasurement, tapes: Path
) -> None:
    made: dict[End, TransferCapture] = {"server": captures(tapes)["server"]}
    (seen,) = reader.read(measured, made, tapes, 0.1).connections
    assert list(seen.diagnoses) == ["receiver"]
    elsewhere = DiagnosisFinding(UNKNOWN, 1.0, 4.0, "low", "The sender or the network was the limit.", ())
    told = explaining._as_received((elsewhere,), seen.diagnoses)
    assert "the application had nothing to send" in told["sentence"]
    # This end knows best whether it was slow itself.
    slow = DiagnosisFinding(APPLICATION_READ, 1.0, 4.0, "high", "This end did not read.", ())
    assert explaining._as_received((slow,), seen.diagnoses)["sentence"] == "This end did not read."
    assert explaining._as_received((elsewhere,), {})["sentence"] == elsewhere.sentence


@pytest.mark.parametrize("content", [b"", b"GIF89a" * 100])
def test_what_is_no_capture_is_refused_without_the_folders_of_this_host(
    reader: Reader, measured: TransferMeasurement, tapes: Path, content: bytes
) -> None:
    made = captures(tapes)
    path: Any = made["server"].path
    path.write_bytes(content)
    with pytest.raises(ChildFailure) as refused:
        reader.read(measured, made, tapes, 0.1)
    assert str(tapes) not in str(refused.value)


def test_whoever_stops_the_test_while_captures_are_read_ends_that(
    reader: Reader, measured: TransferMeasurement, tapes: Path
) -> None:
    settings: Any = SimpleNamespace(interval_s=1.0)
    nobodys: Any = None
    transfer = WebTransfer(nobodys, settings, nobodys)
    assert transfer.ask_to_end()
    transfer.has_sent()
    made = captures(tapes)
    assert len(reader.read(measured, made, tapes, 0.1, lambda: transfer.unread).connections) == 1
    transfer.end_sending()
    assert not transfer.unread
    assert transfer.ask_to_end()
    with pytest.raises(ChildFailure, match="It was stopped"):
        reader.read(measured, made, tapes, 0.1, lambda: transfer.unread)
    transfer.close()
    assert not transfer.ask_to_end()


def test_a_service_that_ends_waits_for_no_capture(measured: TransferMeasurement, tapes: Path) -> None:
    children = Children(1, DirectLauncher.of(ServiceFolders(tapes.parents[2])))
    children.close()
    with pytest.raises(ChildFailure, match="The service ends"):
        Reader(WebSettings(), children).read(measured, captures(tapes), tapes, 0.1)


def test_whatever_is_on_the_time_axis_has_a_chart() -> None:
    columns = {*USUAL, *RECEIVING, *CAPTURED, "delay_us"}
    assert columns <= drawing._CHARTS.keys()
