"""The plan of all translations, in a lab that only pretends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.base import extras
from weirlab.numbering.checking import check
from weirlab.numbering.fakes import FakeLab
from weirlab.numbering.lab import engines
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.proof import findings, kinds
from weirlab.numbering.proof.calling import made
from weirlab.numbering.proof.findings import AS_PLANNED, ProofFindings
from weirlab.numbering.proof.ways import planned
from weirlab.numbering.routing import PlanNetwork

from ..plans import ready_network

TRANSLATED = ("SIP", "H.323", "MGCP")


def test_nothing_is_found_in_the_plan() -> None:
    assert check(ready_network("translations")) == []


def test_one_plan_proves_every_translation_both_ways(has_asterisk: None, tmp_path: Path) -> None:
    net = ready_network("translations")
    calls = planned(net, fall_back=True)
    lab = FakeLab(net, tmp_path)
    rows = [made(lab, each, calls)[0] for each in calls]
    assert {row.verdict: row.why for row in rows} == {AS_PLANNED: ""}
    found = {each.name for each in findings.listed_kinds(rows)}
    pairs = {(come, goes) for come in TRANSLATED for goes in TRANSLATED if come != goes}
    assert {f"{come} to {goes} through a gateway" for come, goes in pairs} <= found
    assert {"SIP to SIP through a gateway", "MGCP to MGCP through a gateway"} <= found
    assert "two gatekeepers (LRQ)" in found
    assert ProofFindings("translations", tuple(rows), partly=False).problem(None) is None


def test_without_asterisk_every_call_through_a_gateway_says_what_to_install() -> None:
    net = ready_network("translations")
    calls = planned(net, fall_back=False)
    why = "it is a gateway, and Asterisk is not installed: weir voice install"
    through = [each for each in calls if any(name.startswith("gw-") for name in each.way.engines)]
    assert {each.impossible for each in calls if each not in through} == {""}
    assert {each.impossible for each in through} == {
        f"the lab has no program for {name}: {why}" for name in ("gw-west", "gw-east")
    }


def test_gateways_start_behind_the_gatekeepers_with_which_they_register(has_asterisk: None) -> None:
    found = engines.daemons(ready_network("federation"), "/x")
    assert [(each.title, each.address, each.port) for each in found] == [
        ("named", "10.92.0.53", 53), ("kamailio of core", "10.92.0.10", 5060),
        ("gatekeeper of gk", "10.92.0.50", 1719), ("asterisk of gw-a", "10.92.0.41", 5060),
        ("asterisk of gw-b", "10.92.0.42", 1720),
    ]  # fmt: skip
    gateway = found[-1]
    assert (gateway.file, gateway.log) == ("/x/gw-b/asterisk.conf", "gw-b/log/messages.log")
    assert gateway.command[0] == "chroot"
    assert gateway.command[-3:] == ("-f", "-C", "/x/gw-b/asterisk.conf")
    assert engines.sockets(Engine(kind="gateway", protocols=("sip", "h323", "mgcp"))) == [
        ("udp", 5060), ("tcp", 1720), ("udp", 2727),
    ]  # fmt: skip


def test_a_telephone_of_h323_has_a_program_and_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(kind="endpoint", protocols=("h323",))
    assert engines.impossible(engine) == ""
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    needs = "it is an H.323 telephone, which needs dnspython and pycrate: pip install 'dnspython>="
    assert engines.impossible(engine).startswith(needs)
    assert engines.impossible(Engine(kind="endpoint", protocols=("mgcp",))) == ""


def test_telephones_run_for_as_long_as_the_lab_and_start_behind_their_gatekeepers(has_asterisk: None) -> None:
    found = [each.title for each in engines.daemons(ready_network("translations"), "/x")]
    assert found[:2] == ["gatekeeper of gk-west", "gatekeeper of gk-east"]
    assert found[4:] == [f"telephone of {name}" for name in ("hall", "studio", "guest", "annex", "reception")]


def test_rules_of_admission_are_proved_at_gateways_and_gatekeepers(has_asterisk: None) -> None:
    net = ready_network("translations")
    calls = planned(net, fall_back=True)
    found = {name for each in calls for name in kinds.kinds(net, each, calls)}
    for engine in ("gateway", "gatekeeper"):
        rules = ("organisation not admitted (403)", "barred number (403)", "call limit (503)")
        assert {f"{rule} by a {engine}" for rule in rules} <= found


@pytest.mark.parametrize(
    ("caller", "why"),
    [
        ("fax", "fax is an MGCP line, which carries one call at a time"),
        ("phone", "phone calls over TCP, and only endpoints with SIP over UDP or H.323 hold calls"),
        ("desk", ""),
        ("hall", ""),
    ],
)
def test_who_cannot_have_several_calls_is_told(has_asterisk: None, caller: str, why: str) -> None:
    net = ready_network("translations")
    over_tcp = net.plan.engines["phone"].model_copy(update={"transport": "tcp"})
    several = net.plan.tests[0].model_copy(
        update={"meanwhile": 2, "caller": caller, "number": "+420303000001"}
    )
    plan = net.plan.model_copy(
        update={"tests": (several,), "engines": {**net.plan.engines, "phone": over_tcp}}
    )
    (call, *_) = planned(PlanNetwork(replace(net.book, plan=plan), net.day), fall_back=False)
    assert call.impossible == why
