"""Parallel sockets: what is sent is received, and what cannot be is said."""

from __future__ import annotations

import hashlib
import json
import queue
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import pytest

from weirlab._engine import ParallelListener, ParallelSocket, psock_limits
from weirlab.base.errors import InputError, LabError, TrialError
from weirlab.transfers.psock import copying, options
from weirlab.transfers.psock.options import SessionOptions, StreamOptions

from .conftest import Receiver, Weir

HOW = SessionOptions().how().plain()
DEADLINE_S = 60.0
"""How long something that is sure to happen may take on a busy machine."""


def _connected(listener: ParallelListener) -> tuple[ParallelSocket, ParallelSocket]:
    client = ParallelSocket.connect([(None, *listener.addresses[0])] * 2, HOW)
    while (accepted := listener.accept(0.1)) is None:
        pass
    return client, accepted[0]


def test_a_file_arrives_as_it_is_and_the_result_accounts_for_it(
    weir: Weir, receiver: Callable[..., Receiver], tmp_path: Path
) -> None:
    data = random.Random(5).randbytes(3_000_001)
    path = tmp_path / "data.bin"
    path.write_bytes(data)
    to = receiver(token="a token of tests")
    answer = weir(
        "psock", "send", "127.0.0.1", path, "--port", to.port, "--token", "a token of tests", "--json"
    )
    assert answer.code == 0, answer.err
    served = to.ended()
    assert bytes(to.data) == data
    found = answer.json
    assert (found["kind"], found["data_bytes"], found["scheduler"]) == ("psock send", len(data), "earliest")
    assert found["sha256"] == found["receiver"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert sum(each["sent_bytes"] for each in found["streams"]) == len(data) + found["resent_bytes"]
    assert found["throughput_bps"] == pytest.approx(len(data) * 8 / found["seconds"])
    assert (served.transfers, served.broken_off, served.received_bytes) == (1, 0, len(data))
    assert sum(each["received_bytes"] for each in served.sessions[0].report["streams"]) >= len(data)


@pytest.mark.parametrize("scheduler", get_args(options.Scheduler))
def test_standard_input_is_sent_with_every_scheduler_and_shown_as_a_table(
    weir: Weir, receiver: Callable[..., Receiver], scheduler: str
) -> None:
    to = receiver()
    answer = weir(
        *("psock", "send", "127.0.0.1", "--port", to.port, "--scheduler", scheduler, "--streams", "3"),
        *("--memory", "64KiB", "--block", "1000", "--congestion", "reno"),
        standard_input=b"0123456789" * 30_000,
    )
    assert answer.code == 0, answer.err
    assert to.ended().received_bytes == 300_000
    assert bytes(to.data) == b"0123456789" * 30_000
    assert "300 kB in " in answer.out
    assert f"with the scheduler {scheduler}." in answer.out
    assert "ended early" not in answer.out
    assert "Streams" in answer.out
    assert "127.0.0.1:" in answer.out
    assert all(len(line) <= 80 for line in answer.out.partition("\n\n")[2].splitlines())


def test_a_receiver_writes_the_file_and_says_where_it_listens(tmp_path: Path) -> None:
    path = tmp_path / "copy.bin"
    command = ("psock", "serve", "--port", "0", "--transfers", "1", "--out", str(path), "--json")
    with subprocess.Popen(
        [sys.executable, "-m", "weirlab", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        assert server.stdout is not None
        said = server.stderr.readline()
        port = int(said.split(";")[0].rpartition(":")[2])
        how = SessionOptions().how()
        made = copying.connect([[(None, "127.0.0.1", port)] * 2], how)
        sent = copying.send(made, copying.made_up(1_000_000), "here")
        result = json.loads(server.stdout.read())
    assert server.returncode == 0
    assert path.read_bytes() == b"".join(copying.made_up(1_000_000))
    assert sent.account is not None
    assert sent.account.received_bytes == 1_000_000
    assert (result["transfers"], result["received_bytes"]) == (1, 1_000_000)
    assert result["sessions"][0]["sha256"] == sent.sha256
    assert result["conclusion"] == "1 session, 1.00 MB received."


@pytest.mark.parametrize("answer", [b"", b"thanks", b'{"sha256": 7}', b"[" * 60_000], ids=len)
def test_an_answer_that_is_no_account_is_none(answer: bytes) -> None:
    listener = ParallelListener([("127.0.0.1", 0)], HOW)
    client, server = _connected(listener)
    server.write_all(answer)
    server.finish()
    assert copying.send(client, iter([b"data"]), "here").account is None


def test_a_receiver_writes_to_standard_output_and_talks_on_standard_error(weir: Weir) -> None:
    command = ("psock", "serve", "--port", "0", "--transfers", "1", "--out", "-")
    with subprocess.Popen(
        [sys.executable, "-m", "weirlab", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stderr is not None
        port = int(server.stderr.readline().split(b";")[0].rpartition(b":")[2])
        made = copying.connect([[(None, "127.0.0.1", port)]], SessionOptions().how())
        sent = copying.send(made, iter([b"\x00\xff" * 1000]), "here")
        out, said = server.communicate()
    assert server.returncode == 0
    assert out == b"\x00\xff" * 1000
    assert sent.account is not None
    assert b"1 session, 2.00 kB received." in said
    answer = weir(*command, "--json")
    assert answer.code == InputError.exit_code
    assert "exclude each other" in answer.err


def test_a_session_that_breaks_off_is_counted_and_says_why(receiver: Callable[..., Receiver]) -> None:
    to = receiver()
    client = ParallelSocket.connect([(None, "127.0.0.1", to.port)], HOW)
    client.write_all(b"half")
    client.abort()
    served = to.ended()
    assert (served.transfers, served.broken_off) == (1, 1)
    assert "closed before all data" in served.sessions[0].failure
    assert "broken off" in to.told[-1]
    with pytest.raises(TrialError, match="closed before all data"):
        client.write_all(b"more")


def test_another_token_is_refused(weir: Weir, receiver: Callable[..., Receiver]) -> None:
    to = receiver(token="the right one of all")
    answer = weir("psock", "send", "127.0.0.1", "--bytes", "1kB", "--port", to.port, "--token", "wrong")
    assert answer.code == InputError.exit_code
    assert "secrets of both ends differ" in answer.err
    assert "--token" in answer.err


def test_nobody_there_is_said(weir: Weir) -> None:
    with socket.socket() as silent:
        # Bound, so that nobody else gets the port, and not listening.
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        answer = weir("psock", "send", "127.0.0.1", "--bytes", "1kB", "--port", port)
    assert answer.code == LabError.exit_code
    assert f"cannot connect to 127.0.0.1:{port}" in answer.err


@dataclass
class PlainServer:
    """Answers every connection as a mail server would, and keeps what comes on it until its end."""

    port: int
    thread: threading.Thread
    came: queue.SimpleQueue[bytes] = field(default_factory=queue.SimpleQueue)


@pytest.fixture
def plain_server() -> Iterator[PlainServer]:
    """A server that speaks no psock."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, suppress(ConnectionError):
                    connection.sendall(b"220 mail.example\r\n")
                    mine.came.put(connection.makefile("rb").read())

        mine = PlainServer(listening.getsockname()[1], threading.Thread(target=serve))
        mine.thread.start()
        yield mine
        # Wakes who waits in accept().
        listening.shutdown(socket.SHUT_RDWR)
        mine.thread.join()


def test_a_receiver_without_the_protocol_is_named_and_plain_tcp_is_used_where_wanted(
    weir: Weir, plain_server: PlainServer, tmp_path: Path
) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"0123456789" * 10_000)
    send = ("psock", "send", "127.0.0.1", path, "--port", plain_server.port)
    answer = weir(*send)
    assert answer.code == LabError.exit_code
    said = " ".join(answer.err.split())
    assert "speaks another protocol, no psock" in said
    assert "--fallback uses plain TCP" in said
    answer = weir(*send, "--fallback", "--json")
    assert answer.code == 0, answer.err
    found = answer.json
    assert (found["plain"], found["receiver"], found["data_bytes"]) == (True, None, 100_000)
    assert found["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [each["sent_bytes"] for each in found["streams"]] == [100_000]
    assert "over plain TCP, since the receiver does not speak psock" in found["conclusion"]
    # Behind what was greeted in vain. It may be read a moment after the sender is done.
    while plain_server.came.get(timeout=DEADLINE_S) != path.read_bytes():
        pass
    answer = weir(*send, "--fallback", "--token", "secret")
    assert answer.code == InputError.exit_code
    assert "exclude each other" in answer.err


def test_streams_that_share_one_connections_rate_carry_everything(
    weir: Weir, receiver: Callable[..., Receiver]
) -> None:
    to = receiver()
    answer = weir("psock", "send", "127.0.0.1", "--bytes", "2MB", "--port", to.port, "--fair", "--json")
    assert answer.code == 0, answer.err
    assert to.ended().received_bytes == 2_000_000
    assert answer.json["plain"] is False


def test_every_block_goes_over_every_stream_where_urgent(
    weir: Weir, receiver: Callable[..., Receiver]
) -> None:
    to = receiver()
    answer = weir(
        *("psock", "send", "127.0.0.1", "--bytes", "64kB", "--port", to.port),
        *("--scheduler", "redundant", "--streams", "2", "--json"),
    )
    assert answer.code == 0, answer.err
    found = answer.json
    # As far as the other stream was there in time, and the first copy had not arrived.
    assert 0 <= found["resent_bytes"] <= 64_000
    assert sum(each["sent_bytes"] for each in found["streams"]) == 64_000 + found["resent_bytes"]
    assert to.ended().received_bytes == 64_000


def test_nothing_is_sent_before_all_streams_work_where_they_are_waited_for(
    weir: Weir, receiver: Callable[..., Receiver]
) -> None:
    to = receiver()
    answer = weir(
        *("psock", "send", "127.0.0.1", "--bytes", "1kB", "--port", to.port),
        *("--streams", "3", "--wait-for-paths", "--json"),
    )
    assert answer.code == 0, answer.err
    assert len(answer.json["streams"]) == 3
    assert to.ended().received_bytes == 1000


def test_ctrl_c_interrupts_a_connection_to_a_silent_host() -> None:
    # A listener that nobody accepts from, and whose backlog is full.
    with socket.socket() as silent, socket.socket() as full:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        full.connect(silent.getsockname())
        routes = [(None, *silent.getsockname())] * 3
        before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))

        def connect() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            ParallelSocket.connect(routes, HOW)

        try:
            with pytest.raises(KeyboardInterrupt):
                connect()
        finally:
            signal.signal(signal.SIGALRM, before)


def test_an_application_can_wait_for_one_descriptor() -> None:
    listener = ParallelListener([("127.0.0.1", 0)], HOW)
    client, server = _connected(listener)
    assert select.select([server], [client], [], 0) == ([], [client], [])
    assert server.read(100, 0.0) is None
    assert client.write(b"hello", 0.0) == 5
    assert select.select([server], [], [], 60)[0] == [server]
    assert server.read(100, 0.0) == b"hello"
    client.finish()
    assert not client.close(0.0)
    assert server.read(100) == b""
    assert server.close()
    assert client.close()
    assert client.delivered()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--bytes", "1kB", "--block", "1MiB"), "--block 1MiB: 1 to 65,536 bytes"),
        (("--bytes", "1kB", "--memory", "1kB"), "--memory 1kB: 4,096 to"),
        (("--bytes", "1kB", "--path", ","), "names no address"),
        (("--bytes", "1kB", "--path", "nowhere"), "is not an IP address"),
        (("--bytes", "1kB", "--path", "192.0.2.1,2001:db8::1"), "one end is IPv4 and the other IPv6"),
        (("--bytes", "1kB", "--path", "2001:db8::1"), "has no IPv6 address"),
        (("--bytes", "1kB", "--path", "192.0.2.1"), "the local address 192.0.2.1 cannot be used"),
        (("--bytes", "1kB", "--option", "NOSUCH=1"), "there is no socket option NOSUCH"),
        (("--bytes", "1kB", "--option", "TCP_NODELAY"), "accepted are NAME=VALUE"),
        (("--bytes", "1kB", "file"), "exclude each other"),
        (("--bytes", "1kB", "--streams", "40", "--path", "192.0.2.1", "--path", "192.0.2.2"), "64 streams"),
    ],
)
def test_what_cannot_be_is_refused(weir: Weir, arguments: tuple[str, ...], words: str) -> None:
    answer = weir("psock", "send", "127.0.0.1", *arguments)
    assert answer.code == InputError.exit_code
    assert words in " ".join(answer.err.split())


def test_a_receiver_that_others_can_reach_needs_a_token(weir: Weir, tmp_path: Path) -> None:
    answer = weir("psock", "serve", "--bind", "0.0.0.0", "--port", "0")
    assert answer.code == InputError.exit_code
    assert "needs a token" in answer.err
    answer = weir("psock", "serve", "--token", "fifteen letters", "--port", "0")
    assert (answer.code, "15 bytes can be guessed" in answer.err) == (InputError.exit_code, True)
    answer = weir("psock", "serve", "--out", tmp_path / "x")
    assert answer.code == InputError.exit_code
    assert "--transfers 1" in answer.err


def test_paths_take_turns_and_know_their_ends() -> None:
    paths = StreamOptions(path=["127.0.0.2", ",127.0.0.3", "127.0.0.4,127.0.0.5"]).paths()
    [found] = copying.routes("127.0.0.1", 7, paths, 2)
    once = [("127.0.0.2", "127.0.0.1", 7), (None, "127.0.0.3", 7), ("127.0.0.4", "127.0.0.5", 7)]
    assert found == once * 2
    assert copying.routes("127.0.0.1", 7, [], 2) == [[(None, "127.0.0.1", 7)] * 2]
    with pytest.raises(InputError, match="not known"):
        copying.routes("a host.invalid", 7, [], 1)


def test_the_help_says_what_the_engine_does() -> None:
    limits = psock_limits()
    usual = SessionOptions().how()
    assert limits == {
        "port": options.PORT,
        "schedulers": list(get_args(options.Scheduler)),
        "most_streams": options.MOST_STREAMS,
        "most_block_bytes": 64 << 10,
        "block_bytes": usual.block_bytes,
        "memory_bytes": usual.memory_bytes,
        "memory_limits_bytes": (4096, 1 << 30),
        "unsent_bytes": usual.unsent_bytes,
        "lost_ns": round(usual.lost_s * 1e9),
    }
