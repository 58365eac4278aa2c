"""What tshark, which knows nothing of Weir, makes of the messages of a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.traffic.calls import control
from weirlab.traffic.calls.control import Report, SenderInfo
from weirlab.traffic.calls.signalling import iax2, sip
from weirlab.traffic.calls.signalling.iax2 import IaxCall, IaxVoiceFrame
from weirlab.traffic.calls.signalling.sip import Party, SipCall

from .captures import CALLEE, CALLER, complaints, fields, needs_tshark, tshark, udp_frame, with_probe, write

pytestmark = needs_tshark


def test_tshark_follows_a_sip_call_from_invite_to_bye(tmp_path: Path) -> None:
    call = SipCall(7, Party(CALLER, 20_014), Party(CALLEE, 20_016), 0, "PCMU/8000", 20)
    messages = sip.dialog(call, 1000)
    path = write(
        tmp_path / "sip.pcap",
        [(m.at_ms, udp_frame(with_probe(m.payload), sip.PORT, m.from_caller)) for m in messages],
    )
    assert complaints(path) == ""
    found = fields(path, "sip.Method", "sip.Status-Code", "sdp.media.port", "sdp.mime.type", where="sip")
    assert [row["sip.Method"] or row["sip.Status-Code"] for row in found] == [
        "INVITE", "100", "180", "200", "ACK", "BYE", "200",
    ]  # fmt: skip
    assert [row["sdp.media.port"] for row in found if row["sdp.media.port"]] == ["20014", "20016"]
    assert {row["sdp.mime.type"] for row in found} == {"", "PCMU"}
    statistics = tshark(path, "-q", "-z", "sip,stat")
    assert "Number of SIP messages: 7" in statistics
    assert "Number of resent SIP messages: 0" in statistics


def test_sip_decodes_over_ip_version_6_too(tmp_path: Path) -> None:
    call = SipCall(7, Party("2001:2:0:1::5", 20_014), Party("2001:2:0:2::5", 20_014), 96, "opus/48000/2", 60)
    path = write(
        tmp_path / "sip6.pcap",
        [
            (m.at_ms, udp_frame(with_probe(m.payload), sip.PORT, m.from_caller, ip=6))
            for m in sip.dialog(call, 100)
        ],
    )
    assert complaints(path) == ""
    assert len(fields(path, "sip.Call-ID", where="sip && ipv6")) == 7


@pytest.mark.parametrize("size_bytes", [None, 128])
def test_control_packets_decode_with_report_name_and_app(tmp_path: Path, size_bytes: int | None) -> None:
    reports = [
        (
            at_ms,
            control.compound(
                0xCAFE, "c7@198.18.0.5",
                SenderInfo(at_ms, round(at_ms * 8), round(at_ms / 20), round(at_ms * 8)),
                reports=(Report(0xBEEF, lost=3),), size_bytes=size_bytes,
            ),
        )
        for at_ms in (0.0, 5000.0, 10_000.0)
    ]  # fmt: skip
    path = write(
        tmp_path / "rtcp.pcap",
        [(at_ms, udp_frame(with_probe(payload), 20_015)) for at_ms, payload in reports],
    )
    decode = ("-d", "udp.port==20015,rtcp")
    assert complaints(path, *decode) == ""
    found = fields(
        path, "rtcp.pt", "rtcp.sdes.text", "rtcp.app.name", "rtcp.length_check",
        where="rtcp", options=decode,
    )  # fmt: skip
    assert [row["rtcp.pt"] for row in found] == ["200,202,204"] * 3
    assert {(row["rtcp.sdes.text"], row["rtcp.app.name"]) for row in found} == {("c7@198.18.0.5", "WEIR")}
    assert {row["rtcp.length_check"] for row in found} <= {"1", "True"}


CALL = IaxCall(5, 9, "gsm", 33)
VOICE = [IaxVoiceFrame(True, 120, 120), IaxVoiceFrame(False, 130, 130), IaxVoiceFrame(True, 65_540, 65_540)]


def test_an_iax2_call_decodes_with_its_numbers_and_codec(tmp_path: Path) -> None:
    frames = [
        (m.at_ms, udp_frame(with_probe(m.payload), iax2.PORT, m.from_caller))
        for m in iax2.full_frames(CALL, VOICE, hang_up_ms=70_000)
    ]
    speech = bytes(33)
    for stamp_ms in (140, 65_520, 65_560):
        payload = iax2.mini_header(CALL, True, stamp_ms) + speech
        frames.append((float(stamp_ms), udp_frame(with_probe(payload), iax2.PORT)))
    path = write(tmp_path / "iax2.pcap", frames)
    assert complaints(path) == ""
    # Full, mini and trunk frames are 1, 0 and 3 to tshark.
    assert len(fields(path, "frame.number", where="iax2.packet_type == 1")) == len(frames) - 3
    mini = fields(path, "iax2.timestamp", "_ws.col.Info", where="iax2.packet_type == 0")
    assert [int(row["iax2.timestamp"]) for row in mini] == [140, 65_520, 65_560 % 65_536]
    assert all("GSM" in row["_ws.col.Info"] for row in mini)
    ended = fields(path, "iax2.iax.subclass", "iax2.oseqno", "iax2.iseqno", where="iax2.iax.subclass == 5")
    assert [(row["iax2.oseqno"], row["iax2.iseqno"]) for row in ended] == [("3", "4")]


@pytest.mark.parametrize("calls", [1, 8])
def test_a_trunk_frame_decodes_into_its_calls(tmp_path: Path, calls: int) -> None:
    numbers = tuple(range(5, 5 + calls))
    payload = iax2.meta_header(20) + iax2.trunk_entries(numbers, 160)
    path = write(tmp_path / "trunk.pcap", [(0.0, udp_frame(with_probe(payload), iax2.PORT))])
    assert complaints(path) == ""
    (found,) = fields(path, "iax2.trunk.call.scallno", "iax2.trunk.call.len", "iax2.trunk.ncalls")
    assert found["iax2.trunk.call.scallno"].split(",") == [str(n) for n in numbers]
    assert found["iax2.trunk.call.len"].split(",") == ["160"] * calls
