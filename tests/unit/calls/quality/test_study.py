from __future__ import annotations

import gzip
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab import _engine
from weirlab.base.errors import InputError
from weirlab.calls.quality.study import CaptureReading, Encoding, capture_quality

from .captures import (
    Rtp,
    ethernet,
    frames,
    later,
    pcap,
    pcapng,
    talk,
    udp_over_ip,
    without,
)

SDP = """\
v=0\r
o=- 1 1 IN IP4 192.0.2.2\r
s=-\r
c=IN IP4 192.0.2.2\r
t=0 0\r
m=audio 4002 RTP/AVP 111 101\r
a=rtpmap:111 opus/48000/2\r
a=rtpmap:101 telephone-event/8000\r
"""
INVITE = f"INVITE sip:b@192.0.2.1 SIP/2.0\r\nContent-Type: application/sdp\r\n\r\n{SDP}".encode()


def link_layers(packet: Rtp) -> dict[str, tuple[int, bytes]]:
    ip = packet.ip
    return {
        "Ethernet": (1, packet.frame),
        "VLAN": (1, ethernet(ip, bytes.fromhex("81000064"))),
        "QinQ": (1, ethernet(ip, bytes.fromhex("88a8000a81000064"))),
        "SLL": (113, bytes.fromhex("0000000100060202020202020000 0800") + ip),
        "SLL2": (276, bytes.fromhex("0800000000000003000100060202020202020000") + ip),
        "raw IP": (101, ip),
        "NULL": (0, bytes.fromhex("02000000") + ip),
        "loopback": (108, bytes.fromhex("00000002") + ip),
    }


@pytest.mark.parametrize("link", link_layers(talk(1)[0]))
def test_every_link_layer_gives_the_same_stream(file: Path, link: str) -> None:
    packets = talk(20)
    number = link_layers(packets[0])[link][0]
    pcap(file, [(p.at_us, link_layers(p)[link][1]) for p in packets], link=number)
    outcome = capture_quality(file)
    stream = outcome.streams[0]
    assert stream.title == "192.0.2.1:4000 > 192.0.2.2:4002"
    assert (stream.ssrc, stream.codec, stream.clock_hz) == (0x1234ABCD, "PCMU", 8000)
    assert stream.vlan == {"VLAN": "100", "QinQ": "10.100"}.get(link, "")
    assert outcome.table.streams.received.tolist() == [20]
    assert outcome.table.streams.jitter_ns.tolist() == [0.0]


def test_byte_order_resolution_and_container_change_nothing(tmp_path: Path) -> None:
    made = frames(talk(50, jitter_us=2000))
    files = [
        *(pcap(tmp_path / f"{o == '<'}{n}", made, order=o, nano=n) for o in "<>" for n in (False, True)),
        *(pcapng(tmp_path / f"ng{order == '<'}", made, order=order) for order in "<>"),
    ]
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(files[0].read_bytes()))
    read = [_engine.rtp_packets(str(each)) for each in (*files, packed)]
    assert {each["capture"]["format"] for each in read} == {"pcap", "pcapng", "pcap+gzip"}
    for each in read:
        for name, column in read[0]["packets"].items():
            assert np.array_equal(each["packets"][name], column), name


def test_packets_cut_short_behind_their_headers_count_in_full(file: Path) -> None:
    pcap(file, frames(talk(20)), snap=54)
    read = _engine.rtp_packets(str(file))
    assert read["capture"]["truncated"] == 20
    assert set(read["packets"]["payload_bytes"].tolist()) == {160}


def test_known_losses_copies_and_late_packets_are_found_exactly(file: Path) -> None:
    whole = talk(300, seq=65_400, stamp=2**32 - 8000)
    lost = [10, 11, 12, 40, 200, 201]
    late = {70: 25_000, 90: 45_000}
    packets = [later(p, late.get(i, 0)) for i, p in enumerate(whole) if i not in lost]
    copies = [later(whole[i], 2_000) for i in (20, 30, 30, 250)]
    pcap(file, frames([*packets, *copies]))
    measured = capture_quality(file).table.streams
    assert measured.sent.tolist() == [300]
    assert measured.received.tolist() == [294]
    assert measured.losses.count.tolist() == [6]
    assert measured.losses.runs.tolist() == [3]
    assert measured.losses.longest.tolist() == [3]
    # Mean run of 2 over 1 / (1 - p).
    assert measured.losses.burst_ratio[0] == pytest.approx(2 * (1 - 6 / 300))
    assert measured.duplicated.tolist() == [4]
    assert measured.reordered.tolist() == [2]
    assert measured.longest_gap_ns.tolist() == [80e6]


def test_streams_differ_by_source_address_port_and_vlan(file: Path) -> None:
    made = [
        *frames(talk(20)),
        *frames(talk(21, ssrc=7)),
        *frames(talk(22, dst_port=4004)),
        *frames(talk(23, src="2001:db8::1", dst="2001:db8::2")),
        *((p.at_us, ethernet(p.ip, bytes.fromhex("81000005"))) for p in talk(24)),
    ]
    pcap(file, sorted(made, key=lambda packet: packet[0]))
    outcome = capture_quality(file)
    assert outcome.table.streams.received.tolist() == [20, 21, 22, 23, 24]
    assert outcome.streams[3].title == "[2001:db8::1]:4000 > [2001:db8::2]:4002"


def test_a_source_that_starts_anew_is_two_streams_without_loss(file: Path) -> None:
    again = [later(p, 3_000_000) for p in talk(60, seq=40_000, stamp=123_456_789)]
    pcap(file, frames([*talk(100), *again]))
    outcome = capture_quality(file)
    assert [(s.part, s.ssrc) for s in outcome.streams] == [(0, 0x1234ABCD), (1, 0x1234ABCD)]
    assert outcome.table.streams.losses.count.tolist() == [0, 0]


def test_silence_is_no_loss_and_no_jitter(file: Path) -> None:
    spurts = [
        replace(p, at_us=p.at_us + i // 50 * 700_000, stamp=p.stamp + i // 50 * 5600, marker=i % 50 == 0)
        for i, p in enumerate(talk(200))
    ]
    pcap(file, frames(spurts))
    measured = capture_quality(file).table.streams
    assert measured.losses.count.tolist() == [0]
    assert measured.jitter_max_ns.tolist() == [0.0]


def test_telephone_events_count_for_loss_and_not_for_jitter(file: Path) -> None:
    packets = talk(100, payload_type=111, stamp=0)
    # Opus counts at 48 kHz; the event keeps the time at which it began (RFC 4733).
    packets = [replace(p, stamp=i * 960) for i, p in enumerate(packets)]
    packets[40:50] = [replace(p, payload_type=101, stamp=40 * 960) for p in packets[40:50]]
    sip = ethernet(udp_over_ip("192.0.2.2", "192.0.2.1", 5060, 5060, INVITE))
    pcap(file, [(0, sip), *frames(without(packets, [45]))])
    outcome = capture_quality(file)
    assert (outcome.streams[0].codec, outcome.streams[0].known_by) == ("opus", "sdp")
    assert [t[:2] for t in outcome.streams[0].payload_types] == [(101, 9), (111, 90)]
    assert outcome.table.streams.losses.count.tolist() == [1]
    assert outcome.table.streams.jitter_max_ns.tolist() == [0.0]


def test_codecs_that_the_capture_does_not_tell_can_be_given(file: Path) -> None:
    pcap(file, frames(talk(100, payload_type=97)))
    unknown = capture_quality(file)
    assert (unknown.streams[0].codec, unknown.streams[0].clock_hz) == ("", 8000)
    assert unknown.streams[0].known_by == "estimated"
    assert np.isnan(unknown.mos).all()
    assert any("No MOS for stream 1" in note for note in unknown.notes())
    for key in (97, None):
        told = capture_quality(file, CaptureReading(codecs={key: Encoding("PCMA", 8000)}))
        assert told.mos[0] > 4.3
    assert np.isnan(capture_quality(file, CaptureReading(codecs={96: Encoding("PCMA", 8000)})).mos).all()


def test_mos_says_whether_the_delay_of_the_network_is_in_it(file: Path) -> None:
    pcap(file, frames(talk(200, jitter_us=1000)))
    without_delay, with_delay = capture_quality(file), capture_quality(file, CaptureReading(network_ms=250))
    assert with_delay.mos[0] < without_delay.mos[0] - 0.3
    assert any("does not show the network's delay" in note for note in without_delay.notes())
    assert any("250 ms, as given" in note for note in with_delay.notes())
    with pytest.raises(InputError, match="network delay of -1 ms"):
        capture_quality(file, CaptureReading(network_ms=-1))


def test_mos_falls_with_loss_and_with_bursts_of_it(file: Path) -> None:
    whole = talk(1000)
    spread = [replace(p, ssrc=2) for p in without(whole, range(10, 1000, 25))]
    bursts = [
        replace(p, ssrc=3) for p in without(whole, [i + k for i in range(10, 1000, 125) for k in range(5)])
    ]
    pcap(file, frames([*whole, *spread, *bursts]))
    outcome = capture_quality(file)
    assert outcome.table.streams.losses.count.tolist() == [0, 40, 40]
    none, random, bursty = outcome.mos
    assert none > random > bursty
    assert outcome.worst_first() == [2, 1, 0]


def iax2_frames(stamps_ms: list[int]) -> list[tuple[int, bytes]]:
    """Mini frames of call 7 behind a full one with GSM."""
    full = struct.pack(">HHIBBBB", 0x8007, 9, stamps_ms[0], 0, 0, 2, 2)
    heads = [full, *(struct.pack(">HH", 7, ms & 0xFFFF) for ms in stamps_ms[1:])]
    made = (udp_over_ip("192.0.2.1", "192.0.2.2", 4569, 4569, head + bytes(33)) for head in heads)
    return [(ms * 1000, ethernet(ip)) for ms, ip in zip(stamps_ms, made, strict=True)]


def test_iax2_is_assessed_by_its_time_stamps_and_marked_so(file: Path) -> None:
    # Beyond the 65,536 ms that a mini frame can tell.
    stamps = [20 * i for i in range(1, 4000) if i not in (100, 101, 3500)]
    pcap(file, iax2_frames(stamps))
    outcome = capture_quality(file)
    stream = outcome.streams[0]
    assert (stream.protocol, stream.ssrc, stream.codec, stream.loss_estimated) == ("iax2", 7, "GSM", True)
    assert outcome.table.streams.losses.count.tolist() == [3]
    assert outcome.table.packet_ns.tolist() == [20_000_000]
    assert any("IAX2 has no sequence numbers" in note for note in outcome.notes())
    assert outcome.document()["streams"][0]["loss_estimated"] is True


def test_streams_can_be_chosen_by_number_source_and_address(file: Path) -> None:
    pcap(file, frames([*talk(20), *talk(21, ssrc=0x77), *talk(22, src="192.0.2.9", src_port=6000)]))
    for named, numbers in [
        (["2"], [2]),
        (["0x77"], [2]),
        (["0x00000077", "3"], [2, 3]),
        (["192.0.2.9"], [3]),
        (["192.0.2.2:4002"], [1, 2, 3]),
    ]:
        outcome = capture_quality(file, CaptureReading(only=named))
        assert [stream.number for stream in outcome.streams] == numbers, named
        assert outcome.table.streams.received.tolist() == [19 + n for n in numbers]
    with pytest.raises(InputError, match="no stream '0x'"):
        capture_quality(file, CaptureReading(only=["0x"]))
    with pytest.raises(InputError, match=r"no stream .192\.0\.2\.77.: it has streams 1 to 3"):
        capture_quality(file, CaptureReading(only=["192.0.2.77"]))


def test_a_stream_too_long_to_assess_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weirlab.calls.quality.study.LONGEST_STREAM", 20)
    pcap(file, frames([*talk(20), *talk(21, ssrc=0x77)]))
    with pytest.raises(InputError, match=r"stream 2 spans 21 sequence numbers.*--stream"):
        capture_quality(file)
    assert len(capture_quality(file, CaptureReading(only=["1"])).streams) == 1


def test_a_capture_without_voice_says_what_it_has(file: Path) -> None:
    dns = ethernet(udp_over_ip("192.0.2.1", "192.0.2.2", 4000, 53, bytes(30)))
    pcap(file, [(i, dns) for i in range(7)])
    with pytest.raises(InputError, match=r"no voice stream in .*7 packets: 7 other UDP.*--decode-as"):
        capture_quality(file)
    pcap(file, frames(talk(2)))
    assert len(capture_quality(file, CaptureReading(decode_as=[(4000, 4000)])).streams) == 1
    pcap(file, [(0, bytes(40))], link=106)
    with pytest.raises(InputError, match=r"1 packet of a link type that Weir does not know \(LINKTYPE 106\)"):
        capture_quality(file)
    pcap(file, frames(talk(3)))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match="the file ends inside a packet"):
        capture_quality(file)


def test_files_that_cannot_be_read_say_why_and_where(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("this is no capture at all")
    with pytest.raises(
        InputError, match="neither pcap nor pcapng: it begins with 74 68 69 73; files of tcpdump"
    ):
        capture_quality(text)
    with pytest.raises(InputError, match="cannot be opened: No such file"):
        capture_quality(tmp_path / "absent")
    damaged = pcap(tmp_path / "damaged", frames(talk(20)))
    size = damaged.stat().st_size
    damaged.write_bytes(damaged.read_bytes() + b"\xff" * 16)
    with pytest.raises(
        InputError, match=f"damaged at offset {size}: a packet of 4294967295 bytes; what lies"
    ):
        capture_quality(damaged)
    with pytest.raises(InputError, match="is a folder; expected is a capture file"):
        capture_quality(tmp_path)


def test_a_file_that_ends_inside_a_packet_is_assessed_and_said_to(file: Path) -> None:
    pcap(file, frames(talk(20)))
    file.write_bytes(file.read_bytes()[:-30])
    outcome = capture_quality(file)
    assert outcome.table.streams.received.tolist() == [19]
    assert any("ends inside a packet" in note for note in outcome.notes())


@given(st.data())
def test_injected_losses_are_recovered_whatever_they_are(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    count = data.draw(st.integers(20, 120))
    # Losses at the ends cannot be seen; the first packets prove the stream.
    lost = data.draw(st.sets(st.integers(6, count - 2), max_size=count // 3))
    copied = data.draw(st.sets(st.sampled_from(sorted(set(range(count)) - lost)), max_size=5))
    whole = talk(count, seq=data.draw(st.integers(0, 65_535)), stamp=data.draw(st.integers(0, 2**32 - 1)))
    packets = [*without(whole, lost), *(later(whole[i], 1_000) for i in copied)]
    file = pcap(tmp_path_factory.mktemp("losses") / "file", frames(packets))
    measured = capture_quality(file).table.streams
    assert measured.losses.count.tolist() == [len(lost)]
    assert measured.losses.runs.tolist() == [sum(i - 1 not in lost for i in lost)]
    assert measured.duplicated.tolist() == [len(copied)]
    assert measured.jitter_max_ns.tolist() == [0.0]


def test_the_skew_of_a_senders_clock_is_a_finding(file: Path) -> None:
    slow = [
        replace(packet, at_us=packet.at_us + i * 3 * 20_000 // 10_000) for i, packet in enumerate(talk(3_000))
    ]
    outcome = capture_quality(pcap(file, frames(slow)), CaptureReading(heard="fixed"))
    assert outcome.document()["streams"][0]["skew_ppm"] == pytest.approx(300, abs=1)
    assert any("300 ppm slow" in note for note in outcome.notes())
    steady = capture_quality(pcap(file, frames(talk(3_000))), CaptureReading(heard="fixed"))
    assert np.isnan(steady.document()["streams"][0]["skew_ppm"])
    assert outcome.mos[0] == pytest.approx(steady.mos[0], abs=0.05)
