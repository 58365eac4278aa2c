"""The section ``lab`` of a scenario about the user's own device."""

from __future__ import annotations

from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.scenario import Scenario, from_plain

WIRED = {"kind": "wired", "between": ["a", "b"]}


def scenario(lab: dict[str, Any], **more: Any) -> Scenario:
    return from_plain({"name": "x", "lab": lab, "profile": {"positions": [0]}, **more}, "x.yaml")


def test_the_device_of_the_wired_lab_is_a_black_box_unless_named() -> None:
    assert scenario(WIRED).dut.name == "blackbox"
    assert scenario(WIRED, dut={"name": "none"}).dut.name == "none"
    assert scenario({"kind": "sim"}).dut.name == "iptables"


@pytest.mark.parametrize(
    ("lab", "more", "message"),
    [
        ({"kind": "wired"}, {}, "lab: name two ports"),
        ({"kind": "wired", "between": ["a", "a"]}, {}, "listed twice"),
        ({"kind": "netns", "between": ["a", "b"]}, {}, "between goes with the lab 'wired'"),
        ({"mode": "bridge"}, {}, "mode goes with the lab 'wired'"),
        ({**WIRED, "gateways": ["10.0.0.1", "10.0.1.1"]}, {}, "not in the network"),
        ({**WIRED, "allow": ["x"]}, {}, "no network"),
        (WIRED, {"dut": {"name": "iptables"}}, "cannot build 'iptables'"),
        ({"kind": "netns"}, {"dut": {"name": "blackbox"}}, "--lab wired"),
        ({"kind": "netns"}, {"dut": {"cpus": 2}}, "only simulated devices have several CPUs"),
        (WIRED, {"dut": {"cpus": 2}}, "only simulated devices have several CPUs"),
        ({"senders": 2}, {}, "senders goes with the lab 'wired'"),
        (WIRED, {"profile": {"positions": [0, 5]}}, "has its own rules"),
        (WIRED, {"dut": {"stateful": True}}, "has its own rules"),
    ],
)
def test_what_does_not_fit_the_wired_lab_is_refused(
    lab: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        scenario(lab, **more)
