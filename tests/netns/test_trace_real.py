"""A capture of real TCP, analysed, beside the counters of the kernels that talked."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from weirlab.lab.clean import LabOwnership
from weirlab.lab.linux.namespace import DIRECTORY, Namespace

from .conftest import tcpdump

_TOOLS = ("tcpdump", "nft", "ethtool")
_ABSENT = [tool for tool in _TOOLS if shutil.which(tool) is None]
pytestmark = [pytest.mark.netns, pytest.mark.skipif(bool(_ABSENT), reason=f"not here: {', '.join(_ABSENT)}")]
_engine = pytest.importorskip("weirlab._engine", reason="the engine is not built")

SENDER, RECEIVER, PORT = "198.18.7.1", "198.18.7.2", 5001
TRANSFER_BYTES = 4 << 20
CAPTURED = ("-s", "128", "-B", "32768", "tcp")
"""Options of tcpdump. Who captures has to wait for what he wants to see."""
TOTAL_RETRANS_AT = 8 + 23 * 4
"""Of ``tcpi_total_retrans`` in struct tcp_info (include/uapi/linux/tcp.h)."""


@dataclass(frozen=True)
class Pair:
    """Two hosts on a wire, without offloads: what is captured is what is sent."""

    sender: Namespace
    receiver: Namespace

    def drop_every(self, packets: int) -> None:
        """Of the data, behind the capture at the sender; not the first ones, the handshake's."""
        rules = (
            "table ip loss { chain taken { type filter hook input priority 0;"
            f" tcp dport {PORT} numgen inc mod {packets} == {packets // 2} drop; }}; }}"
        )
        self.receiver.call(lambda: subprocess.run(["nft", rules], check=True))

    def drop_none(self) -> None:
        self.receiver.call(lambda: subprocess.run(["nft", "delete table ip loss"], check=True))

    def connect(self, receive_buffer_bytes: int | None = None) -> tuple[socket.socket, socket.socket]:
        listener = self.receiver.call(socket.socket)
        if receive_buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        listener.bind((RECEIVER, PORT))
        listener.listen(1)
        sending = self.sender.call(socket.socket)
        sending.connect((RECEIVER, PORT))
        receiving, _ = listener.accept()
        listener.close()
        return sending, receiving


def _configure(name: str, address: str) -> None:
    with IPRoute() as netlink:
        index = netlink.link_lookup(ifname=name)[0]
        netlink.addr("add", index=index, address=address, prefixlen=24)
        netlink.link("set", index=index, state="up")
    offloads = ("tso", "off", "gso", "off", "gro", "off")
    subprocess.run(["ethtool", "-K", name, *offloads], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def pair() -> Iterator[Pair]:
    claim = LabOwnership()
    sender, receiver = (Namespace(claim.namespace_name(part)) for part in ("left", "right"))
    try:
        sender.create()
        receiver.create()

        def wire() -> None:
            peer = {"ifname": "right", "net_ns_fd": str(DIRECTORY / receiver.name)}
            with IPRoute() as netlink:
                netlink.link("add", ifname="left", kind="veth", peer=peer)

        sender.call(wire)
        sender.call(lambda: _configure("left", SENDER))
        receiver.call(lambda: _configure("right", RECEIVER))
        yield Pair(sender, receiver)
    finally:
        sender.remove()
        receiver.remove()
        claim.release()


def connection(path: Path) -> dict[str, Any] | None:
    """The only one in a capture that may still be written."""
    found = _engine.analyse([str(path)])["connections"] if path.stat().st_size > 24 else []
    assert len(found) <= 1
    return found[0] if found else None


def has(path: Path, condition: Callable[[dict[str, Any]], bool]) -> bool:
    found = connection(path)
    return found is not None and condition(found)


def counter(netns: Namespace, name: str) -> int:
    """Of TCP in a namespace, as nstat tells them."""
    lines = netns.call(Path("/proc/thread-self/net/netstat").read_text).splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        table = dict(zip(names.split(), values.split(), strict=True))
        if name in table:
            return int(table[name])
    raise AssertionError(f"this kernel does not count {name}")


def retransmitted(sending: socket.socket) -> int:
    info = sending.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    (total,) = struct.unpack_from("=I", info, TOTAL_RETRANS_AT)
    return int(total)


def dsacks(netns: Namespace) -> int:
    """ACKs received there that report a duplicate."""
    return counter(netns, "TCPDSACKRecv") + counter(netns, "TCPDSACKOfoRecv")


def read_all(receiving: socket.socket, answer: bytes = b"!") -> None:
    """Until the sender says FIN or all has come; then answers."""
    left = TRANSFER_BYTES
    while left > 0 and (data := receiving.recv(1 << 16)):
        left -= len(data)
    receiving.sendall(answer)


def test_retransmissions_are_those_that_the_sending_kernel_counts(
    pair: Pair, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    path = tmp_path / "sender.pcap"
    with tcpdump(pair.sender, "left", path, *CAPTURED):
        pair.drop_every(100)
        sending, receiving = pair.connect()
        with sending, receiving:
            reader = threading.Thread(target=read_all, args=(receiving,))
            reader.start()
            sending.sendall(bytes(TRANSFER_BYTES))
            assert sending.recv(1) == b"!", "everything arrived and was acknowledged"
            reader.join()
            pair.drop_none()
            total_retrans = retransmitted(sending)
        eventually(lambda: has(path, lambda found: found["end"] == "closed"))
    found = connection(path)
    assert found is not None
    side = found["a"]
    assert total_retrans >= TRANSFER_BYTES // 1448 // 100
    assert side["retransmissions"]["total"] == total_retrans
    assert side["unique_bytes"] == TRANSFER_BYTES
    assert side["unseen_bytes"] == side["out_of_order"] == side["copies"] == 0
    assert found["b"]["dsacks"] == dsacks(pair.sender)


def test_a_reader_that_stops_closes_its_window_and_is_probed(
    pair: Pair, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    path = tmp_path / "sender.pcap"
    with tcpdump(pair.sender, "left", path, *CAPTURED):
        sending, receiving = pair.connect(receive_buffer_bytes=32_768)
        with sending, receiving:
            writer = threading.Thread(target=sending.sendall, args=(bytes(TRANSFER_BYTES),))
            writer.start()
            eventually(lambda: has(path, lambda found: found["a"]["window_probes"] >= 1))
            read_all(receiving)
            writer.join()
            assert sending.recv(1) == b"!"
            total_retrans = retransmitted(sending)
        eventually(lambda: has(path, lambda found: found["end"] == "closed"))
    found = connection(path)
    assert found is not None
    assert found["b"]["zero_windows"] == counter(pair.receiver, "TCPToZeroWindowAdv") >= 1
    assert found["a"]["window_probes"] == counter(pair.sender, "TCPWinProbe")
    # The probe came after a time-out of the sender, 200 ms at least.
    assert found["b"]["zero_window_ns"] > 200_000_000
    assert found["a"]["unique_bytes"] == TRANSFER_BYTES
    assert found["a"]["retransmissions"]["total"] == total_retrans
    assert found["b"]["dsacks"] == dsacks(pair.sender)
