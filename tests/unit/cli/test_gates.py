"""Requirements (``--require``) of every command that takes them: verdicts, documents, exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weirlab.calls.calls import tables
from weirlab.cli.results import gates
from weirlab.requirements import P99, DemandCase, judge, parse
from weirlab.store import Store
from weirlab.testing import FakeBed, TrialDisturbance, make_call_table, make_result

from ..calls.calls.test_sent import outcome as calls_outcome
from ..calls.quality.captures import frames, later, pcap, talk, without
from ..conftest import Answer, Weir

Beds = Callable[..., list[FakeBed]]

TRIAL = ("trial", "--rate", "100kpps", "--duration", "0.5", "--warmup", "0")
STOLEN = TrialDisturbance(steal_s={"dut": 1.0})


def one(answer: Answer) -> dict[str, Any]:
    """The only requirement in the document."""
    (found,) = answer.json["requirements"]
    assert isinstance(found, dict)
    return found


def test_a_trial_that_meets_its_requirements_ends_with_0(weir: Weir, bed: Beds) -> None:
    bed()
    answer = weir(
        *TRIAL, "--require", "p99<1ms", "--require", "loss=0", "--require", "rate>=60Mbit/s", "--json"
    )
    assert answer.code == 0
    found = answer.json["requirements"]
    assert [each["verdict"] for each in found] == ["met"] * 3
    assert found[1]["note"] == "0 of 50,000 packets"
    assert found[1]["value"] == found[1]["low"] == found[1]["high"] == 0
    assert found[2]["unit"] == "bit/s"


def test_a_requirement_that_is_not_met_has_its_own_exit_code(weir: Weir, bed: Beds) -> None:
    bed()
    answer = weir(*TRIAL, "--require", "p99<1ms", "--require", "mean<1ns")
    assert answer.code == 9
    assert "not met" in answer.out
    assert answer.out.startswith("fake with no rules forwarded all of 100 kpps")
    (said,) = [line for line in answer.err.splitlines() if "not met" in line]
    assert said.startswith("weir: not met: mean<1ns (")
    assert "p99" not in said


def test_without_requirements_nothing_is_said_of_them(weir: Weir, bed: Beds) -> None:
    bed()
    assert "requirements" not in weir(*TRIAL, "--json").json


def test_a_trial_that_the_host_spoiled_is_neither_met_nor_not_met(weir: Weir, bed: Beds) -> None:
    bed(STOLEN, STOLEN)
    answer = weir(*TRIAL, "--attempts", "2", "--require", "loss=0", "--require", "mean<1ns", "--json")
    assert answer.code == 5
    assert [each["verdict"] for each in answer.json["requirements"]] == ["undecided"] * 2
    assert "stolen" in answer.json["requirements"][0]["why"]
    assert answer.json["requirements"][0]["value"] is None
    assert answer.json["valid"] is False


def test_repetitions_on_both_sides_of_the_limit_decide_nothing(weir: Weir, bed: Beds) -> None:
    delays = [make_result(1e5, duration_s=0.5, delay_mean_ns=ns) for ns in (18_000, 20_000, 22_000)]
    bed(*delays)
    asked = (*TRIAL, "--repetitions", "3", "--json")
    answer = weir(*asked, "--require", "mean<21us")
    assert answer.code == 7
    found = one(answer)
    assert found["verdict"] == "undecided"
    assert found["low"] < 18_000 < 20_000 == pytest.approx(found["value"])
    assert "more of them (--repetitions)" in found["why"]
    assert len(answer.json["repetitions"]) == 3
    bed(*delays)
    assert weir(*asked, "--require", "mean<40us").code == 0
    bed(*delays)
    assert weir(*asked, "--require", "mean<10us").code == 9


def test_spoiled_repetitions_do_not_count(weir: Weir, bed: Beds) -> None:
    bed(None, STOLEN, None)
    answer = weir(*TRIAL, "--repetitions", "3", "--attempts", "1", "--require", "loss=0", "--json")
    assert answer.code == 0
    assert one(answer)["note"] == "0 of 100,000 packets in 2 of 3 repetitions"
    assert answer.json["valid"] is True
    bed(STOLEN, None, STOLEN)
    answer = weir(*TRIAL, "--repetitions", "3", "--attempts", "1", "--require", "mean<1s", "--json")
    assert answer.code == 7
    assert "one repetition alone" in one(answer)["why"]
    bed(*[STOLEN] * 3)
    assert weir(*TRIAL, "--repetitions", "3", "--attempts", "1", "--require", "mean<1s").code == 5


def test_repetitions_are_kept_as_trials_of_one_run(weir: Weir, bed: Beds, tmp_path: Path) -> None:
    bed(STOLEN)
    assert weir(*TRIAL, "--repetitions", "3").code == 0
    trials = Store(tmp_path / "store").open("last").trials()
    assert trials["index"].to_list() == [0, 0, 1, 2]
    assert trials["valid"].to_list() == [False, True, True, True]


@pytest.mark.parametrize(
    "command", [TRIAL, ("search",), ("calls", "--calls", "3", "--send"), ("quality", "calls.pcap")]
)
@pytest.mark.parametrize("limit", ["colour<1ms", "p99", "loss<-1", "loss<2", ""])
def test_what_cannot_be_required_is_refused_before_the_work(
    weir: Weir, bed: Beds, command: tuple[str, ...], limit: str, tmp_path: Path
) -> None:
    beds = bed()
    answer = weir(*command, "--require", limit)
    assert answer.code == 2
    assert beds == []
    assert Store(tmp_path / "store").runs() == []
    if limit.startswith("colour"):
        assert "'colour' is not known here; accepted are " in answer.err


def test_a_search_is_judged_by_its_bounds(weir: Weir, bed: Beds) -> None:
    bed()
    found = weir("search", "--loss", "0", "--json").json["points"][0]["goals"][0]
    low, high = found["conditional_throughput_pps"], found["upper_pps"]
    for limit, code, verdict in (
        (low - 1, 0, "met"),
        ((low + high) / 2, 7, "undecided"),
        (high + 1, 9, "not met"),
    ):
        bed()
        answer = weir("search", "--loss", "0", "--require", f"ndr>={limit:.0f}", "--json")
        assert (answer.code, one(answer)["verdict"]) == (code, verdict)
        assert (one(answer)["low"], one(answer)["high"]) == (low, high)


def test_a_search_has_to_meet_its_requirement_in_every_setting(weir: Weir, bed: Beds) -> None:
    bed()
    answer = weir("search", "--rules", "0,1000", "--loss", "0", "--require", "throughput>=600kpps", "--json")
    assert answer.code == 9
    found = one(answer)
    assert (found["where"], found["cases"], found["failing"]) == ("position 1000, 64 B", 2, 1)


def test_more_than_the_sender_offers_cannot_be_decided(weir: Weir, bed: Beds) -> None:
    bed()
    answer = weir("search", "--max-rate", "10kpps", "--require", "ndr>=20kpps", "--json")
    assert answer.code == 7
    assert one(answer)["high"] is None
    assert "no higher load could be offered" in one(answer)["why"]
    bed()
    assert weir("search", "--max-rate", "10kpps", "--require", "ndr>=9kpps").code == 0


def test_only_goals_that_are_searched_can_be_required(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir("search", "--loss", "1%", "--require", "ndr>=1kpps")
    assert answer.code == 2
    assert "accepted are throughput@1%" in answer.err
    assert beds == []
    bed()
    assert weir("search", "--loss", "1%", "--require", "throughput@1%>=1kpps").code == 0


def test_calls_are_judged_caller_by_caller(weir: Weir) -> None:
    sent = ("calls", "--calls", "20", "--duration", "1", "--send", "--lab", "sim", "--json")
    answer = weir(*sent, "--require", "mos>=4", "--require", "p99<10ms", "--require", "mos-median>=4")
    assert answer.code == 0, answer.err
    assert [each["cases"] for each in answer.json["requirements"]] == [40, 1, 1]
    assert weir(*sent, "--require", "mos>=4.9").code == 9


def test_one_caller_who_hears_badly_is_named() -> None:
    table = make_call_table(3, mos=4.3)
    table.mos[3] = 3.2
    (found,) = tables.of_calls([parse("mos>=4", tables.CALLS)], calls_outcome(table))
    assert (found.verdict, found.case.where, found.failing) == ("not met", "call 1 back", 1)
    table.mos[3] = float("nan")
    (found,) = tables.of_calls([parse("mos>=4", tables.CALLS)], calls_outcome(table))
    assert found.verdict == "undecided"


def test_requirements_of_calls_go_with_send(weir: Weir) -> None:
    answer = weir("calls", "--calls", "3", "--require", "mos>=4")
    assert answer.code == 2
    assert "--require goes with --send" in answer.err


def test_every_stream_of_a_capture_is_judged(weir: Weir, tmp_path: Path) -> None:
    bad = without(talk(200, ssrc=7, src_port=4100), range(50, 70))
    file = pcap(tmp_path / "calls.pcap", frames([*talk(200), *(later(packet, 10_000) for packet in bad)]))
    answer = weir("quality", file, "--require", "loss<1%", "--require", "mos-median>=1", "--json")
    assert answer.code == 9
    loss, median = answer.json["requirements"]
    assert (loss["verdict"], loss["where"], loss["cases"], loss["failing"]) == ("not met", "stream 2", 2, 1)
    assert median["verdict"] == "met"
    assert weir("quality", file, "--require", "loss<20%").code == 0


def test_a_stream_without_mos_leaves_a_requirement_on_mos_undecided(weir: Weir, tmp_path: Path) -> None:
    file = pcap(tmp_path / "calls.pcap", frames(talk(200, payload_type=97)))
    answer = weir("quality", file, "--require", "mos>=4", "--json")
    assert answer.code == 7
    assert "--codec" in one(answer)["why"]


def test_a_message_names_the_first_requirements_that_are_missed_and_counts_the_rest() -> None:
    """Reported: a line of 450 characters."""
    (demand,) = gates.demands(["p99<1ms"], (P99,))
    missed = [judge(demand, [DemandCase(n * 1e6, where=f"device {n}")]) for n in (2, 2, 3, 4, 5, 6)]
    error = gates.failure(missed)
    assert str(error).count("p99<1ms") == 3
    assert str(error).endswith(" and 2 more")
