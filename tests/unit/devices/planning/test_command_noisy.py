"""``weir plan`` with profiles whose trials scatter."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.testing import queue

from ...conftest import Weir
from .conftest import OLD


@pytest.fixture(scope="module")
def noisy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old device, by a profile of which the host lost packets in every tenth trial, whatever the load."""
    rows = queue.profile(OLD, packets=800)
    spoiled = [
        replace(row, loss_ratio=0.05, forwarding_pps=0.95 * row.rate_pps, delay_p99_ns=300 * row.delay_p99_ns)
        if i % 10 in (1, 5) and not row.loss_ratio
        else row
        for i, row in enumerate(rows)
    ]
    path = tmp_path_factory.mktemp("noisy") / "noisy.json"
    save_devices([DeviceModels("old", fit_all(spoiled))], path)
    return path


@pytest.fixture
def noisy(noisy_file: Path, tmp_path: Path) -> Path:
    """A copy to do anything with."""
    return Path(shutil.copy2(noisy_file, tmp_path))


def test_a_noisy_profile_leaves_the_plan_undecided_and_says_what_to_do(weir: Weir, noisy: Path) -> None:
    asked = (
        "plan", noisy, "--rate", "30kpps", "--rules", "400", "--require", "p99<7ms", "--require",
        "loss<0.1%",
    )  # fmt: skip
    answer = weir(*asked)
    assert answer.code == 7
    words = " ".join(answer.out.split())
    assert (
        "Undecided: old, for 30.0 kpps of 64-byte frames behind 400 rules: loss is predicted at 0 %, but 95 %"
        in words
    )
    assert words.count("To settle it, profile again in the same way, with --repetitions 10") == 1
    # The host lost packets at every load, so the load does not decide.
    assert "; it is no surer at the lowest profiled load" in words
    assert "fewer trials. More trials need a quieter machine (weir doctor --require-quiet tells)." in words
    document = weir(*asked, "--json").json
    assert document["verdict"] == document["answers"][0]["verdict"] == "undecided"
    assert not document["answers"][0]["met"]
    over = weir("plan", noisy, "--rate", "600kpps", "--rules", "400", "--require", "loss<0.1%")
    assert over.code == 9
    assert "does not meet" in over.out


def test_a_prediction_from_a_noisy_profile_has_its_interval_in_the_sentence(weir: Weir, noisy: Path) -> None:
    answer = weir("predict", noisy, "--rate", "100kpps", "--rules", "200")
    assert "without loss" not in answer.out
    assert "may lose up to " in answer.out
    assert "scatter too much to say more about" in answer.out


def test_the_most_load_says_how_far_the_prediction_alone_reaches(weir: Weir, noisy: Path) -> None:
    arguments = ("plan", noisy, "--rate", "20kpps", "--rules", "100", "--require", "p99<10ms")
    answer = weir(*arguments, "--wide")
    assert "Most load, 95 %" in answer.out
    (row,) = weir(*arguments, "--json").json["answers"]
    room = row["headroom"]
    assert room["foreseen_pps"] > 1.05 * (room["reach"]["value"] or 0.0)
    assert "by the prediction alone)" in " ".join(answer.out.split())


def test_between_what_is_sure_and_what_is_predicted_a_plan_is_undecided(weir: Weir, noisy: Path) -> None:
    asked = ("plan", noisy, "--rules", "400", "--require", "loss<10%", "--json")
    reach = weir(*asked).json["answers"][0]
    sure, foreseen = reach["reach"]["value"], reach["foreseen"]["value"]
    assert sure < foreseen
    answer = weir(*asked, "--require", f"rate>={(sure + foreseen) / 2:.0f}")
    assert answer.code == 7
    _, rate, *_ = answer.json["requirements"]
    assert rate["verdict"] == "undecided"
    assert "quieter machine" not in answer.json["conclusion"]
    assert "profile again with more repetitions" in rate["why"]


def test_an_undecided_device_is_never_one_that_will_not_do(weir: Weir, noisy: Path, devices: Path) -> None:
    common = ("--rules", "400", "--rate", "30kpps", "--require", "loss<0.1%", "--certainty", "75%")
    mixed = ("plan", noisy, devices, "--device", "old")
    assert "several devices are called old" in weir(*mixed, *common).err
    renamed = noisy.with_name("third.json")
    renamed.write_text(noisy.read_text().replace('"name": "old"', '"name": "third"'))
    answer = weir("plan", renamed, devices, *common, "--details")
    words = " ".join(answer.out.split())
    assert answer.code == 0
    assert "2 of 3 devices will do: old and new. third is undecided: " in words
    assert "third will not do" not in words
    assert words.count("To settle it, ") == 1
    document = weir("plan", renamed, devices, *common, "--json").json
    verdicts = {one["device"]: one["verdict"] for one in document["answers"]}
    assert verdicts == {"third": "undecided", "old": "meets", "new": "meets"}
    for table in ("Requirements", "Answers", "Predictions"):
        part = answer.out[answer.out.index(f"\n{table}") :].split("\n\n")[0]
        assert all(name in part for name in verdicts), table


def test_the_hint_for_more_trials_is_the_command_of_the_profile(
    weir: Weir, finished: str, noisy: Path, tmp_path: Path
) -> None:
    manifest = tmp_path / "store" / finished / "manifest.json"
    known = json.loads(manifest.read_text())
    known["facts"]["command"] = "weir profile --dut nftables --rules 0,400 --quick --repetitions 2"
    manifest.write_text(json.dumps(known))
    document = json.loads(noisy.read_text())
    document["devices"][0]["facts"]["run_id"] = finished
    noisy.write_text(json.dumps(document))
    asked = ("plan", noisy, "--rate", "30kpps", "--rules", "400", "--require", "loss<0.1%")
    (answer,) = weir(*asked, "--json").json["answers"]
    hint = "profile again: weir profile --dut nftables --rules 0,400 --quick --repetitions 10"
    assert answer["more_trials"] == hint
    assert f"To settle it, {hint}; " in " ".join(weir(*asked).out.split())
