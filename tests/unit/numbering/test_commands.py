from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from weirlab.numbering.plan import json_schema

from .conftest import Voice
from .mistakes import PLANTED
from .plans import BASE, changed

ON = ("--date", "2026-11-22")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text(BASE)
    return file


def test_a_way_is_explained_step_by_step(voice: Voice, plan: Path) -> None:
    answer = voice("route", "+420111000001", "--plan", plan, *ON)
    assert answer.code == 0
    words = " ".join(answer.out.split())
    assert (
        "asks tree public for NAPTR 1.0.0.0.0.0.1.1.1.0.2.4.e164.arpa.: number +420111000001 answers" in words
    )
    assert "plan.yaml:21" in words
    assert "If that fails: again from step 5" in words
    assert "translates SIP to H.323" in words
    assert answer.out.splitlines()[0] == "+420111000001: desk answers, by way of phone > core > desk."


def test_a_way_is_told_as_json(voice: Voice, plan: Path) -> None:
    document = voice("route", "+420111000001", "--plan", plan, "--json", *ON).json
    first, second = document["ways"]
    assert (first["engines"], first["answer"], first["decided_by"]) == (
        ["phone", "core", "desk"],
        200,
        "public",
    )
    assert second["engines"] == ["phone", "core", "gw", "gk", "pbx"]
    record = next(step for step in first["steps"] if step["what"] == "record")
    assert record["place"] == f"{plan}:24"
    assert record["uri"] == "sip:+420111000001@example.net"


def test_a_command_in_a_proposal_runs_as_printed_on_the_same_plan(
    voice: Voice, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    named = plan.rename(tmp_path / "our plan.yaml")
    printed = 0
    for mistake in PLANTED:
        named.write_text(changed((mistake.old, mistake.new)))
        for finding in voice("check", "--plan", named, "--json", *ON).json["findings"]:
            for command in re.findall(r"weir voice [^;]+", finding["proposal"]):
                answer = voice(*shlex.split(command)[2:], "--json")
                assert answer.code in (0, 9), answer.err
                assert answer.json["ways"][0]["steps"][0]["place"].startswith(f"{named}:")
                assert answer.json["date"] == ON[1]
                printed += 1
    assert printed >= 5


def test_hints_name_a_plan_that_comes_with_weir_as_the_user_does(voice: Voice, tmp_path: Path) -> None:
    answer = voice("configs", "campus", "--out", tmp_path / "conf", *ON)
    assert f"weir voice prove --plan campus --date {ON[1]}." in answer.out


def test_a_plan_without_test_numbers_is_warned_about(voice: Voice, plan: Path) -> None:
    plan.write_text(BASE.partition("tests:")[0])
    (finding,) = voice("check", plan, "--json", *ON).json["findings"]
    assert (finding["severity"], finding["code"], finding["place"]) == ("warning", "no tests", f"{plan}:1")


@pytest.mark.parametrize(
    ("dialled", "meant"), [("111000001", "+420111000001"), ("00420111000001", "+420111000001"), ("5", None)]
)
def test_a_number_that_is_not_international_has_a_proposal(
    voice: Voice, plan: Path, dialled: str, meant: str | None
) -> None:
    answer = voice("route", dialled, "--plan", plan, "--json", *ON)
    assert answer.code == 9
    assert (meant or "country code") in answer.json["proposal"]
    assert answer.json["proposal"] in answer.json["conclusion"]


def test_a_number_that_leads_nowhere_ends_with_no(voice: Voice, plan: Path) -> None:
    answer = voice("route", "+420333000000", "--plan", plan, *ON)
    assert answer.code == 9
    assert "core has no route for it and no tree of the plan (public) has the number" in answer.out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("route", "abc"), "'abc' is not a number"),
        (("route", "+420", "--caller", "nobody"), "there is no engine 'nobody'"),
        (("route", "+420", "--date", "tomorrow"), "'tomorrow' is not a date"),
        (("zones", "--zone", "example.org"), "the plan has no zone 'example.org'"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    voice: Voice, plan: Path, arguments: tuple[str, ...], reason: str
) -> None:
    answer = voice(*arguments, "--plan", plan)
    assert answer.code == 2
    assert reason in answer.err


def test_a_missing_plan_names_those_that_come_with_weir(voice: Voice) -> None:
    answer = voice("check", "--plan", "nowhere.yaml")
    assert (answer.code, "federation and translations" in answer.err) == (2, True)


@pytest.mark.parametrize("command", [("check",), ("zones",), ("configs", "--out", "configs")])
def test_a_plan_may_be_named_without_its_option(
    voice: Voice, plan: Path, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert voice(command[0], plan, *command[1:], *ON).out == voice(*command, "--plan", plan, *ON).out != ""
    assert "name one plan" in voice(*command, "other.yaml", "--plan", plan.with_stem("third")).err


def test_findings_end_with_no_and_tell_place_reason_and_proposal(voice: Voice, plan: Path) -> None:
    plan.write_text(changed(("to: [desk, gw]", "to: [desk, pbx]")))
    answer = voice("check", "--plan", plan, *ON)
    assert answer.code == 9
    assert (
        f"{plan}:30: error: a call to +420222500000 at core: core cannot send the call to pbx" in answer.out
    )
    assert (
        "\n    send the call to an engine that speaks the protocol, or through a gateway first\n"
        in answer.out
    )
    assert answer.out.splitlines()[-1] == f"{plan}: 1 error, 0 warnings."
    [finding] = voice("check", "--plan", plan, "--json", *ON).json["findings"]
    assert (finding["severity"], finding["code"]) == ("error", "no protocol")


def test_warnings_count_only_where_strictness_is_asked_for(voice: Voice, plan: Path) -> None:
    plan.write_text(changed(("h323:\\1@gk.example.net", "h323:\\1@gk.example.org")))
    assert voice("check", "--plan", plan, *ON).code == 0
    assert voice("check", "--plan", plan, "--strict", *ON).code == 9


def test_a_plan_in_which_nothing_is_wrong_says_so(voice: Voice, plan: Path) -> None:
    answer = voice("check", "--plan", plan, *ON)
    assert (answer.code, answer.out) == (0, f"{plan}: nothing found.\n")


def test_zones_are_printed_or_written(voice: Voice, plan: Path, tmp_path: Path) -> None:
    printed = voice("zones", "--plan", plan, *ON)
    assert printed.out.startswith("; Zone 0.2.4.e164.arpa")
    written = voice("zones", "--plan", plan, "--out", tmp_path / "zones", "--json", *ON).json
    files = [Path(zone["file"]) for zone in written["zones"]]
    assert "\n".join(file.read_text() for file in files) == printed.out


def test_an_imported_zone_is_a_table(voice: Voice, plan: Path, tmp_path: Path) -> None:
    voice("zones", "--plan", plan, "--out", tmp_path, *ON)
    zone = tmp_path / "0.2.4.e164.arpa.zone"
    printed = voice("import", zone, "--tree", "public")
    assert printed.out.splitlines()[0] == "tree,number,prefix,order,preference,service,regexp"
    answer = voice("import", zone, "--tree", "public", "--out", tmp_path / "public.csv")
    assert answer.out == "2 entries of public.\n"
    assert (tmp_path / "public.csv").read_text() == printed.out


def test_the_difference_of_plans_is_told_by_prefix(voice: Voice, plan: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(changed(("to: [desk, gw]", "to: [gw]")))
    answer = voice("diff", plan, other, *ON)
    assert answer.code == 0
    assert answer.out.splitlines()[0] == "+420222..."
    assert answer.out.splitlines()[-1] == "1 set of numbers is routed differently."
    [change] = voice("diff", plan, other, "--json", *ON).json["changes"]
    assert (change["prefix"], change["itself"], change["longer"], change["except"]) == (
        "+420222",
        True,
        True,
        [],
    )
    assert voice("diff", plan, plan, *ON).out == "No number is routed differently.\n"


def test_one_plan_on_two_days_is_compared_with_itself(voice: Voice, plan: Path) -> None:
    plan.write_text(changed(("to: [desk, gw]}", "to: [desk, gw], valid_until: 2026-12-31}")))
    [change] = voice("diff", plan, plan, "--date", "2026-12-31", "--until", "2027-01-01", "--json").json[
        "changes"
    ]
    assert change["prefix"] == "+420222"


def test_configurations_are_written_with_a_manifest(voice: Voice, plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "configs"
    document = voice("configs", "--plan", plan, "--out", out, "--json", *ON).json
    assert document["root"] == str(out)
    assert all((out / name).is_file() for name in document["files"])
    manifest = json.loads((out / "manifest.json").read_text())
    assert sorted([*manifest["files"], "manifest.json"]) == sorted(document["files"])


def test_the_schema_and_the_examples_are_printed(voice: Voice, tmp_path: Path) -> None:
    assert voice("schema").json == json_schema()
    text = voice("example", "federation").out
    assert text.startswith("# yaml-language-server: $schema=voice.schema.json\n")
    (tmp_path / "mine.yaml").write_text(text)
    assert voice("check", "--plan", tmp_path / "mine.yaml", *ON).code == 0
    assert voice("example", "other").code == 2
