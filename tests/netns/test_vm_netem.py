"""netem in a virtual machine: what a link by netem says to tc does what it should."""

from __future__ import annotations

import json
import re
import shlex
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

from weirlab.emulation.reading import read_link, read_path
from weirlab.emulation.spec import PathSpec
from weirlab.lab import dut, wiring
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines import guest
from weirlab.lab.netns import NetnsLab
from weirlab.link.host import journal
from weirlab.links.emulator import netem
from weirlab.records import RuleSetup

from .conftest import DEADLINE_S, wait_until
from .vm_checks import TRAFFIC, all_pass, need_machines, the_filter

pytestmark = pytest.mark.netns

IN, OUT = wiring.IN0.name, wiring.OUT0.name
ETHERTYPE: Final = 0x88B5
"""For experiments (IEEE 802)."""


@pytest.fixture(scope="module")
def lab() -> Iterator[NetnsLab]:
    """With a filter in a virtual machine."""
    need_machines()
    with NetnsLab(dut.make("vm")) as made:
        yield made


def test_netem_works_in_it(lab: NetnsLab) -> None:
    lab.set_rules(RuleSetup())
    inside = the_filter(lab).guest
    inside.do("tc qdisc add dev out0 root netem loss 100%")
    try:
        result = lab.run(TRAFFIC)
        assert result.received == 0
        told = re.search(r"\(dropped (\d+),", inside.do("tc -s qdisc show dev out0"))
        assert told is not None
        assert int(told[1]) >= result.sent
    finally:
        inside.do("tc qdisc del dev out0 root")
    assert all_pass(lab)


@contextmanager
def linked_by_netem(inside: guest.Guest, up: PathSpec, down: PathSpec) -> Iterator[None]:
    """What ``weir link --by netem`` does between both ports of the guest, and what undoes it."""
    before = inside.do("tc qdisc show")
    ways = ((IN, OUT, up), (OUT, IN, down))
    try:
        for source, target, path in ways:
            for command in (*netem.shape(target, path), *netem.redirect(source, target)):
                inside.do(shlex.join(["tc", *command]))
        yield
    finally:
        for name in (IN, OUT):
            for change in ("ingress", "netem"):
                inside.run(journal._UNDO[change].by_hand.format(name=name))
    assert inside.do("tc qdisc show") == before


def carried(inside: guest.Guest, source: str, target: str, path: PathSpec) -> netem.NetemDirection:
    return netem.read_carried(json.loads(inside.do("tc -s -j qdisc show")), source, target, path)


def numbered(count: int) -> list[bytes]:
    """Frames for everybody, of a thousand bytes, that no host understands."""
    header = bytes.fromhex("ffffffffffff" + "027765697299") + ETHERTYPE.to_bytes(2, "big")
    return [header + number.to_bytes(4, "big") + bytes(982) for number in range(count)]


@pytest.fixture
def outside(lab: NetnsLab) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Where frames to the guest's first port are sent, and where those of its second one arrive."""
    with ExitStack() as stack:
        ends = []
        for side, port in (("tx", wiring.TX0), ("rx", wiring.RX0)):
            end = stack.enter_context(
                Namespace(lab.namespaces[side]).call(
                    lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
                )
            )
            end.bind((port.name, ETHERTYPE))
            end.settimeout(DEADLINE_S)
            ends.append(end)
        yield ends[0], ends[1]


def test_a_link_by_netem_delays_one_way_and_loses_the_other(
    lab: NetnsLab, outside: tuple[socket.socket, socket.socket]
) -> None:
    inside, (left, right) = the_filter(lab).guest, outside
    asked = read_link({}, "delay 200ms rate 100Mbps queue 50pkts", "loss 100%")
    frames = numbered(20)
    with linked_by_netem(inside, asked.up, asked.down):
        began_ns = time.monotonic_ns()
        for frame in frames:
            left.send(frame)
        for frame in frames:
            assert right.recv(2048) == frame
            # By the guest's clock, which an emulated one may set a little wrong.
            assert time.monotonic_ns() - began_ns > 100_000_000
        for frame in frames:
            right.send(frame)
        # The guest may send a few frames of its own.
        wait_until(lambda: carried(inside, OUT, IN, asked.down).lost >= len(frames))
        left.setblocking(False)
        with pytest.raises(BlockingIOError):
            left.recv(2048)
        up = carried(inside, IN, OUT, asked.up)
        assert up.sent >= len(frames)
        assert (up.lost, up.dropped_full) == (0, 0)
    assert all_pass(lab)


@pytest.mark.parametrize("delay", ["", "delay 50ms"])
def test_a_queue_of_netem_that_overflows_drops_what_it_has_no_room_for(
    delay: str, lab: NetnsLab, outside: tuple[socket.socket, socket.socket]
) -> None:
    inside, (left, right) = the_filter(lab).guest, outside
    # A frame takes 80 ms, and four wait behind it.
    asked = read_link({}, f"rate 100kbps queue 4pkts {delay}", None)
    frames = numbered(20)
    with linked_by_netem(inside, asked.up, asked.down):
        for frame in frames:
            left.send(frame)
        for frame in frames[:5]:
            assert right.recv(2048) == frame

        def all_have_come() -> bool:
            up = carried(inside, IN, OUT, asked.up)
            return up.sent + up.dropped_full + up.queued >= len(frames)

        wait_until(all_have_come)
        up = carried(inside, IN, OUT, asked.up)
        assert up.dropped_full > 0
        assert up.lost == 0


@pytest.mark.parametrize(
    "words",
    [
        {"delay": "9ms", "jitter": "3ms"},
        {"delay": "9ms", "jitter": "3ms,reorder"},
        {"delay": "9ms", "jitter": "3ms,normal,reorder"},
        {"loss": "20%,burst=4"},
        {"loss": "gemodel=1%,30%,50%,0.1%"},
        {"delay": "1500ns", "duplicate": "0.5%"},
        {"rate": "10Gbps", "overhead": "24", "loss": "0.001%"},
        {"rate": "100bps", "overhead": "-14"},
    ],
    ids=str,
)
def test_the_guests_tc_takes_all_that_is_said_to_netem(words: dict[str, str], lab: NetnsLab) -> None:
    with linked_by_netem(the_filter(lab).guest, read_path(words), PathSpec()):
        pass
