"""A near and a far host with two paths between them, and ``weir psock run`` on the near one.

The far one has the proxy, and destinations to which the near one has no route.
"""

from __future__ import annotations

import hashlib
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pyroute2 import IPRoute

from weirlab._engine import ParallelProxy
from weirlab.lab.isolation.groups import IsolationError, unified
from weirlab.lab.linux.interface import add_address
from weirlab.lab.linux.namespace import Namespace
from weirlab.link.host import journal
from weirlab.transfers.psock.options import SessionOptions, StreamOptions

from .conftest import DEADLINE_S


def _marks() -> list[pytest.MarkDecorator]:
    try:
        unified()
    except IsolationError as refused:
        return [pytest.mark.netns, pytest.mark.skip(reason=str(refused))]
    return [pytest.mark.netns]


MARKS: Final = _marks()
"""Of a file whose tests need these hosts."""

NEAR, FAR = (f"weirpr{os.getpid()}{part}" for part in "nf")
DESTINATION: Final = "203.0.113.9"
DESTINATION6: Final = "2001:db8:9::9"
FAR6: Final = "2001:db8:98::2"
"""Of the far host, on the first path."""
TOKEN: Final = "a token of tests"
SCHEDULER: Final = "round-robin"
"""Each stream in turn: how much a path carries does not depend on its speed."""
DATA: Final = random.Random(3).randbytes(4_000_000)
HASH: Final = hashlib.sha256(DATA).hexdigest()
SHARE_BYTES: Final = 20_000
"""Less than one block, and more than a path carries without any: greetings and acknowledgements."""


@dataclass
class Ran:
    """A program at its end."""

    code: int
    out: str
    err: str


@contextmanager
def hosts_with_proxy() -> Iterator[ParallelProxy]:
    """Both hosts while inside, with the paths 10.98.1.x and 10.98.2.x, and the proxy."""
    try:
        for name in (NEAR, FAR):
            Namespace(name).create()
        Namespace(NEAR).call(_wire)
        Namespace(FAR).call(_wire_far)
        made = Namespace(FAR).call(_proxy)
        try:
            yield made
        finally:
            made.stop()
    finally:
        for name in (NEAR, FAR):
            Namespace(name).remove()
        journal.clean(pytest.fail)


def _wire() -> None:
    fd = os.open(Namespace(FAR).path, os.O_RDONLY | os.O_CLOEXEC)
    with IPRoute() as netlink:
        netlink.link("set", index=netlink.link_lookup(ifname="lo")[0], state="up")
        for path in (1, 2):
            netlink.link("add", ifname=f"p{path}", kind="veth", peer={"ifname": f"p{path}", "net_ns_fd": fd})
            index = netlink.link_lookup(ifname=f"p{path}")[0]
            add_address(netlink, index, f"10.98.{path}.1", 24)
            if path == 1:
                add_address(netlink, index, "2001:db8:98::1", 64)
            netlink.link("set", index=index, state="up")
    os.close(fd)


def _wire_far() -> None:
    with IPRoute() as netlink:
        loopback = netlink.link_lookup(ifname="lo")[0]
        netlink.link("set", index=loopback, state="up")
        add_address(netlink, loopback, DESTINATION, 32)
        add_address(netlink, loopback, DESTINATION6, 128)
        for path in (1, 2):
            index = netlink.link_lookup(ifname=f"p{path}")[0]
            add_address(netlink, index, f"10.98.{path}.2", 24)
            if path == 1:
                add_address(netlink, index, FAR6, 64)
            netlink.link("set", index=index, state="up")


def _proxy() -> ParallelProxy:
    # The destinations are addresses of the proxy's own host: only rules for them alone allow them.
    return proxy_with([DESTINATION, DESTINATION6, FAR6, "2001:db8::/32", "127.0.0.1:7"], 29102)


def proxy_with(allow: list[str], port: int, most: int = 64) -> ParallelProxy:
    """A proxy of the far host, at both of its addresses, for ``most`` sessions at one time."""
    how = SessionOptions(token=TOKEN).how(StreamOptions(scheduler=SCHEDULER)).plain()
    return ParallelProxy([(f"10.98.{path}.2", port) for path in (1, 2)], how, allow=allow, most=most)


def command(*arguments: object) -> list[str]:
    """``weir psock run`` over both paths, each of which has a stream before data flow."""
    paths = [word for path in (1, 2) for word in ("--path", f"10.98.{path}.1,10.98.{path}.2")]
    own = [sys.executable, "-m", "weirlab", "psock", "run", "--via", "10.98.1.2", "--token", TOKEN]
    streams = ["--streams", "1", "--scheduler", SCHEDULER, "--wait-for-paths"]
    return [*own, *paths, *streams, *map(str, arguments)]


def begin(words: list[str], **options: Any) -> subprocess.Popen[str]:
    """Start a command on the near host."""
    return Namespace(NEAR).call(
        lambda: subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    )


def run(*arguments: object, **options: Any) -> Ran:
    """Run ``weir psock run`` to its end."""
    with begin(command(*arguments), **options) as process:
        out, err = process.communicate()
    return Ran(process.returncode, out, err)


def _carried() -> list[tuple[int, int]]:
    """Bytes that each path has carried away from the near host, and to it, as its interfaces say."""

    def read() -> list[tuple[int, int]]:
        with IPRoute() as netlink:
            found = []
            for path in (1, 2):
                [link] = netlink.get_links(ifname=f"p{path}")
                stats = link.get_attr("IFLA_STATS64")
                found.append((stats["tx_bytes"], stats["rx_bytes"]))
            return found

    return Namespace(NEAR).call(read)


@contextmanager
def both_paths_carry(direction: int) -> Iterator[None]:
    """Each path carries data inside (0: away from the near host, 1: to it)."""
    before = _carried()
    yield
    for path, (then, now) in enumerate(zip(before, _carried(), strict=True), 1):
        assert now[direction] - then[direction] > SHARE_BYTES, f"path {path}"


@contextmanager
def listening(
    work: Callable[[socket.socket], None], address: str = DESTINATION, port: int = 0, count: int = 1
) -> Iterator[int]:
    """A server on the far host; ``work`` gets its first ``count`` connections, one after the other."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = Namespace(FAR).call(
        lambda: socket.create_server((address, port), family=family, backlog=count)
    )
    listener.settimeout(DEADLINE_S)

    def serve() -> None:
        with listener:
            for _ in range(count):
                with listener.accept()[0] as stream:
                    work(stream)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join()


class Received:
    """What a server got."""

    def __init__(self) -> None:
        self.digest = ""

    def take(self, stream: socket.socket) -> None:
        found = hashlib.sha256()
        while data := stream.recv(1 << 16):
            found.update(data)
        self.digest = found.hexdigest()
        stream.sendall(b"done")
