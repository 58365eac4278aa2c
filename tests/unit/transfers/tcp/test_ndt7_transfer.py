"""Tests by ndt7 over loopback, between both ends of our own and hostile ones."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.transfers.tcp import ndt7
from weirlab.transfers.tcp.ndt7 import client, messages
from weirlab.transfers.tcp.ndt7.messages import BINARY, CLOSE, FrameReader, Test, header, message
from weirlab.transfers.tcp.ndt7.transfer import Ndt7Transfer, TransferPlan
from weirlab.transfers.tcp.settings import TransferSettings

SHORT_S = 0.3
KEY = b"abcd"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Of one connection: the client's and the server's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            yield client, server


def events(transfer: Ndt7Transfer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not found or found[-1]["event"] != "done":
        event = transfer.next_event(60)
        assert event is not None
        found.append(event)
    return found


@pytest.mark.parametrize("test", ["download", "upload"])
def test_both_ends_agree_on_what_was_moved_and_know_the_other_kernel(
    ends: tuple[socket.socket, socket.socket], test: Test
) -> None:
    server = Ndt7Transfer(ends[1], TransferPlan(test, serves=True, lasts_s=SHORT_S, uuid="its name"))
    client = Ndt7Transfer(ends[0], TransferPlan(test, serves=False, lasts_s=SHORT_S))
    ours, theirs = events(client), events(server)
    assert client.uuid == "its name"
    for found in (ours, theirs):
        assert [each["event"] for each in found[:2]] == ["started", "begun"]
        done = found[-1]
        assert not done["client"][0]["failure"]
        assert not done["server"][0]["failure"]
        assert {each["of_server"] for each in found if each["event"] == "interval"} == {True, False}
    written, read = theirs[-1]["server"][0]["bytes"], ours[-1]["client"][0]["bytes"]
    if test == "upload":
        written, read = ours[-1]["client"][0]["bytes"], theirs[-1]["server"][0]["bytes"]
    assert read > 1_000_000
    # Headers of messages and measurements count at the end that writes.
    assert read == pytest.approx(written, rel=0.01)


def test_a_limit_of_bytes_ends_it_in_good_order(ends: tuple[socket.socket, socket.socket]) -> None:
    server = Ndt7Transfer(ends[1], TransferPlan("download", serves=True, most_bytes=100_000))
    client = Ndt7Transfer(ends[0], TransferPlan("download", serves=False))
    done = events(server)[-1]
    assert done["stopped"]
    assert 90_000 < done["server"][0]["bytes"] < 1_000_000
    assert not events(client)[-1]["client"][0]["failure"]


def test_a_request_to_stop_ends_it_in_good_order(ends: tuple[socket.socket, socket.socket]) -> None:
    server = Ndt7Transfer(ends[1], TransferPlan("upload", serves=True))
    client = Ndt7Transfer(ends[0], TransferPlan("upload", serves=False))
    client.stop()
    assert events(client)[-1]["stopped"]
    assert not events(server)[-1]["server"][0]["failure"]


def test_the_server_closes_first_and_says_farewell(ends: tuple[socket.socket, socket.socket]) -> None:
    server = Ndt7Transfer(ends[1], TransferPlan("download", serves=True, most_bytes=10_000))
    reader, found = FrameReader(masked=False), list[tuple[int, bytes]]()
    while not found or found[-1][0] != CLOSE:
        found += reader.take(memoryview(ends[0].recv(65_536)))
    assert found[-1] == (CLOSE, (1000).to_bytes(2, "big"))
    ends[0].sendall(message(CLOSE, b"\x03\xe8", KEY))
    assert ends[0].recv(1) == b""
    assert not events(server)[-1]["server"][0]["failure"]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (header(BINARY, 4, KEY) + b"load", "data came from the end that only receives"),
        (b"GET / HTTP/1.1\r\n\r\n", "masked wrongly"),
        (b"", "connection lost"),
    ],
)
def test_a_hostile_or_lost_client_ends_only_its_own_test(
    ends: tuple[socket.socket, socket.socket], sent: bytes, why: str
) -> None:
    server = Ndt7Transfer(ends[1], TransferPlan("download", serves=True))
    ends[0].sendall(sent)
    ends[0].shutdown(socket.SHUT_WR)
    assert why in events(server)[-1]["server"][0]["failure"]


def test_a_name_that_cannot_be_one_is_told() -> None:
    with pytest.raises(InputError, match=r"a\.\.b has no address"):
        client.connect(ndt7.of(TransferSettings("ws://a..b", up=0, down=1)))


@pytest.mark.parametrize("up", [False, True], ids=["download", "upload"])
def test_the_client_speaks_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, up: bool) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
    ]  # fmt: skip
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked = TransferSettings(
            f"wss://localhost:{listener.getsockname()[1]}", up=int(up), down=int(not up), lasts_s=SHORT_S
        )

        def serve() -> None:
            # The first client does not trust the certificate.
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(listener.accept()[0], server_side=True)
            connection = context.wrap_socket(listener.accept()[0], server_side=True)
            head = connection.recv(4096).decode()
            (found,) = (
                line.split(": ")[1] for line in head.split("\r\n") if line.startswith("Sec-WebSocket-Key")
            )
            lines = ("HTTP/1.1 101 Switching Protocols", f"Sec-WebSocket-Accept: {client.accept(found)}")
            answer = (*lines, f"Sec-WebSocket-Protocol: {messages.PROTOCOL}", "", "")
            connection.sendall("\r\n".join(answer).encode())
            events(Ndt7Transfer(connection, TransferPlan("upload" if up else "download", serves=True)))

        server = threading.Thread(target=serve)
        server.start()
        with pytest.raises(LabError, match="its certificate is not valid"):
            client.connect(ndt7.of(asked))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        done = events(client.connect(ndt7.of(asked)))[-1]
        server.join()
    assert not done["client"][0]["failure"]
    assert done["client"][0]["bytes"] > 100_000
