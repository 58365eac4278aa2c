"""Which interfaces a tap may take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.lab.linux.inventory import InterfaceFacts
from weirlab.link.host.interfaces import check_end, check_mirror, choose, warnings

PLAIN = InterfaceFacts("eth1", 2)
HERE = {"lo": InterfaceFacts("lo", 1, loopback=True), "eth1": PLAIN, "eth2": InterfaceFacts("eth2", 3)}


def test_a_missing_interface_is_answered_with_those_there_are() -> None:
    assert choose(HERE, ("eth2", "eth1"), "here") == (HERE["eth2"], PLAIN)
    with pytest.raises(InputError, match=r"no interface eth9 in namespace x; there are: eth1, eth2$"):
        choose(HERE, ("eth1", "eth9"), "in namespace x")


@pytest.mark.parametrize(
    ("facts", "kind", "words"),
    [
        (replace(PLAIN, loopback=True), InputError, "loopback"),
        (replace(PLAIN, wireless=True), InputError, "wireless.*use wired"),
        (replace(PLAIN, ethernet=False), InputError, "no Ethernet"),
        (replace(PLAIN, master="br0"), LabError, "belongs to br0; .*ip link set dev eth1 nomaster"),
        (replace(PLAIN, xdp=7), LabError, "already has an XDP program .*ip link set dev eth1 xdp off"),
    ],
)
def test_an_interface_that_cannot_be_an_end_is_refused_with_the_way_out(
    facts: InterfaceFacts, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        check_end(facts, xdp=True)


def test_without_xdp_a_program_of_others_does_not_matter() -> None:
    check_end(PLAIN, xdp=True)
    check_end(replace(PLAIN, xdp=7), xdp=False)


def test_copies_need_an_ethernet_interface() -> None:
    check_mirror(PLAIN)
    with pytest.raises(InputError, match="--mirror lo"):
        check_mirror(HERE["lo"])


def test_an_address_on_an_end_is_worth_a_warning() -> None:
    assert warnings([PLAIN]) == ()
    (warning,) = warnings([PLAIN, replace(PLAIN, addresses=("192.0.2.1/24",))])
    assert "192.0.2.1/24" in warning
    assert "stops" in warning
