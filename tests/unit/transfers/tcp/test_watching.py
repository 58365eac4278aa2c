"""Connections of our own, listed and watched."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from weirlab.base.errors import InputError
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import connections, watching
from weirlab.transfers.tcp.show.screen import SampleFile
from weirlab.transfers.tcp.watching import (
    BPF,
    INET_DIAG,
    ConnectionTally,
    Samples,
    WatchOutcome,
    WatchSettings,
)

from ...conftest import Weir
from .conftest import DEADLINE_S

BYTES = 100_000
NAMES = ("bytes_acked", "bytes_received", "bbr_min_rtt_us")


@contextmanager
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with client, server:
        yield client, server


class Until:
    """Tells others when something has been seen."""

    def __init__(self) -> None:
        self.waits, self.began, self.received = threading.Event(), threading.Event(), threading.Event()

    def waiting(self) -> None:
        self.waits.set()

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        if len(tallies) == 2 and all(tally.last_ns for tally in tallies):
            self.began.set()
            known = all(each["pid"] for each in progress["connections"])
            if known and any(tally.last.get("bytes_received", 0) >= BYTES for tally in tallies):
                self.received.set()


def transfer(client: socket.socket, server: socket.socket) -> None:
    sender = threading.Thread(target=client.sendall, args=(bytes(BYTES),))
    sender.start()
    left = BYTES
    while left:
        left -= len(server.recv(left))
    sender.join()


def watched(tmp_path: Path) -> tuple[WatchOutcome, SampleFile, Path]:
    """A connection that is made when it is waited for already, and closed when its last byte was seen."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        file = tmp_path / "samples.parquet"
        until, keeper, outcomes = Until(), SampleFile(file, NAMES), []
        target = connections.parse(f"127.0.0.1:{port}")
        settings = WatchSettings(target, 1_000_000, NAMES, wait=True, by=INET_DIAG)

        def work() -> None:
            with Stop() as stop:
                outcomes.append(watching.watch(settings, [keeper, until], stop))

        thread = threading.Thread(target=work)
        thread.start()
        assert until.waits.wait(DEADLINE_S)
        client = socket.create_connection(("127.0.0.1", port))
        server, _ = listener.accept()
        with client, server:
            assert until.began.wait(DEADLINE_S)
            transfer(client, server)
            assert until.received.wait(DEADLINE_S)
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "it ends with the connection"
    return outcomes[0], keeper, file


def test_a_connection_made_afterwards_is_seen_from_its_first_byte_to_its_last(tmp_path: Path) -> None:
    outcome, keeper, file = watched(tmp_path)
    made = outcome.progress["connections"]
    assert len(made) == 2, "both ends are here"
    assert {each["pid"] for each in made} == {os.getpid()}
    assert all(each["ended_ns"] > each["found_ns"] for each in made)
    assert all(tally.from_the_beginning for tally in outcome.tallies)
    # The kernel counts a FIN as a byte, which a sample near the end may see.
    received = sorted(tally.grown("bytes_received") or 0 for tally in outcome.tallies)
    assert received[0] in (0, 1)
    assert received[1] in (BYTES, BYTES + 1)
    assert {BYTES, BYTES + 1} & {tally.grown("bytes_acked") for tally in outcome.tallies}
    assert outcome.samples == sum(each["samples"] for each in made)
    # What is new has no congestion control yet, as long as it is found before it is connected.
    with socket.socket() as usual:
        congestion = usual.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
    assert outcome.absent == (() if congestion == b"bbr" else ("bbr_min_rtt_us",))
    late = outcome.progress["lateness"]
    assert late["rounds"] * 2 >= outcome.samples
    # Whoever misses samples was late by as much.
    assert late["max_ns"] * 1.02 >= max(each["missed"] for each in made) / late["rounds"] * 1_000_000

    keeper.write()
    frame = pl.read_parquet(file)
    assert frame.columns == ["time_ns", "connection", "local", "remote", *NAMES]
    assert len(frame) == outcome.samples
    assert frame["time_ns"].is_sorted()
    assert frame["bytes_received"].max() == received[1]
    assert set(frame["connection"]) == {0, 1}


class Finding:
    """An engine that finds a connection, samples it and ends, all between two questions."""

    def __init__(self, **_: Any) -> None:
        self._taken = 0

    def progress(self) -> dict[str, Any]:
        one = {
            "local": ("192.0.2.1", 1), "remote": ("192.0.2.2", 2), "pid": None, "process": None,
            "congestion": "", "found_ns": 1, "ended_ns": 2, "samples": 1, "missed": 0, "idle": 2,
        }  # fmt: skip
        late = {"rounds": 1, "mean_ns": 0, "p99_ns": 0, "max_ns": 0}
        found = [one] if self._taken else []
        both = {"lost": 0, "left_out": 0, "failure": None, "lateness": late, "by": BPF, "why_not": None}
        return {"connections": found, "ended": bool(self._taken), **both}

    def take(self) -> dict[str, Any]:
        rows = 1 if self._taken == 0 else 0
        self._taken += 1
        there = np.ones(rows, np.bool_)
        return {
            "connection": np.zeros(rows, np.uint32),
            "time_ns": np.ones(rows, np.int64),
            "fields": {name: (np.ones(rows, np.uint64), there) for name in (*watching.NEEDED, *NAMES)},
        }

    def stop(self) -> None: ...


def test_a_connection_found_between_two_questions_is_known_with_its_first_sample(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("weirlab._engine.TcpWatcher", Finding)
    keeper = SampleFile(tmp_path / "x.parquet", NAMES)
    with Stop() as stop:
        outcome = watching.watch(WatchSettings(connections.parse(":1"), 1_000_000, NAMES), [keeper], stop)
    keeper.write()
    assert [tally.last_ns for tally in outcome.tallies] == [1]
    assert pl.read_parquet(tmp_path / "x.parquet")["local"].to_list() == ["192.0.2.1:1"]


def test_a_csv_file_has_the_same_rows(tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    with connection() as (client, _), Stop() as stop:
        keeper = SampleFile(file, NAMES)
        port = client.getsockname()[1]
        settings = WatchSettings(connections.parse(f":{port}"), 1_000_000, NAMES, duration_s=0.001)
        outcome = watching.watch(settings, [keeper], stop)
        keeper.write()
    frame = pl.read_csv(file)
    assert len(frame) == outcome.samples > 0
    assert set(frame["local"]) == set(frame["remote"])
    assert f"127.0.0.1:{port}" in set(frame["local"])


def test_our_own_connection_is_listed_by_every_filter(weir: Weir) -> None:
    with connection() as (client, server):
        here, there = client.getsockname(), server.getsockname()
        name = Path("/proc/self/comm").read_text().strip()
        for filters in (
            ("--port", here[1]),
            ("--port", here[1], "--address", "127.0.0.1", "--state", "established"),
            ("--process", os.getpid()),
            ("--process", name),
        ):
            found = weir("tcp", "list", *filters, "--json").json["connections"]
            ends = [(tuple(each["local"]), tuple(each["remote"])) for each in found]
            assert (here, there) in ends, filters
            assert (there, here) in ends, filters
        mine = next(each for each in found if tuple(each["local"]) == here)
        assert (mine["pid"], mine["process"], mine["state"]) == (os.getpid(), name, "established")
        assert mine["fields"]["snd_mss_bytes"] > 0
        table = weir("tcp", "list", "--port", here[1])
        assert f"127.0.0.1:{here[1]}" in table.out
        assert weir("tcp", "list", "--port", here[1], "--state", "listen", "--json").json["connections"] == []


def test_every_sample_is_a_line_and_the_result_the_last(weir: Weir) -> None:
    with connection() as (client, _):
        port = client.getsockname()[1]
        answer = weir(
            *("tcp", "watch", f":{port}", "--every", "1ms", "--duration", "10ms", "--json"),
            *("--fields", "rtt,state"),
        )
    assert answer.code == 0, answer.err
    *samples, result = answer.lines
    assert result["kind"] == "tcp watch"
    assert result["samples"] == len(samples) > 0
    assert {each["kind"] for each in samples} == {"tcp watch sample"}
    assert all(each["state"] == 1 and "rtt_us" in each and "snd_cwnd" not in each for each in samples)


def test_a_table_ends_a_watch(weir: Weir, tmp_path: Path) -> None:
    with connection() as (client, server):
        transfer(client, server)
        port = client.getsockname()[1]
        answer = weir(
            *("tcp", "watch", f":{port}", "--every", "1ms", "--duration", "10ms"),
            *("--out", tmp_path / "x.parquet"),
        )
        of_file = weir(
            "tcp", "watch", f":{port}", "--duration", "1ms", "--out", tmp_path / "x.parquet", "--json"
        )
    assert answer.code == 0, answer.err
    assert of_file.json["kind"] == "tcp watch", "the samples are in the file"
    assert "2 connections; 0 watched from before the first data, 0 until they ended." in answer.out
    assert (tmp_path / "x.parquet").exists()


def test_a_field_that_bpf_does_not_tell_chooses_inet_diag(weir: Weir) -> None:
    with connection() as (client, _):
        asked = (
            "tcp", "watch", f":{client.getsockname()[1]}", "--duration", "1ms", "--by", "auto", "--json",
            "--fields",
        )  # fmt: skip
        answer = weir(*asked, "rtt,timer,ato")
        result = answer.lines[-1]
    assert answer.code == 0, answer.err
    assert (result["sampled_by"], result["absent_fields"]) == (INET_DIAG, [])
    assert result["why_not_bpf"] == "BPF does not report timer, ato_us"
    assert "samples every 100 ms by INET_DIAG" in result["conclusion"]
    assert "locks, was used: BPF does not report timer, ato_us." in result["conclusion"]


def test_what_cannot_be_watched_is_told(weir: Weir, free_port: int, tmp_path: Path) -> None:
    for arguments, told in [
        ((f"127.0.0.1:{free_port}",), "no connection matches"),
        ((), "CONNECTION is missing"),
        (("1.2.3.4:99999",), "CONNECTION"),
        ((":443", "--every", "1us"), "--every"),
        ((":443", "--by", "magic"), "expected auto, bpf, inet-diag"),
        ((":443", "--by", "bpf", "--events"), "--by and --events exclude each other"),
        ((":443", "--fields", "nosuch"), "nosuch"),
        ((":443", "--out", tmp_path / "x.json"), ".parquet or .csv"),
        ((":443", "--out", tmp_path / "no" / "x.csv"), "there is no folder"),
        (("99999999",), "no process"),
    ]:
        answer = weir("tcp", "watch", *arguments)
        assert (answer.code, told in answer.err) == (2, True), answer.err


def test_filters_of_a_list_are_checked(weir: Weir) -> None:
    for arguments in (("--state", "nosuch"), ("--address", "nowhere")):
        answer = weir("tcp", "list", *arguments)
        assert answer.code == 2
        assert arguments[1] in answer.err


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_duration_ends_waiting_and_leaves_an_empty_table(
    weir: Weir, free_port: int, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"none.{suffix}"
    answer = weir(
        "tcp",
        "watch",
        f":{free_port}",
        "--wait",
        "--duration",
        "1ms",
        "--json",
        "--out",
        out,
        "--fields",
        "rtt",
    )
    assert answer.code == 0, answer.err
    assert answer.json["conclusion"] == "No connection appeared."
    frame = pl.read_parquet(out) if suffix == "parquet" else pl.read_csv(out)
    assert (frame.columns, len(frame)) == (["time_ns", "connection", "local", "remote", "rtt_us"], 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4711", {"pid": 4711}),
        ("iperf3", {"program": "iperf3"}),
        ("a-name-that-is-too-long", {"program": "a-name-that-is-"}),
    ],
)
def test_processes_and_programs_are_told_from_ends(text: str, expected: dict[str, Any]) -> None:
    assert connections.parse(text) == connections.ConnectionFilter(**expected)


def test_ends_are_read_as_elsewhere() -> None:
    one, other = connections.parse("10.0.0.1:40000-[2001:db8::1]:443").ends
    assert (one.addr, one.port, other.addr, other.port) == ("10.0.0.1", 40000, "2001:db8::1", 443)
    for text in ("", "1.2.3.4:", "-", ":0"):
        with pytest.raises(InputError):
            connections.parse(text)
