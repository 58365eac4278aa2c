"""Codecs that only what surrounds a stream tells."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from .captures import ethernet, talk, udp_over_ip
from .situations import OK, found, message, outcome_of, sip


def test_opus_of_webrtc_is_a_guess_that_is_told(file: Path) -> None:
    binding = struct.pack(">HHI12s", 1, 0, 0x2112A442, b"x" * 12)
    stun = (0, ethernet(udp_over_ip("192.0.2.1", "192.0.2.2", 4000, 4002, binding)))
    packets = [
        replace(each, at_us=each.at_us + 1_000, payload_type=111, stamp=i * 960, payload_bytes=90)
        for i, each in enumerate(talk(200))
    ]
    outcome = outcome_of(file, packets, [stun])
    assert (outcome.streams[0].codec, outcome.streams[0].encrypted) == ("opus", True)
    # 80 bytes in 20 ms, without the tag of SRTP: 32 kbit/s.
    assert outcome.table.kinds[0].ie == pytest.approx(np.interp(32, [31, 34], [21.74, 20.62]))
    assert found(outcome, "guessed codec")


def test_amr_has_a_mos_by_its_mode(file: Path) -> None:
    sdp = message(OK, 4002, "192.0.2.2", types="98").replace(
        b"a=rtpmap:101 telephone-event/8000", b"a=rtpmap:98 AMR-WB/16000/1xxxxxxx"
    )
    packets = [
        replace(
            each, payload_type=98, stamp=i * 320, payload_bytes=61 if i % 9 else 7, at_us=each.at_us + 500
        )
        for i, each in enumerate(talk(300))
    ]
    outcome = outcome_of(file, packets, [sip(0, "192.0.2.2", "192.0.2.1", sdp)])
    assert (outcome.table.kinds[0].band, outcome.table.kinds[0].ie) == ("wideband", 8)
    assert outcome.mos[0] > 4.2


@pytest.mark.parametrize(("suite", "bytes_"), [("AES_CM_128_HMAC_SHA1_32", 38), ("AEAD_AES_128_GCM", 50)])
def test_the_tag_of_srtp_is_that_of_its_cipher_suite(file: Path, suite: str, bytes_: int) -> None:
    sdp = message(OK, 4002, "192.0.2.2", types="98").replace(
        b"a=rtpmap:101 telephone-event/8000",
        f"a=rtpmap:98 AMR-WB/16000\r\na=crypto:1 {suite} inline:x".encode(),
    )
    sdp = sdp.replace(b"RTP/AVP", b"RTP/SAVP")
    packets = [
        replace(each, payload_type=98, stamp=i * 320, payload_bytes=bytes_, at_us=each.at_us + 500)
        for i, each in enumerate(talk(100))
    ]
    outcome = outcome_of(file, packets, [sip(0, "192.0.2.2", "192.0.2.1", sdp)])
    assert outcome.table.kinds[0].ie == 13
