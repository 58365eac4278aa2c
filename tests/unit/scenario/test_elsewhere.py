"""Scenarios of devices that Weir does not build: which keys go together, and who may use them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES, NO_FILES
from weirlab.scenario import checked
from weirlab.scenario.document import Document
from weirlab.scenario.profile import Scenario, full

LOGIN = "ssh://root@fw1"


def scenario(dut: dict[str, Any], inputs: Any = HOST_FILES, lab: str = "wired", **profile: Any) -> Scenario:
    section: dict[str, Any] = {"kind": lab, "between": ["a", "b"]} if lab == "wired" else {"kind": lab}
    plan = {"positions": [0], "sizes": [64], **profile}
    document = {"name": "x", "lab": section, "dut": dut, "profile": plan, "report": None}
    return checked(Document("x.yaml", document), Scenario, inputs=inputs)


@pytest.mark.parametrize(
    ("dut", "own"),
    [
        ({}, True),
        ({"at": LOGIN}, True),
        ({"name": "nftables", "at": LOGIN}, True),
        ({"name": "nftables", "at": LOGIN, "change": "rules"}, False),
        ({"name": "pf", "at": LOGIN, "change": "rules", "ports": ["em1", "em2"], "restore_s": 30}, False),
        ({"name": "fw4", "at": LOGIN, "change": "rules"}, False),
        ({"change": "ask"}, False),
        ({"change": "/usr/bin/set-rules --zone test"}, False),
        ({"at": LOGIN, "change": "/usr/bin/set-rules"}, False),
    ],
)
def test_a_device_has_its_own_rules_unless_somebody_changes_them(dut: dict[str, Any], own: bool) -> None:
    found = scenario(dut).dut
    assert found.elsewhere
    assert found.has_own_rules is own
    assert found.name == dut.get("name", "blackbox")


@pytest.mark.parametrize(
    ("dut", "message"),
    [
        ({"name": "nftables", "change": "rules"}, "Weir sets rules through a login, which is missing"),
        ({"at": LOGIN, "change": "rules"}, "name the filter of the device: fw4, iptables"),
        ({"name": "esp", "at": LOGIN}, "a device of your own is called 'blackbox', or by its filter"),
        ({"name": "nftables"}, "say how the rules of your device are set"),
        ({"ports": ["eth1", "eth2"]}, "only looked at through a login, which is missing"),
        ({"at": "root@fw1"}, "is no login: write ssh://user@host"),
        ({"at": LOGIN, "ports": ["eth1", "eth1"]}, "listed twice"),
        ({"change": "set 'rules"}, "is no command: No closing quotation"),
        ({"change": " "}, "write none, ask, rules, or a command"),
        ({"at": LOGIN, "stateful": True}, "has its own rules: leave it out"),
    ],
)  # fmt: skip
def test_keys_that_do_not_go_together_are_refused(dut: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scenario(dut)


def test_positions_need_somebody_who_changes_the_rules() -> None:
    with pytest.raises(InputError, match=r"has its own rules: write 'positions: \[0\]'"):
        scenario({"at": LOGIN}, positions=[0, 100])
    assert scenario({"change": "ask"}, positions=[0, 100]).profile.positions == (0, 100)


@pytest.mark.parametrize("dut", [{"name": "nftables", "at": LOGIN}, {"name": "pf"}, {"change": "ask"}])
def test_other_labs_have_no_such_device(dut: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="between two ports of this machine: --lab wired --between A B"):
        scenario(dut, lab="netns")


@pytest.mark.parametrize(
    ("dut", "keys"),
    [
        ({}, ["lab.between"]),
        ({"at": LOGIN}, ["lab.between", "dut.at"]),
        ({"name": "nftables", "at": LOGIN, "change": "rules"}, ["lab.between", "dut.at"]),
        ({"change": "ask"}, ["lab.between", "dut.change"]),
        ({"change": "/usr/bin/set-rules"}, ["lab.between", "dut.change"]),
    ],
)
def test_whoever_may_open_no_file_may_use_no_port_no_login_and_no_program(
    dut: dict[str, Any], keys: list[str]
) -> None:
    with pytest.raises(InputError, match="start the scenario with weir run instead") as refused:
        scenario(dut, NO_FILES)
    assert re.findall(r"\b(?:lab|dut)\.\w+", str(refused.value)) == keys


def test_a_program_is_looked_for_beside_the_scenario() -> None:
    beside = scenario({"change": "./set-rules 'a b'"}).beside(Path("/etc/weir"))
    assert beside.dut.change == "/etc/weir/set-rules 'a b'"
    assert scenario({"change": "set-rules x"}).beside(Path("/etc/weir")).dut.change == "set-rules x"


def test_a_full_profile_of_such_a_device_has_no_management_session() -> None:
    assert "cross_traffic" in full("nftables")
    assert "cross_traffic" not in full("nftables", own=True)
