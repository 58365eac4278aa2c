from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.traffic.calls.codecs import CODECS
from weirlab.traffic.calls.signalling.iax2 import FORMATS
from weirlab.traffic.calls.spec import Calls, describe, describe_classes, parse_calls, validate


def test_one_codec_is_one_class() -> None:
    calls = parse_calls("1,000", "g711:30ms", "iax2")
    (kind,) = calls.classes
    assert calls.count == 1000
    assert (kind.stream.codec.name, kind.stream.packet_ms, kind.transport, kind.share) == (
        "g711",
        30,
        "iax2",
        1,
    )


@pytest.mark.parametrize(("text", "count"), [("500", 500), ("10k", 10_000), ("2.5k", 2_500), (7, 7)])
def test_counts_are_read(text: str | int, count: int) -> None:
    assert parse_calls(text).count == count


def test_parts_name_codec_packet_time_transport_and_share() -> None:
    calls = parse_calls(10, "gsm:40ms/iax2-trunk*8:30, opus@24kbit/s:10, g729/iax2:60%")
    found = [
        (c.stream.codec.name, c.stream.packet_ms, c.transport, c.trunk_calls, c.share) for c in calls.classes
    ]
    assert found == [
        ("gsm", 40, "iax2-trunk", 8, 0.3),
        ("opus", 20, "rtp", None, 0.1),
        ("g729", 20, "iax2", None, 0.6),
    ]


def test_shares_are_relative_and_may_be_left_out() -> None:
    assert [c.share for c in parse_calls(10, "g711:3,g729:1").classes] == [0.75, 0.25]
    assert [c.share for c in parse_calls(10, "g711,g729").classes] == [0.5, 0.5]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([codec.name for codec in CODECS if codec.name in FORMATS]),
            st.sampled_from(["rtp", "iax2", "iax2-trunk", "iax2-trunk*3"]),
            st.integers(1, 100),
        ),
        min_size=2,
        max_size=5,
    )
)
def test_described_classes_are_read_back(parts: list[tuple[str, str, int]]) -> None:
    calls = parse_calls(10, ",".join(f"{codec}/{transport}:{share}" for codec, transport, share in parts))
    again = parse_calls(10, describe_classes(calls.classes))
    assert [replace(kind, share=0) for kind in again.classes] == [
        replace(kind, share=0) for kind in calls.classes
    ]
    assert [kind.share for kind in again.classes] == pytest.approx([kind.share for kind in calls.classes])


@pytest.mark.parametrize(
    ("codec", "complaint"),
    [
        ("g711:20", "share or a packet time"),
        ("g711:70,g729", "every part a share, or none"),
        ("g711:0,g729:1", "above 0"),
        ("g711:1.2.3,g729:1", "no number"),
        ("g711,", "'' not understood"),
        ("g711/sip", "transport 'sip'"),
        ("g7111", "codecs are g711"),
        ("g729:15ms", "multiple of 10 ms"),
        ("opus/iax2", "IAX2 has no number"),
    ],
)
def test_what_nobody_can_call_is_refused(codec: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parse_calls(10, codec)


@pytest.mark.parametrize("count", ["0", "-3", "many", "1.5", ""])
def test_what_is_no_number_of_calls_is_refused(count: str) -> None:
    with pytest.raises(InputError, match="calls"):
        parse_calls(count)


@pytest.mark.parametrize(
    ("calls", "complaint"),
    [
        (replace(parse_calls(1), holding_s=0.0), "holding time"),
        (replace(parse_calls(1), rtcp_min_s=-1.0), "between control packets"),
        (replace(parse_calls(1), rtcp_min_s=1e12), "between control packets"),
        (replace(parse_calls(1), seed=-1), "seed -1"),
        (replace(parse_calls(1, "g711/iax2-trunk"), spurts=True), "talk spurts over IAX2 trunks"),
        (replace(parse_calls(1, "g711/iax2-trunk"), arrivals="poisson"), "come and go over IAX2 trunks"),
        (replace(parse_calls(1), classes=()), "no kind"),
        (
            replace(parse_calls(1), classes=parse_calls(1).classes + parse_calls(1, ip=6).classes),
            "sum to 1",
        ),
        (
            replace(
                parse_calls(1),
                classes=tuple(replace(parse_calls(1, ip=ip).classes[0], share=0.5) for ip in (4, 6)),
            ),
            "IPv4 and IPv6",
        ),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_made_are_refused(calls: Calls, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        validate(calls)


def test_calls_are_described_for_people() -> None:
    assert describe(parse_calls(1000)) == (
        "1,000 calls, G.711 in packets of 20 ms over RTP, both directions, evenly phased"
    )
    coming = replace(
        parse_calls(1, "g711:70,gsm/iax2:30"),
        arrivals="poisson",
        holding_s=90.0,
        spurts=True,
        directions="back",
    )
    assert describe(coming) == (
        "1 call, 70 % G.711 in packets of 20 ms over RTP and 30 % GSM full rate in packets of 20 ms "
        "over IAX2, back only, coming and going, 90 s on average, talk spurts"
    )
