"""What passes a virtual machine, compared with the formulas."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from weirlab.base.errors import LabError, MissingCapability
from weirlab.calls.capacity.trials.search import CallTraffic
from weirlab.lab.dut.vm.device import VirtualFilter
from weirlab.lab.dut.vm.tunnels import VirtualTunnel
from weirlab.lab.machines import building, qemu
from weirlab.lab.netns import NetnsLab
from weirlab.measure import TrialEntry
from weirlab.measure.calls import CallAssessment, run_calls
from weirlab.measure.terms import SINGLE
from weirlab.quality import emodel
from weirlab.quality.codecs import impairment
from weirlab.quality.jitterbuffer import Buffers
from weirlab.records import CallTable, RuleSetup
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

from .conftest import wait_until
from .test_tunnels import MARK, RTP_BYTES, between_gateways, ip_length

TRAFFIC: Final = Traffic(Rate(200.0), Constant(128), warmup_s=0.0, duration_s=0.2)
SENT: Final = 40
FEW: Final = 5
G711: Final = parse_codec("g711", 4)
SPEECH_UDP_BYTES: Final = 8 + 12 + 160
"""Of a packet of G.711 with 20 ms."""


DEEP: Final = Buffers(fixed_ms=1000.0)
"""No packet comes too late, however slow the guest."""


def need_machines() -> None:
    """Skip where no virtual machine can be."""
    if missing := qemu.missing():
        pytest.skip("; ".join(missing))
    try:
        building.build()
    except (MissingCapability, LabError) as error:
        pytest.skip(f"the virtual machine cannot be built here: {error}")


def the_filter(lab: NetnsLab) -> VirtualFilter:
    assert isinstance(lab._driver, VirtualFilter)
    return lab._driver


def the_tunnel(pair: NetnsLab) -> VirtualTunnel:
    assert isinstance(pair._driver, VirtualTunnel)
    return pair._driver


def check_length(pair: NetnsLab, driver: VirtualTunnel, size: int, *, encrypted: bool = True) -> None:
    payload = (MARK + bytes(size))[: RTP_BYTES + size]
    frames = between_gateways(pair, payload)
    assert driver.encapsulation.packet_bytes(VoicePacket(size)) in [ip_length(frame) for frame in frames]
    assert any(payload in frame for frame in frames) is not encrypted


def all_pass(lab: NetnsLab, counter: str = "rx_rx_packets") -> bool:
    """Whether ``counter`` sees all test traffic, in the end: a slow guest may be late for the engine."""
    before = lab.counters()[counter]
    sent = lab.run(TRAFFIC).sent
    wait_until(lambda: lab.counters()[counter] >= before + sent)
    # A guest that came up just now may send a few IPv6 multicasts of its own.
    return lab.counters()[counter] <= before + sent + FEW


def check_calls(pair: NetnsLab, one_in: int) -> None:
    """Four calls for a second, of whose packets of speech the near gateway drops one in ``one_in``.

    Loss is what was dropped, and MOS is what follows from it.
    """
    near = the_tunnel(pair).ends[0].guest
    pair.set_rules(RuleSetup())
    near.do("nft flush ruleset")
    if one_in:
        near.do(
            "nft add table ip loss && "
            "nft 'add chain ip loss c { type filter hook forward priority 0; }' && "
            f"nft add rule ip loss c udp length {SPEECH_UDP_BYTES} numgen inc mod {one_in} 0 counter drop"
        )
    wanted = CallTraffic(Calls((CallClass(G711),), 1)).spec(0, 4, trial_s=1.0, warmup_s=0.0)
    once = replace(SINGLE, max_attempts=1)
    hearing = CallAssessment(DEEP, keep_packets=True)
    before = pair.counters()
    (record,) = run_calls(pair, wanted, TrialEntry("r"), hearing, terms=once, set_rules=False)
    result, table = record.result, record.calls
    assert table is not None
    assert len(table) == 4 * 2

    def dropped() -> int:
        counted = re.search(r"counter packets (\d+)", near.do("nft list ruleset"))
        return int(counted[1]) if counted else 0

    def arrived() -> int:
        return sum(pair.counters()[name] - before[name] for name in ("rx_rx_packets", "tx_rx_packets"))

    wait_until(lambda: arrived() + dropped() >= result.sent)
    assert arrived() + dropped() == result.sent
    assert (dropped() > 0) == (one_in > 0)
    # What a slow guest delivers when nobody waits any more is lost to those who call.
    late = arrived() - result.received
    assert dropped() <= int(table.lost.sum()) <= dropped() + late
    assert_mos_follows(table)


def assert_mos_follows(table: CallTable) -> None:
    """MOS behind the fixed buffer is that of the E-model for the loss and delay in the same row."""
    assert not table.late_fixed.any()
    coded = impairment(G711.codec, DEEP.concealment)
    delay_ms = table.playout_fixed_ns / 1e6
    expected = emodel.rate(
        emodel.EmodelParameters(
            t=delay_ms,
            tr=2 * delay_ms,
            ta=delay_ms,
            ie=coded.ie,
            bpl=coded.bpl,
            ppl=100.0 * table.lost / table.sent,
            burst_r=np.where(np.isnan(table.burst_ratio), 1.0, table.burst_ratio),
        )
    ).mos
    np.testing.assert_allclose(table.mos_fixed, expected, atol=1e-9)
