"""The recorder on an interface, with real frames."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from weirlab._engine import Recorder, Tap
from weirlab.base.errors import InputError, LabError
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import Namespace

from .conftest import wait_until

pytestmark = pytest.mark.netns

ETHERNET = bytes.fromhex("020000000002 020000000001 0800")
UDP = bytes.fromhex("45000020000000004011b6b4c0000201c0000202 03e81389000c0000")
"""IPv4 and UDP, from port 1000 to port 5001."""


def udp(number: int, frame_bytes: int = 60) -> bytes:
    """A frame that can be told from others."""
    return (ETHERNET + UDP + number.to_bytes(4, "big")).ljust(frame_bytes, b"\0")


class Wire:
    """Two ends, ``left`` and ``right``, of a wire inside a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        namespace.call(self._build)
        self.left = namespace.call(lambda: _open("left"))
        self.right = namespace.call(lambda: _open("right"))

    def _build(self) -> None:
        # Without IPv6 nobody but the test sends.
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        with IPRoute() as netlink:
            netlink.link("add", ifname="left", kind="veth", peer="right")
            for name in ("left", "right"):
                netlink.link("set", index=netlink.link_lookup(ifname=name)[0], state="up")

    def recorder(self, path: Path, **options: Any) -> Recorder:
        options = {"interface": "right", "netns": self.namespace.name} | options
        return Recorder(str(path), **options)

    def unplug(self) -> None:
        """Take both ends away, if they are still there."""

        self.namespace.call(lambda: _delete("left"))

    def close(self) -> None:
        self.unplug()
        self.left.close()
        self.right.close()


def _open(name: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    opened.bind((name, 0))
    return opened


def _delete(name: str) -> None:
    with IPRoute() as netlink:
        for index in netlink.link_lookup(ifname=name):
            netlink.link("del", index=index)


@pytest.fixture
def wire() -> Iterator[Wire]:
    namespace = Namespace(f"weir-record-{os.getpid()}")
    namespace.create()
    try:
        made = Wire(namespace)
        try:
            yield made
        finally:
            made.close()
    finally:
        namespace.remove()


def fields(path: Path, *names: str) -> list[list[str]]:
    """What tshark reads, a row for each frame."""
    options = [option for name in names for option in ("-e", name)]
    command = ["tshark", "-r", str(path), "-Tfields", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def frames(path: Path) -> list[bytes]:
    """The bytes of each frame."""
    command = ["tshark", "-r", str(path), "-Tjson", "-x"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [bytes.fromhex(packet["_source"]["layers"]["frame_raw"][0]) for packet in json.loads(done.stdout)]


def stopped(recorder: Any, seen: int) -> Any:
    """Its summary once so many frames have come: the kernel may still hold some that were sent."""
    wait_until(lambda: recorder.progress()["interfaces"][0]["seen"] == seen)
    return recorder.stop()


def test_every_frame_is_recorded_with_its_direction(wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    recorder = wire.recorder(path, comment="a test")
    recorder.start()
    for number in range(500):
        wire.left.send(udp(number))
        if number % 2:
            wire.right.send(udp(1000 + number, 1514))
    summary = stopped(recorder, 750)
    (interface,) = summary["interfaces"]
    assert interface == {
        "name": "right", "seen": 750, "lost": 0, "filtered": 0, "written": 750, "not_written": 0
    }  # fmt: skip
    assert (summary["failure"], summary["gaps"]) == ("", [])
    read = fields(path, "frame.interface_name", "frame.packet_flags", "frame.len", "frame.time_epoch")
    kinds = [row[:3] for row in read]
    assert kinds.count(["right", "0x00000001", "60"]) == 500
    assert kinds.count(["right", "0x00000002", "1514"]) == 250
    times = [row[3] for row in read]
    assert times == sorted(times)
    assert len({len(time.split(".")[1]) for time in times} | {9}) == 1
    first_ns, last_ns = (int(time.replace(".", "")) for time in (times[0], times[-1]))
    (file,) = summary["files"]
    assert file == {
        "path": str(path),
        "frames": 750,
        "bytes": path.stat().st_size,
        "first_ns": first_ns,
        "last_ns": last_ns,
    }
    assert recorder.stop() == summary


def test_it_counts_what_tcpdump_counts(
    wire: Wire, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    path, beside = tmp_path / "x.pcapng", tmp_path / "tcpdump.pcap"
    command = ["tcpdump", "-i", "right", "-Z", "root", "-B", "65536", "-U", "-w", str(beside), "port 5001"]
    tcpdump = wire.namespace.call(lambda: subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    assert tcpdump.stderr is not None
    assert any("listening on" in line for line in tcpdump.stderr)
    recorder = wire.recorder(path, filter="udp port 5001")
    recorder.start()
    for number in range(20_000):
        wire.left.send(udp(number) if number % 4 else ETHERNET.ljust(60, b"\0"))
    summary = stopped(recorder, 20_000)
    # It leaves what is in its buffer when it is told to end: a header, and another for each frame.
    eventually(lambda: beside.stat().st_size == 24 + 15_000 * (16 + 60))
    tcpdump.send_signal(signal.SIGINT)
    assert tcpdump.wait() == 0
    report = tcpdump.stderr.read()
    tcpdump.stderr.close()
    assert "15000 packets captured" in report
    (interface,) = summary["interfaces"]
    assert (interface["seen"], interface["filtered"], interface["written"]) == (20_000, 5_000, 15_000)
    assert fields(path, "frame.len", "udp.payload") == fields(beside, "frame.len", "udp.payload")


def test_vlan_tags_are_back_in_their_place(wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    recorder = wire.recorder(path, filter="vlan 42", snap_bytes=40)
    recorder.start()
    plain = udp(7, 100)
    tagged = [plain[:12] + bytes.fromhex(tag) + plain[12:] for tag in ("8100602a", "8100002a", "8100002b")]
    stacked = plain[:12] + bytes.fromhex("88a8002a81000007") + plain[12:]
    for frame in (plain, *tagged, stacked):
        wire.left.send(frame)
    summary = stopped(recorder, 5)
    assert summary["interfaces"][0]["filtered"] == 2
    assert frames(path) == [frame[:40] for frame in (*tagged[:2], stacked)]
    assert fields(path, "frame.len") == [["104"], ["104"], ["108"]]


CHILD = textwrap.dedent("""
    import json, sys
    from weirlab._engine import Recorder

    recorder = Recorder(sys.argv[1], interface="right", netns=sys.argv[2], ring_bytes=2 << 20)
    recorder.start()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(recorder.stop()), flush=True)
""")


def test_a_recorder_that_was_held_up_knows_what_it_missed(
    wire: Wire, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    path = tmp_path / "x.pcapng"
    command = [sys.executable, "-c", CHILD, str(path), wire.namespace.name]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGSTOP)
        eventually(lambda: " T " in Path(f"/proc/{child.pid}/stat").read_text())
        for number in range(10_000):
            wire.left.send(udp(number, 1514))
        child.send_signal(signal.SIGCONT)
        # What is in the ring fits and is read; a frame that comes then follows the gap.
        eventually(lambda: path.stat().st_size > 1_000_000)
        wire.left.send(udp(10_000))
        answer, _ = child.communicate("stop\n", timeout=20)
    finally:
        child.kill()
        child.wait()
    summary = json.loads(answer)
    (interface,) = summary["interfaces"]
    assert interface["lost"] > 7_000
    assert interface["seen"] + interface["lost"] == 10_001
    assert interface["written"] == interface["seen"]
    (gap,) = summary["gaps"]
    assert (gap["frames"], gap["stage"], gap["interface"]) == (interface["lost"], "ring", "right")
    rows = fields(path, "frame.time_epoch", "frame.drop_count")
    assert [row[1] for row in rows[:-1]] == [""] * (len(rows) - 1)
    assert rows[-1][1] == str(interface["lost"])
    times = [int(row[0].replace(".", "")) for row in rows]
    assert (gap["from_ns"], gap["to_ns"]) == (times[-2], times[-1])


def test_what_crosses_a_tap_is_recorded_by_side(wire: Wire, tmp_path: Path) -> None:
    def lengthen() -> None:
        with IPRoute() as netlink:
            netlink.link("add", ifname="far", kind="veth", peer="beyond")
            for name in ("left", "right", "far", "beyond"):
                # A frame redirected into a veth is taken in by GRO at the other end.
                interface.set_offloads(name, gro=True)
                netlink.link("set", index=netlink.link_lookup(ifname=name)[0], state="up")

    wire.namespace.call(lengthen)
    path = tmp_path / "x.pcapng"
    tap = Tap(a="right", b="far", netns=wire.namespace.name, ring=True)
    try:
        recorder = Recorder(str(path), ring_fds=tap.ring_fds(), filter="greater 100", compress="zstd")
        recorder.start()
        with wire.namespace.call(lambda: _open("beyond")) as beyond:
            for number in range(100):
                wire.left.send(udp(number, 100))
                beyond.send(udp(number, 200))
                beyond.send(udp(number))
        summary = recorder.stop()
    finally:
        tap.close()
        wire.namespace.call(lambda: _delete("far"))
    found = {
        each["name"]: (each["seen"], each["lost"], each["filtered"], each["written"])
        for each in summary["interfaces"]
    }
    assert found == {"right": (100, 0, 0, 100), "far": (200, 0, 100, 100)}
    bare = tmp_path / "bare.pcapng"
    bare.write_bytes(subprocess.run(["zstd", "-dc", str(path)], capture_output=True, check=True).stdout)
    rows = [tuple(row) for row in fields(bare, "frame.interface_name", "frame.packet_flags", "frame.len")]
    assert sorted(set(rows)) == [("far", "0x00000001", "200"), ("right", "0x00000001", "100")]
    assert len(rows) == 200


def test_an_interface_that_goes_away_ends_the_record_with_a_reason(
    wire: Wire, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    path = tmp_path / "x.pcapng"
    recorder = wire.recorder(path)
    recorder.start()
    wire.left.send(udp(1))
    wire.unplug()
    eventually(lambda: bool(recorder.progress()["ended"]))
    summary = recorder.stop()
    assert "interface right is gone" in summary["failure"]
    assert len(fields(path, "frame.number")) == 1


def test_an_interface_without_ethernet_is_refused(wire: Wire, tmp_path: Path) -> None:
    def make() -> None:
        with IPRoute() as netlink:
            netlink.link("add", ifname="inner", kind="tuntap", mode="tun")

    wire.namespace.call(make)
    with pytest.raises(LabError, match="inner is no Ethernet interface"):
        wire.recorder(tmp_path / "x.pcapng", interface="inner")
    wire.recorder(tmp_path / "y.pcapng", interface="lo")


def test_an_interface_that_was_down_is_recorded_again(
    wire: Wire, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    recorder = wire.recorder(tmp_path / "x.pcapng")
    recorder.start()
    wire.left.send(udp(1))

    def turn(state: str) -> None:
        with IPRoute() as netlink:
            netlink.link("set", index=netlink.link_lookup(ifname="right")[0], state=state)

    wire.namespace.call(lambda: turn("down"))
    wire.namespace.call(lambda: turn("up"))

    def is_seen() -> bool:
        # The other end notices some time later that it has a carrier again; until then it sends nothing.
        wire.left.send(udp(2))
        return bool(recorder.progress()["interfaces"][0]["seen"] > 1)

    eventually(is_seen)
    assert recorder.stop()["failure"] == ""


def test_what_cannot_be_recorded_is_refused_before_the_start(wire: Wire, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    with pytest.raises(LabError, match="no interface 'middle' in network namespace"):
        wire.recorder(path, interface="middle")
    with pytest.raises(LabError, match="no-such-namespace"):
        wire.recorder(path, netns="no-such-namespace")
    with pytest.raises(InputError, match="porrt"):
        wire.recorder(path, filter="porrt 80")
    with pytest.raises(InputError, match=r"missing.*No such file"):
        wire.recorder(tmp_path / "missing" / "x.pcapng")
    with pytest.raises(InputError, match="directory"):
        wire.recorder(tmp_path)
    with pytest.raises(InputError, match="keep_files"):
        wire.recorder(path, keep_files=3)
    with pytest.raises(ValueError, match="ring_fds or interface"):
        Recorder(str(path))
    assert not path.exists()
