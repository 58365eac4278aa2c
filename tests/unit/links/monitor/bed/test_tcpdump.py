"""What tcpdump says when it ends, and who records where."""

from __future__ import annotations

import pytest

from weirlab.base.errors import LabError
from weirlab.lab.cores import Cores
from weirlab.links.monitor.bed.lab import spare_cpu
from weirlab.links.monitor.bed.recording import TcpdumpSummary, statement
from weirlab.links.monitor.plan import stages_of
from weirlab.testing import make_result

ENDED = """tcpdump: listening on in0, link-type EN10MB (Ethernet), snapshot length 262144 bytes
68104 packets captured
403292 packets received by filter
335188 packets dropped by kernel
"""


def test_the_last_words_are_numbers() -> None:
    assert statement(ENDED) == TcpdumpSummary(68_104, 403_292, 335_188)


def test_one_packet_is_not_many() -> None:
    one = "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n"
    assert statement(one) == TcpdumpSummary(1, 1, 0)


def test_an_end_without_numbers_is_told_with_what_was_said_instead() -> None:
    with pytest.raises(LabError, match=r"it printed last: tcpdump: in0: That device is not up"):
        statement("tcpdump: in0: That device is not up\n")


def test_a_third_cpu_records_and_else_the_bridges_own() -> None:
    assert spare_cpu(Cores(0, 1), {0, 1}) == 1
    assert spare_cpu(Cores(0, 1), {0, 1, 2, 3}) == 2


def test_a_bridge_of_the_kernel_tells_its_stages_by_its_interfaces() -> None:
    counted = {
        "tx_tx_dropped": 5,
        "in_rx_packets": 995,
        "out_tx_packets": 990,
        "out_tx_dropped": 4,
        "rx_rx_packets": 985,
    }
    result = make_result(1000, loss_ratio=0.012)
    on_bridge = stages_of(counted, result, "tcpdump-bridge")
    assert (on_bridge.sent, on_bridge.not_entered, on_bridge.entered) == (1000, 5, 995)
    # Counted by the interface, not what is left: one frame is in no count, and the sum does not close.
    assert (on_bridge.forwarded, on_bridge.not_forwarded, on_bridge.received) == (990, 4, 988)
    # Where tcpdump listens at the receiver, the interface counts what arrived.
    at_receiver = stages_of(counted, result, "tcpdump-receiver")
    assert (at_receiver.received, at_receiver.at_receiver) == (985, True)


def test_a_tap_tells_its_stages_itself() -> None:
    counted = {
        "tx_tx_dropped": 0,
        "tap_received": 1000,
        "tap_not_forwarded": 1,
        "out_tx_packets": 998,
        "tap_copied": 990,
        "tap_cut": 0,
        "tap_not_copied": 10,
        "mirror_sent": 980,
        "mirror_not_sent": 10,
    }
    result = make_result(1000)
    bare, ring, mirror = (stages_of(counted, result, m) for m in ("tap-bare", "tap-ring", "tap-mirror"))
    assert (bare.forwarded, bare.not_forwarded) == (998, 1)
    assert (bare.copied, bare.mirrored) == (None, None)
    assert (ring.copied, ring.not_copied, ring.mirrored) == (990, 10, None)
    assert (mirror.mirrored, mirror.not_mirrored, mirror.copied) == (980, 10, None)
