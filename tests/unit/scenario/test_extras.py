"""What a scenario's profile may ask for beside its grid."""

from __future__ import annotations

from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.jobs.profiles import to_measure
from weirlab.measure.plan.grid import NO_EXTRAS, Extras
from weirlab.studies import ready
from weirlab.studies.scenarios import load, loads


def profile_of(*lines: str, rest: str = "") -> str:
    return "name: t\nprofile:\n" + "".join(f"  {line}\n" for line in lines) + rest


def test_without_these_keys_there_is_nothing_but_the_grid() -> None:
    assert to_measure(loads(profile_of("repetitions: 1"))).extras == NO_EXTRAS


def test_every_key_arrives_in_the_plan() -> None:
    text = profile_of(
        "stateful: [false, true]", "cross_traffic: [false, true]", "arrivals: [constant, poisson]",
        "mixed: ['1:50,99:50']", "rate_step: [0.3, 0.8]", "position_step: [1, 2000]",
        "extra_position: 400", "extra_shares: [0.5, 1.2]",
    )  # fmt: skip
    profile = to_measure(loads(text))
    assert profile.extras == Extras(
        position=400,
        stateful=True,
        cross_traffic=True,
        mixed=(((1, 0.5), (99, 0.5)),),
        arrivals=("constant", "poisson"),
        rate_step=(0.3, 0.8),
        position_step=(1, 2000),
        load_shares=(0.5, 1.2),
    )
    assert not profile.cross_traffic


def test_cross_traffic_throughout_is_no_extra() -> None:
    assert to_measure(loads(profile_of("cross_traffic: [true]"))).cross_traffic


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (profile_of("mixed: ['1:50;99']"), r"t:3:11: profile.mixed\[0\]: matching positions"),
        (profile_of("stateful: [true]"), r"profile.stateful: write \[false, true\] to compare"),
        (profile_of("arrivals: [poisson]"), "must contain 'constant'"),
        (profile_of("rate_step: [0.5]"), "profile.rate_step"),
        (profile_of("cross_traffic: [true, true]"), "listed twice"),
        (
            profile_of(
                "positions: [0]", "mixed: ['1:1,3:1']", rest="dut: {name: ruleset, ruleset: mine.rules}\n"
            ),
            "profile.mixed: the device 'ruleset' has its own rules",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        loads(text, "t")


def test_the_full_profiles_scenario_says_what_the_command_does() -> None:
    from weirlab.scenario import ProfileSection, full

    scenario = load(ready.paths()["full-profile"])
    assert scenario.profile == ProfileSection(**{**full("iptables"), "positions": ProfileSection().positions})


def test_with_cross_traffic_throughout_held_out_trials_have_it_too() -> None:
    from weirlab.devices.prediction.verification import plan

    class Flat:
        """A model with one threshold."""

        def threshold_pps(self, position: float, frame_bytes: float) -> float:
            return 5e5

    models: Any = {"flat": Flat()}
    specs = plan(models, loads(profile_of("cross_traffic: [true]")), 5e6)
    assert specs
    assert all(spec.cross_traffic for spec in specs)
