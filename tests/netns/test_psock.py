"""Parallel sockets over two emulated paths, one of which dies and comes back."""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from pyroute2 import IPRoute

from weirlab._engine import ParallelListener, ParallelSocket
from weirlab.lab.linux.interface import add_address
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.link.host import journal
from weirlab.studies.emulator.reading import read_path
from weirlab.studies.emulator.running import End, emulated_link
from weirlab.studies.psock.options import SessionOptions

pytestmark = pytest.mark.netns

Eventually = Callable[[Callable[[], bool]], None]

X, Y, LINK = (f"weirps{os.getpid()}{part}" for part in "xyl")
HOW = SessionOptions(memory="256KiB").how(block="8KiB", unsent="16KiB").plain()


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


def _link(path: int) -> ExitStack:
    """The path works until this is closed."""
    both = read_path({"rate": "20Mbps", "delay": "3ms", "queue": "100pkts"})
    stack = ExitStack()
    stack.enter_context(emulated_link(End(f"a{path}", LINK), End(f"b{path}", LINK), both, both))
    return stack


def _carried(socket: ParallelSocket, path: int) -> int:
    """Bytes that the streams over ``path`` were given so far."""
    streams = socket.report()["streams"]
    return sum(each["sent_bytes"] for each in streams if each["local"][0] == f"10.97.{path}.1")


def test_everything_arrives_while_a_path_dies_and_comes_back(hosts: None, eventually: Eventually) -> None:
    with ExitStack() as links:
        first = links.enter_context(_link(1))
        links.enter_context(_link(2))
        addresses = [(f"10.97.{path}.2", 5097) for path in (1, 2)]
        how = {**HOW, "token": "token"}
        listener = Namespace(Y).call(lambda: ParallelListener(addresses, how))
        routes = [(f"10.97.{path}.1", f"10.97.{path}.2", 5097) for path in (1, 2)]
        client = Namespace(X).call(lambda: ParallelSocket.connect(routes, how))
        accepted: list[ParallelSocket] = []

        def accept() -> bool:
            found = listener.accept(0.1)
            accepted.extend([] if found is None else [found[0]])
            return bool(accepted)

        eventually(accept)
        [server] = accepted
        received = hashlib.sha256()

        def receive() -> None:
            while data := server.read(1 << 16):
                received.update(data)
            server.finish()

        receiving = threading.Thread(target=receive)
        receiving.start()
        sent, part = hashlib.sha256(), random.Random(1).randbytes(50_000)

        def write_until(done: Callable[[], bool]) -> None:
            def write() -> bool:
                client.write_all(part)
                sent.update(part)
                return done()

            eventually(write)

        write_until(lambda: _carried(client, 1) > 100_000 and _carried(client, 2) > 100_000)
        first.close()
        before = _carried(client, 2)
        # More than both ends have memory for: it can only go by the other path.
        write_until(lambda: _carried(client, 2) > before + 1_000_000)
        assert client.report()["resent_bytes"] > 0
        before = _carried(client, 1)
        links.enter_context(_link(1))
        write_until(lambda: _carried(client, 1) > before + 100_000)
        client.finish()
        assert client.read(1) == b""
        client.close()
        receiving.join()
        assert received.hexdigest() == sent.hexdigest()
        report = server.report()
        assert report["reorder_peak_bytes"] <= 256 << 10
