"""Which ports a lab may borrow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.lab.linux.inventory import InterfaceFacts
from weirlab.lab.wired import ports
from weirlab.lab.wired.ports import PortFacts

PORT = PortFacts("a1", "igc", 1000, True, True, 1500, "02:00:00:00:00:01", (), "xdp", False)
PLAIN = InterfaceFacts("a1", 2, mac="02:00:00:00:00:01")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a1", "x9"), "no Ethernet port x9 here; there are: a1, a2, a3"),
        (("a1", "a1"), "a1 is named twice"),
        (("a1", "a2"), "a2 cannot be used: an SSH session with 192.0.2.7 goes over it"),
        (("a3", "a1"), "a3 is in use: it has the address 10.0.0.1/8. --take"),
    ],
)
def test_ports_that_cannot_be_used_are_refused_with_the_reason(
    names: tuple[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = replace(PORT, name="a2", objections=("an SSH session with 192.0.2.7 goes over it",))
    taken = replace(PORT, name="a3", occupied=("it has the address 10.0.0.1/8",))
    monkeypatch.setattr(ports, "survey", lambda: [PORT, used, taken])
    with pytest.raises((InputError, LabError), match=message):
        ports.choose(names)
    assert ports.choose(("a3", "a1"), take=True) == (taken, PORT)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"wireless": True}, "it is wireless"),
        ({"kind": "bridge"}, "it has no cable (kind bridge)"),
        ({"master": "br0"}, "it belongs to br0; take it out first: ip link set dev a1 nomaster"),
        ({"xdp": 17}, "it has an XDP program already (ID 17)"),
    ],
)
def test_an_interface_says_what_speaks_against_it(facts: dict[str, object], message: str) -> None:
    (objection,) = ports._objections(replace(PLAIN, **facts), {}, [])
    assert message in objection


def test_what_this_host_does_over_a_port_speaks_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_routes", lambda netlink: [(2, "0.0.0.0/0"), (3, "203.0.113.0/24")])
    sessions = [("192.0.2.1", "192.0.2.7", 22), ("192.0.2.1", "192.0.2.8", 40_000)]
    monkeypatch.setattr(ports, "_connections", lambda: sessions)
    monkeypatch.setattr(ports, "_name_servers", lambda: ["192.0.2.53"])
    monkeypatch.setattr(ports, "_way_to", lambda netlink, address: 4)
    assert ports._uses([]) == {
        2: ["this host's default route leads through it"],
        3: ["a route to 203.0.113.0/24 leads through it"],
        4: [
            "an SSH session with 192.0.2.7 goes over it",
            "a TCP connection with 192.0.2.8 goes over it",
            "this host asks the name server 192.0.2.53 over it",
        ],
    }
