"""How users are told to repeat a profile."""

from __future__ import annotations

import shlex

import pytest

from weirlab.jobs.spoiled import PROFILE_AGAIN, more_trials, profile_words


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("weir profile", "weir profile"),
        (
            "weir profile --dut nftables --rules 0,400 --frame 64 --quick --repetitions 3",
            "weir profile --dut nftables --rules 0,400 --frame 64 --quick",
        ),
        ("weir --store 'my runs' profile --json --time-budget=6min", "weir --store 'my runs' profile"),
        ("weir profile --budget 200 --ruleset a.rules", "weir profile --ruleset a.rules"),
    ],
)
def test_options_of_the_device_and_its_traffic_stay(typed: str, words: str) -> None:
    assert profile_words(shlex.split(typed)) == shlex.split(words)


@pytest.mark.parametrize(
    "typed", ["weir run a.yaml", "weir profile --resume last", "weir profile --resume=x", ""]
)
def test_other_commands_are_not_repeated(typed: str) -> None:
    assert profile_words(shlex.split(typed)) is None


def test_a_device_of_a_profile_from_elsewhere_is_profiled_here_by_its_name() -> None:
    assert more_trials(None, "nftables + esp:aes128gcm16") == (
        "profile on this machine: weir profile --dut nftables --dut esp:aes128gcm16 --repetitions 10"
    )
    assert more_trials(None) == PROFILE_AGAIN
