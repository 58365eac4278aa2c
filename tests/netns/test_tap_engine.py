"""The bridge itself: what crosses it, what is copied, what is mirrored, and that every frame is counted."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from pyroute2 import IPRoute

from weirlab.base.errors import LabError
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace
from weirlab.traffic.flows import FlowAddresses
from weirlab.traffic.plan import NEXT_FLOW, DeparturePlan

from .tap_link import (
    LEFT,
    PACKET_AUXDATA,
    RIGHT,
    SOL_PACKET,
    UNUSED_TYPE,
    A,
    B,
    Link,
    _listen,
    _set_mtu,
    _wire,
    engine,
    frame,
    take,
)

pytestmark = pytest.mark.netns

LOGGER, C = Port("logger", "02:00:00:00:00:03", "", ""), Port("wc", "02:00:00:00:00:0c", "", "")
LOGGER_MAC = bytes.fromhex("020000000003")
VLAN_TCI_AT = 16
"""In struct tpacket_auxdata."""
Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture
def link() -> Iterator[Link]:
    bridge = Namespace(f"weirtap{os.getpid()}-br")
    ends = {end: Namespace(f"weirtap{os.getpid()}-{end}") for end in ("left", "right", "logger")}
    sockets: list[socket.socket] = []
    try:
        for namespace in (bridge, *ends.values()):
            namespace.create()
        for namespace, far, near in zip(ends.values(), (LEFT, RIGHT, LOGGER), (A, B, C), strict=True):
            _wire(bridge, near, namespace, far)
            sockets.append(namespace.call(partial(_listen, far.name)))
        left, right, logger = sockets
        yield Link(bridge.name, left, right, logger, ends)
    finally:
        for opened in sockets:
            opened.close()
        for namespace in (*ends.values(), bridge):
            namespace.remove()


def test_frames_of_every_length_cross_the_bridge_unchanged_in_both_directions(link: Link) -> None:
    with link.tap(ring=True) as tap:
        for sender, receiver in ((link.left, link.right), (link.right, link.left)):
            for first in range(60, 1515, 97):
                frames = [frame(n, seed=n) for n in range(first, min(first + 97, 1515))]
                for sent in frames:
                    sender.send(sent)
                assert take(receiver, len(frames)) == frames
        counters = tap.counters()
        for side in ("a", "b"):
            assert counters[side]["received"] >= 1455
            assert counters[side]["not_forwarded"] == counters[side]["not_copied"] == 0
            assert counters[side]["copied"] == counters[side]["received"] == counters[side]["forwarded"]
        assert tap.xdp_mode == "native"
        assert counters["assumed"] is False
        # What it says of the shares of CPUs depends on how many there may be.
        assert [warning for warning in tap.warnings if "the ring is divided" not in warning] == []
        assert 256 << 10 <= tap.ring_bytes_per_cpu <= 64 << 20


def test_frames_that_do_not_fit_into_a_page_are_bridged_copied_and_mirrored_too(link: Link) -> None:
    bridge = Namespace(link.namespace)
    for namespace, port in zip(
        (bridge, bridge, bridge, *link.ends.values()), (A, B, C, LEFT, RIGHT, LOGGER), strict=True
    ):
        namespace.call(partial(_set_mtu, port.name, 9000))
    frames = [frame(n, seed=n) for n in (60, 3072, 3073, 4096, 9014, 61)]
    with link.tap(ring=True, mirror=C.name, logger_mac=LOGGER_MAC) as tap:
        for sent in frames:
            link.left.send(sent)
        assert take(link.right, len(frames)) == frames
        assert take(link.logger, len(frames)) == [LOGGER_MAC + sent[6:] for sent in frames]
        assert tap.xdp_mode == "native"


def test_broadcasts_multicasts_arp_and_frames_for_others_pass(link: Link) -> None:
    frames = [
        frame(60, kind=b"\x08\x06"),
        frame(64, to=bytes.fromhex("01005e000001")),
        frame(64, to=bytes.fromhex("020000000099")),
    ]
    with link.tap():
        for sent in frames:
            link.left.send(sent)
        assert take(link.right, len(frames)) == frames


def test_vlan_tags_stay_on_their_frames(link: Link) -> None:
    sent = frame(68, kind=b"\x81\x00\x00\x64" + UNUSED_TYPE)
    link.right.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    with link.tap():
        link.left.send(sent)
        while True:
            arrived, ancillary, *_ = link.right.recvmsg(4096, 64)
            if arrived[12:14] == UNUSED_TYPE:
                break
    # The receiving kernel takes the tag out of the frame and tells it beside.
    assert arrived == sent[:12] + sent[16:]
    ((*_, auxiliary),) = ancillary
    assert struct.unpack_from("H", auxiliary, VLAN_TCI_AT) == (0x64,)


def test_a_full_ring_costs_copies_and_never_a_frame_of_the_link(link: Link) -> None:
    count = 1000
    with link.tap(ring=True, ring_bytes=1) as tap:
        for seed in range(count):
            link.left.send(frame(1514, seed=seed))
        assert take(link.right, count) == [frame(1514, seed=seed) for seed in range(count)]
        a = tap.counters()["a"]
    assert a["not_copied"] > 0 < a["copied"]
    assert a["copied"] + a["not_copied"] == a["received"] == a["forwarded"]


@pytest.mark.parametrize("gro", [True, False], ids=["as XDP frames", "through a socket"])
def test_the_mirror_sends_every_frame_with_the_loggers_address_and_else_unchanged(
    link: Link, gro: bool, eventually: Eventually
) -> None:
    link.ends["logger"].call(lambda: interface.set_offloads(LOGGER.name, gro=gro))
    frames = [frame(n, seed=n) for n in range(60, 1515, 13)]
    with link.tap(mirror=C.name, logger_mac=LOGGER_MAC) as tap:
        for sent in frames:
            link.left.send(sent)
        assert take(link.logger, len(frames)) == [LOGGER_MAC + sent[6:] for sent in frames]
        # In order over both directions as well.
        for sent in frames[:20]:
            link.left.send(sent)
            assert take(link.right, 1)
            link.right.send(sent)
            assert take(link.left, 1)
        assert take(link.logger, 40) == [LOGGER_MAC + sent[6:] for sent in frames[:20] for _ in range(2)]
        eventually(lambda: tap.counters()["mirror"]["waiting"] == 0)
        counters = tap.counters()
    mirror = counters["mirror"]
    assert mirror["sent"] + mirror["not_sent"] == counters["a"]["received"] + counters["b"]["received"]
    assert mirror["not_sent"] == 0


def test_where_the_other_interface_takes_no_xdp_frames_they_are_counted_and_the_remedy_is_named(
    link: Link, eventually: Eventually
) -> None:
    link.ends["right"].call(lambda: interface.set_offloads(RIGHT.name, gro=False))
    with link.tap(mode="native") as tap:
        for _ in range(100):
            link.left.send(frame(60))
        eventually(lambda: tap.counters()["a"]["not_forwarded"] >= 100)
        a = tap.counters()["a"]
    assert a["forwarded"] == 0
    assert a["received"] == a["not_forwarded"]
    assert "GRO" in a["reason"]
    assert B.name in a["reason"]


def test_a_link_whose_ends_take_no_xdp_frames_is_bridged_the_slow_way_and_the_remedy_is_named(
    link: Link,
) -> None:
    for end, port in (("left", LEFT), ("right", RIGHT)):
        link.ends[end].call(partial(interface.set_offloads, port.name, gro=False))
    with link.tap() as tap:
        assert tap.xdp_mode == "generic"
        assert "GRO" in tap.warnings[0]
        assert f"{A.name} and {B.name}" in tap.warnings[0]
        link.left.send(frame(60))
        assert take(link.right, 1) == [frame(60)]


def test_in_overload_every_frame_is_accounted_for_at_every_stage(link: Link, eventually: Eventually) -> None:
    """Stages that are too slow: nobody reads the ring, and the mirror has to share a CPU."""
    with link.tap(ring=True, ring_bytes=4 << 20, mirror=C.name, logger_mac=LOGGER_MAC) as tap:
        sender = engine.Engine(
            tx_netns=link.ends["left"].name,
            tx_if=LEFT.name,
            rx_netns=link.ends["right"].name,
            rx_if=RIGHT.name,
        )
        try:
            result = sender.run(_flood(0.3), (bytes.fromhex("020000000001"), bytes.fromhex("020000000002")))
        finally:
            sender.close()
        eventually(lambda: tap.counters()["mirror"]["waiting"] == 0)
    counters = tap.counters()
    a, b, mirror = counters["a"], counters["b"], counters["mirror"]
    assert result["sent"] > 10_000
    for side in (a, b):
        assert side["received"] == side["forwarded"] + side["not_forwarded"]
        assert side["received"] == side["copied"] + side["not_copied"]
    assert a["received"] > a["copied"] > 0
    assert mirror["sent"] + mirror["not_sent"] == a["received"] + b["received"]
    # Other hosts of the link say little of their own beside this.
    assert 0 <= a["forwarded"] - result["flows"]["received"].sum() < 100


def test_the_bridge_goes_with_its_process_however_that_ends(link: Link, eventually: Eventually) -> None:
    code = f"""
        import time
        from weirlab import _engine
        tap = _engine.Tap(a="{A.name}", b="{B.name}", netns="{link.namespace}", ring=True)
        print("there", flush=True)
        time.sleep(60)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "there\n"
        with pytest.raises(LabError, match="already has an XDP program"), link.tap():
            pass
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
    with link.tap():
        link.left.send(frame(60))
        assert take(link.right, 1) == [frame(60)]


def test_generic_mode_bridges_as_well_and_says_what_it_cannot_count(link: Link) -> None:
    with link.tap(mode="generic", ring=True) as tap:
        assert tap.xdp_mode == "generic"
        assert any("generic" in warning for warning in tap.warnings)
        frames = [frame(n, seed=n) for n in range(60, 1515, 31)]
        for sent in frames:
            link.left.send(sent)
        assert take(link.right, len(frames)) == frames
        counters = tap.counters()
    a = counters["a"]
    assert a["received"] == a["forwarded"] == a["copied"]
    assert counters["assumed"] is True


def test_errors_say_which_interface_and_why(link: Link) -> None:
    with pytest.raises(LabError, match="no interface 'absent' in"):
        engine.Tap(a="absent", b=B.name, netns=link.namespace)
    with pytest.raises(LabError, match="wb is given twice"):
        engine.Tap(a=A.name, b=B.name, netns=link.namespace, mirror=B.name, logger_mac=LOGGER_MAC)
    with pytest.raises(LabError, match="network namespace"):
        engine.Tap(a=A.name, b=B.name, netns="weirtap-nowhere")
    with pytest.raises(ValueError, match="go together"):
        engine.Tap(a=A.name, b=B.name, netns=link.namespace, mirror=C.name)


def test_a_closed_tap_is_gone_and_tells_its_last_counts(link: Link) -> None:
    with link.tap(ring=True) as tap:
        assert len(tap.ring_fds()) == 4
        link.left.send(frame(60))
        assert take(link.right, 1) == [frame(60)]
    with pytest.raises(ValueError, match="closed"):
        tap.ring_fds()
    counters = tap.counters()
    assert counters["a"]["received"] >= 1
    assert counters["a"]["received"] == counters["a"]["forwarded"]
    tap.close()
    assert tap.counters() == counters


def test_a_tap_that_is_closed_in_full_traffic_accounts_for_every_frame(link: Link) -> None:
    """What counters say while frames are under way is one thing, what they say at the end another."""
    with link.tap(ring=True, mirror=C.name, logger_mac=LOGGER_MAC) as tap:
        sender = engine.Engine(
            tx_netns=link.ends["left"].name,
            tx_if=LEFT.name,
            rx_netns=link.ends["right"].name,
            rx_if=RIGHT.name,
        )
        addresses = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
        traffic = threading.Thread(target=lambda: sender.run(_flood(0.5), addresses))
        traffic.start()
        try:
            while tap.counters()["a"]["received"] < 1000:
                assert traffic.is_alive()
            tap.close()
        finally:
            traffic.join()
            sender.close()
    counters = tap.counters()
    a, b, mirror = counters["a"], counters["b"], counters["mirror"]
    for side in (a, b):
        assert side["received"] == side["forwarded"] + side["not_forwarded"]
        assert side["received"] == side["copied"] + side["not_copied"]
    assert mirror["waiting"] == 0
    assert mirror["sent"] + mirror["not_sent"] == a["received"] + b["received"]


def test_a_mirror_that_was_down_is_fed_again(link: Link, eventually: Eventually) -> None:
    def turn(state: str) -> None:
        with IPRoute() as netlink:
            netlink.link("set", index=netlink.link_lookup(ifname=C.name)[0], state=state)

    bridge = Namespace(link.namespace)
    with link.tap(mirror=C.name, logger_mac=LOGGER_MAC) as tap:
        bridge.call(lambda: turn("down"))
        for _ in range(10):
            link.left.send(frame(60))
        eventually(lambda: tap.counters()["mirror"]["not_sent"] >= 10)
        assert "down" in tap.counters()["mirror"]["reason"]
        bridge.call(lambda: turn("up"))

        def is_sent() -> bool:
            # The other end needs some time to have a carrier again.
            link.left.send(frame(60))
            return bool(tap.counters()["mirror"]["sent"] > 0)

        eventually(is_sent)
        assert take(link.logger, 1) == [LOGGER_MAC + frame(60)[6:]]


def _flood(seconds: float) -> DeparturePlan:
    """As many short frames as the machine can send."""
    duration_ns = int(seconds * 1e9)
    address = np.zeros((1, 16), dtype=np.uint8)
    address[0, :4] = 198, 18, 0, 1
    return DeparturePlan(
        gap_ns=np.zeros(1, dtype=np.uint32),
        gap_frac=np.zeros(1, dtype=np.uint16),
        frame_bytes=np.array([64], dtype=np.uint16),
        flow=np.array([NEXT_FLOW], dtype=np.uint32),
        phases=[(duration_ns, 0, 1)],
        paced=False,
        warmup_ns=0,
        duration_ns=duration_ns,
        bin_ns=10_000_000,
        flows=FlowAddresses(
            src_ip=address,
            dst_ip=address + np.array([0, 1] + 14 * [0], dtype=np.uint8),
            src_port=np.array([20_000], dtype=np.uint16),
            dst_port=np.array([7], dtype=np.uint16),
        ),
        l4="udp",
        ip=4,
        nominal_pps=1e6,
    )
