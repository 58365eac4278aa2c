"""A mistake in an option is reported with the name of the option, not with the key of a scenario."""

from __future__ import annotations

import pytest
from tests.unit.conftest import Weir

from weirlab.base.errors import InputError
from weirlab.cli.options import DeviceOptions, TrialsOptions
from weirlab.cli.options.groups import spelled, typed
from weirlab.devices.prediction.command import HeldOutOptions
from weirlab.devices.prediction.verification import _with
from weirlab.scenario import OptionValue, from_options, from_plain

MISTAKES = [
    ("calibrate --duration 0", "--duration: must be greater than 0 (found 0.0)"),
    ("calibrate --rates 1kpps,5furlongs", "--rates: rate '5furlongs' not understood"),
    ("profile --lab sim --rules 5,-1", "--rules: must be greater than or equal to 0 (found -1)"),
    ("profile --lab sim --rules 7,7", "--rules: 7 is listed twice"),
    ("profile --lab sim --frame 64 --sizes tiny", "--sizes: frame sizes 'tiny' not understood"),
    ("profile --lab sim --frame 3 --sizes imix", "--frame: frame size 3 B in '3' is out of range"),
    ("profile --lab sim --loads 0,50%", "--loads: must be greater than 0 (found 0.0)"),
    ("profile --lab sim --warmup 0 --duration 0", "--duration: must be greater than 0 (found 0.0)"),
    ("profile --lab sim --adaptive --target 900%", "--target: must be less than or equal to 1 (found 9.0)"),
    ("profile --lab sim --quick --ip 6 --l4 tcp", "--frame: frame size 64 B in '64' is out of range"),
    ("failover --kinds soft,sudden", "--kinds: must be 'soft', 'hard' or 'return' (found 'sudden')"),
    ("failover --codec tin", "--codec: codec 'tin' not understood"),
    ("failover --advert 0", "--advert: must be greater than 0 (found 0.0)"),
    ("failover --protocol ucarp --advert 0.5", "--protocol: ucarp advertises every 1, 2, ... s"),
    ("failover --event 0", "--event: must be greater than 0 (found 0.0)"),
    ("ipsec endpoints --arms bypas", "--arms: must be 'bypass', 'sockets' or 'sockets-real-time'"),
    ("ipsec endpoints --arms bypass,bypass", "--arms: 'bypass' is listed twice"),
    ("ipsec endpoints --beside idle,busy", "--beside: must be 'idle' or 'hog' (found 'busy')"),
    ("ipsec endpoints --calls 1,0", "--calls: must be greater than or equal to 1 (found 0)"),
    ("ipsec endpoints --suite rot13", "--suite: there is no cipher suite 'rot13'"),
    ("ipsec endpoints --codec tin", "--codec: codec 'tin' not understood"),
    ("ipsec endpoints --seconds 3600", "--seconds: with the warm-up at most 1,311 s are possible"),
    ("voice load --number nobody", "--number: must be digits as they are dialled"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_the_message_names_the_option_that_was_typed(weir: Weir, line: str, message: str) -> None:
    answer = weir(*line.split())
    assert answer.code == 2
    assert message in " ".join(answer.err.split())
    assert "the options: " not in answer.err


def test_several_mistakes_are_listed_with_their_options(weir: Weir) -> None:
    answer = weir("ipsec", "endpoints", "--arms", "bypas", "--beside", "busy")
    assert answer.err.splitlines()[0] == "weir: 2 problems in the options"
    assert [line.partition(":")[0] for line in answer.err.splitlines()[1:]] == ["--arms", "--beside"]


def test_held_out_settings_are_named_by_their_options() -> None:
    few = HeldOutOptions(rules="5,5", trials=TrialsOptions(trial_s=0.0)).section()
    with pytest.raises(InputError) as caught:
        _with(from_plain({"name": "t", "profile": {}}, "t"), few)
    assert set(str(caught.value).splitlines()[1:]) == {
        "--duration: must be greater than 0 (found 0.0)",
        "--rules: 5 is listed twice",
    }


def test_an_option_that_is_not_given_leaves_the_default() -> None:
    said = {"name": "t", "profile": {"repetitions": OptionValue("--repetitions", None)}}
    assert from_options(said) == from_options({"name": "t", "profile": {}})


def test_what_no_option_says_is_named_by_its_key() -> None:
    with pytest.raises(InputError, match=r"^the options: profile\.positions\[0\]: must be greater"):
        from_options({"name": OptionValue("--name", "t"), "profile": {"positions": [-1]}})
    with pytest.raises(InputError, match=r"^the options: the key 'profile' is missing$"):
        from_options({"name": OptionValue("--name", "t")})


def test_options_of_a_group_are_spelled_as_users_write_them() -> None:
    assert spelled(TrialsOptions)["trial_s"] == "--duration"
    assert spelled(DeviceOptions)["positions"] == "--rules"
    assert typed(TrialsOptions(repetitions=3)) == {"repetitions": OptionValue("--repetitions", 3)}
