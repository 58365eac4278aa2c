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
from weirlab.jobs import testbeds
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeClock, FakeDevice, make_record, make_result, make_spec

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
    assert "Within the margin: forwarding rate 0 % [0 %, 0 %]" in weir("compare", *ids).out


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
