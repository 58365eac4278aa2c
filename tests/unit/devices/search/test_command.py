from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from weirlab.testing import FakeBed, TrialDisturbance

from ...conftest import Weir

Beds = Callable[..., list[FakeBed]]


def test_search_shows_both_rates_per_rule_count_and_a_sentence(weir: Weir, bed: Beds) -> None:
    bed()
    answer = weir("search", "--rules", "0,400")
    assert answer.code == 0
    assert answer.out.count("NDR ") >= 2
    assert answer.out.count("PDR ") == 2
    assert "400 rules, 64-byte frames: NDR" in answer.out


def test_search_prints_one_document(weir: Weir, bed: Beds) -> None:
    bed()
    found = weir("search", "--loss", "0,10%", "--frame", "64,1518", "--json").json
    assert [point["sizes_text"] for point in found["points"]] == ["64", "1518"]
    assert [goal["name"] for goal in found["goals"]] == ["NDR", "loss 10 %"]
    assert found["goals"][1]["loss_ratio"] == 0.1


def test_the_goal_is_as_the_options_say(weir: Weir, bed: Beds) -> None:
    bed()
    (goal,) = weir(
        "search", "--loss", "0", "--duration", "1", "--exceed", "0", "--width", "2%", "--json"
    ).json["goals"]  # fmt: skip
    assert goal == {
        "name": "NDR", "loss_ratio": 0, "trial_s": 1, "duration_sum_s": 11, "exceed_ratio": 0,
        "relative_width": 0.02,
    }  # fmt: skip


def test_a_device_faster_than_the_sender_is_told_so(weir: Weir, bed: Beds) -> None:
    bed()
    answer = weir("search", "--max-rate", "10kpps")
    assert "at least 10.0 kpps, the highest load offered" in answer.out
    assert "≥ 10,000" in answer.out


def test_the_report_is_markdown_or_csv_by_its_name(weir: Weir, bed: Beds, tmp_path: Path) -> None:
    bed()
    assert weir("search", "--out", tmp_path / "found.md").code == 0
    text = (tmp_path / "found.md").read_text()
    assert text.startswith("# Throughput: fake\n")
    assert "| Goal | Rules | Frame, B | Throughput, pps |" in text
    assert weir("search", "--out", tmp_path / "found.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "found.csv").open()))
    assert [row["goal_name"] for row in rows] == ["NDR", "PDR"]
    assert float(rows[0]["lower_pps"]) <= float(rows[0]["upper_pps"])


def test_rfc2544_does_all_tests_with_the_frame_sizes_of_the_rfc(
    weir: Weir, bed: Beds, tmp_path: Path
) -> None:
    bed()
    out = tmp_path / "rfc.md"
    answer = weir("rfc2544", "--repetitions", "2", "--out", out)
    assert answer.code == 0
    for section in ("26.1", "26.2", "26.3", "26.4"):
        assert f"RFC 2544 section {section}" in answer.out
        assert f"RFC 2544 section {section}" in out.read_text()
    assert "| Load | 64 B | 128 B | 256 B | 512 B | 1024 B | 1280 B | 1518 B |" in out.read_text()


def test_rfc2544_does_the_named_tests_only(weir: Weir, bed: Beds, tmp_path: Path) -> None:
    bed()
    out = tmp_path / "loss.csv"
    found = weir(
        "rfc2544", "--tests", "loss", "--frame", "64", "--rules", "0,100", "--step", "5%", "--out", out,
        "--json",
    ).json  # fmt: skip
    assert found["out"] == str(out)
    first, second = found["results"]
    assert first["throughput"] is first["latency"] is first["bursts"] is None
    assert second["position"] == 100
    assert first["loss"]["points"][1]["share"] == 0.95
    rows = list(csv.DictReader(out.open()))
    assert {row["test"] for row in rows} == {"loss"}
    assert float(rows[0]["at"]) == 1


def test_a_search_that_the_host_spoils_ends_with_code_5_and_the_reason(weir: Weir, bed: Beds) -> None:
    bed(*[TrialDisturbance(steal_s={"dut": 0.1})] * 6)
    answer = weir("search", "--attempts", "3")
    assert answer.code == 5
    assert "searching there again" in answer.err
    assert "stolen" in answer.err
    assert "nothing was found" in answer.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "--out", "found.txt"), ".md or .csv"),
        (("search", "--out", "nowhere/found.md"), "no folder nowhere"),
        (("search", "--loss", "all"), "--loss"),
        (("search", "--exceed", "half"), "--exceed 5%"),
        (("search", "--width", "0"), "width"),
        (("search", "--duration", "1", "--duration-sum", "0.5"), "sum of durations"),
        (("search", "--rules", "-1"), "--rules"),
        (("search", "--min-rate", "10%"), "--min-rate"),
        (("search", "--max-rate", "500pps"), "is empty"),
        (("rfc2544", "--tests", "speed"), "throughput, latency, loss, bursts"),
        (("rfc2544", "--step", "20%"), "10 %"),
    ],
)
def test_bad_options_are_one_clear_message(
    weir: Weir, bed: Beds, arguments: tuple[str, ...], told: str
) -> None:
    bed()
    answer = weir(*arguments)
    assert answer.code == 2
    assert told in answer.err
    assert answer.err.count("weir: ") <= 2
