"""A numbering plan proved by calls through real engines; they start once for most tests."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.cli.program.app import app
from weirlab.jobs.progress import SilentProgress
from weirlab.lab import clean
from weirlab.lab.linux.namespace import Namespace
from weirlab.numbering.lab import VoiceLab, engines
from weirlab.numbering.lab.loading import LoadTestLab
from weirlab.numbering.load.study import trial
from weirlab.numbering.plan import load, loads, ready
from weirlab.numbering.proof.calling import made
from weirlab.numbering.proof.findings import AS_PLANNED, LOGS, MESSAGES, ProofFindings
from weirlab.numbering.proof.ways import ProofCall, planned
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import LoadSection, VoiceScenario
from weirlab.numbering.zones import imported
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies.runner import run_scenario

pytestmark = pytest.mark.netns

DAY = date(2026, 11, 22)

SMALL = """\
plan: small
caller: phone
dns: {primary: ns.small.example, contact: hostmaster@small.example}
engines:
  phone: {kind: endpoint, protocols: [sip], address: 192.0.2.20, codecs: [alaw], home: core}
  core: {kind: proxy, address: 192.0.2.10, trees: [public]}
  desk: {kind: endpoint, protocols: [sip], address: 192.0.2.30, host: desk.small.example, codecs: [alaw]}
  voicemail: {kind: endpoint, protocols: [sip], address: 198.51.100.30, codecs: [alaw, ulaw]}
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
  - {number: "+420333000001", answer: 404}
"""


@pytest.fixture(scope="module", autouse=True)
def _needs_engines() -> None:
    if missing := engines.lacking([*engines.PACKAGES]):
        pytest.skip(missing)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    # Other labs of this machine are none of ours.
    owners = []
    for path in clean.LOCKS.glob("*.lock"):
        with contextlib.suppress(FileNotFoundError):
            owners.append(path.read_bytes().partition(b"\n")[0])
    assert str(os.getpid()).encode() not in owners


@pytest.fixture(scope="module")
def carriers() -> PlanNetwork:
    return PlanNetwork(load(ready.FOLDER / "carriers.yaml"), DAY)


@pytest.fixture(scope="module")
def lab(carriers: PlanNetwork, _nothing_is_left: None) -> Iterator[VoiceLab]:
    with VoiceLab(carriers, 0.3) as opened:
        yield opened


def call(net: PlanNetwork, number: str, down: str | None = None, fault: str = "off") -> ProofCall:
    return next(
        each
        for each in planned(net, fall_back=True)
        if (each.test.number, each.down, each.fault) == (number, down, fault)
    )


@pytest.mark.parametrize(
    "number",
    [
        "+420221000001",  # regexp without back-reference
        "+420222055501",  # hole below a wildcard
        "+420224000001",  # non-terminal record
        "+420226000003",  # SRV over TCP
        "112",
        "+420440123456",  # digits changed, two proxies
        "555",  # 484
        "+420229000001",  # 488
        "+420227000001",  # early media
        "+420228000001",  # forwarding
        "+420222000003",  # from TCP to UDP
        "+420260000001",  # IPv6
    ],
)
def test_a_call_goes_as_planned_with_speech_both_ways(lab: VoiceLab, number: str) -> None:
    wanted = call(lab.network, number)
    row, messages = made(lab, wanted)
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    assert (row.way, row.answer) == (row.way_planned, wanted.answer)
    assert messages
    if wanted.answered:
        assert row.codec
        assert row.setup_ms > 0
        assert row.there_packets > 0
        assert row.back_packets > 0


@pytest.mark.parametrize(
    ("number", "down", "fault", "tried"),
    [
        ("+420223000002", "carrier-b", "503", "core > carrier-b: 503"),
        ("+420226000001", "carrier-a", "off", "core > carrier-a: no answer"),
        ("+498912345", "carrier-a", "503", "core > carrier-a: 503"),
        ("+498912345", "carrier-a", "486", ""),
        ("+420221000001", "named", "off", ""),
    ],
    ids=["naptr", "srv", "route", "busy", "secondary"],
)
def test_a_call_goes_as_planned_while_something_fails(
    lab: VoiceLab, number: str, down: str, fault: str, tried: str
) -> None:
    row, _ = made(lab, call(lab.network, number, down, fault))
    assert (row.verdict, row.why, row.tried) == (AS_PLANNED, "", tried)


def test_a_proxy_refuses_the_call_beyond_the_limit_and_takes_calls_again_when_others_have_ended(
    lab: VoiceLab,
) -> None:
    refused, taken = (call(lab.network, number) for number in ("+420222000005", "+420222000004"))
    # One after the other, every call ends before the next one counts.
    for wanted, answer in ((refused, 503), (taken, 200), (refused, 503), *((taken, 200),) * 3):
        row, _ = made(lab, wanted)
        assert (row.verdict, row.why, row.answer) == (AS_PLANNED, "", answer)
    assert "has 2 calls" in lab.output("core")


def test_calls_that_fail_do_not_count_towards_the_limit(lab: VoiceLab) -> None:
    for _ in range(3):
        lab.call("shop", "+420555000000", 404, {})
    with lab.failing("desk", "486"):
        for _ in range(3):
            lab.call("shop", "+420222000004", 486, {})
    row, _ = made(lab, call(lab.network, "+420222000004"))
    assert (row.verdict, row.why, row.answer) == (AS_PLANNED, "", 200)


def test_a_zone_is_imported_from_its_server_by_who_may_transfer_it(lab: VoiceLab) -> None:
    names = {daemon.name: daemon for daemon in lab.daemons}
    server, secondary = names["named"], Namespace(lab.hosts[names["named-2"].address])
    ask = partial(imported.transferred, server.address, server.port, "enum.operator.example", "private")
    found = secondary.call(partial(ask, "enum.operator.example"))
    numbers = {entry.number for entry in lab.network.plan.enum if entry.tree == "private"}
    assert {entry.number for entry in found.entries} == numbers
    with pytest.raises(InputError, match=r"at 10\.94\.0\.53, port 53: no transfer: .*REFUSED"):
        lab.at("phone").call(partial(ask, "enum.operator.example"))


def test_many_calls_are_set_up_while_a_few_speak() -> None:
    number = "+420111222001"
    asked = LoadSection(plan=Path("campus"), trial_s=1.0, media_calls=1)
    net = PlanNetwork(load(ready.FOLDER / "campus.yaml"), DAY)
    with LoadTestLab(net, 0.4) as campus:
        row, work, _ = trial(campus, call(net, number), asked, 0, 10)
    assert (row.rate_per_s, row.calls) == (10, 10)
    assert row.failed + row.slow <= row.calls
    assert row.media_calls == 1
    assert {row.engine for row in work} == {"named", "core", "branch", "sipp", "other work"}
    assert all(row.cpu_share >= 0 for row in work)


def test_a_proof_is_a_run_with_calls_messages_and_logs(tmp_path: Path) -> None:
    plan = tmp_path / "small.yaml"
    plan.write_text(SMALL)
    content = {"name": "test", "voice": {"plan": str(plan), "talk_s": 0.2}, "report": None}
    outcome = run_scenario(
        Store(tmp_path / "store"),
        from_plain(content, "test", VoiceScenario),
        SilentProgress(),
        inputs=HOST_FILES,
    )
    assert isinstance(outcome.found, ProofFindings)
    assert outcome.found.problem(None) is None
    assert [(row.number, row.verdict, row.way) for row in outcome.found.rows] == [
        ("+420111000001", AS_PLANNED, "phone > core > desk"),
        ("+420333000001", AS_PLANNED, "phone > core"),
        # The request of no call.
        ("+420111000001", AS_PLANNED, "phone > core"),
    ]
    run = Store(tmp_path / "store").open("last")
    assert "INVITE +420111000001" in run.table(MESSAGES)["text"].to_list()
    assert "named" in run.table(LOGS)["engine"].to_list()


def test_the_lab_says_where_its_engines_are(tmp_path: Path) -> None:
    plan = tmp_path / "small.yaml"
    plan.write_text(SMALL)
    result = CliRunner().invoke(app, ["voice", "lab", "--plan", str(plan), "--duration", "0.1s", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [(row["engine"], row["program"], row["address"]) for row in document["engines"]] == [
        ("named", "named", "192.0.2.53:53"), ("core", "kamailio", "192.0.2.10:5060"),
        ("phone", None, "192.0.2.20"), ("desk", None, "192.0.2.30"), ("voicemail", None, "198.51.100.30"),
    ]  # fmt: skip
    assert len({row["namespace"] for row in document["engines"]}) == 5
    assert not Path(document["folder"]).exists()


def small(*tests: str) -> PlanNetwork:
    """The small plan, with other tests."""
    text = SMALL if not tests else SMALL[: SMALL.index("tests:")] + "tests:\n" + "".join(tests)
    return PlanNetwork(loads(text, "small.yaml"), DAY)
