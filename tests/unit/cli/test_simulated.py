"""A simulated device must never pass for a measured one, whatever the options call it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weirlab.records import device_in_words

from ..conftest import Weir

SMALL = (
    "--lab", "sim", "--dut", "nftables", "--quick", "--rules", "0,100", "--frame", "64",
    "--loads", "10%,40%,60%,90%,120%,150%", "--repetitions", "1", "--duration", "0.05", "--warmup", "0.01",
)  # fmt: skip


def test_a_simulated_profile_says_so_from_the_first_word_to_the_plan(weir: Weir, tmp_path: Path) -> None:
    measured = weir("profile", *SMALL)
    assert measured.code == 0
    assert "simulating a device in place of nftables; nothing real is measured" in measured.err
    assert "of the simulated device in" in measured.out
    (listed,) = weir("runs", "--json").json["runs"]
    assert listed["name"] == "profile of the simulated device"
    assert listed["simulated"]
    assert "(simulated)" in weir("runs").out

    models = tmp_path / "models.json"
    fitted = weir("fit", "last", "--out", models, "--name", "nftables")
    predicted = weir("predict", models, "--rate", "100kpps")
    stepped = weir("predict", models, "--rate", "100kpps", "--step", "1:200kpps")
    planned = weir("plan", models, "--rules", "50")
    for answer in (fitted, predicted, stepped, planned):
        assert "Simulated, not measured: " in answer.out
    assert weir("predict", models, "--rate", "100kpps", "--json").json["simulated"]
    assert weir("plan", models, "--rules", "50", "--json").json["answers"][0]["simulated"]
    sure = weir("plan", "last", "--rules", "50", "--certainty", "50%")
    assert "The simulated device carries" in sure.out
    calls = weir("plan", "last", "--codec", "g711", "--calls", "30", "--rules", "50", "--certainty", "50%")
    assert calls.code == 7
    assert "ask with" not in calls.err, "random gaps were profiled"
    assert re.search(r"profile such frames \(weir profile .*--duration 0\.05 .*--frame 64,218\)", calls.err)


@pytest.mark.parametrize("dut", ["iptables-legacy", "nftables"])
def test_a_real_device_keeps_its_name_in_sentences(dut: str) -> None:
    assert device_in_words(dut) == device_in_words(dut, first=True) == dut
