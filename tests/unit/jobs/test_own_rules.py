"""Runs through the user's own rules: packets meet so many of them, and counters have a say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from weirlab.jobs import testbeds
from weirlab.records import RuleEncounters
from weirlab.testing import FakeBed, FakeDevice
from weirlab.traffic.spec import Traffic

PROFILE = (
    "profile", "--quick", "--frame", "64", "--loads", "10%,60%,80%,95%,120%", "--repetitions", "2",
    "--duration", "0.05", "--warmup", "0.01",
)  # fmt: skip


class OwnRules(FakeBed):
    """A device with rules, of which each packet meets ``position``."""

    drops = 0
    """The part of all packets that the rule drops: one of so many; 0 if it accepts."""

    def __init__(self, position: int, met: RuleEncounters) -> None:
        super().__init__(
            FakeDevice(service_fixed_ns=1000 + 2.5 * position, service_per_rule_ns=0), dut="ruleset"
        )
        self.position = position
        self._met = met

    def as_sent(self, traffic: Traffic) -> Traffic:
        return traffic

    def rules_met(self, counters: Mapping[str, int], sent: int) -> RuleEncounters:
        return self._met

    def dropped(self, counters: Mapping[str, int]) -> int | None:
        return counters["in_rx_packets"] // self.drops if self.drops else None


Opened = Callable[..., list[str]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    """Lets every job open a device with so many rules; returns the options that name it."""
    path = tmp_path / "my.rules"
    path.write_text("*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n")
    monkeypatch.setattr("weirlab.lab.dut.make", lambda *_: None)

    def use(position: int, met: RuleEncounters | None = None) -> list[str]:
        counted = met or RuleEncounters(position, position, 1.0, "device")

        @contextmanager
        def open_bed(*_: object, **__: object) -> Iterator[FakeBed]:
            yield OwnRules(position, counted)

        monkeypatch.setattr(testbeds, "open_bed", open_bed)
        return ["--ruleset", str(path)]

    return use


def test_profile_model_and_prediction_are_about_the_rules_that_packets_meet(
    weir: Any, opened: Opened
) -> None:
    ruleset = opened(400)
    assert weir(*PROFILE, *ruleset, "--json").json["thresholds"][0]["position"] == 400
    assert "At position 400 a frame of 64 B takes 2 µs" in weir("fit", "last").out
    predicted = weir("predict", "last", "--rate", "100kpps", "--json").json
    assert predicted["position"] == 400
    assert weir("verify", "last", "--json").code == 0


def test_trials_and_searches_name_the_rules_that_packets_meet(weir: Any, opened: Opened) -> None:
    ruleset = opened(400)
    trial = weir("trial", *ruleset, "--rate", "100kpps")
    assert "position 400, 64 B" in trial.err
    assert "400.0 per packet; 400 expected (counted in the device)" in trial.out
    row = weir("trial", *ruleset, "--rate", "100kpps", "--json").json
    assert (row["rules_expected"], row["rules_met"], row["rules_matched"]) == (400, 400, 1)
    assert row["rules_counted_in"] == "device"
    points = weir("search", *ruleset, "--frame", "64", "--json").json["points"]
    assert [point["position"] for point in points] == [400]


def test_runs_before_and_after_a_change_of_the_rules_are_compared(weir: Any, opened: Opened) -> None:
    assert weir(*PROFILE, *opened(400)).code == 0
    assert weir(*PROFILE, *opened(100)).code == 0
    found = weir("compare", "last~1", "last", "--json").json
    (forwarding,) = (each for each in found["quantities"] if each["title"] == "forwarding rate")
    assert forwarding["change"] == pytest.approx(2000 / 1250 - 1, abs=0.02)
    assert forwarding["settings"][0]["setting"] == "64 B"


@pytest.mark.parametrize(
    ("met", "words"),
    [
        (RuleEncounters(400, 12, 1.0, "device"), "a packet met 12.0 rules, not 400"),
        (RuleEncounters(400, 400, 0.25, "copy"), "25 % of the packets met the rule that all were to meet"),
    ],
)
def test_what_counters_contradict_is_said_in_the_first_sentence(
    weir: Any, opened: Opened, met: RuleEncounters, words: str
) -> None:
    ruleset = opened(400, met)
    assert words in weir("trial", *ruleset, "--rate", "100kpps", "--json").json["conclusion"]
    assert words in weir("search", *ruleset, "--frame", "64", "--json").json["conclusion"]
    profile = weir(*PROFILE, *ruleset, "--json").json["conclusion"]
    assert "The counters of the rules contradict what Weir expected in 15 of 15 trials" in profile


@pytest.mark.parametrize(
    "met",
    [
        RuleEncounters(400, 401.5, 0.999, "device"),
        RuleEncounters(2, 2.4, 1.0, "copy"),
        RuleEncounters(None, 7.5, 0.4, "device"),
        RuleEncounters(5, None, None, "copy"),
    ],
)
def test_a_few_other_packets_and_unknown_counts_are_no_contradiction(met: RuleEncounters) -> None:
    assert met.contradiction == ""


def test_calls_of_which_none_met_the_rule_are_a_contradiction() -> None:
    assert RuleEncounters(None, 3.0, 0.0, "copy").contradiction == (
        "0 % of the packets met the rule that all were to meet"
    )


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (1, "Your ruleset dropped all of 100 kpps at the rule."),
        (4, "Your ruleset dropped 25.0 kpps of 100 kpps at the rule; the rest was lost before"),
    ],
)
def test_a_trial_at_a_rule_that_drops_says_how_much_it_drops(
    weir: Any, opened: Opened, monkeypatch: pytest.MonkeyPatch, part: int, words: str
) -> None:
    monkeypatch.setattr(OwnRules, "drops", part)
    ruleset = opened(3)
    monkeypatch.setattr(FakeDevice, "loss_ratio", lambda *_: 1.0)
    answer = weir("trial", *ruleset, "--rate", "100kpps", "--json")
    assert answer.code == 0
    assert answer.json["conclusion"].startswith(words)
    assert answer.json["dropped_pps"] == pytest.approx(1e5 / part, rel=0.01)
    assert answer.json["attempts"] == 1
