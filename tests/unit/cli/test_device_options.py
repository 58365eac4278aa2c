"""Options about where traffic matches and what else the device has to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from weirlab.records import RuleSetup
from weirlab.testing import FakeBed
from weirlab.traffic.spec import LoadStep, Rate

from ..conftest import Weir

Beds = Callable[..., list[FakeBed]]


def test_places_say_where_which_share_of_the_traffic_matches(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir("trial", "--rate", "100kpps", "--places", "1:50,99:50", "--stateful")
    assert answer.code == 0
    assert beds[0].rules == RuleSetup.mixed(((1, 0.5), (99, 0.5)), stateful=True)
    assert "with 99 rules, matching at 1:50%,99:50%, forwarded all" in answer.out.splitlines()[0]


def test_simulated_devices_have_as_many_cpus_as_asked_and_others_have_one(weir: Weir) -> None:
    load = ("trial", "--rate", "1500kpps", "--flows", "1000", "--duration", "0.05", "--warmup", "0.01")
    lost = {
        cpus: weir(*load, "--lab", "sim", "--dut-cpus", cpus, "--json").json["loss_ratio"]
        for cpus in ("1", "4")
    }
    assert lost["1"] > 0.3
    assert lost["4"] == 0
    for lab in ("netns", "wired"):
        between = ("--between", "a", "b", "--yes") if lab == "wired" else ()
        refused = weir(*load, "--lab", lab, *between, "--dut-cpus", "2")
        assert refused.code == 2
        assert "--dut-cpus: only simulated devices have several CPUs" in refused.err


def test_a_position_step_adds_a_place_that_nothing_else_uses(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir("trial", "--rate", "10kpps", "--rules", "1", "--position-step", "1:2000", "--json")
    assert answer.code == 0
    assert beds[0].rules == RuleSetup.mixed(((1, 1.0), (2000, 0.0)))
    assert beds[0].traffic_seen[0].steps == (LoadStep(1.0, None, 2000),)
    assert answer.json["spec"]["rules"]["places"] == [[1, 1.0], [2000, 0.0]]


def test_steps_of_load_and_position_at_one_time_are_one_step(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir(
        "trial", "--rate", "10kpps", "--rules", "5", "--step", "1:20kpps", "--step", "0.5:15kpps",
        "--position-step", "1:9", "--bin", "0.5",
    )  # fmt: skip
    assert answer.code == 0
    traffic = beds[0].traffic_seen[0]
    assert traffic.steps == (LoadStep(0.5, Rate(15e3)), LoadStep(1.0, Rate(20e3), 9))
    assert traffic.bin_ns == 500_000


def test_a_step_back_to_where_it_began_needs_no_places(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir("trial", "--rate", "10kpps", "--places", "5:1,9:1", "--position-step", "1:9")
    assert answer.code == 0
    assert beds[0].rules == RuleSetup.mixed(((5, 0.5), (9, 0.5)))


def test_cross_traffic_is_opened_for_the_trial(weir: Weir, bed: Beds) -> None:
    beds = bed()
    answer = weir("trial", "--rate", "100kpps", "--cross-traffic", "--json")
    assert answer.code == 0
    assert answer.json["cross_traffic"] is True
    assert answer.json["mean_position"] == 0
    assert beds[0].cross_traffic


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--places", "1:50,99:50", "--rules", "5"], "--rules and --places exclude each other"),
        (["--places", "nowhere"], "matching positions 'nowhere' not understood"),
        (["--position-step", "1:9"], "needs a matching position to begin with"),
        (["--rules", "1", "--position-step", "1"], "--position-step: '1' not understood"),
        (["--rules", "1", "--position-step", "1:0"], "position from 1 up"),
        (["--rules", "1", "--position-step", "5:9"], "outside the recorded time"),
        (["--bin", "0.0000001"], "time series"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_built(
    weir: Weir, bed: Beds, arguments: list[str], message: str
) -> None:
    beds = bed()
    answer = weir("trial", "--rate", "10kpps", *arguments)
    assert answer.code == 2
    assert message in answer.err
    assert not beds or not beds[0].traffic_seen


def test_the_profile_tells_how_long_it_will_take(weir: Weir, bed: Beds) -> None:
    bed(KeyboardInterrupt(), lab="netns")
    answer = weir("profile")
    assert answer.code == 130
    assert re.search(r"1,\d{3} trials, some 1[0-4] min", answer.err)


def test_fit_and_show_tell_what_was_compared(weir: Weir, bed: Beds) -> None:
    bed()
    settings = ("--frame", "64", "--loads", "5%,45%,65%,82%,120%", "--repetitions", "2", "--duration", "0.05")
    assert weir("profile", *settings, "--json").code == 0
    for command in ("fit", "show"):
        answer = weir(command, "last", "--json")
        assert answer.code == 0
        kinds = {each["kind"] for each in answer.json["effects"]}
        assert kinds == {"connection tracking", "cross traffic", "mixed positions"}
        assert "With over without, at the same loads" in weir(command, "last", "--details").out


@pytest.mark.parametrize("command", ["trial --rate 1kpps", "profile", "search"])
@pytest.mark.parametrize("option", ["--rules 5", "--stateful"])
def test_a_disk_image_takes_no_rules(
    weir: Weir, bed: Beds, tmp_path: Path, command: str, option: str
) -> None:
    opened = bed()
    disk = tmp_path / "router.img"
    disk.touch()
    answer = weir(*command.split(), "--image", disk, *option.split())
    assert answer.code == 2
    assert f"{option.split()[0]} does not go with --image: your disk image has its own rules" in answer.err
    assert opened == []


def test_a_device_without_a_name_is_refused(weir: Weir) -> None:
    answer = weir("trial", "--rate", "1kpps", "--dut", "")
    assert answer.code == 2
    assert "no device under test is called ''" in answer.err
