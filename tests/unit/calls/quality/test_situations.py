"""What callers complain about, and what only looks like a fault of the network: findings of streams."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from weirlab.calls.quality import tables
from weirlab.calls.quality.wording import CAPTURE, of_capture, sentence, verdict
from weirlab.requirements import parse

from .captures import Rtp, ethernet, later, talk, udp_over_ip, without
from .situations import INVITE, OK, Frames, answered, back, found, message, outcome_of, sip

CALLER, CALLEE = ("192.0.2.1", 4000), ("192.0.2.2", 4002)


def test_hold_music_of_another_source_is_no_loss_of_the_speaker(file: Path) -> None:
    speaker = talk(1_000)
    music = [replace(each, ssrc=9, seq=each.seq + 777) for each in speaker[400:600]]
    outcome = outcome_of(file, [*speaker[:400], *music, *speaker[600:]])
    row = outcome.document()["streams"][0]
    assert (row["lost"], row["not_sent"], row["pauses"]) == (0, 200, 1)
    assert outcome.mos[0] > 4.3
    ((streams, text),) = found(outcome, "pause")
    assert streams == (1,)
    assert "200 numbers that it skipped were not lost" in text


@pytest.mark.parametrize(
    ("payload_type", "step", "rate"), [(9, 320, 16_000), (8, 80, 4_000), (0, 240, 12_000)]
)
def test_stamps_at_the_wrong_rate_are_a_finding_and_spoil_nothing(
    file: Path, payload_type: int, step: int, rate: int
) -> None:
    packets = [
        replace(each, stamp=1_000 + i * step, payload_type=payload_type)
        for i, each in enumerate(talk(600, jitter_us=300))
    ]
    outcome = outcome_of(file, packets)
    assert (outcome.streams[0].clock_hz, outcome.streams[0].nominal_hz) == (rate, 8_000)
    assert outcome.mos[0] > 4.2
    ((streams, text),) = found(outcome, "clock rate")
    assert streams == (1,)
    assert f"count {rate:,} a second" in text


def test_stamps_that_stand_still_in_silences_are_a_finding_and_spoil_nothing(file: Path) -> None:
    packets = [replace(each, at_us=each.at_us + i // 60 * 700_000) for i, each in enumerate(talk(600))]
    outcome = outcome_of(file, packets)
    assert outcome.streams[0].still == 9
    assert outcome.table.streams.delay_p99_ns[0] == 0
    assert outcome.mos[0] > 4.3
    ((_, text),) = found(outcome, "standing time stamps")
    assert "9 silences" in text


def test_another_codec_in_mid_call_is_a_stream_of_its_own_with_its_own_mos(file: Path) -> None:
    packets = [replace(each, payload_type=9 if i < 300 else 0) for i, each in enumerate(talk(600))]
    outcome = outcome_of(file, without(packets, [300, 301]))
    assert [(each.codec, each.begins) for each in outcome.streams] == [("G722", "first"), ("PCMU", "codec")]
    # What is lost between both is lost of the second.
    assert outcome.document()["streams"][1]["lost"] == 2
    ((streams, text),) = found(outcome, "codec change")
    assert streams == (1, 2)
    assert "from G722 to PCMU" in text


def test_telephone_events_that_are_sent_again_are_no_copies(file: Path) -> None:
    speech = talk(400)
    digits = [
        replace(
            speech[begin],
            seq=speech[begin].seq + n,
            payload_type=101,
            payload_bytes=4,
            at_us=begin * 20_000 + i * 10_000,
        )
        for begin in range(50, 350, 50)
        for i, n in enumerate([0, 0, 0, 1, 2, 3, 3, 3])
    ]
    spoken = [each for i, each in enumerate(speech) if not any(b <= i < b + 4 for b in range(50, 350, 50))]
    outcome = outcome_of(file, [*spoken, *digits])
    row = outcome.document()["streams"][0]
    assert (row["lost"], row["duplicated"], row["repeats"]) == (0, 0, 24)
    assert not found(outcome, "copies")
    alone = outcome_of(file, digits)
    assert alone.document()["streams"][0]["lost"] is None
    texts = [text for _, text in found(alone, "telephone events")]
    assert "nothing but telephone events" in texts[0]
    assert "24 packets" in texts[1]
    assert sentence(alone).startswith("1 stream, none of voice, in ")


def test_copies_that_the_capture_made_are_still_told(file: Path) -> None:
    packets = talk(200)
    outcome = outcome_of(file, [*packets, *(replace(each, at_us=each.at_us + 40) for each in packets)])
    assert outcome.document()["streams"][0]["duplicated"] == 200
    assert found(outcome, "copies")


def test_pictures_and_events_are_no_voice_and_meet_no_requirement_of_voice(file: Path) -> None:
    pictures = [
        Rtp(i // 4 * 40_000 + i % 4, i, i // 4 * 3_600, payload_type=96, ssrc=3, payload_bytes=1_200)
        for i in range(400)
    ]
    outcome = outcome_of(file, [*talk(400), *pictures])
    assert [each.is_voice for each in sorted(outcome.streams, key=lambda each: each.ssrc)] == [False, True]
    ((streams, _),) = found(outcome, "not voice")
    assert len(streams) == 1
    assert "The voice stream was heard well" in verdict(outcome)
    (judged,) = of_capture([parse("mos>=4", CAPTURE)], outcome)
    assert judged.verdict == "met"


@pytest.mark.parametrize("encoding", ["t38/8000", "t140/1000", "CLEARMODE/8000", "ulpfec/8000"])
def test_a_fax_text_and_data_over_rtp_are_no_voice(file: Path, encoding: str) -> None:
    described = message(INVITE, 4002, "192.0.2.2", types="98").replace(
        b"a=rtpmap:101 ", f"a=rtpmap:98 {encoding}\r\na=rtpmap:101 ".encode()
    )
    pages = [replace(each, payload_type=98, payload_bytes=40) for each in talk(300)]
    outcome = outcome_of(file, pages, [sip(0, "192.0.2.2", "192.0.2.1", described)])
    assert (outcome.streams[0].codec, outcome.streams[0].is_voice) == (encoding.partition("/")[0], False)
    assert [streams for streams, _ in found(outcome, "not voice")] == [(1,)]


def over_tcp(at_us: int, sequence: int, part: bytes) -> tuple[int, bytes]:
    """A segment from 192.0.2.2 to 192.0.2.1, port 5080."""
    segment = struct.pack(">HHIIBBHHH", 40_000, 5080, sequence, 0, 0x50, 0x18, 64_000, 0, 0) + part
    ends = bytes([192, 0, 2, 2, 192, 0, 2, 1])
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0x4000, 64, 6, 0)
    return at_us, ethernet(head + ends + segment)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 0, 2, 1, 1), (2, 0, 2, 1)])
@pytest.mark.parametrize("first", [3, 40, 90])
def test_sip_over_tcp_counts_once_in_whatever_order_its_segments_come(
    file: Path, order: tuple[int, ...], first: int
) -> None:
    # As long as before, as the header has the length.
    whole = message(INVITE, 4002, "192.0.2.2", types="98").replace(
        b"rtpmap:101 telephone-event/8000", b"rtpmap:98 an-unknown-codec/8000"
    )
    cuts = [0, first, len(whole) - 60, len(whole)]
    parts = [over_tcp(0, 7 + cuts[i], whole[cuts[i] : cuts[i + 1]])[1] for i in range(3)]
    described = [(i, parts[number]) for i, number in enumerate(order)]
    outcome = outcome_of(file, [replace(each, payload_type=98) for each in talk(50)], described)
    assert (outcome.capture["sip"], len(outcome.calls)) == (1, 1)
    assert outcome.streams[0].known_by == "sdp"


def test_a_fax_in_a_call_is_named_and_is_no_voice(file: Path) -> None:
    fax = message(INVITE, 4002, "192.0.2.2", cseq="2 INVITE").replace(
        b"m=audio 4002 RTP/AVP 0 8 101", b"m=image 4002 udptl t38    "
    )
    pages = [
        (
            3_000_000 + i * 20_000,
            ethernet(udp_over_ip("192.0.2.1", "192.0.2.2", 4000, 4002, struct.pack(">H", i) + bytes(30))),
        )
        for i in range(200)
    ]
    reinvite = [sip(2_900_000, "192.0.2.2", "192.0.2.1", fax)]
    outcome = outcome_of(file, talk(140), [*answered(), *reinvite, *pages])
    assert [
        (stream.codec, lost) for stream, lost in zip(outcome.streams, outcome.loss_ratio, strict=True)
    ] == [("PCMU", 0)]
    assert (
        "200 packets carry a fax (T.38: no voice, and so without MOS), which Weir does not look into."
        in outcome.notes()
    )


def test_uncompressed_sound_of_a_studio_is_no_voice(file: Path) -> None:
    # AES67: 48 samples of two channels with 24 bits, every millisecond.
    studio = [Rtp(i * 1_000, i, i * 48, payload_type=98, payload_bytes=288) for i in range(3_000)]
    outcome = outcome_of(file, studio)
    assert (outcome.streams[0].clock_hz, outcome.streams[0].is_voice) == (48_000, False)
    assert found(outcome, "not voice")


@pytest.mark.parametrize(
    ("payload_bytes", "packets", "is_voice"), [(1_050, 8, False), (160, 8, True), (640, 60, True)]
)
def test_a_few_large_packets_of_an_unknown_codec_are_no_voice(
    file: Path, payload_bytes: int, packets: int, is_voice: bool
) -> None:
    # Pieces of a picture; speech that was held up and comes all at once; speech in large packets.
    apart_us = 500 if packets < 10 else 20_000
    few = [
        Rtp(i * apart_us, i, i * 960, payload_type=101, payload_bytes=payload_bytes) for i in range(packets)
    ]
    assert outcome_of(file, few).streams[0].is_voice == is_voice


def test_a_call_that_goes_one_way_is_found_with_the_address_that_is_to_blame(file: Path) -> None:
    heard = [replace(each, at_us=each.at_us + 200_000) for each in back(talk(300))]
    there = [replace(each, at_us=each.at_us + 200_000) for each in talk(300)]
    assert not found(outcome_of(file, [*heard, *there], answered()), "one-way audio")
    assert not found(outcome_of(file, heard[:60], answered()), "one-way audio")
    hidden = [replace(each, dst="10.1.2.3") for each in heard]
    outcome = outcome_of(file, hidden, answered("10.1.2.3", "203.0.113.5"))
    ((streams, text),) = found(outcome, "one-way audio")
    assert streams == (1,)
    assert "nothing goes from 10.1.2.3:4000 (the caller) to 192.0.2.2:4002 (the callee)" in text
    assert "the private address 10.1.2.3, but its messages come from 203.0.113.5" in text
    assert sentence(outcome).startswith("One-way audio, unless only one direction was captured: stream 1. ")


def test_a_party_that_stops_long_before_the_other_is_found(file: Path) -> None:
    there = [later(each, 200_000) for each in talk(600)]
    heard = back(there)
    assert not found(outcome_of(file, [*there, *heard[:400]], answered()), "one-way audio")
    outcome = outcome_of(file, [*there, *heard[:300]], answered())
    ((streams, text),) = found(outcome, "one-way audio")
    assert [outcome.streams[number - 1].src for number in streams] == ["192.0.2.1"]
    assert "192.0.2.2:4002 (the callee) stopped sending" in text
    assert sentence(outcome).startswith("One-way audio: stream 1. ")
    # Who sends nothing in silence may just be silent.
    quiet = without(heard[:300], range(100, 170))
    assert not found(outcome_of(file, [*there, *quiet], answered()), "one-way audio")


def test_calls_are_listed_with_their_streams_and_what_is_wrong(file: Path) -> None:
    there = [later(each, 200_000) for each in talk(600)]
    outcome = outcome_of(file, [*there, *without(back(there), range(100, 500, 8))], answered())
    (calls,) = tables.calls(outcome, 8)
    assert [row[0] for row in calls.rows] == ["alice@example.net > bob@example.net"]
    assert (calls.rows[0][3:5], calls.rows[0][-1]) == (("1", "2"), "loss before the capture")
    assert not tables.calls(outcome_of(file, there), 8)


def test_a_call_on_hold_is_not_one_way(file: Path) -> None:
    held = [
        *answered(),
        sip(200_000, "192.0.2.1", "192.0.2.2", message(INVITE, 4000, direction="sendonly", cseq="2 INVITE")),
    ]
    outcome = outcome_of(file, [replace(each, at_us=each.at_us + 200_000) for each in talk(300)], held)
    assert not found(outcome, "one-way audio")


def test_a_stream_from_elsewhere_than_its_sender_said_is_found(file: Path) -> None:
    there = [replace(each, src="203.0.113.9", src_port=61_000) for each in talk(300)]
    outcome = outcome_of(file, [*there, *back(talk(300))], answered())
    ((streams, text),) = found(outcome, "another address")
    assert len(streams) == 1
    assert "comes from 203.0.113.9:61000" in text
    assert "says 192.0.2.1:4000" in text


def test_calls_one_after_another_from_the_same_port_have_their_own_streams(file: Path) -> None:
    def of_second(content: bytes) -> bytes:
        return content.replace(b"Call-ID: 7@x", b"Call-ID: 8@x")

    over = message("BYE sip:bob@example.net SIP/2.0", 4000, cseq="2 BYE")
    first = [replace(each, at_us=each.at_us + 200_000) for each in back(talk(100))]
    second = [replace(each, at_us=each.at_us + 5_000_000, src_port=4050, ssrc=6) for each in back(talk(100))]
    signals = [
        *answered(),
        sip(2_500_000, "192.0.2.1", "192.0.2.2", over),
        sip(4_000_000, "192.0.2.1", "192.0.2.2", of_second(message(INVITE, 4000))),
        sip(4_100_000, "192.0.2.2", "192.0.2.1", of_second(message(OK, 4050, "192.0.2.2"))),
    ]
    outcome = outcome_of(file, [*first, *second], signals)
    assert len(outcome.streams) == 2
    assert not found(outcome, "another address")


def tcp_segments(content: bytes, cuts: Sequence[int]) -> Frames:
    """SIP over TCP, cut into segments at these places."""
    made = []
    places = [0, *cuts, len(content)]
    for n, (begin, end) in enumerate(pairwise(places)):
        part = content[begin:end]
        tcp = struct.pack(">HHIIBBHHH", 5060, 5060, 1_000 + begin, 1, 0x50, 0x18, 65_535, 0, 0) + part
        head = struct.pack(
            ">BBHHHBBH4s4s",
            0x45,
            0,
            20 + len(tcp),
            0,
            0x4000,
            64,
            6,
            0,
            bytes([192, 0, 2, 2]),
            bytes([192, 0, 2, 1]),
        )
        made.append((n * 100, ethernet(head + tcp)))
    return made


@pytest.mark.parametrize("cuts", [[], [100], [200, 230], [300], [420]])
def test_sip_over_tcp_is_understood_however_it_is_cut(file: Path, cuts: list[int]) -> None:
    content = message(OK, 4002, "192.0.2.2", types="96").replace(
        b"a=rtpmap:101 telephone-event/8000", b"a=rtpmap:96 iLBC/8000/1xxxxxxxxxx"
    )
    packets = [
        replace(each, payload_type=96, payload_bytes=38, at_us=each.at_us + 1_000) for each in talk(60)
    ]
    outcome = outcome_of(file, packets, tcp_segments(content, cuts))
    assert (outcome.streams[0].codec, outcome.streams[0].known_by) == ("iLBC", "sdp")
    assert outcome.capture["sip"] == 1


def test_sip_in_fragments_of_udp_is_understood(file: Path) -> None:
    content = message(OK, 4002, "192.0.2.2", types="96").replace(
        b"a=rtpmap:101 telephone-event/8000", b"a=rtpmap:96 iLBC/8000/1xxxxxxxxxx"
    )
    whole = udp_over_ip("192.0.2.2", "192.0.2.1", 5060, 5060, content)
    head, body = bytearray(whole[:20]), whole[20:]
    pieces = []
    for offset in range(0, len(body), 200):
        more = 0x2000 if offset + 200 < len(body) else 0
        part = body[offset : offset + 200]
        struct.pack_into(">HHH", head, 2, 20 + len(part), 7, more | offset // 8)
        pieces.append((offset, ethernet(bytes(head) + part)))
    packets = [
        replace(each, payload_type=96, payload_bytes=38, at_us=each.at_us + 1_000) for each in talk(60)
    ]
    assert outcome_of(file, packets, pieces).streams[0].codec == "iLBC"
    lacking = outcome_of(file, packets, pieces[:-1])
    assert lacking.streams[0].codec == ""
    assert "1 fragmented datagram was not whole" in lacking.notes()[0]


def test_streams_that_rtsp_sets_up_have_the_codec_of_its_description(file: Path) -> None:
    described = (
        b"RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Length: 96\r\n\r\nv=0\r\nc=IN IP4 0.0.0.0\r\n"
        b"m=audio 0 RTP/AVP 97\r\na=rtpmap:97 G726-32/8000\r\na=control:one\r\n"
    ).replace(b"96\r\n\r\n", b"83\r\n\r\n")
    setup = b"RTSP/1.0 200 OK\r\nCSeq: 3\r\nTransport: RTP/AVP;unicast;client_port=4002-4003\r\n\r\n"

    def from_server(at_us: int, sequence: int, part: bytes) -> tuple[int, bytes]:
        tcp = struct.pack(">HHIIBBHHH", 554, 40_000, sequence, 1, 0x50, 0x18, 65_535, 0, 0) + part
        ends = (bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0, *ends)
        return at_us, ethernet(head + tcp)

    replies = [from_server(0, 1, described), from_server(10, 1 + len(described), setup)]
    packets = [
        replace(each, payload_type=97, payload_bytes=80, at_us=each.at_us + 1_000) for each in talk(60)
    ]
    assert outcome_of(file, packets, replies).streams[0].codec == "G726-32"


def test_without_a_mos_the_better_buffer_is_the_one_that_plays_more(file: Path) -> None:
    # The way gets longer, by more than the fixed buffer holds.
    slower = (later(each, min(i * 5_000, 150_000)) for i, each in enumerate(talk(180)))
    packets = [replace(each, payload_type=96) for each in slower]
    outcome = outcome_of(file, packets)
    table = outcome.table
    assert np.isnan(outcome.mos).all()
    assert table.fixed.late[0] > 100 > table.adaptive.late[0]
    assert outcome.late == [table.adaptive.late[0]]


def test_a_stream_whose_clock_is_unknown_has_no_holes_by_lateness(file: Path) -> None:
    counting = [replace(each, payload_type=96, stamp=i * 20) for i, each in enumerate(talk(300))]
    outcome = outcome_of(file, counting)
    assert (outcome.streams[0].clock_hz, found(outcome, "hole")) == (0, [])
