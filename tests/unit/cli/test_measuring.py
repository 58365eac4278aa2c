from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from weirlab.base.errors import TrialError
from weirlab.cli.output import Session
from weirlab.cli.program.app import app
from weirlab.jobs import testbeds
from weirlab.records import RuleSetup
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeDevice, TrialDisturbance
from weirlab.traffic.sizes import Constant, PoissonSizes
from weirlab.traffic.spec import Flows, LoadStep, Rate

from ..conftest import Weir

Beds = Callable[..., list[FakeBed]]
QUICK_PROFILE = (
    "profile", "--quick", "--rules", "0,100", "--frame", "64", "--loads", "10%,60%,120%",
    "--repetitions", "1", "--duration", "0.05", "--warmup", "0.01",
)  # fmt: skip


def test_the_documented_call_gives_one_json_document(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir(
        "trial", "--lab", "netns", "--dut", "iptables", "--rules", "1000", "--rate", "2Mpps",
        "--frame", "64", "--duration", "2", "--json",
    )  # fmt: skip
    assert answer.code == 0
    (said,) = answer.err.splitlines()
    assert said.startswith("weir: position 1000, 64 B, 2Mpps, through fake in the lab sim, run ")
    found = answer.json
    assert found["valid"] is True
    assert found["queue_packets"] == pytest.approx(256, rel=0.15)
    assert found["forwarding_pps"] < 0.5 * found["offered_pps"]
    assert found["run_id"] in found["trial_id"]
    assert found["conclusion"].startswith("fake with 1,000 rules forwarded")
    assert beds[0].rules_seen == [RuleSetup(1000)]
    assert beds[0].traffic_seen[0].duration_s == 2


@pytest.mark.parametrize(
    ("headers", "frame_bytes"), [((), 64), (("--ip", "6"), 84), (("--ip", "6", "--l4", "tcp"), 96)]
)
def test_without_a_size_frames_are_as_small_as_the_headers_allow(
    weir: Weir, bed: Beds, headers: tuple[str, ...], frame_bytes: int
) -> None:
    beds = bed()
    weir("trial", "--rate", "1kpps", "--duration", "0.05", *headers)
    assert beds[0].traffic_seen[0].sizes == Constant(frame_bytes)


def test_every_traffic_option_reaches_the_sender(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir(
        "trial", "--rate", "100kpps", "--sizes", "poisson:100-200", "--duration", "2", "--warmup", "0.25",
        "--flows", "5", "--l4", "tcp", "--ip", "6", "--arrivals", "poisson", "--order", "random",
        "--seed", "9", "--step", "1:200kpps", "--step", "1.5:300kpps", "--stateful",
    )  # fmt: skip
    assert answer.code in (0, 5)
    traffic = beds[0].traffic_seen[0]
    assert traffic.rate == Rate(100e3)
    assert traffic.sizes == PoissonSizes(100, 200, 150.0)
    assert traffic.flows == Flows(5, "tcp", 6, "random", 9)
    assert traffic.arrivals == "poisson"
    assert traffic.steps == (LoadStep(1.0, Rate(200e3)), LoadStep(1.5, Rate(300e3)))
    assert (traffic.duration_s, traffic.warmup_s, traffic.seed) == (2.0, 0.25, 9)
    assert beds[0].rules_seen == [RuleSetup(0, stateful=True)]


def test_a_trial_for_people_begins_with_a_sentence(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir("trial", "--rate", "100kpps")
    assert answer.code == 0
    assert answer.out.startswith("fake with no rules forwarded all of 100 kpps; median delay")
    assert "forwarding rate" in answer.out
    assert beds[0].traffic_seen[0].sizes == Constant(64)


def test_a_spoiled_trial_is_shown_and_has_exit_code_5(weir: Weir, bed: Beds) -> None:
    bed(*[TrialDisturbance(steal_s={"dut": 1.0})] * 2)
    answer = weir("trial", "--rate", "100kpps", "--attempts", "2", "--json")
    assert answer.code == 5
    assert answer.json["valid"] is False
    assert "stolen" in answer.json["invalid"][0]
    assert "stayed invalid in 2 attempts" in answer.err
    assert answer.json["conclusion"].startswith("Invalid after 2 attempts")


def test_a_problem_is_said_once_and_before_the_result(capfd: pytest.CaptureFixture[str]) -> None:
    session = Session(typer.Context(typer.main.get_command(app)))
    problem = TrialError("the host spoiled it")
    session.finish({"kind": "failover"}, "Callers hear nothing for 1 s.", problem=problem)
    with pytest.raises(typer.Exit) as left:
        session.complain(problem)
    assert left.value.exit_code == 5
    assert capfd.readouterr() == ("Callers hear nothing for 1 s.\n", "weir: the host spoiled it\n")


def test_json_of_a_result_that_does_not_count_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    session = Session(typer.Context(typer.main.get_command(app)), as_json=True)
    session.finish({"kind": "failover"}, "Callers hear nothing for 1 s.", problem=TrialError("spoiled"))
    assert json.loads(capfd.readouterr().out)["valid"] is False


def test_a_profile_without_a_valid_trial_does_not_lead_to_a_fit(weir: Weir, bed: Beds) -> None:
    bed(*[TrialDisturbance(steal_s={"dut": 1.0})] * 100)
    answer = weir(*QUICK_PROFILE, "--attempts", "1", "--json")
    assert answer.json["conclusion"].startswith("No trial had a valid attempt")
    assert "weir fit" not in answer.json["conclusion"]


def test_a_trial_says_what_it_does_and_why_it_tries_again(weir: Weir, bed: Beds) -> None:
    bed(TrialDisturbance(steal_s={"dut": 1.0}), None)
    said = weir("trial", "--rate", "100kpps").err
    assert "position 0, 64 B, 100kpps, through fake in the lab" in said
    assert "attempt 1 does not count: 1000 ms stolen from the dut's CPU" in said


def test_a_device_that_forwards_nothing_names_counters_and_what_to_check(weir: Weir, bed: Beds) -> None:
    beds = bed(*[TrialDisturbance(nothing_arrives=True)] * 4)
    answer = weir("trial", "--rate", "100kpps", "--json")
    assert answer.code == 5
    assert "forwards nothing" in answer.json["error"]["message"]
    assert "in_rx_packets" in answer.err
    assert beds[0].closed


def test_a_device_that_loses_all_of_one_load_and_not_of_a_lower_one_has_a_result(
    weir: Weir, bed: Beds
) -> None:
    bed(*[TrialDisturbance(nothing_arrives=True)] * 2)
    answer = weir("trial", "--rate", "100kpps")
    assert answer.code == 0
    assert "forwarded nothing of 100 kpps: it lost every packet" in answer.out
    assert "nan" not in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trial"], "Missing option '--rate'. See: weir trial --help"),
        (["trial", "--rate", "-5"], "rate '-5' not understood; accepted are"),
        (["trial", "--rate", "0"], "must be above 0"),
        (["trial", "--rate", "1kpps", "--frame", "20"], "frame size 20 B"),
        (["trial", "--rate", "1kpps", "--frame", "64", "--sizes", "imix"], "--frame and --sizes exclude"),
        (["trial", "--rate", "1kpps", "--rules", "-1"], "Invalid value for '--rules'"),
        (["trial", "--rate", "1kpps", "--dut", "iptabels"], "did you mean iptables?"),
        (["trial", "--rate", "1kpps", "--dut", "iptables", "--ruleset", "rules"], "rules"),
        (["trial", "--rate", "1kpps", "--ruleset", "missing.rules"], "missing.rules: no such file"),
        (["trial", "--rate", "1kpps", "--step", "1"], "--step: '1' not understood"),
        (["trial", "--rate", "1kpps", "--step", "x:1kpps"], "--step: 'x:1kpps' not understood"),
        (["trial", "--rate", "1kpps", "--step", "-1:1kpps"], "--step: '-1:1kpps' not understood"),
        (["trial", "--rate", "1kpps", "--step", "9:1kpps"], "outside the recorded time"),
        (["trial", "--rate", "1kpps", "--duration", "0"], "duration"),
        (["trial", "--rate", "1kpps", "--lab", "moon"], "'moon' is not one of"),
        (["trial", "--rate", "1kpps", "--bogus"], "No such option: --bogus. See: weir trial --help"),
        (["profile", "--rules", "0,x"], "--rules: 'x' in '0,x' not understood; e.g. --rules 0,100,1000"),
        (["profile", "--rules", "0,,5"], "--rules: '' in '0,,5' not understood"),
        (["profile", "--rules=-5"], "--rules: must be greater than or equal to 0"),
        (["profile", "--rules", "5,5"], "--rules: 5 is listed twice"),
        (["profile", "--loads", "x"], "--loads: 'x' not understood"),
        (["profile", "--loads", "nan"], "--loads: must be"),
        (["profile", "--frame", "20"], "frame size 20 B"),
        (["profile", "--duration", "-1"], "Invalid value for '--duration'"),
        (["profile", "--duration", "0"], "--duration: must be greater than 0"),
        (["calibrate", "--lab", "sim"], "no cable to calibrate against"),
        (["calibrate", "--rates", "1kpps,x"], "--rates: rate 'x' not understood"),
        (["nonsense"], "No such command 'nonsense'"),
        (["run"], "give either --resume RUN or a scenario"),
        (["run", "missing.yaml"], "missing.yaml: no such file"),
    ],
)
def test_bad_input_gets_one_message_and_exit_code_2(
    weir: Weir, bed: Beds, arguments: list[str], message: str, tmp_path: Path
) -> None:
    beds = bed()
    answer = weir(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("weir: ")
    assert message in answer.err
    assert beds == []
    assert Store(tmp_path / "store").runs() == []


def test_with_json_an_error_is_a_document_too(weir: Weir, bed: Beds) -> None:
    bed()
    answer = weir("trial", "--rate", "5x", "--json")
    assert answer.json["error"]["kind"] == "InputError"
    assert answer.json["error"]["exit_code"] == answer.code == 2
    assert answer.json["error"]["message"] in answer.err


def test_a_profile_shows_thresholds_and_what_comes_next(weir: Weir, bed: Beds) -> None:
    bed()
    answer = weir(*QUICK_PROFILE)
    assert answer.code == 0
    assert "Forwarding rate in overload" in answer.out
    assert "next: weir fit " in answer.out.splitlines()[0]
    assert "profiling fake" in answer.err
    number = r"([\d.,]+)"
    led = re.match(
        f"{number} kpps of 64-byte frames without rules, {number} kpps with {number} rules: {number} ns a",
        answer.out,
    )
    assert led is not None, answer.out
    most, least, rules, cost_ns = (float(each.replace(",", "")) for each in led.groups())
    assert most == pytest.approx(FakeDevice().threshold_pps(0, 64) / 1e3, rel=0.05)
    assert cost_ns == pytest.approx((1e6 / least - 1e6 / most) / rules, rel=0.05)


def test_an_interrupted_profile_says_what_is_kept_and_goes_on(weir: Weir, bed: Beds) -> None:
    bed(*[None] * 4, KeyboardInterrupt())
    answer = weir(*QUICK_PROFILE, "--json")
    assert answer.code == 130
    error = answer.json["error"]
    assert f"4 valid attempts kept in run {error['run_id']}" in answer.err
    assert error["resume"] == f"weir profile --resume {error['run_id']}"
    refused = weir("profile", "--resume", error["run_id"], "--machine", "noisy")
    assert (refused.code, "as it was begun" in refused.err) == (2, True)
    again = weir("profile", "--resume", error["run_id"], "--json")
    assert again.code == 0
    assert again.json["trials"] == 10


def test_an_adaptive_profile_says_how_sure_the_model_is_and_where_least(weir: Weir, bed: Beds) -> None:
    bed()
    arguments = ("--adaptive", "--budget=60", "--target=20%", "--frame=64,1518", "--duration=0.05")
    answer = weir("profile", *arguments, "--json")
    assert answer.code == 0, answer.err
    found = answer.json["adaptive"]
    assert found["target_ratio"] == 0.2
    assert found["grid_trials"] > 2 * 60
    assert answer.json["trials"] <= 60
    last = found["rounds"][-1]
    assert last["trials"] == answer.json["trials"]
    assert last["where"] in answer.json["conclusion"]
    assert "20 %" in answer.json["conclusion"]


def test_an_interrupted_adaptive_profile_goes_on(weir: Weir, bed: Beds) -> None:
    bed(*[None] * 30, KeyboardInterrupt())
    arguments = ("--adaptive", "--budget=60", "--frame=64,1518", "--duration=0.05")
    stopped = weir("profile", *arguments)
    assert stopped.code == 130
    assert "30 valid attempts kept" in stopped.err
    bed()
    answer = weir("profile", "--resume", "last", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["attempts"] == answer.json["trials"] - 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--budget 60", "--budget and --target go with --adaptive"),
        ("--adaptive --target much", "--target"),
        ("--adaptive --target 5%,6%", "one share"),
        ("--adaptive --rules 7", "two matching positions"),
        ("--adaptive --budget 5", "come first"),
    ],
)
def test_an_adaptive_profile_that_makes_no_sense_is_refused(
    weir: Weir, bed: Beds, arguments: str, message: str
) -> None:
    bed()
    answer = weir("profile", *arguments.split())
    assert answer.code == 2
    assert message in answer.err


def test_a_calibration_reports_pacing_time_stamps_and_false_loss(
    weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weirlab.lab.doctor.missing_for_namespaces", lambda: None)
    cable = FakeDevice(service_fixed_ns=10.0, service_per_rule_ns=0.0, base_delay_ns=700.0)
    monkeypatch.setattr(testbeds, "open_cable", lambda _: FakeBed(cable, lab="netns", backend="xdp"))
    answer = weir(
        "calibrate", "--rates", "1kpps,100kpps", "--repetitions", "1", "--duration", "0.05", "--json"
    )
    assert answer.code == 0
    assert {"pacing_error_ratio", "delay_p50_ns", "delay_p99_ns", "false_loss_ratio"} <= answer.json.keys()
    shown = weir("calibrate", "--rates", "1kpps", "--repetitions", "1", "--duration", "0.05").out
    assert shown.startswith("Weir's own error here: pacing within ")
    assert "Over a plain cable" in shown


def test_without_root_missing_privileges_have_exit_code_3(
    weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weirlab.lab.doctor.missing_for_namespaces", lambda: "privileges: missing")
    answer = weir("calibrate")
    assert answer.code == 3
    assert "run as root" in answer.err


def test_a_store_that_cannot_be_written_has_exit_code_6(weir: Weir, bed: Beds, tmp_path: Path) -> None:
    beds = bed()
    (tmp_path / "file").write_text("")
    answer = weir("trial", "--rate", "1kpps", "--store", tmp_path / "file")
    assert answer.code == 6
    assert str(tmp_path / "file") in answer.err
    assert beds[0].closed
    assert beds[0].traffic_seen == []


def test_the_store_option_may_stand_before_or_behind_the_command(
    weir: Weir, bed: Beds, tmp_path: Path
) -> None:
    bed()
    assert weir("--store", tmp_path / "a", "trial", "--rate", "1kpps").code == 0
    assert weir("trial", "--rate", "1kpps", "--store", tmp_path / "b").code == 0
    assert len(Store(tmp_path / "a").runs()) == len(Store(tmp_path / "b").runs()) == 1


def test_an_unexpected_error_is_short_unless_debugging(weir: Weir, bed: Beds) -> None:
    bed(RuntimeError("boom"), RuntimeError("boom"))
    answer = weir("trial", "--rate", "1kpps")
    assert answer.code == 1
    assert "unexpected RuntimeError: boom" in answer.err
    assert "Traceback" not in answer.err
    assert "weir --debug" in answer.err
    assert "Traceback" in weir("--debug", "trial", "--rate", "1kpps").err


def test_a_profile_without_a_valid_trial_has_exit_code_5_and_says_why(weir: Weir, bed: Beds) -> None:
    bed(*[TrialDisturbance(steal_s={"dut": 1.0})] * 1000)
    answer = weir("profile", "--rules", "0,100", "--frame", "64", "--loads", "50%", "--repetitions", "1")
    assert answer.code == 5
    assert "trials have no valid attempt: … ms stolen from the dut's CPU in " in answer.err


def test_a_bin_that_is_no_number_is_refused(weir: Weir, bed: Beds) -> None:
    beds = bed()
    for value in ("nan", "inf", "1e308", "-1"):
        answer = weir("trial", "--rate", "1kpps", "--bin", value)
        assert answer.code == 2
        assert "'--bin'" in answer.err
    assert beds == []


def test_more_rules_than_there_can_be_are_refused_for_every_lab(weir: Weir) -> None:
    answer = weir("trial", "--lab", "sim", "--rate", "1kpps", "--rules", "1000000000000000000")
    assert answer.code == 2
    assert "less than or equal to 1000000" in answer.err
