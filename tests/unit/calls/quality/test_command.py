from __future__ import annotations

from pathlib import Path

import pytest

from ...conftest import Weir
from .captures import frames, later, pcap, talk, without


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A stream that lost 4 %, one that lost nothing, one of an unknown codec."""
    made = [
        *without(talk(500, jitter_us=2000), range(20, 480, 24)),
        *(later(p, 15_000) for p in talk(500, ssrc=2, src_port=6000)),
        *(later(p, 16_000) for p in talk(500, ssrc=3, src_port=7000, payload_type=97)),
    ]
    return pcap(tmp_path / "calls.pcap", frames(made))


def test_a_table_per_question_and_one_sentence_about_the_worst(weir: Weir, file: Path) -> None:
    answer = weir("quality", file)
    assert answer.code == 0, answer.err
    first = answer.out.splitlines()[0]
    assert first.startswith(
        "1 of 3 voice streams is below MOS 4.0: 1 by loss before the capture (stream 1). The MOS of 1 is not "
        "known. 3 voice "
    )
    assert first.endswith("(stream 1, 4.0 % lost); network delay not measured.")
    for text in ("192.0.2.1:4000", "192.0.2.2:4002", "PCMU", "type 97", "20 (4.0 %)"):
        assert text in answer.out
    wide = weir("quality", file, "--wide", "--details").out
    for text in ("192.0.2.1:4000 > 192.0.2.2:4002", "0x1234abcd", "Burst ratio", "MOS, adaptive"):
        assert text in wide
    assert "No MOS for stream 3" in answer.err
    assert "does not show the network's delay" in answer.err


def test_json_is_one_document_with_every_stream(weir: Weir, file: Path) -> None:
    document = weir("quality", file, "--json").json
    assert document["kind"] == "capture quality"
    assert [stream["lost"] for stream in document["streams"]] == [20, 0, 0]
    assert document["streams"][0]["loss_ratio"] == pytest.approx(0.04)
    assert document["streams"][2]["mos"] is None
    assert document["network_delay_ms"] is None
    assert document["capture"]["packets"] == 1480
    assert document["summary"]["without_mos"] == 1
    assert "network delay not measured." in document["conclusion"]


def test_options_name_codecs_delay_streams_and_buffer(weir: Weir, file: Path) -> None:
    usual = weir("quality", file, "--stream", "3", "--codec", "97=g711", "--json").json["streams"]
    assert [stream["codec"] for stream in usual] == ["PCMU"]
    slow = weir("quality", file, "--stream", "3", "--codec", "97=g711", "--delay", "300", "--json").json
    assert slow["streams"][0]["mos"] < usual[0]["mos"] - 0.5
    assert "network delay 300 ms as given." in slow["conclusion"]
    fixed = weir("quality", file, "--jitter-buffer", "fixed:0ms", "--json").json
    assert fixed["jitter_buffer"]["heard"] == "fixed"
    assert fixed["streams"][0]["late_fixed"] > 0
    assert fixed["streams"][0]["mos"] == fixed["streams"][0]["mos_fixed"]
    named = weir("quality", file, "--codec", "97=AMR/8000", "--json").json["streams"][2]
    assert (named["codec"], named["mos"]) == ("AMR", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--codec", "200=g711"], "--codec '200=g711' not understood"),
        (["--codec", "97=nothing"], "codec 'nothing' not understood"),
        (["--codec", "97=AMR/0"], "a clock rate is from 1 to 1,000,000 Hz"),
        (["--decode-as", "9-4"], "--decode-as '9-4' not understood; accepted are 4000 and 10000-20000"),
        (["--decode-as", "70000"], "--decode-as '70000' not understood"),
        (["--jitter-buffer", "big"], "--jitter-buffer 'big' not understood"),
        (["--stream", ","], "--stream ',' names no stream"),
        (["--stream", "9"], "no stream '9': it has streams 1 to 3"),
        (["--delay", "-5"], "'--delay': Input should be greater than or equal to 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    weir: Weir, file: Path, arguments: list[str], message: str
) -> None:
    answer = weir("quality", file, *arguments)
    assert answer.code == 2
    assert message in answer.err
    assert answer.out == ""


def test_a_file_that_is_no_capture_is_refused(weir: Weir, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("this is no capture at all")
    answer = weir("quality", text)
    assert answer.code == 2
    assert "neither pcap nor pcapng" in answer.err


def test_of_many_streams_the_worst_are_shown(weir: Weir, tmp_path: Path) -> None:
    streams = [
        without(talk(60, ssrc=i, src_port=5000 + 2 * i), [10] if i == 33 else []) for i in range(1, 41)
    ]
    file = pcap(tmp_path / "many.pcap", frames(p for packets in streams for p in packets))
    answer = weir("quality", file)
    assert "The 30 worst streams; --json has all 40" in answer.out
    assert "0x00000021" in weir("quality", file, "--wide").out
    assert "40 voice streams in 1.18 s, 39 without loss; median" in answer.out
    assert len(weir("quality", file, "--json").json["streams"]) == 40


def test_a_report_is_written_and_never_replaces_its_capture(weir: Weir, file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    refused = weir("quality", file, "--out", file)
    assert (refused.code, file.read_bytes() == before) == (2, True)
    assert "--out would replace the capture" in refused.err
    out = tmp_path / "calls.html"
    answer = weir("quality", file, "--out", out)
    assert answer.code == 0, answer.err
    assert f"Report: {out}" in answer.err
    assert "Reproduce" in out.read_text()
