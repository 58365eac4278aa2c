"""The server: who may use it, and whom it survives."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from weirlab import _engine
from weirlab.base.errors import MissingCapability, TrialError
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.settings import TransferSettings

from ...conftest import Weir
from .conftest import DEADLINE_S, Served
from .test_sending import AtFirst

Serve = Callable[..., Served]


@contextmanager
def process(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """``weir tcp serve`` as a process of its own, and its port."""
    command = [sys.executable, "-m", "weirlab", "tcp", "serve", "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server, json.loads(server.stdout.readline())["port"]
        finally:
            server.kill()


def test_ctrl_c_ends_a_server_in_good_order(weir: Weir) -> None:
    with process() as (server, port):
        assert weir("tcp", "send", "127.0.0.1", "--port", port, "--bytes", "1MB").code == 0
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=DEADLINE_S)
    assert server.returncode == 0, err
    *events, account = map(json.loads, out.splitlines())
    assert [each["kind"] for each in events] == ["tcp serve began", "tcp serve ended"]
    assert (account["kind"], account["transfers"], account["received_bytes"]) == ("tcp serve", 1, 1_000_000)


def test_a_server_leaves_after_as_many_transfers_as_asked(weir: Weir) -> None:
    with process("--transfers", "1") as (server, port):
        assert weir("tcp", "send", "127.0.0.1", "--port", port, "--bytes", "1MB").code == 0
        server.communicate(timeout=DEADLINE_S)
    assert server.returncode == 0


def test_a_server_that_dies_is_noticed() -> None:
    with process() as (server, port), Stop() as stop:

        def kill() -> None:
            os.kill(server.pid, signal.SIGKILL)

        settings = TransferSettings("127.0.0.1", port, interval_s=0.001, lasts_s=1000)
        with pytest.raises(TrialError, match="the server went away after"):
            ends.send(settings, AtFirst(kill), stop)


def test_a_client_that_dies_does_not_keep_its_place(weir: Weir, serve: Serve) -> None:
    served = serve(most_clients=1)
    command = [sys.executable, "-m", "weirlab", "tcp", "send", "127.0.0.1", "--port", str(served.port)]
    with subprocess.Popen([*command, "--forever"], stderr=subprocess.DEVNULL) as client:
        try:
            served.wait_for("began")
        finally:
            client.kill()
    assert served.wait_for("ended")["failure"] != ""
    assert weir("tcp", "send", "127.0.0.1", "--port", served.port, "--bytes", "1MB").code == 0


def test_garbage_is_told_once_and_survived(weir: Weir, serve: Serve) -> None:
    served = serve()
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b"WEIRTCP\x05" + bytes(24), bytes(4096)):
        with socket.create_connection(("127.0.0.1", served.port)) as stranger:
            stranger.sendall(garbage)
            stranger.settimeout(DEADLINE_S)
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b"", "the server hangs up"
    assert served.wait_for("garbage")["peer"] == ("127.0.0.1", None)
    assert weir("tcp", "send", "127.0.0.1", "--port", served.port, "--bytes", "1MB").code == 0
    ended = []
    while not ended:
        event = served.server.next_event(0.1)
        assert event is None or event["event"] != "garbage", "told once"
        ended += [event] if event is not None and event["event"] == "ended" else []


def test_a_request_that_nobody_can_carry_out_is_garbage_too(serve: Serve) -> None:
    served = serve()
    with socket.create_connection(("127.0.0.1", served.port)) as stranger:
        stranger.settimeout(DEADLINE_S)
        stranger.sendall(b"WEIRTCP\x04" + bytes(24))
        assert len(stranger.recv(8 + 33, socket.MSG_WAITALL)) == 41, "a challenge"
        stranger.sendall(b"\x02\x00\x00\x00\xff\xff\xff\xff")
        assert stranger.recv(1) == b""
    assert "512" in served.wait_for("garbage")["why"]


def test_a_token_is_needed_proved_and_checked(weir: Weir, serve: Serve) -> None:
    served = serve(token="open sesame, open")
    to = ("tcp", "send", "127.0.0.1", "--port", served.port, "--bytes", "1kB")
    assert weir(*to, "--token", "open sesame, open").code == 0
    wrong, none = weir(*to, "--token", "sesame"), weir(*to)
    assert (wrong.code, none.code) == (5, 2)
    assert "token is wrong" in wrong.err
    assert "--token" in none.err
    assert weir(*to, "--token", "sesame").code == 5
    events = [served.wait_for("refused")["why"] for _ in range(2)]
    assert sorted(events) == ["it sent no request", "the token is wrong"]
    assert weir(*to, "--token", "open sesame, open").code == 0
    served.wait_for("ended")
    assert served.refused == [], "each is told once, as anybody can repeat it"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_hosts_need_a_token(weir: Weir, address: str) -> None:
    answer = weir("tcp", "serve", "--bind", address, "--port", 0)
    assert answer.code == 2
    assert "--token" in answer.err


def test_a_port_in_use_is_told(weir: Weir, serve: Serve) -> None:
    answer = weir("tcp", "serve", "--port", serve().port)
    assert answer.code == 4
    assert "in use" in answer.err


def test_a_server_that_says_nothing_is_given_up_and_the_message_names_another_way(weir: Weir) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = weir("tcp", "measure", "127.0.0.1", "--port", silent.getsockname()[1])
    assert answer.code == 4
    assert "weir tcp why" in answer.err


def test_nobody_there_and_somebody_else_there(weir: Weir, free_port: int) -> None:
    refused = weir("tcp", "send", "127.0.0.1", "--port", free_port)
    assert refused.code == 4
    assert "weir tcp serve" in refused.err
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        # It is not asked before the client has said its first bytes, and hangs up then.
        client = subprocess.Popen(
            [sys.executable, "-m", "weirlab", "tcp", "send", "127.0.0.1", "--port", str(port)],
            stderr=subprocess.PIPE,
            text=True,
        )
        accepted, _ = other.accept()
        with accepted:
            accepted.recv(32, socket.MSG_WAITALL)
            accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        _, err = client.communicate(timeout=DEADLINE_S)
    assert client.returncode == 4
    assert "does not answer as a Weir server does" in err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--congestion", "nosuchthing"), "TCP_CONGESTION=nosuchthing"),
        (("--option", "6:11=1"), "refuses the socket option 6:11=1"),
        (("--option", "TCP_NOSUCH=1"), "no socket option TCP_NOSUCH"),
        (("--option", "TCP_NODELAY"), "NAME=VALUE"),
        (("--option", "TCP_NODELAY=x y z and much more"), "neither a number nor a name"),
        (("--bytes", "10"), "fewer bytes"),
        (("--block", "10"), "--block"),
        (("--block", "4MiB", "--connections", "17"), "64 MiB in all"),
        (("--interval", "1us"), "--interval"),
        (("--duration", "1s", "--bytes", "1MB"), "exclude each other"),
        (("--reverse", "--bidir"), "exclude each other"),
        (("--every-block",), "--json"),
        (("--local-port", "65535", "--connections", "2"), "--local-port"),
        (("--bind", "nowhere"), "--bind"),
        (("--bind", "203.0.113.1"), "203.0.113.1"),
        (("--fields", "nosuch"), "nosuch"),
        (("--rate", "fast"), "fast"),
        (("--reverse", "--read-rate", "fast"), "fast"),
        (("--reverse", "--read-pause", "2s"), "--read-pause 2s: give its beginning"),
        (("--reverse", "--read-pause", "2s,often"), "often"),
        (("--read-pause", "2s,1s"), "give --reverse or --bidir"),
        (("--read-rate", "1Mbit/s"), "give --reverse or --bidir"),
    ],
)
def test_bad_options_are_told(weir: Weir, serve: Serve, options: tuple[str, ...], told: str) -> None:
    answer = weir("tcp", "send", "127.0.0.1", "--port", serve().port, *options)
    assert answer.code in (2, 4), answer.err
    assert told in answer.err


def test_a_server_that_may_not_record_does_not_start_and_says_what_to_do(
    weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**wanted: object) -> object:
        assert wanted["capture"] is not None
        raise MissingCapability("cannot use packet sockets on lo (needs CAP_NET_RAW): not permitted")

    monkeypatch.setattr(_engine, "TcpServer", refused)
    answer = weir("tcp", "serve", "--port", "0", "--allow-capture", "--capture-bytes", "20MB")
    assert answer.code == 3
    assert "--allow-capture: cannot use packet sockets on lo" in answer.err
    assert "run as root, or leave it out" in answer.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--capture-interface", "eth0"), "has no effect without --allow-capture"),
        (("--allow-capture", "--capture-bytes", "much"), "--capture-bytes"),
        (("--allow-capture", "--capture-time", "long"), "--capture-time"),
    ],
)
def test_limits_of_captures_that_are_not_understood_are_refused(
    weir: Weir, options: tuple[str, ...], told: str
) -> None:
    answer = weir("tcp", "serve", "--port", "0", *options)
    assert answer.code == 2
    assert told in answer.err
