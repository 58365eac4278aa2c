"""The plan of all translations, in a lab that only pretends."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.studies.voice.checking import check
from weirlab.studies.voice.fakes import FakeLab
from weirlab.studies.voice.lab import engines
from weirlab.studies.voice.plan.model import Engine
from weirlab.studies.voice.proof import kinds
from weirlab.studies.voice.proof.calling import made
from weirlab.studies.voice.proof.findings import ProofFindings
from weirlab.studies.voice.proof.planned import planned
from weirlab.studies.voice.proof.rows import AS_PLANNED

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
    found = {each.name for each in kinds.listed(rows)}
    pairs = {(come, goes) for come in TRANSLATED for goes in TRANSLATED if come != goes}
    assert {f"{come} to {goes} through a gateway" for come, goes in pairs} <= found
    assert {"SIP to SIP through a gateway", "MGCP to MGCP through a gateway"} <= found
    assert "two gatekeepers (LRQ)" in found
    assert ProofFindings("translations", tuple(rows), partly=False).problem(None) is None


def test_without_asterisk_every_call_says_what_to_install() -> None:
    calls = planned(ready_network("translations"), fall_back=False)
    why = "it is a gateway, and Asterisk is not installed: weir voice install"
    assert {each.impossible for each in calls} == {
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


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (Engine(kind="endpoint", protocols=("mgcp",)), ""),
        (Engine(kind="endpoint", protocols=("h323",)), "it speaks H.323 only, and has no telephone here"),
    ],
)
def test_endpoints_have_a_program_unless_they_speak_h323_alone(engine: Engine, why: str) -> None:
    assert engines.impossible(engine) == why
