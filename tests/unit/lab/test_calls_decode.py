"""What tshark, which knows nothing of Weir, makes of whole calls written as a capture."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weirlab.calls.calls.study import write_calls
from weirlab.calls.quality.study import capture_quality
from weirlab.traffic.calls.codecs import CODECS
from weirlab.traffic.calls.signalling.iax2 import FORMATS
from weirlab.traffic.calls.spec import Calls, parse_calls

from .captures import complaints, decoded, fields, needs_tshark, read, streams, tshark, write

pytestmark = needs_tshark

SET_UP_S = 0.5
"""Warm-up long enough for standing calls to be set up in it, so that SDP names the streams."""

RTP_ANYWHERE = ("--enable-heuristic", "rtp_udp", "--enable-heuristic", "rtcp_udp")


def written(tmp_path: Path, calls: Calls, duration_s: float, warmup_s: float = SET_UP_S) -> Path:
    return write_calls(
        calls, tmp_path / "calls.pcap", duration_s=duration_s, warmup_s=warmup_s
    ).captured.path  # fmt: skip


def protocols(path: Path, *options: str) -> Counter[str]:
    return Counter(tshark(path, *options, "-T", "fields", "-e", "_ws.col.Protocol").split())


def test_tshark_sees_set_up_speech_and_reports_of_every_call(tmp_path: Path) -> None:
    path = written(tmp_path, parse_calls(3, "g711"), duration_s=6)
    assert complaints(path) == ""
    found = protocols(path)
    assert set(found) == {"SIP", "SIP/SDP", "RTP", "RTCP"}
    assert found["SIP/SDP"] == 3 * 2
    assert found["SIP"] == 3 * 3
    stamps = fields(path, "rtp.setup-method", where="rtp")
    assert {row["rtp.setup-method"] for row in stamps} == {"SDP"}


def test_nothing_is_lost_and_nothing_jitters_in_tsharks_own_statistics(tmp_path: Path) -> None:
    calls = replace(parse_calls(3, "g711:30ms"), signalling=False, rtcp=False)
    path = written(tmp_path, calls, duration_s=3, warmup_s=0)
    found = streams(path, *RTP_ANYWHERE)
    assert len(found) == 6
    for stream in found:
        assert stream.packets == 100
        assert stream.lost == 0
        # tshark rounds to microseconds.
        assert stream.mean_jitter_ms <= stream.max_jitter_ms < 0.002
        assert stream.mean_delta_ms == pytest.approx(30, abs=0.001)
        assert not stream.problem


def test_what_is_decoded_in_one_go_is_what_tshark_complains_of(tmp_path: Path) -> None:
    calls = replace(parse_calls(1, "g711"), rtcp=False)
    packets = list(read(written(tmp_path, calls, duration_s=0.2)))
    spoiled = [
        (at_ns / 1e6, frame[:24] + b"\0\0" + frame[26:] if number in (2, 9) else frame)
        for number, (at_ns, frame) in enumerate(packets)
    ]
    path = write(tmp_path / "spoiled.pcap", spoiled)
    told = {line.split("\t")[0] for line in complaints(path).splitlines()}
    assert told == {"3", "10"}
    assert {complaint.split("\t")[1] for complaint in decoded(path).complaints} == told
    assert decoded(path).protocols == protocols(path)


@pytest.mark.parametrize("codec", [codec.name for codec in CODECS])
def test_every_codec_decodes_over_rtp(tmp_path: Path, codec: str) -> None:
    calls = replace(parse_calls(2, codec), rtcp=False)
    found = decoded(written(tmp_path, calls, duration_s=1))
    assert found.complaints == ()
    assert set(found.protocols) >= {"SIP", "SIP/SDP"}
    assert len(found.streams) == 4
    assert all(stream.lost == 0 and not stream.problem for stream in found.streams)


@pytest.mark.parametrize("codec", sorted(FORMATS))
def test_every_codec_of_iax2_decodes_over_it(tmp_path: Path, codec: str) -> None:
    found = decoded(written(tmp_path, parse_calls(2, codec, "iax2"), duration_s=1))
    assert found.complaints == ()
    assert set(found.protocols) == {"IAX2"}


def test_a_long_call_over_iax2_sends_a_full_frame_at_each_wrap(tmp_path: Path) -> None:
    path = written(tmp_path, parse_calls(1, "gsm", "iax2"), duration_s=70)
    assert complaints(path) == ""
    voice = fields(path, "iax2.timestamp", "ip.src", "iax2.voice.subclass", where="iax2.type == 2")
    by_side = Counter(row["ip.src"] for row in voice)
    assert sorted(by_side.values()) == [2, 2]
    wraps = [int(row["iax2.timestamp"]) for row in voice]
    assert sorted(stamp >> 16 for stamp in wraps) == [0, 0, 1, 1]
    everything = fields(path, "iax2.packet_type", where="iax2")
    assert Counter(row["iax2.packet_type"] for row in everything)["0"] > 2 * 68 * 50


def test_trunks_decode_with_all_their_calls(tmp_path: Path) -> None:
    path = written(tmp_path, parse_calls(12, "g711", "iax2-trunk*8"), duration_s=1)
    assert complaints(path) == ""
    trunks = fields(path, "iax2.trunk.ncalls", where="iax2.trunk.ncalls")
    assert set(Counter(row["iax2.trunk.ncalls"] for row in trunks)) == {"8", "4"}


def test_calls_over_ip_version_6_decode(tmp_path: Path) -> None:
    path = written(tmp_path, parse_calls(2, "g711:50,gsm/iax2:50", ip=6), duration_s=1)
    assert complaints(path) == ""
    assert {"RTP", "IAX2", "SIP", "SIP/SDP"} <= set(protocols(path))
    assert fields(path, "ip.src", where="ip") == []


def test_calls_that_come_and_go_end_with_bye_and_hangup(tmp_path: Path) -> None:
    calls = replace(
        parse_calls(6, "g711:50,gsm/iax2:50"), arrivals="poisson", holding_s=2.0, spurts=True, seed=3
    )  # fmt: skip
    path = written(tmp_path, calls, duration_s=8)
    assert complaints(path) == ""
    methods = Counter(row["sip.Method"] for row in fields(path, "sip.Method", where="sip.Method"))
    assert methods["INVITE"] > 0
    assert methods["BYE"] > 0
    assert fields(path, "frame.number", where="iax2.iax.subclass == 5")
    # A talk spurt begins with the marker bit; time stamps go on through the silences.
    markers = fields(path, "rtp.marker", where="rtp.marker == 1")
    assert markers
    assert all(stream.lost == 0 for stream in streams(path))


@pytest.mark.parametrize(
    ("delay_ms", "lost_share", "copied_share"), [(0, 0, 0), (3, 0, 0), (3, 0.05, 0), (12, 0.05, 0.02)]
)
def test_weir_and_tshark_tell_the_same_of_a_network_that_delays_loses_and_copies(
    tmp_path: Path, delay_ms: float, lost_share: float, copied_share: float
) -> None:
    path = written(tmp_path, parse_calls(2, "g711:60,gsm:40"), duration_s=10)
    rng = np.random.default_rng(7)
    arrived = []
    for at_ns, frame in read(path):
        # Whole microseconds, which is what tshark reckons in.
        copies = 1 + (rng.random() < copied_share)
        for _ in range(copies if rng.random() >= lost_share else 0):
            arrived.append((at_ns / 1e6 + round(rng.exponential(delay_ms), 3), frame))
    disturbed = write(tmp_path / "disturbed.pcap", arrived)
    theirs = {stream.ssrc: stream for stream in streams(disturbed, *RTP_ANYWHERE)}
    ours = capture_quality(disturbed)
    measured = ours.table.streams
    assert len(theirs) == len(ours.streams) == 4
    for i, stream in enumerate(ours.streams):
        their = theirs[stream.ssrc]
        assert int(measured.received[i] + measured.duplicated[i]) == their.packets
        if copied_share == 0:
            # tshark takes a copy for one packet less lost.
            assert int(measured.losses.count[i]) == their.lost
            assert measured.jitter_ns[i] / 1e6 == pytest.approx(their.mean_jitter_ms, abs=0.002)
            assert measured.jitter_max_ns[i] / 1e6 == pytest.approx(their.max_jitter_ms, abs=0.002)
