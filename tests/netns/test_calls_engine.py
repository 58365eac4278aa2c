"""Packets of calls between namespaces: both directions at once, each arrival logged, every fault found."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest

from weirlab.lab import dut, wiring
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.namespaces import BackendChoice, PlainPair
from weirlab.lab.netns import NetnsLab
from weirlab.records import EngineResult, PacketLog
from weirlab.traffic.flows import FlowAddresses
from weirlab.traffic.plan import LOSE, NO_PAYLOAD, PACKET_KINDS, CallFlows, DeparturePlan, Media

pytestmark = pytest.mark.netns
pytest.importorskip("weirlab._engine", reason="the engine is not built")

PACKET_NS = 20_000_000
SPEECH = (np.arange(160) * 7 % 251).astype(np.uint8)
TEXT = np.frombuffer(b"INVITE sip:weir@198.19.1.1 SIP/2.0\r\n" * 17, dtype=np.uint8)
ETHERNET, FCS, RTP, PROBE = 14, 4, 12, 18
IP_BYTES = {4: 20, 6: 40}
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23


def calls(
    count: int,
    rounds: int,
    *,
    ip: Literal[4, 6] = 4,
    warmup_rounds: int = 0,
    signalling: bool = False,
    impair: npt.NDArray[np.uint8] | None = None,
) -> DeparturePlan:
    """``count`` calls of G.711, each with a flow forward and one back, evenly phased.

    With ``signalling`` each packet of the last round is one of text in place of speech. ``impair``
    has shape (rounds, 2 * count).
    """
    flows = 2 * count
    back = np.arange(flows) % 2 == 1
    round_of = np.repeat(np.arange(rounds), flows)
    due_ns = round_of * PACKET_NS + np.tile(np.arange(flows) * PACKET_NS // flows, rounds)
    raw = signalling & (round_of == rounds - 1)
    udp = ETHERNET + IP_BYTES[ip] + 8
    end_ns = rounds * PACKET_NS
    header = np.zeros((flows, RTP), dtype=np.uint8)
    header[:, 0] = 0x80
    header[:, 2:4] = 0xFF  # the sequence number wraps at once
    header[:, 8:] = np.arange(flows, dtype=">u4").view(np.uint8).reshape(-1, 4)
    return DeparturePlan(
        gap_ns=np.diff(np.append(due_ns, end_ns)).astype(np.uint32),
        gap_frac=np.zeros(len(due_ns), dtype=np.uint16),
        frame_bytes=(udp + FCS + np.where(raw, len(TEXT), RTP + len(SPEECH))).astype(np.uint16),
        flow=np.tile(np.arange(flows, dtype=np.uint32), rounds),
        phases=[(end_ns, 0, len(due_ns))],
        paced=True,
        warmup_ns=warmup_rounds * PACKET_NS,
        duration_ns=(rounds - warmup_rounds) * PACKET_NS,
        bin_ns=10_000_000,
        flows=_addresses(count, ip),
        l4="udp",
        ip=ip,
        nominal_pps=flows * 1e9 / PACKET_NS,
        media=Media(
            kind=np.where(raw, PACKET_KINDS["raw"], PACKET_KINDS["rtp"]).astype(np.uint8),
            stamp=(160 * round_of).astype(np.uint32),
            marker=round_of == 0,
            payload=np.where(raw, 1, np.where(round_of == 1, NO_PAYLOAD, 0)).astype(np.uint32),
            header=header,
            header_bytes=np.full(flows, RTP, dtype=np.uint8),
            flows=CallFlows(
                back=back,
                carries_media=np.ones(flows, dtype=np.bool_),
                call=(np.arange(flows) // 2).astype(np.uint32),
                calls_carried=np.ones(flows, dtype=np.uint32),
                call_class=np.zeros(flows, dtype=np.int64),
                packet_ns=np.full(flows, PACKET_NS),
            ),
            payload_bytes=np.concatenate([SPEECH, TEXT]),
            payload_start=np.cumsum([0, len(SPEECH), len(TEXT)]).astype(np.uint32),
            impair=None if impair is None else impair.ravel(),
        ),
    )


def _addresses(count: int, ip: int) -> FlowAddresses:
    """Call ``c`` is between the ``c``-th host of either side."""
    sides = []
    for side in (1, 2):
        rows = np.zeros((count, 16), dtype=np.uint8)
        if ip == 4:
            rows[:, :2] = 198, 17 + side
        else:
            rows[:, :8] = np.frombuffer(bytes.fromhex(f"200100020000000{side}"), dtype=np.uint8)
        place = 2 if ip == 4 else 14
        rows[:, place], rows[:, place + 1] = 1 + np.arange(count) // 254, 1 + np.arange(count) % 254
        sides.append(rows)
    callers, called = sides
    back = np.arange(2 * count)[:, None] % 2 == 1
    callers, called = np.repeat(callers, 2, axis=0), np.repeat(called, 2, axis=0)
    near = np.full(2 * count, 20_000, dtype=np.uint16)
    return FlowAddresses(
        src_ip=np.where(back, called, callers),
        dst_ip=np.where(back, callers, called),
        src_port=near + 2 * back[:, 0].astype(np.uint16),
        dst_port=near + 2 - 2 * back[:, 0].astype(np.uint16),
    )


@pytest.mark.parametrize("kind", ["pair", "netns"])
@pytest.mark.parametrize("backend", ["xdp", "af_packet"])
@pytest.mark.parametrize("ip", [4, 6])
def test_calls_go_both_ways_and_every_packet_is_logged_once(
    kind: str, backend: BackendChoice, ip: Literal[4, 6]
) -> None:
    plan = calls(20, 20, ip=ip, warmup_rounds=5, signalling=True)
    with PlainPair(backend) if kind == "pair" else NetnsLab(dut.make("forward"), backend) as bed:
        result = bed.play(plan)
    log = logged(result)
    assert result.received == result.sent > 0
    assert result.flows.lost.sum() == result.duplicated == result.reordered == log.missed == 0
    assert (result.flows.sent == np.bincount(log.flow, minlength=40)).all()
    for flow in range(40):
        numbers = log.seq[log.flow == flow]
        assert (numbers == log.first_seq[flow] + np.arange(len(numbers))).all()
    assert (log.sent_ns >= result.record_start_ns).all()
    assert (log.arrival_ns >= log.sent_ns).all()
    assert result.histogram.count.sum() == result.series.received.sum() == result.received


def test_packets_of_calls_are_on_the_wire_as_planned() -> None:
    from weirlab._engine import frames

    plan = calls(10, 10, signalling=True)
    with NetnsLab(dut.make("forward"), "xdp") as lab:
        assert lab.backend == "xdp"  # asking warms the engine up, whose packets are not to be seen
        device = Namespace(lab.namespaces["dut"])
        with device.call(lambda: _tap("in0")) as near, device.call(lambda: _tap("out0")) as far:
            result = lab.play(plan)
            seen = _read(near), _read(far)
    macs, back_macs = ((_mac(a), _mac(b)) for a, b in ((wiring.TX0, wiring.IN0), (wiring.RX0, wiring.OUT0)))
    expected = frames(plan, macs, back_macs)
    ends = np.cumsum(expected["length"], dtype=np.int64)
    built = [bytes(f) for f in np.split(expected["bytes"], ends[:-1])]
    assert sum(map(len, seen)) == result.sent > 0
    for side, captured in enumerate(seen):
        ours = [frame for frame, flow in zip(built, expected["flow"], strict=True) if flow % 2 == side]
        for frame, same in zip(captured, ours, strict=False):
            assert _without_clock(frame) == _without_clock(same)
            assert _sum(frame[14:34]) == 0xFFFF
            pseudo = frame[26:34] + bytes([0, 17]) + (len(frame) - 34).to_bytes(2, "big")
            assert _sum(pseudo + frame[34:]) == 0xFFFF


def test_ordinary_traffic_goes_on_as_before_around_calls() -> None:
    from weirlab.traffic.spec import Rate, Traffic

    ordinary = Traffic(Rate(2_000), warmup_s=0.05, duration_s=1.0)
    with PlainPair("xdp") as pair:
        before, between, after = pair.run(ordinary), pair.play(calls(5, 5)), pair.run(ordinary)
    assert before.packets is after.packets is None
    assert between.received == between.sent > 0
    assert before.received == before.sent > 0
    assert after.received == after.sent > 0


@dataclass(frozen=True)
class Flow:
    """What becomes of a flow by its faults alone."""

    arriving: list[int]
    numbered: int

    @property
    def duplicated(self) -> int:
        return len(self.arriving) - len(set(self.arriving))

    @property
    def reordered(self) -> int:
        """RFC 4737: first arrivals below a number that was there before."""
        count, newest, seen = 0, -1, set()
        for number in self.arriving:
            count += number not in seen and number < newest
            newest = max(newest, number)
            seen.add(number)
        return count


def follow(faults: npt.NDArray[np.uint8]) -> Flow:
    arriving, numbered = [], 0
    for fault in faults.tolist():
        if fault == 0:
            arriving.append(numbered)
        elif fault != LOSE:
            arriving.append(numbered - fault)
        numbered += fault in (0, LOSE)
    return Flow(arriving, numbered)


# Lost for good: one, then two in a row. Twice: at once, and after three others. Late: by one, by four.
FAULTS = np.array(
    [0, 0, LOSE, 0, 1, 0, LOSE, LOSE, 0, 0, 0, 4, 0, LOSE, 0, 2, 0, LOSE, 0, 0, 0, 0, 5, 0], dtype=np.uint8
)


@pytest.mark.parametrize(
    ("count", "backend"), [(10_000, "xdp"), (50, "af_packet")], ids=["xdp-1Mpps", "af_packet"]
)
def test_every_injected_fault_is_recovered_exactly(count: int, backend: BackendChoice) -> None:
    flows, rounds = 2 * count, 40
    # Each flow is at another place of the pattern, which begins with two packets to send again.
    place = np.arange(rounds)[:, None] + np.arange(flows)[None, :]
    impair = np.where(np.arange(rounds)[:, None] < 5, 0, FAULTS[place % len(FAULTS)]).astype(np.uint8)
    with PlainPair(backend) as pair:
        result = pair.play(calls(count, rounds, impair=impair))
    log = logged(result)
    # A machine that is busy lets the sender play less than all of it; what it played is a beginning.
    played = _played(impair.ravel(), result.sent, len(log.flow))
    left = np.arange(rounds * flows).reshape(rounds, flows) < played
    numbers = np.split(
        log.seq[np.argsort(log.flow, kind="stable")], np.cumsum(np.bincount(log.flow, minlength=flows))[:-1]
    )
    table = result.flows
    for flow in range(flows):
        truth = follow(impair[left[:, flow], flow])
        assert numbers[flow].tolist() == truth.arriving
        assert table.sent[flow] == truth.numbered
        assert table.lost[flow] == truth.numbered - len(set(truth.arriving))
        assert (table.duplicated[flow], table.reordered[flow]) == (truth.duplicated, truth.reordered)
    assert set(impair.ravel()[:played]) == set(FAULTS), "not every kind of fault was played"
    assert result.lost > 0 < result.duplicated * result.reordered


def _played(impair: npt.NDArray[np.uint8], sent: int, arrived: int) -> int:
    """How many entries of the schedule were played until so many were counted as sent and came."""
    numbered, came = np.cumsum((impair == 0) | (impair == LOSE)), np.cumsum(impair != LOSE)
    (places,) = np.nonzero((numbered == sent) & (came == arrived))
    assert len(places), "more or fewer arrived than were sent"
    return int(places[0]) + 1


def logged(result: EngineResult) -> PacketLog:
    assert result.packets is not None
    return result.packets


def _tap(name: str) -> socket.socket:
    """Sees what comes in at an interface, before anything else does."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    tap.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    tap.setblocking(False)
    tap.bind((name, 0x0800))  # test traffic of this file is IPv4
    return tap


def _read(tap: socket.socket) -> list[bytes]:
    frames = []
    while True:
        try:
            frames.append(tap.recv(2048))
        except BlockingIOError:
            return [frame for frame in frames if len(frame) > ETHERNET + IP_BYTES[4] + 8 + PROBE]


def _without_clock(frame: bytes) -> bytes:
    """Without the magic number and the time of the probe, and the checksum that comes of them."""
    return frame[:40] + frame[42:-18] + frame[-16:-8]


def _sum(data: bytes) -> int:
    total = int(np.frombuffer(data + bytes(len(data) % 2), dtype=">u2").sum(dtype=np.uint64))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _mac(port: Port) -> bytes:
    return bytes.fromhex(port.mac.replace(":", ""))
