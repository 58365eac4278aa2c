from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.traffic.calls.mix import parse_mix, with_packet_time


def test_a_single_codec_is_itself() -> None:
    mix = parse_mix("g711")
    assert (mix.frame_bytes, mix.rate_pps, mix.packet_times_ms) == (218, 50, (20,))
    assert mix.calls_pps(300) == 30_000
    assert mix.title == "G.711 in packets of 20 ms"
    assert mix.name == "G.711 20 ms"


def test_a_mix_has_the_mean_rate_of_its_calls_and_the_mean_frame_of_its_packets() -> None:
    mix = parse_mix("g711:60,g729:40ms:40")
    # 60 % of the calls send 50 packets/s of 218 B, 40 % send 25 of 98 B.
    assert mix.rate_pps == pytest.approx(0.6 * 50 + 0.4 * 25)
    assert mix.frame_bytes == pytest.approx((30 * 218 + 10 * 98) / 40)
    assert mix.packet_times_ms == (20, 40)
    assert mix.title == "G.711 in packets of 20 ms (60 %) and G.729 in packets of 40 ms (40 %)"
    assert mix.name == "G.711 20 ms (60 %), G.729 40 ms (40 %)"


@pytest.mark.parametrize(
    ("codecs", "timed"),
    [
        ("g711", "g711:30ms"),
        ("g711:60,g729:40", "g711:30ms:60,g729:30ms:40"),
        ("g711:20ms:60, g729/rtp:40", "g711:20ms:60, g729:30ms/rtp:40"),
        ("opus@24kbit/s:60ms,g711", "opus@24kbit/s:60ms,g711:30ms"),
    ],
)
def test_a_packet_time_is_that_of_codecs_without_one(codecs: str, timed: str) -> None:
    assert with_packet_time(codecs, "30ms") == timed
    assert with_packet_time(codecs, None) == codecs
    parse_mix(timed)


def test_what_is_no_mix_is_refused() -> None:
    with pytest.raises(InputError, match="packet time 'long' not understood"):
        with_packet_time("g711", "long")
    with pytest.raises(InputError, match="calls over RTP, not iax2"):
        parse_mix("g711/iax2:50,g729:50")
    with pytest.raises(InputError, match="packets of Opus last"):
        parse_mix(with_packet_time("opus", "30ms"))
