"""``weir psock run --by seccomp`` over two addresses of loopback: neither root nor namespaces are needed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

from weirlab._engine import ParallelProxy
from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.transfers.psock import redirecting
from weirlab.transfers.psock.options import SessionOptions, StreamOptions
from weirlab.transfers.psock.redirecting import SECCOMP

DATA: Final = random.Random(5).randbytes(1_000_000)
HASH: Final = hashlib.sha256(DATA).hexdigest()
LOOPBACKS: Final = ("127.0.0.1", "127.0.0.2")
SHARE_BYTES: Final = 20_000
"""Of each path, at least: more than it carries without data."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[ParallelProxy]:
    how = SessionOptions().how(StreamOptions(scheduler="round-robin")).plain()
    (way,) = (found for found in redirecting.findings() if found.name.endswith(SECCOMP))
    if not way.ok:
        pytest.skip(way.detail)
    made = None
    for _ in range(100):
        # Both paths lead to one port; somebody else may have it at one of the addresses.
        with socket.create_server(("0.0.0.0", 0)) as free:
            port = free.getsockname()[1]
        with suppress(LabError):
            made = ParallelProxy([(each, port) for each in LOOPBACKS], how, allow=["127.0.0.0/8"], most=8)
            break
    assert made is not None
    yield made
    made.stop()


@contextmanager
def _listening(work: Callable[[socket.socket], None]) -> Iterator[int]:
    """A destination; ``work`` gets its first connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)

    def serve() -> None:
        with listener, listener.accept()[0] as stream:
            work(stream)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join()


def _command(proxy: ParallelProxy, only: int, *words: object, by: str = "seccomp") -> list[str]:
    (first, port), _ = proxy.addresses
    paths = [word for each in LOOPBACKS for word in ("--path", f"{each},{each}")]
    given = ["--via", f"{first}:{port}", *paths, "--streams", "1", "--scheduler", "round-robin"]
    own = [sys.executable, "-m", "weirlab", "psock", "run", *given, "--wait-for-paths", "--json"]
    return [*own, *(["--by", by] if by else []), "--only", f"127.0.0.1:{only}", "--", *map(str, words)]


def _run(proxy: ParallelProxy, only: int, *words: object, **options: Any) -> tuple[dict[str, Any], str]:
    """The result, and what the program and the command said."""
    command = _command(proxy, only, *words, **options)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.stderr


def _both_paths_carried(found: dict[str, Any], direction: str) -> None:
    carried = {path["local"]: path[direction] for path in found["paths"]}
    assert set(carried) == set(LOOPBACKS)
    assert min(carried.values()) > SHARE_BYTES, carried


def test_curl_downloads_over_two_paths_without_privileges(proxy: ParallelProxy) -> None:
    if (curl := programs.find("curl")) is None:
        pytest.skip("curl is not installed")

    def serve(stream: socket.socket) -> None:
        asked = b""
        while b"\r\n\r\n" not in asked:
            asked += stream.recv(1 << 16)
        stream.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(DATA) + DATA)

    with _listening(serve) as port:
        script = f"{curl} -sS http://127.0.0.1:{port}/ | sha256sum; grep NoNewPrivs /proc/self/status"
        found, said = _run(proxy, port, "sh", "-c", script)
    assert HASH in said
    assert said.split()[-1] == "1"
    assert (found["exit_code"], found["by"], found["connections"], found["failed"]) == (0, "seccomp", 1, 0)
    assert found["last"][0]["to"] == f"127.0.0.1:{port}"
    _both_paths_carried(found, "received_bytes")


PROGRAM: Final = """
import os, select, socket, sys
port, amount = map(int, sys.argv[1:])
made = socket.socket()
made.setblocking(False)
assert made.connect_ex(("127.0.0.1", port)) == 115
poll = select.poll()
poll.register(made, select.POLLOUT)
assert poll.poll() == [(made.fileno(), select.POLLOUT)]
assert made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert made.getpeername() == ("127.0.0.1", port)
if os.fork() == 0:
    copy = socket.socket(fileno=os.dup(made.fileno()))
    copy.setblocking(True)
    assert not os.get_inheritable(copy.fileno())
    copy.sendall(bytes(amount))
    copy.shutdown(socket.SHUT_WR)
    print(copy.recv(100).decode(), file=sys.stderr)
    os._exit(0)
"""


def test_a_connection_that_does_not_wait_is_used_by_a_child_that_outlives_its_parent(
    proxy: ParallelProxy,
) -> None:
    received = []

    def take(stream: socket.socket) -> None:
        amount = 0
        while data := stream.recv(1 << 16):
            amount += len(data)
        received.append(amount)
        stream.sendall(b"all is there")

    with _listening(take) as port:
        found, said = _run(proxy, port, sys.executable, "-c", PROGRAM, port, len(DATA))
    assert found["exit_code"] == 0, said
    assert received == [len(DATA)]
    assert "all is there" in said
    _both_paths_carried(found, "sent_bytes")


FAILING: Final = """
import socket, sys
for port in map(int, sys.argv[1:]):
    try:
        socket.create_connection(("127.0.0.1", port))
        sys.exit("connected")
    except ConnectionRefusedError:
        pass
"""


def test_a_destination_that_refuses_is_a_refusal_and_others_are_left_alone(proxy: ParallelProxy) -> None:
    # Bound, and not listening.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        found, said = _run(proxy, port, sys.executable, "-c", FAILING, port, 1)
    assert found["exit_code"] == 0, said
    assert f"127.0.0.1:{port}: the destination refused the connection" in said
    assert (found["connections"], found["failed"]) == (1, 1)


LEFT: Final = """
import os, socket, sys
if os.fork():
    sys.stdin.read()
    sys.exit()
print(os.getpid(), file=sys.stderr, flush=True)
# Until whoever answers its calls has ended.
sys.stdin.read()
print(socket.socket().connect_ex(("127.0.0.1", int(sys.argv[1]))), file=sys.stderr, flush=True)
"""


def test_when_weir_is_killed_the_program_ends_and_later_connections_fail(proxy: ParallelProxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = _command(proxy, port, sys.executable, "-c", LEFT, port)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as weir:  # type: ignore[call-overload]
            assert weir.stderr.readline().strip().isdigit()
            weir.send_signal(signal.SIGKILL)
            weir.wait()
            weir.stdin.close()
            assert weir.stderr.readline().strip() == str(38)
    assert weir.returncode == -signal.SIGKILL


def test_without_root_seccomp_is_taken_and_that_is_said(proxy: ParallelProxy) -> None:
    if (setpriv := programs.find("setpriv")) is None:
        pytest.skip("setpriv is not installed")
    with _listening(lambda stream: stream.sendall(DATA)) as port:
        get = f"import hashlib, socket; made = socket.create_connection(('127.0.0.1', {port})).makefile('rb')"
        words = (sys.executable, "-c", f"{get}; print(hashlib.sha256(made.read()).hexdigest())")
        command = _command(proxy, port, *words, by="")
        if os.geteuid() == 0:
            # Nobody may be unable to read this Python; whoever is root by name alone has no privileges.
            command = [setpriv, "--bounding-set=-all", "--inh-caps=-all", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert (found["exit_code"], found["by"]) == (0, "seccomp"), done.stderr
    assert HASH in done.stderr
    assert "seccomp redirects the connections, since BPF cannot:" in done.stderr
    _both_paths_carried(found, "received_bytes")
