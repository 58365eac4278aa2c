from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.testing import queue

from ...conftest import Weir
from .conftest import NEW, OLD


def test_the_rate_for_given_rules_is_each_devices_capacity(weir: Weir, devices: Path) -> None:
    answer = weir("plan", devices, "--rules", "400", "--certainty", "50%", "--json")
    assert answer.code == 0
    assert answer.json["find"] == "rate"
    assert answer.json["best"] == "new"
    found = {one["device"]: one["reach"]["value"] for one in answer.json["answers"]}
    assert found["old"] == pytest.approx(1e9 / OLD.service_ns(400), rel=0.03)
    assert found["new"] == pytest.approx(1e9 / NEW.service_ns(400), rel=0.03)


def test_several_cpus_carry_what_the_busiest_allows(weir: Weir, devices: Path) -> None:
    common = (
        "plan",
        devices,
        "--device",
        "old",
        "--rules",
        "400",
        "--certainty",
        "50%",
        "--extrapolate",
        "--json",
    )

    def most(*options: str) -> float:
        return float(weir(*common, *options).json["answers"][0]["reach"]["value"])

    alone = most()
    assert most("--dut-cpus", "4") == pytest.approx(4 * alone, rel=0.03)
    # Of three flows, two meet the same CPU.
    assert most("--dut-cpus", "4", "--flows", "3") == pytest.approx(1.5 * alone, rel=0.03)
    refused = weir(*common, "--flows", "3")
    assert (refused.code, "add --dut-cpus" in refused.err) == (2, True)


def test_a_deep_queue_makes_the_answer_depend_on_the_length_of_a_trial(weir: Weir, tmp_path: Path) -> None:
    # 5,000 packets/s, and 1,000 packets that wait: 50 calls for long.
    device = queue.QueueDevice(fixed_ns=200_000.0, per_rule_ns=0.0, queue_packets=1000)
    frames = (100.0, 218.0)
    models = fit_all(queue.profile(device, (0,), frames, packets=500), calibrate=False)
    save_devices([DeviceModels("tunnel", models)], tmp_path / "deep.json")
    arguments = ("--rules", "0", "--codec", "g711", "--certainty", "50%", "--arrivals", "constant")
    answer = weir("plan", tmp_path / "deep.json", *arguments, "--json")
    [warning] = [one for one in answer.json["warnings"] if "its queue holds" in one]
    assert "packets (200 ms of work)" in warning
    depends = r"(59|60) calls \(1 s\), (50|51) calls \(10 s\), but in the long run only (49|50) calls"
    assert re.search(depends, warning)


def test_options_and_given_values_mean_the_same(weir: Weir, devices: Path) -> None:
    one = weir("plan", devices, "--device", "old", "--rules", "400", "--frame", "64", "--json").json
    other = weir(
        "plan", "--models", devices, "--given", "device=old", "--given", "rules=400", "--given", "frame=64",
        "--find", "rate", "--json",
    ).json  # fmt: skip
    assert one == other


def test_rules_are_found_for_a_rate_and_back(weir: Weir, devices: Path) -> None:
    common = ("plan", devices, "--device", "old", "--certainty", "50%", "--json")
    rate = weir(*common, "--rules", "400").json["answers"][0]["reach"]["value"]
    rules = weir(*common, "--rate", f"{rate * 0.9999:.0f}pps").json["answers"][0]["reach"]["value"]
    assert rules == pytest.approx(400, abs=1)


def test_calls_bring_frame_size_arrivals_and_requirement_along(weir: Weir, devices: Path) -> None:
    document = weir("plan", devices, "--codec", "g711", "--rules", "100", "--extrapolate", "--json").json
    assert document["find"] == "calls"
    assert document["given"]["frame_bytes"] == 218
    assert document["given"]["gap_scv"] == 1
    assert document["given"]["call_pps"] == 100
    assert {limit["quantity"] for limit in document["limits"]} == {"delay_p99_ns", "loss_ratio"}
    assert document["answers"][0]["calls"] > 1000
    assert "two-way calls, G.711" in document["conclusion"]


def test_a_class_names_the_devices_that_meet_it(weir: Weir, devices: Path) -> None:
    answer = weir(
        "plan", devices, "--rate", "600kpps", "--rules", "400", "--class", "cyclic", "--cycle", "2ms"
    )
    assert answer.code == 0
    assert "1 of 2 devices will do: new" in answer.out
    assert "IEC/IEEE 60802" in answer.out


def test_a_limit_to_delay_alone_still_allows_no_loss(weir: Weir, devices: Path) -> None:
    document = weir("plan", devices, "--rules", "400", "--require", "p99<1s", "--json").json
    assert [limit["quantity"] for limit in document["limits"]] == ["delay_p99_ns", "loss_ratio"]


def test_frames_delay_and_loss_can_be_sought(weir: Weir, devices: Path) -> None:
    common = ("plan", devices, "--device", "old", "--rate", "100kpps", "--rules", "100", "--json")
    assert weir(*common, "--find", "frame").json["answers"][0]["frames"] == [[64, 64]]
    look = weir(*common, "--find", "delay").json["answers"][0]["outlook"]
    assert look["predicted"]["delay_mean_ns"] == pytest.approx(OLD.base_ns + OLD.service_ns(100), rel=0.05)
    assert weir(*common, "--find", "loss").json["answers"][0]["outlook"]["predicted"]["loss_ratio"] == 0


def test_models_without_intervals_are_warned_about(weir: Weir, devices: Path) -> None:
    answer = weir("plan", devices, "--rules", "400", "--certainty", "99%")
    assert "no intervals" in answer.err
    assert "without certainty" in answer.out
    assert "no intervals" not in weir("plan", devices, "--rules", "400", "--certainty", "50%").err


def test_what_was_not_profiled_is_refused_unless_told_otherwise(weir: Weir, devices: Path) -> None:
    arguments = ("plan", devices, "--rules", "5000", "--json")
    refused = weir(*arguments)
    assert refused.code == 7
    assert "matching position 5000, but only 0 to 1000 was profiled" in refused.json["error"]["message"]
    allowed = weir(*arguments, "--extrapolate")
    assert allowed.code == 0
    assert "extrapolated" in allowed.err


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--rules", "1", "--find", "calls"), 2, "a codec is needed"),
        (("--calls", "3", "--rules", "1"), 2, "--calls needs the codec"),
        (("--rules", "1", "--frame", "64", "--codec", "g711"), 2, "has its own frame size"),
        (("--rules", "1", "--rate", "max"), 2, "not 'max'"),
        (("--given", "colour=red"), 2, "one of rate, calls"),
        (("--given", "rules=many"), 2, "is no number for rules"),
        (("--given", "rules=1", "--rules", "2"), 2, "rules is given twice"),
        (("--rules", "1", "--certainty", "often"), 2, "--certainty 95%"),
        (("--rules", "1", "--certainty", "99.9%"), 2, "out of range"),
        (("--rules", "1", "--cycle", "4ms"), 2, "--cycle belongs to a class"),
        (("--rules", "1", "--share", "50%"), 2, "--share belongs to"),
        (("--rules", "1", "--reordered", "x"), 2, "give --ruleset as well"),
        (("--rules", "1", "--include", "x"), 2, "--include names folders for --ruleset"),
        (("--rules", "1", "--ruleset", "nowhere.rules"), 2, "nowhere.rules: no such file"),
        (("--rules", "1", "--device", "third"), 7, "no device 'third'"),
        ((), 2, "give a load"),
    ],
)
def test_mistakes_are_named(
    weir: Weir, devices: Path, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    answer = weir("plan", devices, *arguments)
    assert answer.code == code
    assert complaint in answer.err


def test_without_models_and_ruleset_there_is_nothing_to_plan(weir: Weir) -> None:
    assert "give model files or runs, or --ruleset FILE" in weir("plan").err


def test_predict_and_plan_answer_for_a_load_below_the_lowest_profiled_one_as_for_that(
    weir: Weir, devices: Path
) -> None:
    common = (devices, "--device", "old", "--rate", "100pps", "--rules", "100")
    found = weir("predict", *common, "--json").json
    look = weir("plan", *common, "--find", "delay", "--json").json["answers"][0]["outlook"]
    assert found["delay_p99_ns"] == pytest.approx(look["predicted"]["delay_p99_ns"])
    assert found["least_pps"] > found["rate_pps"] == look["rate_pps"] == 100
    assert weir("predict", *common, "--extrapolate", "--json").json["why_extrapolated"]


def test_predict_takes_one_of_several_devices(weir: Weir, devices: Path) -> None:
    arguments = ("predict", devices, "--rate", "100kpps", "--rules", "100")
    assert "choose one with --device: old, new" in weir(*arguments).err
    assert weir(*arguments, "--device", "old", "--json").code == 0


def test_several_runs_become_several_devices_in_one_file(weir: Weir, finished: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    assert weir("fit", finished, finished, "--out", path, "--name", "a", "--name", "b", "--json").code == 0
    written = json.loads(path.read_text())
    assert [device["name"] for device in written["devices"]] == ["a", "b"]
    assert written["devices"][0]["facts"]["run_id"] == finished
    assert "command" not in written["devices"][0]["facts"]
    assert "--out FILE" in weir("fit", finished, finished).err
    assert "3 names for 2 runs" in weir(
        "fit", finished, finished, "--out", path, "--name", "a", "--name", "b", "--name", "c"
    ).err  # fmt: skip


def test_a_load_asked_in_calls_is_answered_in_calls_with_headroom_as_a_factor(
    weir: Weir, devices: Path
) -> None:
    answer = weir(
        "plan", devices, "--device", "old", "--codec", "g711", "--calls", "300", "--rules", "400",
        "--certainty", "50%", "--extrapolate",
    )  # fmt: skip
    assert answer.code == 0
    assert " carries 300 two-way calls, G.711 in packets of 20 ms, behind 400 rules with " in answer.out
    assert re.search(r"; [\d.]+ × headroom, beyond it ", answer.out)


def test_a_plan_whose_answer_is_no_has_an_exit_code_for_scripts(weir: Weir, devices: Path) -> None:
    asked = ("plan", devices, "--device", "old", "--rules", "400", "--certainty", "50%")
    answer = weir(*asked, "--rate", f"{1.3e9 / OLD.service_ns(400):.0f}")
    assert answer.code == 9
    assert "not met: no loss" in answer.err
    assert weir(*asked, "--rate", "100kpps").code == 0


def test_the_device_that_comes_closest_is_named_with_what_it_misses(weir: Weir, devices: Path) -> None:
    answer = weir("plan", devices, "--rate", "100kpps", "--rules", "100", "--require", "p99<1ns")
    assert answer.code == 9
    words = " ".join(answer.out.split())
    assert re.search(
        r" comes closest, with p99 delay predicted at [\d.]+ µs "
        r"\([\d,.]+ × its limit of 1\.00 ns; cannot tell how far off\)",  # models without intervals
        words,
    )
    assert "without loss)" in words


def test_a_plan_says_of_each_requirement_whether_it_is_met(weir: Weir, devices: Path) -> None:
    asked = ("plan", devices, "--device", "old", "--rules", "400", "--rate", "100kpps", "--certainty", "50%")
    answer = weir(*asked, "--require", "mean<1ns", "--require", "p99<1s", "--json")
    assert answer.code == 9
    found = {each["requirement"]: each for each in answer.json["requirements"]}
    assert {text: each["verdict"] for text, each in found.items()} == {
        "mean<1ns": "not met", "p99<1s": "met", "no loss": "met",
    }  # fmt: skip
    assert found["mean<1ns"]["value"] == pytest.approx(OLD.base_ns + OLD.service_ns(400), rel=0.1)
    assert found["no loss"]["note"] == "default"


def test_what_a_plan_finds_can_be_required(weir: Weir, devices: Path) -> None:
    asked = ("plan", devices, "--device", "old", "--rules", "400", "--certainty", "50%")
    carries = 1e9 / OLD.service_ns(400)
    assert weir(*asked, "--require", f"rate>={carries * 0.9:.0f}").code == 0
    answer = weir(*asked, "--require", f"rate>={carries * 1.1:.0f}", "--json")
    assert answer.code == 9
    assert answer.json["verdict"] == "meets"
    assert answer.json["requirements"][0]["verdict"] == "not met"
    calls = ("plan", devices, "--device", "old", "--codec", "g711", "--rules", "100", "--extrapolate")
    assert weir(*calls, "--certainty", "50%", "--require", "calls>=300").code == 0
    assert weir(*calls, "--certainty", "50%", "--require", "calls>=3000000").code == 9
    rules = ("plan", devices, "--device", "old", "--rate", "300kpps", "--certainty", "50%", "--json")
    assert weir(*rules, "--require", "rules>=10").code == 0
    wrong = weir(*rules, "--require", "calls>=10")
    assert wrong.code == 2
    assert "this plan finds rules, not calls" in wrong.err


def test_rates_in_bits_are_required_of_the_planned_frames(weir: Weir, devices: Path) -> None:
    asked = ("plan", devices, "--device", "old", "--rules", "0", "--certainty", "50%", "--json")
    wire_bps = 1e9 / OLD.service_ns(0) * 84 * 8
    assert weir(*asked, "--require", f"rate>={wire_bps * 0.9:.0f}bit/s").code == 0
    assert weir(*asked, "--require", f"rate>={wire_bps * 1.1:.0f}bit/s").code == 9


def test_a_device_in_user_space_is_marked_in_sentence_table_and_warnings(
    weir: Weir, devices: Path, tmp_path: Path
) -> None:
    text = devices.read_text().replace('"name": "old"', '"name": "wireguard-go"')
    (tmp_path / "tunnel.json").write_text(text)
    answer = weir("plan", tmp_path / "tunnel.json", "--device", "wireguard-go", "--rules", "0")
    assert answer.out.count("wireguard-go (user space)") >= 2
    assert "wireguard-go: in user space; a kernel's WireGuard would be faster" in answer.err


def test_a_mix_of_codecs_is_planned_with_its_mean_frame_and_its_strictest_limit(
    weir: Weir, devices: Path
) -> None:
    asked = ("plan", devices, "--rules", "100", "--extrapolate", "--json", "--codec", "g711:60,g729:40")
    document = weir(*asked, "--packet-time", "30ms").json
    assert document["find"] == "calls"
    assert document["given"]["frame_bytes"] == pytest.approx(0.6 * 298 + 0.4 * 88)
    assert document["given"]["call_pps"] == pytest.approx(2 / 0.03)
    limits = {limit["quantity"]: limit["at_most"] for limit in document["limits"]}
    assert limits["delay_p99_ns"] == pytest.approx(0.1 * (150 - 20 - 3 * 30) * 1e6)
    assert weir("plan", devices, "--rules", "1", "--packet-time", "30ms").code == 2


def test_a_load_above_the_profile_is_too_much_if_a_profiled_one_is(weir: Weir, devices: Path) -> None:
    asked = ("plan", devices, "--rules", "400", "--certainty", "50%", "--json")
    answer = weir(*asked, "--rate", "30Mpps")
    assert answer.code == 9
    assert {one["verdict"] for one in answer.json["answers"]} == {"misses"}
    light = weir(*asked, "--rate", "1pps")
    assert light.code == 0
    assert all(one["least_pps"] > 1 for one in light.json["answers"])
