"""``weir compare``: verdicts, documents, JUnit XML, exit codes, and what cannot be compared."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from weirlab.cli.program.app import app
from weirlab.devices.comparison import turns as measuring
from weirlab.devices.comparison.turns import TurnsPlan
from weirlab.jobs import testbeds
from weirlab.jobs.quick import QuickProfile
from weirlab.lab.dut.aiming import candidates, same_packets
from weirlab.model.comparing import paired
from weirlab.model.comparing.verdicts import ComparisonTerms
from weirlab.rules import iptables_path
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeClock, FakeDevice, make_record, make_result, make_spec
from weirlab.traffic.spec import Flows

from ...conftest import Weir

Make = Callable[..., str]
USUAL, SLOW = FakeDevice(), FakeDevice(service_fixed_ns=FakeDevice().service_fixed_ns * 1.25)
PROFILE = (
    "profile", "--rules", "0,100,200,400,700,1000", "--frame", "64", "--loads", "10%,40%,70%,150%",
    "--repetitions", "2", "--duration", "0.05", "--warmup", "0.01",
)  # fmt: skip


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Callable[[FakeDevice, tuple[str, ...], int], Path]:
    """The so-manieth profile of a device in a test bed of formulas, made once for all tests."""
    store = tmp_path_factory.mktemp("profiles")

    @cache
    def made(device: FakeDevice, more: tuple[str, ...], number: int) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(testbeds, "open_bed", lambda *_, **__: FakeBed(device))
            result = CliRunner().invoke(app, ["--store", str(store), *PROFILE, *more, "--json"])
        assert result.exit_code == 0, result.output
        return Path(json.loads(result.stdout)["path"])

    return made


@pytest.fixture
def profiled(
    profiles: Callable[[FakeDevice, tuple[str, ...], int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Make:
    """Puts a profile of a device into the store, and lets commands open test beds with that device."""
    count: Counter[FakeDevice] = Counter()

    def make(device: FakeDevice = USUAL, *more: str) -> str:
        monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: FakeBed(device))
        run = profiles(device, more, count[device])
        count[device] += 1
        return shutil.copytree(run, tmp_path / "store" / run.name).name

    return make


@pytest.fixture
def tried(tmp_path: Path) -> Make:
    """Puts a run of single trials into the store that has these mean delays, as if it had been measured."""
    clock = FakeClock()

    def later() -> Any:
        clock.advance(1)
        return clock.now()

    store = Store(tmp_path / "store", now=later)

    def make(*delays_ns: float, rate_pps: float = 1e5, handover_ns: float | None = None, **facts: Any) -> str:
        said = {"lab": "netns", "dut": "iptables", "backend": "xdp", **facts}
        with store.create("trial", {"name": "trial"}, said) as writer:
            for index, delay_ns in enumerate(delays_ns):
                spec = make_spec(rate_pps, position=400)
                result = make_result(rate_pps, delay_mean_ns=delay_ns)
                record = make_record(result, spec, run_id=writer.run_id, index=index, role="single")
                writer.add(replace(record, host=replace(record.host, handover_ns=handover_ns)))
        return writer.run_id

    return make


TIGHT = (20_000.0, 20_100.0, 19_900.0, 20_050.0, 19_950.0)


def test_a_device_that_did_not_change_is_unchanged(weir: Weir, profiled: Make) -> None:
    ids = [profiled(), profiled()]
    answer = weir("compare", "last~1", "last", "--json")
    assert answer.code == 0
    document = answer.json
    assert (document["kind"], document["of"], document["verdict"]) == ("comparison", "profile", "unchanged")
    assert [*document["before"], *document["after"]] == ids
    assert [each["quantity"] for each in document["quantities"]] == ["rate", "mean", "p99", "loss"]
    settings = [each["setting"] for each in document["quantities"][0]["settings"]]
    assert {"0 rules, 64 B", "1,000 rules, 64 B"} < set(settings)
    assert len(settings) == document["quantities"][0]["places"]
    assert "Unchanged within the margin: forwarding rate 0 % [0 %, 0 %]" in weir("compare", *ids).out


def test_a_device_that_became_slower_has_exit_code_9_and_is_better_the_other_way_round(
    weir: Weir, profiled: Make
) -> None:
    before, after = profiled(), profiled(SLOW)
    answer = weir("compare", before, after)
    assert answer.code == 9
    assert "weir: changed for the worse: forwarding rate" in answer.err
    assert "--details adds: Forwarding rate: most changed" in answer.out
    assert "\nForwarding rate: most changed" in weir("compare", before, after, "--details").out
    assert "Changed for the worse: forwarding rate -" in answer.out
    back = weir("compare", after, before, "--json")
    assert (back.code, back.json["verdict"]) == (0, "better")


def test_where_the_scatter_comes_from_is_said_and_can_be_given(weir: Weir, tried: Make) -> None:
    before, after = tried(*TIGHT), tried(*(1.1 * ns for ns in TIGHT))
    assumed = weir("compare", before, after, "--json")
    assert assumed.code == 7
    assert assumed.json["quantities"][0]["source"] == "published runs"
    assert "published runs on another host" in assumed.json["assumptions"][0]
    assert "--scatter" in weir("compare", before, after).err
    assert "for the margin of 8.0 % take " in weir("compare", before, after).out
    given = weir("compare", before, after, "--scatter", "1%", "--json")
    assert given.code == 9
    assert given.json["quantities"][0]["source"] == "given"
    assert given.json["assumptions"] == []
    assert weir("compare", before, after, "--scatter", "1%", "--margin", "20%").code == 0
    asked = ("compare", before, after, "--scatter", "1%", "--margin", "3%", "--margin", "mean=20%")
    assert {each["quantity"]: each["margin"] for each in weir(*asked, "--json").json["quantities"]} == {
        "mean": 0.2, "p99": 0.03, "loss": 0.002,
    }  # fmt: skip


def test_more_runs_of_each_stand_for_themselves(weir: Weir, tried: Make) -> None:
    draw = np.random.default_rng(5)
    before = [tried(*(np.array(TIGHT) * draw.normal(1, 0.01))) for _ in range(6)]
    after = [tried(*(np.array(TIGHT) * draw.normal(1.2, 0.01))) for _ in range(6)]
    more = [part for run in before[1:] for part in ("--before", run)]
    more += [part for run in after[1:] for part in ("--after", run)]
    answer = weir("compare", before[0], after[0], *more, "--json")
    assert answer.code == 9
    assert answer.json["before"] == before
    assert answer.json["quantities"][0]["source"] == "these runs"
    assert answer.json["assumptions"] == []


def test_the_junit_file_is_xml_with_a_failure_for_no_and_an_error_for_undecided(
    weir: Weir, profiled: Make, tried: Make, tmp_path: Path
) -> None:
    file = tmp_path / "weir.xml"
    before, after = profiled(), profiled(SLOW)
    assert weir("compare", before, after, "--junit", file).code == 9
    suite = ElementTree.parse(file).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("errors")) == ("4", "0")
    (rate,) = [case for case in suite.iter("testcase") if case.get("name") == "forwarding rate"]
    failure = rate.find("failure")
    assert failure is not None
    assert str(failure.get("message")).startswith("worse: -")
    assert int(str(suite.get("failures"))) == len(list(suite.iter("failure"))) >= 1
    single = (tried(20e3), tried(21e3))
    answer = weir("compare", *single, "--junit", file, "--json")
    assert answer.code == 7
    assert answer.json["junit"] == str(file)
    suite = ElementTree.parse(file).getroot().find("testsuite")
    assert suite is not None
    assert [error.get("type") for error in suite.iter("error")] == ["undecided"] * 2
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties["before"] == single[0]
    assert properties["verdict"] == "cannot tell"


def test_a_junit_file_that_cannot_be_written_is_refused_before_anything_is_read(
    weir: Weir, tmp_path: Path
) -> None:
    answer = weir("compare", "a", "b", "--junit", tmp_path / "missing" / "weir.xml")
    assert answer.code == 2
    assert "--junit" in answer.err


def test_what_differs_beside_the_results_is_said(weir: Weir, tried: Make) -> None:
    one, other = tried(*TIGHT), tried(*TIGHT, dut="nftables", backend="af_packet")
    notes = weir("compare", one, other, "--json").json["notes"]
    assert "The device is not the same in all runs: iptables, nftables." in notes
    assert "The engine's backend is not the same in all runs: xdp, af_packet." in notes


def test_settings_of_one_run_only_are_counted(weir: Weir, profiled: Make) -> None:
    before, after = profiled(), profiled(USUAL, "--rules", "0,100,200,400,700")
    document = weir("compare", before, after, "--json").json
    assert any(note.endswith(" only in the runs before and not compared.") for note in document["notes"])
    settings = [each["setting"] for each in document["quantities"][0]["settings"]]
    assert "700 rules, 64 B" in settings
    assert "1,000 rules, 64 B" not in settings


def test_a_host_in_another_state_leaves_everything_open(weir: Weir, tried: Make) -> None:
    one, other = tried(*TIGHT, handover_ns=100.0), tried(*(2 * ns for ns in TIGHT), handover_ns=300.0)
    answer = weir("compare", one, other)
    assert answer.code == 7
    assert "the host was in another state" in answer.out
    assert "300 ns" in answer.out


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("last", "last"), 2, "is named twice"),
        (("last", "nothing"), 6, "no run 'nothing'"),
        (("last~9", "last"), 6, "no profile or trial run 'last~9'"),
        (("last",), 2, "Missing argument 'AFTER'"),
        (("last~1", "last", "--before", "last"), 2, "is named twice"),
        (("last~1", "last"), 2, "no setting is in the runs before and after"),
        (("last~1", "last", "--margin", "big"), 2, "--margin: 'big' not understood"),
        (("last~1", "last", "--margin", "0"), 2, "above 0 and below 100%"),
        (("last~1", "last", "--margin", "nan"), 2, "not understood"),
        (("last~1", "last", "--margin", "mos=5%"), 2, "accepted are rate, mean, p99, loss"),
        (("last~1", "last", "--scatter", "loss=5%"), 2, "accepted are rate, mean, p99"),
        (("last~1", "last", "--certainty", "20%"), 2, "from 50% to 99.9%"),
        (("last~1", "last", "--certainty", "much"), 2, "--certainty: 'much' not understood"),
    ],
)
def test_mistakes_are_named(
    weir: Weir, tried: Make, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    tried(*TIGHT)
    tried(*TIGHT, rate_pps=2e5)
    answer = weir("compare", *arguments)
    assert answer.code == code, answer.err
    assert complaint in answer.err
    assert answer.out == ""


def test_runs_of_other_kinds_are_refused(weir: Weir, tried: Make, profiled: Make) -> None:
    single, profile = tried(*TIGHT), profiled()
    answer = weir("compare", profile, single)
    assert answer.code == 2
    assert "runs of different kinds cannot be compared" in answer.err
    searched = weir("search", "--loss", "0", "--json").json["run_id"]
    answer = weir("compare", profile, searched)
    assert answer.code == 2
    assert "is of the kind search, which cannot be compared" in answer.err


def test_a_run_without_valid_trials_cannot_be_told_from_any(weir: Weir, tried: Make) -> None:
    good, empty = tried(*TIGHT), tried()
    answer = weir("compare", good, empty)
    assert answer.code == 7
    assert f"run {empty} has no valid trial" in answer.err


@pytest.mark.parametrize("file", ["manifest.json", "trials.parquet"])
def test_a_damaged_run_is_named(weir: Weir, tried: Make, tmp_path: Path, file: str) -> None:
    good, bad = tried(*TIGHT), tried(*TIGHT)
    (tmp_path / "store" / bad / file).write_bytes(b"not what it was")
    answer = weir("compare", good, bad)
    assert answer.code == 6
    assert bad in answer.err


def test_simulated_runs_are_called_so(weir: Weir, tried: Make) -> None:
    one, other = (tried(*TIGHT, lab="sim") for _ in "ab")
    answer = weir("compare", one, other, "--json")
    assert answer.json["simulated"] is True
    assert json.loads(answer.out)["conclusion"].startswith("Simulated, not measured: ")
    answer = weir("compare", tried(*TIGHT), other, "--json")
    assert answer.json["simulated"] is False
    assert json.loads(answer.out)["conclusion"].startswith("In part simulated, not measured: ")


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
    plan, settings = TurnsPlan(sides[0], sides[1], pairs=10), sides[0].settings

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
