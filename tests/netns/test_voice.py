"""A numbering plan proved by calls through real engines."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weirlab.cli.app import app
from weirlab.errors import LabError
from weirlab.jobs.progress import Quiet
from weirlab.lab import clean
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies.runner import run_scenario
from weirlab.studies.voice.lab import VoiceLab, engines
from weirlab.studies.voice.plan import loads
from weirlab.studies.voice.proof.findings import ProofFindings
from weirlab.studies.voice.proof.rows import AS_PLANNED, LOGS, MESSAGES
from weirlab.studies.voice.routing import Network
from weirlab.studies.voice.section import VoiceScenario

pytestmark = pytest.mark.netns

SMALL = """\
plan: small
caller: phone
dns: {primary: ns.small.example, contact: hostmaster@small.example}
engines:
  phone: {kind: endpoint, protocols: [sip], address: 192.0.2.20, codecs: [alaw], home: core}
  core: {kind: proxy, address: 192.0.2.10, trees: [public]}
  desk: {kind: endpoint, protocols: [sip], address: 192.0.2.30, host: desk.small.example, codecs: [alaw]}
  voicemail: {kind: endpoint, protocols: [sip], address: 198.51.100.30, codecs: [alaw]}
trees: {public: {suffix: e164.arpa, zone: 0.2.4.e164.arpa}}
enum:
  - {tree: public, prefix: "+420111", naptr: [{service: E2U+sip, uri: 'sip:\\1@small.example'}]}
routes:
  - {at: core, prefix: "+420222", to: [desk, voicemail]}
domains:
  small.example:
    hosts: {ns.small.example: 192.0.2.53}
    services: [{target: desk.small.example}]
tests:
  - {number: "+420111000001", via: public, ends_at: desk}
  - {number: "+420222000001", via: static, ends_at: desk}
  - {number: "+420333000001", answer: 404}
"""


@pytest.fixture(scope="module", autouse=True)
def _needs_engines() -> None:
    if missing := engines.lacking([*engines.PACKAGES]):
        pytest.skip(missing)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    # Other labs of this machine are none of ours.
    owners = []
    for path in clean.LOCKS.glob("*.lock"):
        with contextlib.suppress(FileNotFoundError):
            owners.append(path.read_bytes().partition(b"\n")[0])
    assert str(os.getpid()).encode() not in owners


def network(text: str = SMALL) -> Network:
    return Network(loads(text, "small.yaml"), date(2026, 11, 22))


def proved(tmp_path: Path, text: str = SMALL) -> tuple[ProofFindings, Path]:
    plan = tmp_path / "small.yaml"
    plan.write_text(text)
    content = {"name": "test", "voice": {"plan": str(plan), "talk_s": 0.4}, "report": None}
    outcome = run_scenario(Store(tmp_path / "store"), from_plain(content, "test", VoiceScenario), Quiet())
    assert isinstance(outcome.found, ProofFindings)
    return outcome.found, outcome.run.path


def test_calls_by_enum_by_a_route_and_by_its_fall_back_go_as_planned_with_speech(tmp_path: Path) -> None:
    found, path = proved(tmp_path)
    assert [(row.number, row.down, row.verdict, row.why) for row in found.rows] == [
        ("+420111000001", "", AS_PLANNED, ""),
        ("+420222000001", "", AS_PLANNED, ""),
        ("+420222000001", "desk", AS_PLANNED, ""),
        ("+420333000001", "", AS_PLANNED, ""),
    ]
    by_enum, by_route, fallen_back, refused = found.rows
    assert (by_enum.way, by_enum.decided) == ("phone > core > desk", "core: public")
    assert (by_route.way, by_route.decided) == ("phone > core > desk", "core: static")
    assert (fallen_back.way, fallen_back.tried) == ("phone > core > voicemail", "core > desk: no answer")
    assert (refused.way, refused.answer) == ("phone > core", 404)
    for row in (by_enum, by_route, fallen_back):
        assert (row.codec, row.answer) == ("alaw", 200)
        assert row.setup_ms > 0
        assert row.there_packets > 0
        assert row.back_packets > 0
    run = Store(path.parent).open("last")
    assert "INVITE +420111000001" in run.table(MESSAGES)["text"].to_list()
    assert "named" in run.table(LOGS)["engine"].to_list()


def test_a_call_that_does_not_end_where_its_test_demands_is_not_proved(tmp_path: Path) -> None:
    wrong = 'tests:\n  - {number: "+420111000002", via: public, ends_at: voicemail}\n'
    found, _ = proved(tmp_path, SMALL[: SMALL.index("tests:")] + wrong)
    (row,) = found.failed
    assert (row.number, row.why) == ("+420111000002", "the test demands that voicemail answers")


def test_a_proxy_that_routes_otherwise_than_planned_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, "core/db/mtree_plan", "192.0.2.30", "198.51.100.30")
    tests = 'tests:\n  - {number: "+420222000001", via: static, ends_at: desk}\n'
    found, _ = proved(tmp_path, SMALL[: SMALL.index("tests:")] + tests)
    row = found.rows[0]
    assert row.way == "phone > core > voicemail"
    assert row.why == (
        "way phone > core > voicemail instead of phone > core > desk; the test demands that desk answers"
    )


SERVICES = "services: [{target: desk.small.example}]"
RECORD = "{service: E2U+sip, uri: 'sip:\\1@small.example'}"
VOICEMAIL = "address: 198.51.100.30, codecs", "address: 198.51.100.30, host: voicemail.small.example, codecs"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            SERVICES,
            "services: [{priority: 10, target: desk.small.example}, "
            "{priority: 20, target: voicemail.small.example}]",
        ),
        (
            RECORD,
            "{order: 10, service: E2U+sip, uri: 'sip:\\1@desk.small.example'}, "
            "{order: 20, service: E2U+sip, uri: 'sip:\\1@voicemail.small.example'}",
        ),
    ],
    ids=["srv", "naptr"],
)
def test_targets_and_records_are_tried_one_after_the_other(tmp_path: Path, old: str, new: str) -> None:
    assert old in SMALL
    text = SMALL[: SMALL.index("tests:")].replace(old, new).replace(*VOICEMAIL)
    tests = 'tests:\n  - {number: "+420111000001", via: public, ends_at: desk}\n'
    found, _ = proved(tmp_path, text + tests)
    assert [(row.down, row.way, row.tried, row.why) for row in found.rows] == [
        ("", "phone > core > desk", "", ""),
        ("desk", "phone > core > voicemail", "core > desk: no answer", ""),
    ]


def test_a_plan_of_ipv6_is_proved_as_well(tmp_path: Path) -> None:
    six = re.sub(r"198\.51\.100\.(\d+)", r'"2001:db8:1::\1"', SMALL)
    text = re.sub(r"192\.0\.2\.(\d+)", r'"2001:db8::\1"', six)
    tests = 'tests:\n  - {number: "+420111000001", via: public, ends_at: desk}\n'
    found, _ = proved(tmp_path, text[: text.index("tests:")] + tests)
    (row,) = found.rows
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    assert row.there_packets > 0
    assert row.back_packets > 0


def test_the_lab_says_where_its_engines_are(tmp_path: Path) -> None:
    plan = tmp_path / "small.yaml"
    plan.write_text(SMALL)
    result = CliRunner().invoke(app, ["voice", "lab", str(plan), "--for", "0.1s", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [(row["engine"], row["program"], row["address"]) for row in document["engines"]] == [
        ("named", "named", "192.0.2.53:53"), ("core", "kamailio", "192.0.2.10:5060"),
        ("phone", None, "192.0.2.20"), ("desk", None, "192.0.2.30"), ("voicemail", None, "198.51.100.30"),
    ]  # fmt: skip
    assert len({row["namespace"] for row in document["engines"]}) == 5
    assert not Path(document["folder"]).exists()


def test_a_zone_that_does_not_load_is_named_with_the_last_words_of_the_name_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(monkeypatch, "named/small.example.zone", "small.example", "!nonsense!")
    with pytest.raises(
        LabError, match=r"named does not load the zone small\.example: .*small\.example\.zone:\d+: near"
    ):
        VoiceLab(network(), 0.4)


def test_an_engine_that_dies_is_named_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, "core/kamailio.cfg", "loadmodule", "loadnodule")
    with pytest.raises(
        LabError, match=r"kamailio of core ended by itself \(exit code \d+\); its last words: .*"
    ):
        VoiceLab(network(), 0.4)


def spoil(monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str) -> None:
    """Let one of the files that engines read be wrong."""
    from weirlab.studies.voice.lab import lab

    made = lab.configs

    def spoiled(net: Network, root: str) -> dict[str, str]:
        found = made(net, root)
        assert old in found[file]
        return {**found, file: found[file].replace(old, new)}

    monkeypatch.setattr(lab, "configs", spoiled)
