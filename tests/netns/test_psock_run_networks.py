"""Which connections ``weir psock run`` carries: networks, loopback, addresses of the proxy's host."""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest

from weirlab._engine import ParallelProxy
from weirlab.lab.linux.namespace import Namespace, write_sysctls

from .psock_hosts import (
    DESTINATION,
    DESTINATION6,
    FAR,
    FAR6,
    MARKS,
    NEAR,
    Received,
    listening,
    proxy_with,
    run,
)

pytestmark = MARKS


def test_loopback_that_is_named_is_that_of_the_proxy(proxy: ParallelProxy) -> None:
    received = Received()
    with listening(received.take, "127.0.0.1", 7):
        program = "import socket; socket.create_connection(('127.0.0.1', 7)).sendall(b'hello')"
        ran = run("--only", "127.0.0.1:7", "--", sys.executable, "-c", program)
        assert ran.code == 0, ran.err
    # The program ended at once, and what it sent has arrived.
    assert received.digest == hashlib.sha256(b"hello").hexdigest()


OWN: Final = ["10.98.1.2", "10.98.2.2", DESTINATION, FAR6, DESTINATION6, "::ffff:10.98.1.2", "127.0.0.1"]
"""Addresses of the proxy's host."""


CONNECTING: Final = """
import errno, socket, sys
for address in sys.argv[2:]:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    print(address, errno.errorcode.get(made.connect_ex((address, int(sys.argv[1])))))
"""


@pytest.mark.parametrize("allow", [["any"], ["0.0.0.0/0", "::/0", "10.98.0.0/16", "203.0.113.8/31"]])
def test_wide_networks_leave_out_the_addresses_of_the_proxys_own_host(
    proxy: ParallelProxy, allow: list[str]
) -> None:
    wide = Namespace(FAR).call(lambda: proxy_with(allow, 29103))
    server = Namespace(FAR).call(lambda: socket.create_server(("", 0), family=socket.AF_INET))
    port = server.getsockname()[1]
    only = [word for address in OWN for word in ("--only", address.removeprefix("::ffff:"))]
    try:
        ran = run("--via", "10.98.1.2:29103", *only, "--", sys.executable, "-c", CONNECTING, port, *OWN)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    finally:
        server.close()
        wide.stop()
    assert ran.out.split("\n")[:-1] == [f"{address} EHOSTUNREACH" for address in OWN], ran.err
    assert ran.err.count("the proxy does not allow this destination") == len(OWN)


@pytest.mark.parametrize("by", ["bpf", "seccomp"])
@pytest.mark.parametrize(
    ("options", "carried"),
    [((), 0), (("--only", "any"), 0), (("--only", "10.98.0.0/16"), 0), (("--only", "10.98.1.2"), 1),
     (("--only", "10.98.1.0/24"), 1), (("--only", "10.98.1.2", "--except", "10.98.0.0/16"), 0)],
)  # fmt: skip
def test_networks_of_this_host_are_reached_directly_unless_they_are_named(
    proxy: ParallelProxy, by: str, options: tuple[str, ...], carried: int
) -> None:
    program = "import socket, sys; socket.create_connection(('10.98.1.2', int(sys.argv[1]))).close()"
    with listening(_gone, "10.98.1.2") as port:
        if carried:
            allowing = Namespace(FAR).call(lambda: proxy_with(["10.98.1.2"], 29105))
            options = (*options, "--via", "10.98.1.2:29105")
        ran = run("--by", by, *options, "--json", "--", sys.executable, "-c", program, port)
        if carried:
            allowing.stop()
    assert (ran.code, json.loads(ran.out)["connections"]) == (0, carried), ran.err


RECONNECTING: Final = """
import ctypes, socket, sys
connect = ctypes.CDLL(None, use_errno=True).connect
made = socket.socket(socket.AF_INET6)
for address, port in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    # AF_UNSPEC undoes a connection (connect(2)).
    assert connect(made.fileno(), bytes(16), 16) == 0, ctypes.get_errno()
    made.connect((address, port))
    print(made.getpeername()[0])
"""


def _gone(stream: socket.socket) -> None:
    with suppress(ConnectionError):
        stream.recv(1)


@pytest.mark.parametrize(
    ("carried", "direct", "mapped"), [(DESTINATION, "10.98.1.2", "::ffff:"), (DESTINATION6, FAR6, "")]
)
def test_a_socket_that_connects_anew_is_told_its_new_peer(
    proxy: ParallelProxy, carried: str, direct: str, mapped: str
) -> None:
    with listening(_gone, carried) as first, listening(_gone, direct) as second:
        ends = (mapped + carried, first, mapped + direct, second)
        only = ("--only", "203.0.113.0/24", "--only", "2001:db8:9::/48", "--summary")
        ran = run(*only, "--", sys.executable, "-c", RECONNECTING, *ends)
    assert (ran.code, ran.out.split()) == (0, [mapped + carried, mapped + direct]), ran.err
    assert "1 connection," in ran.err


def test_without_an_ipv6_loopback_address_ipv6_is_left_alone(proxy: ParallelProxy) -> None:
    with _without_ipv6_loopback(), listening(_gone, FAR6) as port:
        ran = run("--summary", "--", sys.executable, "-c", RECONNECTING, FAR6, port)
    assert (ran.code, ran.out.split()) == (0, [FAR6]), ran.err
    assert "0 connections," in ran.err


@contextmanager
def _without_ipv6_loopback() -> Iterator[None]:
    def switch(off: int) -> None:
        write_sysctls({"net/ipv6/conf/lo/disable_ipv6": off})

    Namespace(NEAR).call(lambda: switch(1))
    try:
        yield
    finally:
        Namespace(NEAR).call(lambda: switch(0))
