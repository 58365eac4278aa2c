from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.publications import publication

from ...conftest import Weir

TABLE = publication("woernhard-2006").experiments["codec-table"]
PAYLOADS = {"g711": 160, "g726": 80, "gsm-slow": 66, "gsm-fast": 33}
PUBLISHED = [
    (codec, transport, int(size), int(TABLE.series("most-pps")[size]), int(TABLE.series("most-calls")[size]))
    for codec, payload in PAYLOADS.items()
    for transport in ("rtp", "iax2")
    for size in [TABLE.series(f"size-{transport}")[payload]]
]
"""Frame without FCS, packets/s and calls of a gigabit of 2^30 bits."""


@pytest.mark.parametrize(("codec", "transport", "frame_bytes", "max_pps", "calls"), PUBLISHED)
def test_every_row_of_the_published_table_is_reproduced(
    weir: Weir, codec: str, transport: str, frame_bytes: int, max_pps: int, calls: int
) -> None:
    (found,) = weir("calls", "--codec", codec, "--transport", transport, "--json").json["classes"]
    assert found["published"] == {"frame_bytes": frame_bytes, "max_pps": max_pps, "calls": calls}
    assert found["frame_bytes_without_fcs"] == frame_bytes
    assert found["frame_bytes"] == frame_bytes + 4
    # Preamble and gap count on a true line, and a Gigabit is 1e9 bit/s.
    assert found["line"]["max_pps"] == pytest.approx(1e9 / 8 / (frame_bytes + 24))
    assert found["line"]["calls"] < calls


def test_gap_rate_and_count_follow_from_calls_and_duration(weir: Weir) -> None:
    found = weir("calls", "--calls", "1,000", "--duration", "60", "--json").json
    one_way, both = found["per_direction"], found["total"]
    assert one_way["gap_ns"] == pytest.approx(1e9 / (1000 * 50))
    assert one_way["rate_pps"] == 50_000
    assert one_way["packets"] == 1000 * 50 * 60
    assert one_way["frame_bps"] == 50_000 * 218 * 8
    assert one_way["wire_bps"] == 50_000 * 238 * 8
    assert {name: both[name] / one_way[name] for name in ("rate_pps", "packets", "wire_bps")} == {
        "rate_pps": 2, "packets": 2, "wire_bps": 2,
    }  # fmt: skip


def test_one_direction_is_all_there_is_when_one_side_talks(weir: Weir) -> None:
    found = weir("calls", "--calls", "10", "--directions", "forward", "--json").json
    assert found["total"] == found["per_direction"]


def test_headers_are_told_apart(weir: Weir) -> None:
    (rtp,) = weir("calls", "--json").json["classes"]
    assert rtp["header_bytes"] == {"ethernet": 14, "ip": 20, "udp": 8, "rtp": 12, "total": 54}
    (iax2,) = weir("calls", "--transport", "iax2", "--ip", "6", "--json").json["classes"]
    assert iax2["header_bytes"] == {"ethernet": 14, "ip": 40, "udp": 8, "iax2": 4, "total": 66}
    (trunk,) = weir("calls", "--transport", "iax2-trunk*8", "--json").json["classes"]
    assert trunk["calls_per_packet"] == 8
    assert trunk["header_bytes"]["iax2-trunk"] == 8 + 8 * 4 + 2
    assert trunk["frame_bytes"] == trunk["header_bytes"]["total"] + 8 * 160 + 4


def test_a_mix_is_the_sum_of_its_parts(weir: Weir) -> None:
    found = weir(
        "calls", "--codec", "g711:60,g729/iax2:40", "--calls", "3000", "--line", "10Gbit/s", "--json"
    ).json  # fmt: skip
    assert [(each["codec"], each["transport"], each["calls"]) for each in found["classes"]] == [
        ("g711", "rtp", 1800), ("g729", "iax2", 1200),
    ]  # fmt: skip
    parts = [each["per_direction"] for each in found["classes"]]
    assert found["per_direction"]["wire_bps"] == pytest.approx(sum(part["wire_bps"] for part in parts))
    # As many calls as make the line full, control packets included.
    control = found["rtcp_per_direction"]["wire_bps"]
    one_call = (found["per_direction"]["wire_bps"] + control) / 3000
    assert found["line"]["calls_with_control"] == int(10e9 / one_call)
    assert found["published"]["calls"] == pytest.approx(
        2**27 / (sum(p["frame_bps"] for p in parts) / 8 / 3000), abs=1
    )
    assert found["line"]["share"] == pytest.approx(3000 * one_call / 10e9)


def test_control_packets_come_every_5_s_or_take_their_5_percent(weir: Weir) -> None:
    usual = weir("calls", "--calls", "100", "--json").json["rtcp_per_direction"]
    assert usual["rate_pps"] == pytest.approx(100 / 5)
    full = weir("calls", "--calls", "100", "--rtcp-min", "0", "--json").json["rtcp_per_direction"]
    # RTP of both sides down to IP, 200 B; RTCP packets of 128 B.
    assert full["rate_pps"] == pytest.approx(100 * 0.05 * 50 * 200 / 128)
    assert weir("calls", "--no-rtcp", "--json").json["rtcp_per_direction"] is None
    assert weir("calls", "--transport", "iax2", "--json").json["rtcp_per_direction"] is None


def test_silences_lower_the_mean_and_not_the_peak(weir: Weir) -> None:
    found = weir("calls", "--calls", "100", "--spurts", "--json").json
    assert found["per_direction"]["rate_pps"] == 5000
    assert found["mean_total"]["rate_pps"] == pytest.approx(10_000 * found["activity"])
    assert 0.3 < found["activity"] < 0.5


def test_people_read_sizes_rates_and_both_line_limits(weir: Weir) -> None:
    answer = weir("calls", "--calls", "1000")
    assert answer.code == 0
    assert answer.err == ""
    for text in (
        "14 + 20 + 8 + 12 = 54", "214", "218", "20.0 µs", "190.4 Mbit/s", "525,210", f"{PUBLISHED[0][3]:,}",
        f"{PUBLISHED[0][4]:,}", "published definition",
    ):  # fmt: skip
        assert text in answer.out
    assert answer.out.startswith("1,000 calls send 50,000 packets/s in a direction")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--codec", "g7111"), "codecs are g711"),
        (("--codec", "g729:15ms"), "multiple of 10 ms"),
        (("--transport", "skype"), "accepted are rtp"),
        (("--codec", "opus", "--transport", "iax2"), "IAX2 has no number"),
        (("--calls", "0"), "1 or more"),
        (("--calls", "many"), "number of calls 'many'"),
        (("--line", "fast"), "line rate 'fast'"),
        (("--duration", "0"), "above 0 s"),
        (("--dut", "iptables"), "--dut goes with --send"),
        (("--rules", "4", "--stateful"), "--rules, --stateful go with --send"),
        (("--holding", "20"), "--arrivals poisson"),
        (("--send", "--write", "x.pcap"), "exclude each other"),
        (("--write", "nowhere/x.pcap"), "no folder nowhere"),
        (("--send", "--jitter-buffer", "adaptive:60ms"), "accepted are fixed:60ms"),
    ],
)
def test_bad_options_are_one_clear_message(weir: Weir, arguments: tuple[str, ...], told: str) -> None:
    answer = weir("calls", *arguments)
    assert answer.code == 2, answer.err
    assert told in answer.err


def test_a_folder_is_no_capture_file(weir: Weir, tmp_path: Path) -> None:
    answer = weir("calls", "--write", tmp_path)
    assert answer.code == 2
    assert "that is a folder" in answer.err


def test_a_capture_can_be_impaired_and_the_answer_says_by_how_much(weir: Weir, tmp_path: Path) -> None:
    capture = tmp_path / "bad.pcap"
    answer = weir(
        "calls", "--calls", "3", "--duration", "4", "--write", capture, "--loss", "5%", "--loss-burst", "3",
        "--jitter", "2ms", "--reorder", "1%", "--duplicate", "1%", "--json",
    )  # fmt: skip
    planted = answer.json["impairments"]
    assert (planted["loss_ratio"], planted["loss_burst"], planted["jitter_ns"]) == (0.05, 3.0, 2e6)
    assert planted["lost"] > 0
    assert f"of the speech {planted['lost']} lost" in answer.json["conclusion"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--loss", "5%"], "go with --write"),
        (["--write", "x.pcap", "--loss-burst", "3"], "goes with --loss"),
        (["--write", "x.pcap", "--loss", "much"], "--loss: 'much' not understood"),
        (["--write", "x.pcap", "--jitter", "5"], "--jitter '5' is no time; accepted: 25ms"),
        (["--write", "x.pcap", "--reorder", "70%"], "not from 0 to 50 %"),
    ],
)
def test_impairments_that_cannot_be_are_refused(weir: Weir, arguments: list[str], complaint: str) -> None:
    answer = weir("calls", *arguments)
    assert answer.code == 2
    assert complaint in answer.err
