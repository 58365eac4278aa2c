from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weirlab import _engine
from weirlab.cli.program.app import PARTS, commands_of
from weirlab.testing.tcp import TcpSide
from weirlab.trace.facts import Analysis
from weirlab.transfers.trace import tables

from ...conftest import Weir
from ...trace import made
from ...trace.slow import sixty, window_limited

ROOT = Path(__file__).resolve().parents[4]
RECEIVER = TcpSide("198.51.100.1", 80)
Answer = Callable[[Analysis], list[dict[str, Any]]]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Lets the engine give this answer; tells what it was asked."""
    return lambda analysis: made.answering(monkeypatch, analysis)


def test_the_table_tells_of_every_connection_and_a_sentence_of_each(weir: Weir, answer: Answer) -> None:
    alone = made.side("10.0.0.9", 5, syns=3)
    silent = made.connection(1, a=alone, b=made.side("192.0.2.1", 5201), begin="syn", end="open")
    answer(made.analysis([made.connection(0), silent]))
    shown = weir("trace", "made.pcap")
    assert shown.code == 0, shown.err
    assert shown.out.startswith("3,002 packets (3.00 MB) over 2.10 s: 2 TCP connections, 5 of 2,000 segments")
    for text in ("10.0.0.1:40000", "192.0.2.1:5201", "11.6 Mbit/s", "5 (0.25 %)", "6.44 ms"):
        assert text in shown.out
    assert "No answer: 3 SYNs from 10.0.0.9:5.\n" in shown.out
    whole = weir("trace", "made.pcap", "--wide", "--details").out
    for text in ("at a", "12.8 ms", "673 kB"):
        assert text in whole
    assert shown.err == ""


def test_times_are_since_the_first_packet_or_dates(weir: Weir, answer: Answer) -> None:
    answer(made.analysis([made.connection()]))
    assert "0.000000 s" in weir("trace", "made.pcap", "--wide").out
    assert "2026-01-31 12:00:00.000 UTC" in weir("trace", "made.pcap", "--absolute").out


def test_one_connection_has_a_sheet_with_a_column_per_side(weir: Weir, answer: Answer) -> None:
    answer(made.analysis([made.connection(0), made.connection(7, vlan="10")]))
    sheet = weir("trace", "made.pcap", "--connection", "7").out
    for text in (
        "Connection 7",
        "10.0.0.1:40007",
        "VLAN",
        "  spurious (DSACK)",
        "1460, 7",
        "5 packets (0.25 % of data)",
    ):
        assert text in sheet
    assert "40000" not in sheet
    missing = weir("trace", "made.pcap", "--connection", "3")
    assert missing.code == 2
    assert "no such connection among 2" in missing.err


def test_connections_are_sorted_limited_and_selected(weir: Weir, answer: Answer) -> None:
    small = made.sender(port=1, data_packets=10, retransmissions={"total": 9})
    answer(made.analysis([made.connection(0), made.connection(1, a=small)]))

    def first(*options: str) -> str:
        lines = weir("trace", "made.pcap", *options).out.splitlines()
        return lines[[line.startswith("──") for line in lines].index(True) + 1].split()[0]

    assert first() == "0"
    assert first("--sort", "retransmissions") == "1"
    assert first("--flow", ":1") == "1"
    assert "1 of 2, --limit shows more" in weir("trace", "made.pcap", "--limit", "1").out
    assert "matches --flow" in weir("trace", "made.pcap", "--flow", ":9999").err


def test_json_is_one_document_with_everything(weir: Weir, answer: Answer) -> None:
    answer(made.analysis([made.connection(0)], esp=[made.esp()]))
    document = weir("trace", "made.pcap", "--json").json
    assert document["kind"] == "trace"
    assert document["connections"][0]["a"]["retransmissions"]["spurious"] == 1
    assert document["esp"][0]["spi"] == 0xC0FFEE
    assert document["conclusion"].startswith("3,002 packets")


def test_other_protocols_are_listed_below(weir: Weir, answer: Answer) -> None:
    streams = [made.stream(), made.stream(protocol="iax2", ssrc=3, loss_estimated=True, jitter_mean_ns=None)]
    answer(made.analysis(streams=streams, esp=[made.esp(), made.esp(ports=(4500, 4501))]))
    shown = weir("trace", "made.pcap").out
    assert "0 TCP connections, 2 voice streams and 2 ESP flows" in shown
    for text in ("192.0.2.1:4000", "0x1234abcd", "PCMU", "0.99 %", "2.00 ms", "iax2 3", "~5"):
        assert text in shown
    for text in ("0x00c0ffee", "3,000", "600 kB", "192.0.2.1:4500", "192.0.2.9:4501"):
        assert text in shown
    assert "ESP flows: 1 of 2, --json has all" in weir("trace", "made.pcap", "--limit", "1").out


def test_what_no_answer_has_is_counted(weir: Weir, answer: Answer) -> None:
    answer(
        made.analysis(
            [made.connection(0), made.connection(1)],
            connections_left_out=5,
            streams=[made.stream()],
            streams_left_out=3,
            esp=[made.esp(), made.esp()],
            esp_left_out=1,
        )
    )
    shown = weir("trace", "made.pcap", "--limit", "1").out
    assert "7 TCP connections, 4 voice streams and 3 ESP flows" in shown
    assert "TCP connections: 1 of 7, --limit shows more, --json has 2 of them\n" in shown
    assert "weir quality rates them): 1 of 4, --json has 1 of them\n" in shown
    assert "ESP flows: 1 of 3, --json has 2 of them\n" in shown


def test_what_the_capture_missed_is_said_however_few_are_shown(weir: Weir, answer: Answer) -> None:
    missed = made.connection(1, a=made.sender(port=1, link_bytes=1, unseen_bytes=900))
    answer(made.analysis([made.connection(0), missed]))
    asked = weir("trace", "made.pcap", "--limit", "1")
    assert "900 B was acknowledged but never seen" in asked.err


@pytest.mark.parametrize("linked", [False, True])
def test_a_report_never_replaces_a_capture(weir: Weir, answer: Answer, tmp_path: Path, linked: bool) -> None:
    asked = answer(made.analysis([made.connection()]))
    capture = tmp_path / "cap.pcap"
    capture.write_bytes(b"packets")
    report = tmp_path / "page.html" if linked else capture
    if linked:
        report.symlink_to(capture)
    done = weir("trace", capture, "--out", report)
    assert done.code == 2
    assert f"--out would replace the capture {capture}" in " ".join(done.err.split())
    assert (asked, capture.read_bytes()) == ([], b"packets")


def test_series_never_replace_a_capture(weir: Weir, answer: Answer, tmp_path: Path) -> None:
    asked = answer(made.analysis([made.connection()]))
    capture = tmp_path / "rtt.parquet"
    capture.write_bytes(b"packets")
    done = weir("trace", capture, "--series", tmp_path)
    assert done.code == 2
    assert "--series would replace the capture" in done.err
    assert (asked, capture.read_bytes()) == ([], b"packets")


def test_what_is_asked_reaches_the_engine(weir: Weir, answer: Answer, tmp_path: Path) -> None:
    asked = answer(made.analysis([made.connection()]))
    folder = tmp_path / "series"
    done = weir(
        *("trace", "one.pcap", "two.pcap", "--filter", "tcp", "--from", "1.5", "--to", "2s"),
        *("--series", folder, "--period", "10ms", "--no-diagnosis"),
    )
    assert done.code == 0, done.err
    assert f"Series: {folder}" in done.err
    assert asked == [
        {
            "paths": ["one.pcap", "two.pcap"],
            "filter": "tcp",
            "from_ns": 1_500_000_000,
            "to_ns": 2_000_000_000,
            "relative": True,
            "series": str(folder),
            "period_ns": 10_000_000,
            "decode_as": [],
            "keep": 100_000,
            "rows": None,
            "share": None,
        }
    ]
    assert (folder / "segments.parquet").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "noon"], "--from 'noon' not understood"),
        (["--from", "2", "--to", "1"], "the window ends before it begins"),
        (["--period", "0"], "--period '0' not understood"),
        (["--flow", "1.2.3"], "--flow '1.2.3' not understood"),
        (["--sort", "luck"], "luck"),
        (["--out", "x.html"], "--out needs a TCP connection"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    weir: Weir, answer: Answer, arguments: list[str], message: str
) -> None:
    answer(made.analysis())
    done = weir("trace", "made.pcap", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.out == ""


def test_the_report_is_about_the_greatest_connection_or_the_chosen_one(
    weir: Weir, answer: Answer, tmp_path: Path
) -> None:
    small = made.connection(1, a=made.sender(port=1, data_packets=10))
    answer(made.analysis([small, made.connection(0)]))
    page = tmp_path / "page.html"
    done = weir("trace", "made.pcap", "--out", page)
    assert done.code == 0, done.err
    assert f"Report: {page}" in done.err
    assert "Connection 0: 10.0.0.1:40000 (a)" in page.read_text()
    assert weir("trace", "made.pcap", "--out", page, "--connection", "1").code == 0
    assert "Connection 1: 10.0.0.1:1 (a)" in page.read_text()


def test_the_greatest_connection_is_that_with_most_bytes_on_the_link(
    weir: Weir, answer: Answer, tmp_path: Path
) -> None:
    # Many small segments: less payload than the other one, and more on the link.
    chatty = made.connection(1, a=made.sender(port=1, data_bytes=1_000_000, link_bytes=9_000_000))
    asked = answer(made.analysis([made.connection(0), chatty], connections_left_out=4))
    page = tmp_path / "page.html"
    assert weir("trace", "made.pcap", "--out", page, "--limit", "1").code == 0
    assert asked[0]["keep"] == 100_000
    assert "Connection 1: 10.0.0.1:1 (a)" in page.read_text()
    assert "TCP connections, by bytes on the link: 2 of 6" in page.read_text()


def test_cautions_about_the_capture_are_said_beside_the_result(weir: Weir, answer: Answer) -> None:
    answer(made.analysis([made.connection()], capture={"backwards": 1}))
    assert "1 packet had an earlier time than the packet before." in weir("trace", "made.pcap").err


@pytest.mark.parametrize("options", [[], ["--json"], ["--connection", "0"]])
def test_tables_and_json_need_none_of_the_heavy_packages(options: list[str]) -> None:
    heavy = ("numpy", "polars", "altair", "rich", "pydantic", "jinja2", "importlib.metadata")
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT / 'python')!r}, {str(ROOT)!r}]; import types\n"
        f"facts = {made.analysis([made.connection()], capture={'files': made.files(1)})!r}\n"
        "fake = types.ModuleType('weirlab._engine'); fake.analyse = lambda *a, **k: facts\n"
        "sys.modules['weirlab._engine'] = fake\n"
        f"sys.argv = ['weir', 'trace', 'made.pcap', '--no-diagnosis', *{options!r}]\n"
        "from weirlab.cli import main\n"
        "try: main()\n"
        f"finally: print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "3,002 packets" in done.stdout


def test_every_module_of_commands_adds_those_that_the_list_names() -> None:
    for part, names in PARTS.items():
        assert tuple(commands_of(part)) == names


@pytest.mark.parametrize(
    ("place", "seen_from"), [(0.0, "a capture at the sender"), (1.0, "a capture at the receiver")]
)
def test_it_says_why_a_connection_was_slow(weir: Weir, tmp_path: Path, place: float, seen_from: str) -> None:
    file = window_limited(tmp_path / "slow.pcap", place)
    shown = weir("trace", file)
    assert shown.code == 0, shown.err
    assert "--connection 0 shows the evidence." in shown.out
    assert "of the time the receiver's window was full: its buffer of 8.19 kB allows" in shown.out
    whole = weir("trace", file, "--connection", "0", "--target", "100Mbit/s").out
    for text in ("Where the time went", "Evidence", "limited by", "would be needed for 100 Mbit/s"):
        assert text in whole
    page = tmp_path / "page.html"
    assert weir("trace", file, "--target", "100Mbit/s", "--out", page).code == 0
    assert "would be needed for 100 Mbit/s" in page.read_text()
    diagnosis = weir("trace", file, "--json").json["connections"][0]["diagnosis"]
    assert diagnosis["from"] == seen_from
    assert diagnosis["findings"][0]["cause"] == "receive_window"
    assert diagnosis["findings"][0]["share"] > 0.9


def test_without_a_round_trip_the_reason_names_no_throughput(weir: Weir, tmp_path: Path) -> None:
    (found,) = weir("trace", sixty(tmp_path / "lossy.pcap"), "--json").json["connections"]
    assert found["diagnosis"]["findings"][0]["cause"] == "loss"
    sentence = found["diagnosis"]["sentence"]
    assert sentence.endswith("17 % of the segments were lost, which held it near 5.00 kB.")


def test_of_captures_that_are_too_large_it_says_how_to_choose(
    weir: Weir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = window_limited(tmp_path / "slow.pcap", 0.0)
    monkeypatch.setattr(tables, "MOST_PACKETS", 100)
    assert "choose one with --connection" in weir("trace", file).err
    assert weir("trace", file, "--json").json["connections"][0]["diagnosis"] is None
    chosen = weir("trace", file, "--connection", "0", "--json").json
    assert chosen["connections"][0]["diagnosis"]["findings"][0]["cause"] == "receive_window"


def test_a_diagnosis_may_be_left_out(weir: Weir, tmp_path: Path) -> None:
    file = window_limited(tmp_path / "slow.pcap", 0.0)
    assert weir("trace", file, "--no-diagnosis", "--json").json["connections"][0]["diagnosis"] is None
    assert "the receiver's window was full" not in weir("trace", file, "--no-diagnosis").out


def test_captures_are_read_once_and_series_do_not_change_the_diagnosis(
    weir: Weir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = window_limited(tmp_path / "slow.pcap", 0.0)
    plain = weir("trace", file, "--json").json["connections"][0]["diagnosis"]
    read = []
    analyse = _engine.analyse
    monkeypatch.setattr(_engine, "analyse", lambda files, **how: read.append(files) or analyse(files, **how))
    for options in (["--series", tmp_path / "series"], ["--out", tmp_path / "page.html"]):
        assert weir("trace", file, "--json", *options).json["connections"][0]["diagnosis"] == plain
    assert read == [[str(file)]] * 2
