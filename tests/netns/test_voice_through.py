"""Calls through devices under test: a filter, a tunnel, and one whose gateway dies during the call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest
from pyroute2 import IPRoute
from typer.testing import CliRunner

from weirlab.base.files import HOST_FILES
from weirlab.cli.program.app import app
from weirlab.lab import wiring
from weirlab.lab.dut import make
from weirlab.lab.linux import interface
from weirlab.numbering.lab import PATIENCE_S, VoiceLab, engines, passage, switch
from weirlab.numbering.lab.device import PassageRow, device
from weirlab.numbering.lab.passage import DevicePassage
from weirlab.numbering.plan import load, ready
from weirlab.numbering.proof.calling import carried
from weirlab.numbering.proof.findings import AS_PLANNED, NOT_AS_PLANNED, MessageRow, ProofCallRow
from weirlab.numbering.proof.ways import ProofCall, planned
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import PassageSection

pytestmark = pytest.mark.netns

DAY = date(2026, 11, 22)

PLAN = """\
plan: pair
caller: phone
dns: {primary: ns.pair.example, contact: hostmaster@pair.example}
engines:
  phone: {kind: endpoint, protocols: [sip], address: 192.0.2.20, codecs: [alaw], home: core}
  core: {kind: proxy, address: 192.0.2.10}
  desk: {kind: endpoint, protocols: [sip], address: 192.0.2.30, codecs: [alaw], home: core}
routes:
  - {at: core, prefix: "+420111", to: desk}
  - {at: core, prefix: "+420222", to: phone}
domains: {pair.example: {hosts: {ns.pair.example: 192.0.2.53}}}
tests:
  - {number: "+420111000001", ends_at: desk}
  - {number: "+420222000001", caller: desk, ends_at: phone}
"""


@pytest.fixture(scope="module", autouse=True)
def _needs_engines() -> None:
    if missing := engines.lacking([*engines.PACKAGES]):
        pytest.skip(missing)


def network(name: str) -> PlanNetwork:
    return PlanNetwork(load(ready.FOLDER / f"{name}.yaml"), DAY)


@contextmanager
def lab(plan: str, talk_s: float = 0.3, **asked: object) -> Iterator[VoiceLab]:
    through = PassageSection.model_validate(asked)
    if missing := make(through.name, through.file, HOST_FILES).check():
        pytest.skip("; ".join(missing))
    net = network(plan)
    with VoiceLab(net, talk_s, device(through, net, HOST_FILES)) as opened:
        yield opened


def call(opened: VoiceLab, number: str) -> tuple[ProofCallRow, dict[str, PassageRow]]:
    wanted: ProofCall = next(
        each for each in planned(opened.network, fall_back=False) if each.test.number == number
    )
    row, _, passed = carried(opened, wanted)
    return row, {each.direction: each for each in passed}


def passed_all(row: ProofCallRow, passed: dict[str, PassageRow]) -> None:
    """The call went as planned, and the device's ports counted what the caller's port did."""
    assert (row.verdict, row.why) == (AS_PLANNED, "")
    there, back = passed["from the caller"], passed["to the caller"]
    assert there.entered >= there.caller_packets > 0
    assert back.left >= back.caller_packets > 0
    if row.answer == 200:
        # Speech is most of it.
        assert there.left >= row.there_packets > 0
        assert back.entered >= row.back_packets > 0


def test_calls_of_one_command_pass_a_firewall(tmp_path: Path) -> None:
    if missing := make("nftables").check():
        pytest.skip("; ".join(missing))
    plan = tmp_path / "pair.yaml"
    plan.write_text(PLAN)
    options = ["--dut", "nftables", "--rules", "50", "--talk", "0.3", "--store", str(tmp_path / "store")]
    result = CliRunner().invoke(app, ["voice", "prove", "--plan", str(plan), *options, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["device"]["name"] == "nftables with 50 rules"
    # Both are callers, one after the other: the device moves. Then a request of no call.
    ways = [row["way"] for row in document["calls"]]
    assert ways == ["phone > core > desk", "desk > core > phone", "phone > core"]
    for row in document["device"]["packets"]:
        assert row["bypassed"] == 0
        assert row["left"] > 0
        assert row["caller_packets"] > 0


def test_numbers_of_the_campus_pass_a_firewall() -> None:
    with lab("campus", name="nftables", rules=50) as opened:
        assert opened.facts["device"] == "nftables with 50 rules"
        for number in ("+420111222001", "+420111555001", "+420111555002"):
            passed_all(*call(opened, number))


def test_numbers_of_the_campus_pass_a_tunnel_in_user_space() -> None:
    with lab("campus", name="esp") as opened:
        for number in ("+420111222001", "+420111777000"):
            passed_all(*call(opened, number))


def test_calls_over_ipv6_and_tcp_pass_a_tunnel() -> None:
    with lab("carriers", name="wireguard-go") as opened:
        for number in ("+420260000001", "+420222000003"):
            passed_all(*call(opened, number))


def test_a_firewall_that_lets_no_speech_through_spoils_the_call(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text(
        "table ip filter {\n  chain forward {\n    type filter hook forward priority 0; policy accept;\n"
        "    udp dport 6000-6999 drop\n  }\n}\n"
    )
    with lab("campus", name="ruleset", ruleset=rules) as opened:
        row, passed = call(opened, "+420111222001")
    assert (row.verdict, row.answer) == (NOT_AS_PLANNED, 200)
    assert "no speech from caller to callee; no speech from callee to caller" in row.why
    there = passed["from the caller"]
    assert there.left < there.entered
    assert there.bypassed == 0


def spoiling(opened: VoiceLab, number: str, patience_s: float = PATIENCE_S) -> str:
    """How the device, which does not let everything through, makes a call differ."""
    opened.patience_s = patience_s
    row, passed = call(opened, number)
    there = passed["from the caller"]
    assert row.verdict == NOT_AS_PLANNED
    assert (there.left < there.entered, there.bypassed) == (True, 0)
    return row.why


def blocking(tmp_path: Path, rules: str) -> Path:
    file = tmp_path / "rules"
    file.write_text(
        f"table ip filter {{ chain forward {{ type filter hook forward priority 0; {rules}; }}; }}\n"
    )
    return file


def test_a_firewall_that_lets_nothing_through_spoils_calls_and_no_more(tmp_path: Path) -> None:
    with lab("carriers", name="ruleset", ruleset=blocking(tmp_path, "policy drop")) as opened:
        why = spoiling(opened, "+420222000004", patience_s=10)
        assert re.match(r"ruleset let through none of \d+ packets from the caller; answer none", why)
        held = spoiling(opened, "+420222000005", patience_s=10)
        assert held.endswith("not all of the 2 calls to be up meanwhile were answered")


def test_calls_meanwhile_that_do_not_end_spoil_their_call_alone(tmp_path: Path) -> None:
    bye = "policy accept; udp dport 5060 @th,64,24 0x425945 drop"
    with lab("carriers", name="ruleset", ruleset=blocking(tmp_path, bye)) as opened:
        why = spoiling(opened, "+420222000005", patience_s=10)
        assert "the 2 calls up meanwhile did not end by BYE within 10 s, and engines may still" in why
        assert call(opened, "+420221000001")[0].answer == 200


def test_a_firewall_without_tcp_spoils_calls_of_sip_over_tcp_alone(tmp_path: Path) -> None:
    rules = blocking(tmp_path, "policy accept; ip protocol tcp drop")
    with lab("carriers", name="ruleset", ruleset=rules) as opened:
        assert "tablet sent no call to +420222000003" in spoiling(opened, "+420222000003")
        passed_all(*call(opened, "+420221000001"))


def test_a_firewall_without_tcp_spoils_calls_of_h323(tmp_path: Path) -> None:
    if lacking := engines.impossible(network("translations").plan.engines["hall"]):
        pytest.skip(lacking)
    rules = blocking(tmp_path, "policy accept; ip protocol tcp drop")
    with lab("translations", name="ruleset", ruleset=rules) as opened:
        assert re.search(r"hall sent no call to \S+ \(call .* timed out", spoiling(opened, "+420308000001"))
        assert "not all of the 2 calls" in spoiling(opened, "+420308000003")


def test_messages_that_the_device_cuts_into_fragments_are_whole_in_the_ladder() -> None:
    number = "+420111444001"
    wanted = next(each for each in planned(network("campus"), fall_back=False) if each.test.number == number)
    with lab("campus", name="forward") as opened:
        _, plain, _ = carried(opened, wanted)
        way, phone = opened.way, opened.at("phone")
        assert isinstance(way, DevicePassage)
        way._gateways[0].call(lambda: _set_mtu(wiring.IN0.name))
        phone.call(lambda: _set_mtu(switch.LINK))
        before = phone.call(_fragments)
        row, cut, passed = carried(opened, wanted)
        made, put_together = (now - then for now, then in zip(phone.call(_fragments), before, strict=True))
    passed_all(row, {each.direction: each for each in passed})
    assert made > 1
    assert put_together > 0
    assert reliable(cut) == reliable(plain)


def reliable(messages: list[MessageRow]) -> set[tuple[str, str, str]]:
    """Requests and final answers: what arrives in every call, whatever is repeated.

    Provisional answers are not sent reliably (RFC 3261, 13.3.1.1 and 16.7): a proxy drops a 180 that it reads
    after the 200, and sends 100 by a timer.
    """
    return {(each.source, each.target, each.text) for each in messages if not re.match(r"1\d\d ", each.text)}


def _set_mtu(link: str) -> None:
    """Less than any SIP message, and enough for a packet of speech."""
    with IPRoute() as netlink:
        netlink.link("set", index=interface.index_of(netlink, link), mtu=256)


def _fragments() -> tuple[int, int]:
    """How many the host has made, and how many datagrams it has put together."""
    names, counts = Path("/proc/thread-self/net/snmp").read_text().splitlines()[:2]
    found = dict(zip(names.split(), counts.split(), strict=True))
    return int(found["FragCreates"]), int(found["ReasmOKs"])


def test_a_gateway_that_dies_during_a_call_costs_speech() -> None:
    with lab("campus", talk_s=10.0, name="esp:outage=4s+500ms") as opened:
        row, passed = call(opened, "+420111444901")
    assert row.answer == 200
    assert passed["from the caller"].left < passed["from the caller"].entered
    assert row.there_lost > 0


def test_a_caller_that_is_plugged_in_beside_the_device_is_found_out() -> None:
    with lab("campus", name="forward") as opened:
        passed_all(*call(opened, "+420111444001"))
        hosts = [*opened.hosts]
        phone, macs = hosts.index("10.93.0.20"), {each: switch.mac(rank) for rank, each in enumerate(hosts)}
        opened._switch.call(lambda: passage.plug_host(phone, aside=False))
        opened.at("phone").call(lambda: passage.know({k: v for k, v in macs.items() if k != "10.93.0.20"}))
        row, _ = call(opened, "+420111444001")
    assert row.verdict == NOT_AS_PLANNED
    assert "packets from the caller bypassed forward" in row.why
