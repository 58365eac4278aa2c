"""Parallel sockets over two emulated paths, one of which dies and comes back."""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from pyroute2 import IPRoute

from weirlab._engine import ParallelListener, ParallelSocket
from weirlab.emulation.reading import read_path
from weirlab.emulation.spec import PathSpec, RandomPattern
from weirlab.lab.linux.interface import add_address
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.link.host import journal
from weirlab.links.emulator.running import EmulatedLink, LinkEnd, emulated_link
from weirlab.transfers.psock.options import SessionOptions, StreamOptions

pytestmark = pytest.mark.netns

Eventually = Callable[[Callable[[], bool]], None]

X, Y, LINK = (f"weirps{os.getpid()}{part}" for part in "xyl")
WORKS = read_path({"rate": "20Mbps", "delay": "3ms", "queue": "100pkts"})
LOSES = replace(WORKS, loss=RandomPattern(1.0))
HOW = SessionOptions(memory="256KiB").how(StreamOptions(block="8KiB", unsent="16KiB")).plain()


@pytest.fixture
def hosts() -> Iterator[None]:
    """Two hosts with two paths between them, 10.97.1.x and 10.97.2.x; the links are missing yet."""
    try:
        for name in (X, Y, LINK):
            Namespace(name).create()
            Namespace(name).call(lambda: write_sysctls({"net/ipv6/conf/default/disable_ipv6": 1}))
        for name, end, last in ((X, "a", 1), (Y, "b", 2)):
            Namespace(name).call(lambda end=end, last=last: _wire(end, last))
        yield
    finally:
        for name in (LINK, X, Y):
            Namespace(name).remove()
        journal.clean(pytest.fail)


def _wire(end: str, last: int) -> None:
    fd = os.open(Namespace(LINK).path, os.O_RDONLY | os.O_CLOEXEC)
    with IPRoute() as netlink:
        for path in (1, 2):
            netlink.link(
                "add", ifname=f"h{path}", kind="veth", peer={"ifname": f"{end}{path}", "net_ns_fd": fd}
            )
            index = netlink.link_lookup(ifname=f"h{path}")[0]
            add_address(netlink, index, f"10.97.{path}.{last}", 24)
            netlink.link("set", index=index, state="up")
    os.close(fd)


def _link(path: int) -> tuple[EmulatedLink, ExitStack]:
    """The path works until the stack is closed."""
    stack = ExitStack()
    link = stack.enter_context(
        emulated_link(LinkEnd(f"a{path}", LINK), LinkEnd(f"b{path}", LINK), WORKS, WORKS)
    )
    return link, stack


def _change(link: EmulatedLink, path: PathSpec) -> None:
    link.change("up", path)
    link.change("down", path)


class Transfer:
    """A session over both paths, whose receiver reads all the time."""

    def __init__(self, eventually: Eventually) -> None:
        addresses = [(f"10.97.{path}.2", 5098) for path in (1, 2)]
        how = {**HOW, "token": "a token of tests"}
        self._eventually = eventually
        self._listener = Namespace(Y).call(lambda: ParallelListener(addresses, how))
        routes = [(f"10.97.{path}.1", f"10.97.{path}.2", 5098) for path in (1, 2)]
        self.client = Namespace(X).call(lambda: ParallelSocket.connect(routes, how))
        accepted: list[ParallelSocket] = []

        def accept() -> bool:
            found = self._listener.accept(0.1)
            accepted.extend([] if found is None else [found[0]])
            return bool(accepted)

        eventually(accept)
        [self.server] = accepted
        self._sent, self._received = hashlib.sha256(), hashlib.sha256()
        self._part = random.Random(1).randbytes(50_000)
        self._receiving = threading.Thread(target=self._receive)
        self._receiving.start()

    def _receive(self) -> None:
        while data := self.server.read(1 << 16):
            self._received.update(data)
        self.server.finish()

    def write(self, parts: int) -> None:
        """Send so many parts of 50 kB."""
        for _ in range(parts):
            self.client.write_all(self._part)
            self._sent.update(self._part)

    def write_until(self, done: Callable[[], bool]) -> None:
        """Send until ``done``."""

        def write() -> bool:
            self.write(1)
            return done()

        self._eventually(write)

    def carried(self, path: int) -> int:
        """Bytes that the streams over ``path`` were given so far."""
        return sum(each["sent_bytes"] for each in self.streams(path))

    def streams(self, path: int) -> list[dict[str, Any]]:
        """The streams over ``path``, those that have ended as well."""
        streams = self.client.report()["streams"]
        return [each for each in streams if each["local"][0] == f"10.97.{path}.1"]

    def finish(self) -> None:
        """Everything has arrived, and is what was sent."""
        self.client.finish()
        assert self.client.read(1) == b""
        self.client.close()
        self._receiving.join()
        assert self._received.hexdigest() == self._sent.hexdigest()
        assert self.server.report()["reorder_peak_bytes"] <= 256 << 10


def test_everything_arrives_while_a_path_dies_and_comes_back(hosts: None, eventually: Eventually) -> None:
    with ExitStack() as links:
        link, first = _link(1)
        links.enter_context(first)
        links.enter_context(_link(2)[1])
        transfer = Transfer(eventually)
        transfer.write_until(lambda: transfer.carried(1) > 100_000 and transfer.carried(2) > 100_000)
        # What the path has when it dies never arrives. Closing the link takes a while, in which it could.
        _change(link, LOSES)
        transfer.write(10)
        first.close()
        before = transfer.carried(2)
        # More than both ends have memory for: it can only go by the other path, with what this one had.
        transfer.write_until(
            lambda: transfer.carried(2) > before + 1_000_000 and transfer.client.report()["resent_bytes"] > 0
        )
        before = transfer.carried(1)
        links.enter_context(_link(1)[1])
        transfer.write_until(lambda: transfer.carried(1) > before + 100_000)
        transfer.finish()


def test_a_path_that_loses_everything_gets_nothing_until_it_works_again(
    hosts: None, eventually: Eventually
) -> None:
    with ExitStack() as links:
        link, stack = _link(1)
        links.enter_context(stack)
        links.enter_context(_link(2)[1])
        transfer = Transfer(eventually)
        transfer.write_until(lambda: transfer.carried(1) > 100_000 and transfer.carried(2) > 100_000)
        _change(link, LOSES)

        def is_avoided() -> bool:
            before, other = transfer.carried(1), transfer.carried(2)
            transfer.write_until(lambda: transfer.carried(2) > other + 1_000_000)
            return transfer.carried(1) == before

        eventually(is_avoided)
        dead = transfer.carried(1)
        _change(link, WORKS)
        transfer.write_until(lambda: transfer.carried(1) > dead + 100_000)
        # The old stream, whose TCP waits ever longer, or one beside it: whichever came through first.
        old, *new = transfer.streams(1)
        assert (old["ended"] == "") == (new == [])
        assert all(each["ended"] == "" for each in new[-1:])
        transfer.finish()
