"""Addresses of the two ends of a wired lab."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.wired.ends import endpoints, refuse_others, wired_ends

PORTS = ("enp3s0", "enp4s0")


def test_addresses_are_those_of_the_lab_in_namespaces_unless_given() -> None:
    first, second = wired_ends(PORTS)
    assert (first.addresses[4], first.gateways[4]) == ("198.18.0.2/24", "198.18.0.1")
    assert (second.addresses[6], second.gateways[6]) == ("2001:2:0:2::2/120", "2001:2:0:2::1")


def test_one_ip_version_can_be_given_and_the_other_left_out() -> None:
    ends = wired_ends(PORTS, ["10.1.0.2/24", "10.2.0.2/24"], ["10.1.0.1", "10.2.0.1"])
    assert [end.addresses[4] for end in ends] == ["10.1.0.2/24", "10.2.0.2/24"]
    assert [end.gateways[6] for end in ends] == ["2001:2:0:1::1", "2001:2:0:2::1"]


@pytest.mark.parametrize(
    ("between", "addresses", "gateways", "message"),
    [
        (["a"], [], [], "two ports"),
        (["a", "a"], [], [], "named twice"),
        (PORTS, ["198.18.0.2/24"], [], "one for each port"),
        (PORTS, ["198.18.0.2", "198.19.0.2"], [], "not understood"),
        (PORTS, ["198.18.0.2/24", "2001:2::2/64"], [], "same IP version"),
        (PORTS, ["10.1.0.2/24", "10.2.0.2/24"], [], "need gateways"),
        (PORTS, [], ["198.18.9.1", "198.19.0.1"], "not in the network 198.18.0.0/24 of enp3s0"),
        (PORTS, [], ["198.18.0.2", "198.19.0.1"], "both the address of enp3s0 and its gateway"),
        (PORTS, ["10.1.0.2/24"] * 2, ["10.1.0.1"] * 2, "given for both"),
        (PORTS, [], ["x", "y"], "not understood"),
    ],
)
def test_addresses_that_cannot_be_are_refused(
    between: list[str], addresses: list[str], gateways: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        wired_ends(between, addresses, gateways)


def test_test_traffic_leaves_the_benchmarking_networks_only_where_that_is_allowed() -> None:
    usual = wired_ends(PORTS)
    assert endpoints(usual, 4) is None
    refuse_others(usual, 4, [])
    own = wired_ends(PORTS, ["10.1.0.2/24", "10.2.0.2/24"], ["10.1.0.1", "10.2.0.1"])
    found = endpoints(own, 4)
    assert found is not None
    assert (found.source, found.destination) == (("10.1.0.2",) * 2, ("10.2.0.2",) * 2)
    with pytest.raises(InputError, match=r"--allow 10\.1\.0\.0/24"):
        refuse_others(own, 4, ["10.2.0.0/16"])
    refuse_others(own, 4, ["10.0.0.0/8"])
    refuse_others(own, 6, [])
    with pytest.raises(InputError, match="no network"):
        refuse_others(own, 4, ["ten"])
