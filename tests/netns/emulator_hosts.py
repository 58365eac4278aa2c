"""Two hosts and the interfaces that an emulated link joins."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroute2 import IPRoute

import weirlab
from weirlab.lab.linux import inventory
from weirlab.lab.linux.interface import add_neighbour
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.link.host import journal, tools

X, Y, LINK, APART = (f"weiremu{os.getpid()}{part}" for part in "xyla")
ADDRESS = {X: "10.98.0.1", Y: "10.98.0.2"}
MAC = {X: "02:00:00:00:98:01", Y: "02:00:00:00:98:02"}
BROADCAST = "10.98.0.255"
PORT = 5098
SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL = 263, 8, 3


@dataclass
class Hosts:
    """Two hosts, and between them the one that emulates; no frame is sent but the test's own."""

    def build(self, second: str = LINK) -> None:
        """With the link's end at Y in the namespace ``second``."""
        for name in dict.fromkeys((X, Y, LINK, second)):
            Namespace(name).create()
            Namespace(name).call(_be_quiet)
        for name, far, near, where in ((X, "x0", "la", LINK), (Y, "y0", "lb", second)):
            Namespace(name).call(
                lambda name=name, far=far, near=near, where=where: self._host(name, far, near, where)
            )

    def remove(self) -> None:
        for name in (LINK, APART, X, Y):
            Namespace(name).remove()

    def socket(self, host: str, kind: int = socket.SOCK_DGRAM) -> socket.socket:
        """One of ``host``, bound."""
        made = Namespace(host).call(lambda: socket.socket(socket.AF_INET, kind))
        made.settimeout(30.0)
        made.bind((ADDRESS[host] if kind == socket.SOCK_STREAM else "", PORT))
        return made

    def _host(self, name: str, far: str, near: str, where: str) -> None:
        other = Y if name == X else X
        fd = os.open(Namespace(where).path, os.O_RDONLY | os.O_CLOEXEC)
        with IPRoute() as netlink:
            netlink.link(
                "add", ifname=far, kind="veth", address=MAC[name], peer={"ifname": near, "net_ns_fd": fd}
            )
            index = netlink.link_lookup(ifname=far)[0]
            netlink.addr("add", index=index, address=ADDRESS[name], prefixlen=24, broadcast=BROADCAST)
            netlink.link("set", index=index, state="up")
            # No ARP: every frame is one that the test has numbered.
            add_neighbour(netlink, ADDRESS[other], MAC[other], index)
        os.close(fd)


def _be_quiet() -> None:
    write_sysctls({"net/ipv6/conf/all/disable_ipv6": 1, "net/ipv6/conf/default/disable_ipv6": 1})


@contextmanager
def built(second: str = LINK) -> Iterator[Hosts]:
    """Both hosts, and afterwards nothing of them, nor of links between them."""
    made = Hosts()
    try:
        made.build(second)
        yield made
    finally:
        made.remove()
        journal.clean(pytest.fail)


def exchange(hosts: Hosts, sender: str, count: int, lost: frozenset[int] = frozenset()) -> list[int]:
    """Numbers from 1 of the datagrams that arrive, when each but the ``lost`` is waited for."""
    receiver = Y if sender == X else X
    arrived = []
    with hosts.socket(receiver) as into, hosts.socket(sender) as out:
        for number in range(1, count + 1):
            out.sendto(struct.pack("!I", number).ljust(200, b"."), (ADDRESS[receiver], PORT))
            if number not in lost:
                arrived.append(struct.unpack_from("!I", into.recv(2048))[0])
        into.setblocking(False)
        with pytest.raises(BlockingIOError):
            into.recv(2048)
    return arrived


@contextmanager
def launcher(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``weir link`` between both hosts, in ``folder``; ends those that still run afterwards."""
    started: list[subprocess.Popen[str]] = []
    home = str(Path(weirlab.__file__).absolute().parent.parent)

    def launch(*arguments: str) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            [sys.executable, "-m", "weirlab", "link", "la", "lb", "--netns", LINK, *arguments, "--json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": home},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(program)
        assert program.stderr is not None
        for line in program.stderr:
            if "are linked" in line:
                return program
        return pytest.fail("it ended before there was a link")

    yield launch
    for program in started:
        if program.poll() is None:
            program.kill()
        program.communicate()


def keeper(program: subprocess.Popen[str]) -> int:
    """The process that waits for the death of ``program``."""
    lists = Path(f"/proc/{program.pid}/task").glob("*/children")
    (number,) = (int(word) for path in lists for word in path.read_text().split())
    return number


def state() -> tuple[object, ...]:
    """What a link changes on the hosts that it lies between."""
    places = {"la": LINK, "lb": LINK, "x0": X, "y0": Y}
    features = {
        name: Namespace(netns).call(
            lambda name=name: tools.differing_offloads(name, dict.fromkeys(tools.offload_names(name), True))
        )
        for name, netns in places.items()
    }
    found = inventory.look(LINK)
    flags = Namespace(LINK).call(_promiscuity)
    tables = Namespace(LINK).call(_tables)
    told = Namespace(LINK).call(tools.qdiscs)
    qdiscs = [(each["dev"], each["kind"], each["handle"]) for each in told if each["handle"] != "0:"]
    return features, {name: facts.up for name, facts in found.items()}, flags, tables, qdiscs


def _promiscuity() -> dict[str, int]:
    with IPRoute() as netlink:
        return {
            str(link.get_attr("IFLA_IFNAME")): int(link.get_attr("IFLA_PROMISCUITY"))
            for link in netlink.get_links()
        }


def _tables() -> str:
    done = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    return done.stdout


def check_tag() -> None:
    """A frame with a VLAN tag arrives at Y as X sends it."""

    def raw(host: str, name: str) -> socket.socket:
        made = Namespace(host).call(
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        )
        made.bind((name, ETH_P_ALL))
        made.settimeout(30.0)
        return made

    addresses = bytes.fromhex((MAC[Y] + MAC[X]).replace(":", ""))
    frame = addresses + struct.pack("!HHH", 0x8100, 0x2064, 0x88B5) + bytes(range(100))
    with raw(X, "x0") as out, raw(Y, "y0") as into:
        into.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        out.send(frame)
        # The kernel takes the tag out and tells it beside the frame.
        data, beside, _, _ = into.recvmsg(2048, 256)
    assert data == addresses + frame[16:]
    tci, tpid = struct.unpack_from("=HH", beside[0][2], 16)
    assert (tci, tpid) == (0x2064, 0x8100)
