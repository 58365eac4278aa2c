"""Streams of a capture, beside what tshark says of the same file."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weirlab.base.errors import InputError
from weirlab.quality.captures import CaptureTable, VoicePackets, capture_table

from .rtp_capture import Rtp, streams_of_tshark, write

MS = 1_000_000
BEGAN_NS = 1_700_000_000 * 10**9

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def spoken(count: int = 400, seed: int = 1) -> list[Rtp]:
    """G.711 in packets of 20 ms with exponential delays, in whole microseconds."""
    delay_us = np.random.default_rng(seed).exponential(3000, count).astype(int)
    return [Rtp(BEGAN_NS + i * 20 * MS + int(delay_us[i]) * 1000, i, i * 160) for i in range(count)]


def in_order(packets: list[Rtp]) -> list[Rtp]:
    return sorted(packets, key=lambda packet: packet.arrival_ns)


def columns(packets: list[Rtp], stream: int = 0) -> VoicePackets:
    return VoicePackets(
        stream=np.full(len(packets), stream),
        arrival_ns=np.array([packet.arrival_ns for packet in packets]),
        seq=np.array([packet.seq for packet in packets]),
        timestamp=np.array([packet.timestamp for packet in packets]),
        speech=np.array([packet.payload_type == 0 for packet in packets]),
        payload_bytes=np.array([packet.payload_bytes for packet in packets]),
        stretch=np.zeros(len(packets), dtype=np.int64),
    )


def heard(packets: list[Rtp], network_ms: float | None = None, clock_hz: int = 8000) -> CaptureTable:
    return capture_table(columns(packets), ["PCMU"], np.array([clock_hz]), network_ms=network_ms)


def with_loss(packets: list[Rtp]) -> list[Rtp]:
    return [packet for packet in packets if packet.seq % 17 not in (3, 4)]


def out_of_order(packets: list[Rtp]) -> list[Rtp]:
    return in_order([
        replace(packet, arrival_ns=packet.arrival_ns + (50 * MS if packet.seq % 40 == 10 else 0))
        for packet in packets
    ])  # fmt: skip


def wrapping(packets: list[Rtp]) -> list[Rtp]:
    return [
        replace(packet, seq=packet.seq + 65_400, timestamp=packet.timestamp + (1 << 32) - 8000)
        for packet in packets
    ]


@needs_tshark
@pytest.mark.parametrize("change", [list, with_loss, out_of_order, wrapping])
def test_tshark_counts_the_same_losses_and_the_same_jitter(change: type, tmp_path: Path) -> None:
    packets: list[Rtp] = change(in_order(spoken()))
    write(tmp_path / "calls.pcap", packets)
    (theirs,) = streams_of_tshark(tmp_path / "calls.pcap")
    ours = heard(packets).streams
    assert (int(ours.received[0]), int(ours.losses.count[0])) == (theirs.packets, theirs.lost)
    assert float(ours.jitter_ns[0]) / MS == pytest.approx(theirs.mean_jitter_ms, abs=0.00051)
    assert float(ours.jitter_max_ns[0]) / MS == pytest.approx(theirs.max_jitter_ms, abs=0.00051)


def test_delay_counts_from_the_fastest_packet() -> None:
    packets = [
        Rtp(BEGAN_NS + 77 * MS + i * 20 * MS + (9 * MS if i == 5 else 0), i, i * 160) for i in range(50)
    ]
    streams = heard(packets).streams
    assert (streams.delay_min_ns[0], streams.delay_max_ns[0]) == (0, 9 * MS)


def test_packet_time_and_codec_come_from_the_stream() -> None:
    packets = [Rtp(BEGAN_NS + i * 30 * MS, i, i * 240, payload_bytes=24) for i in range(20)]
    table = capture_table(columns(packets), ["G723"], np.array([8000]))
    assert table.packet_ns.tolist() == [30 * MS]
    assert table.kinds[0].ie == 15, "24 bytes in 30 ms are 6.4 kbit/s: the codec of 6.3 kbit/s"


def test_without_the_networks_delay_mos_says_so_and_is_better() -> None:
    blind, told = heard(spoken()), heard(spoken(), network_ms=250)
    assert "does not show" in blind.assumption
    assert "250 ms" in told.assumption
    assert blind.mos[0] > told.mos[0]
    assert told.fixed.play_ns[0] - blind.fixed.play_ns[0] == pytest.approx(250 * MS)


def test_telephone_events_are_no_jitter() -> None:
    packets = spoken()
    # Packets of one event all have the time stamp at which it began (RFC 4733).
    pressed = [
        replace(packet, payload_type=101, timestamp=100 * 160, payload_bytes=4)
        if 100 <= packet.seq < 110
        else packet
        for packet in packets
    ]
    plain, with_event = heard(in_order(packets)).streams, heard(in_order(pressed)).streams
    assert with_event.losses.count[0] == 0
    assert with_event.jitter_max_ns[0] < 1.5 * plain.jitter_max_ns[0]


def test_copies_are_no_packets() -> None:
    packets = spoken()
    copied = in_order(
        packets + [replace(p, arrival_ns=p.arrival_ns + MS) for p in packets if p.seq % 50 == 7]
    )
    table = heard(copied)
    assert (table.streams.received[0], table.streams.duplicated[0]) == (400, 8)
    assert table.mos[0] == heard(in_order(packets)).mos[0]


def test_without_a_clock_only_counts_are_known() -> None:
    table = heard(with_loss(spoken()), clock_hz=0)
    assert table.streams.losses.count[0] > 0
    assert np.isnan([table.streams.jitter_ns[0], table.streams.delay_max_ns[0], table.mos[0]]).all()


def test_without_any_speech_only_counts_are_known() -> None:
    noise = [replace(packet, payload_type=13, payload_bytes=1) for packet in with_loss(spoken())]
    table = capture_table(columns(noise), ["CN"], np.array([8000]))
    assert table.streams.losses.count[0] > 0
    assert table.streams.longest_gap_ns[0] > 0
    assert np.isnan([table.streams.jitter_ns[0], table.streams.delay_max_ns[0], table.mos[0]]).all()


def test_a_day_of_a_fast_clock_keeps_its_time() -> None:
    # 1.8e10 ticks of 90,000 Hz: 200,000 s, times 1e9 more than 63 bits hold.
    early = [Rtp(BEGAN_NS + i * 20 * MS, i, i * 1800) for i in range(10)]
    late = [
        replace(p, arrival_ns=p.arrival_ns + 200_000_000 * MS + 3 * MS, seq=p.seq + 10,
                timestamp=p.timestamp + 18_000_000_000)
        for p in early
    ]  # fmt: skip
    table = heard([*early, *late], clock_hz=90_000)
    assert table.streams.delay_max_ns[0] == 3 * MS
    assert table.streams.delay_min_ns[0] == 0


def test_a_packet_may_be_copied_more_than_65_536_times() -> None:
    packets = spoken(3)
    table = heard([packets[0], *[packets[1]] * 70_001, packets[2]])
    assert (table.streams.received[0], table.streams.duplicated[0]) == (3, 70_000)


def test_a_stream_that_starts_anew_unnoticed_is_refused() -> None:
    packets = [*spoken(3), replace(spoken(1)[0], seq=1 << 30)]
    with pytest.raises(InputError, match="restarted"):
        heard(packets)


def test_packets_that_are_not_by_stream_are_refused() -> None:
    mixed = columns(spoken(4))
    with pytest.raises(InputError, match="one stream after the other"):
        capture_table(replace(mixed, stream=np.array([0, 1, 0, 1])), ["PCMU"] * 2, np.array([8000] * 2))
