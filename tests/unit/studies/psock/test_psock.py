"""Parallel sockets: what is sent is received, and what cannot be is said."""

from __future__ import annotations

import hashlib
import json
import random
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from weirlab._engine import ParallelListener, ParallelSocket, psock_limits
from weirlab.errors import InputError, LabError, TrialError
from weirlab.studies.psock import copying, options
from weirlab.studies.psock.options import SessionOptions, StreamOptions

from .conftest import Receiver, Weir

HOW = SessionOptions().how().plain()


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
    to = receiver(token="a token")
    answer = weir("psock", "send", "127.0.0.1", path, "--port", to.port, "--token", "a token", "--json")
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
        [sys.executable, "-m", "weirlab", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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
    to = receiver(token="right")
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
        (("--bytes", "1kB", "--path", "nowhere"), "no IP address"),
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
