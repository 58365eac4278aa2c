"""`weir compare --measure`: two devices or rulesets measured in turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from weirlab.devices.comparison import turns as measuring
from weirlab.devices.comparison.turns import TurnsPlan
from weirlab.jobs import testbeds
from weirlab.jobs.quick import QuickProfile
from weirlab.lab.dut.aiming import candidates, same_packets
from weirlab.model.comparing import paired
from weirlab.model.comparing.verdicts import ComparisonTerms
from weirlab.rules import iptables_path
from weirlab.store import Store
from weirlab.testing import FakeBed
from weirlab.traffic.spec import Flows

from ...conftest import Weir
from .test_command import SLOW, USUAL


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices that beds are opened for; nftables is slower than iptables."""
    opened: list[str] = []

    def open_bed(_: object, dut: Any, *__: object, **___: object) -> FakeBed:
        opened.append(dut.ruleset.name if dut.ruleset is not None else dut.name)
        return FakeBed(SLOW if dut.name == "nftables" else USUAL)

    monkeypatch.setattr(testbeds, "open_bed", open_bed)
    return opened


MEASURE = ("compare", "--measure", "--frame", "64", "--lab", "sim", "--pairs", "10")


def test_two_devices_are_measured_in_turns_and_compared(weir: Weir, turns: list[str], tmp_path: Path) -> None:
    file = tmp_path / "weir.xml"
    answer = weir(*MEASURE, "iptables", "nftables", "--rules", "0,400", "--junit", file)
    told = {each.get("name"): each.get("value") for each in ElementTree.parse(file).iter("property")}
    assert (told["before"], told["after"]) == ("iptables", "nftables")
    assert turns == ["iptables", "nftables", "nftables", "iptables"], "each is built twice, in turns"
    assert answer.code == 9
    assert "Changed for the worse: forwarding rate" in answer.out
    forecast = answer.err.index("10 pairs of trials, one of each right after the other")
    assert forecast < answer.err.index("10 pairs of trials, run")
    assert "find a change of" in answer.err


def test_a_margin_that_is_too_narrow_for_the_time_is_told_before_anything_is_measured() -> None:
    sides = [QuickProfile(name, positions=(0, 400), frames=(64,)) for name in ("iptables", "nftables")]
    plan, settings = TurnsPlan(sides[0], sides[1], pairs=10), sides[0].places

    def forecast(margin: float) -> str:
        return plan.forecast(ComparisonTerms(dict.fromkeys(paired.MARGINS, 1.0) | {"p99": margin}))

    def provable(pairs: int) -> float:
        return paired.power_of_pairs(settings, pairs, ComparisonTerms())[2].provable

    assert "cannot prove" not in forecast(provable(10) * 1.001)
    assert "cannot prove p99 delay" in forecast(provable(10) * 0.999)
    assert "(--pairs 40 would)" in forecast((provable(39) + provable(40)) / 2)
    assert "(--pairs 1000 proves " in forecast(provable(1000) * 0.999)


def test_a_stored_comparison_says_again_what_it_found(weir: Weir, turns: list[str], tmp_path: Path) -> None:
    first = weir(*MEASURE, "iptables", "nftables", "--json")
    assert first.json["of"] == "comparison"
    assert first.json["conclusion"] in " ".join(weir("show", "last").out.split())
    page = tmp_path / "page.html"
    assert weir("report", "last", "--out", page).code == 0
    assert "nftables against iptables" in page.read_text()


def test_two_rulesets_are_measured_side_by_side(weir: Weir, turns: list[str], tmp_path: Path) -> None:
    for name in ("before.rules", "after.rules"):
        (tmp_path / name).write_text("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p udp -j ACCEPT\nCOMMIT\n")
    answer = weir(*MEASURE, tmp_path / "before.rules", tmp_path / "after.rules", "--json")
    assert turns == ["before.rules", "after.rules", "after.rules", "before.rules"]
    assert answer.code in (0, 7)
    assert {one["quantity"] for one in answer.json["quantities"]} == {"rate", "mean", "p99", "loss"}
    (rates,) = answer.json["rates"]
    assert min(rates["before_pps"], rates["after_pps"]) > 0
    assert rates["rule_ns"] is None, "both packets meet as many rules"


def test_the_rule_that_the_packets_met_on_each_side_stands_in_the_result(
    weir: Weir, turns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = "-A FORWARD -p udp -m udp --dport 5060 -j ACCEPT"
    rules = {"before.rules": [f"[9:9] {voice}"], "after.rules": ["-A FORWARD -p tcp -j DROP", voice]}
    paths = {}
    for name, lines in rules.items():
        text = "\n".join(("*filter", ":FORWARD DROP [0:0]", *lines, "COMMIT", ""))
        (tmp_path / name).write_text(text)
        paths[name] = iptables_path(text)
    first = next(candidates(paths["before.rules"], "before.rules", None, Flows()))
    second = same_packets(paths["after.rules"], "after.rules", first)
    monkeypatch.setattr(measuring, "agree_on_packets", lambda _: (first, second))
    answer = weir(*MEASURE, *(tmp_path / name for name in rules), "--json")
    met = answer.json["rules_met"]
    assert [(one["ruleset"], one["rule"], one["compared"]) for one in met] == [
        ("before.rules", "FORWARD rule 1", 1),
        ("after.rules", "FORWARD rule 2", 2),
    ]
    assert met[0]["traffic"] == met[1]["traffic"]
    words = (
        "in before.rules by FORWARD rule 1 (1 rule compared) and in after.rules by FORWARD rule 2 (2 rules"
    )
    assert words in " ".join(weir("show", "last").out.split())


def test_a_rule_for_known_connections_that_no_packet_reaches_is_named(
    weir: Weir, turns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, voice = "-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT", "-A FORWARD -p udp -j ACCEPT"
    paths = {}
    for name, lines in {"before.rules": [known, voice], "after.rules": [voice, known]}.items():
        text = "\n".join(("*filter", ":FORWARD DROP [0:0]", *lines, "COMMIT", ""))
        (tmp_path / name).write_text(text)
        paths[name] = iptables_path(text)
    first = next(candidates(paths["before.rules"], "before.rules", None, Flows(10, answered=True)))
    second = same_packets(paths["after.rules"], "after.rules", first)
    monkeypatch.setattr(measuring, "agree_on_packets", lambda _: (first, second))
    answer = weir(*MEASURE, *(tmp_path / name for name in paths), "--json")
    assert [one["unmet"] for one in answer.json["rules_met"]] == ["", "FORWARD rule 2"]
    assert "(FORWARD rule 2 of after.rules)" in " ".join(weir("show", "last").out.split())


def test_established_traffic_is_compared_at_the_rule_that_is_named(
    weir: Weir, turns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    established = "-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT"
    voice = [f"-A FORWARD -p udp -m udp --dport {port} -j ACCEPT" for port in (5060, 5061)]
    for name, lines in {"before": [established, *voice], "after": [*voice, established]}.items():
        text = "\n".join(("*filter", ":FORWARD DROP [0:0]", *lines, "COMMIT", ""))
        (tmp_path / name).write_text(text)
    plans: list[TurnsPlan] = []
    monkeypatch.setattr(measuring, "agree_on_packets", lambda plan: (plans.append(plan), (None, None))[1])
    options = ("--answered", "--flows", "100", "--match", "3")
    answer = weir(*MEASURE, tmp_path / "before", tmp_path / "after", *options, "--json")
    assert answer.json["of"] == "comparison"
    before, after = (side.scenario() for side in plans[0].sides)
    assert (before.dut.match, after.dut.match) == ("3", None)
    assert before.traffic == after.traffic
    assert (before.traffic.flows, before.traffic.answered) == (100, True)
    trials = Store(tmp_path / "store").open("last").trials()
    sent = [json.loads(spec)["traffic"]["flows"] for spec in trials["spec"]]
    assert {(flows["count"], flows["answered"]) for flows in sent} == {(100, True)}


def test_a_device_with_processes_of_its_own_is_profiled_in_turns(
    weir: Weir, turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TurnsPlan, "beside", property(lambda _: False))
    answer = weir(*MEASURE[:-2], "iptables", "nftables", "--rules", "0,400", "--pairs", "2")
    assert turns == ["iptables", "nftables", "nftables", "iptables"]
    assert answer.code == 9
    assert "2 profiles of each in turns" in answer.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--measure", "iptables", "iptables"), "compared with itself"),
        (("--measure", "iptables", "nonsense"), "no such device; there are"),
        (("--measure", "iptables", "nftables", "--before", "last"), "--measure makes its own"),
        (("iptables", "nftables", "--pairs", "2"), "--pairs goes with --measure"),
        (("last~1", "last", "--answered"), "--answered goes with --measure"),
        (("last~1", "last", "--match", "3"), "--match goes with --measure"),
        (("--measure", "iptables", "nftables", "--match", "3"), "--match names a rule of a file"),
    ],
)
def test_what_cannot_be_measured_in_turns_is_refused_before_the_work(
    weir: Weir, turns: list[str], arguments: tuple[str, ...], complaint: str
) -> None:
    answer = weir("compare", *arguments)
    assert answer.code == 2
    assert complaint in " ".join(answer.err.split())
    assert turns == []


@pytest.mark.parametrize(
    ("valid", "tried", "least", "most"),
    [(0, 0, 60, 60), (30, 30, 30, 30), (59, 118, 1.9, 2.1), (59, 170, 2.8, 3.0)],
)
def test_the_rest_of_a_comparison_follows_the_share_of_pairs_that_count(
    valid: int, tried: int, least: float, most: float
) -> None:
    assert least <= measuring.rounds_left(valid, tried, 60, 180) <= most
    assert measuring.rounds_left(20, 179, 60, 180) == 1
