"""Devices in a row: their names, addresses and rules, without building them."""

from __future__ import annotations

from ipaddress import ip_interface

import pytest
from pydantic import ValidationError

from weirlab.base.errors import InputError
from weirlab.lab import dut, wiring
from weirlab.lab.dut.chain import MOST, DeviceChain, cable, parts
from weirlab.scenario import Dut
from weirlab.testing.bed import SITE

THREE = "nftables + wireguard-go + link:delay=5ms"


def chain(name: str) -> DeviceChain:
    made = dut.make(name)
    assert isinstance(made, DeviceChain)
    return made


def test_the_name_of_a_chain_lists_its_devices() -> None:
    assert parts(THREE) == ["nftables", "wireguard-go", "link:delay=5ms"]
    assert [driver.name for driver in chain(THREE).drivers] == parts(THREE)
    assert chain(THREE).name == THREE


def test_a_scenario_names_a_chain_by_its_list() -> None:
    assert Dut.model_validate({"chain": parts(THREE)}).name == THREE


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": "nftables", "chain": ["forward", "forward"]}, "either 'name' or 'chain'"),
        ({"chain": "nftables"}, "a list of devices"),
        ({"chain": ["nftables", "nothing"]}, "no such device"),
    ],
)
def test_a_list_that_is_no_chain_is_refused(given: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Dut.model_validate(given)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bridge + forward", "cannot begin or end a chain"),
        ("forward + openvswitch", "cannot begin or end a chain"),
        (" + ".join(["forward"] * (MOST + 1)), "takes 2 to 8"),
        ("forward + blackbox", "no part of a chain"),
        ("forward + nothing", "no device under test is called"),
        ("forward + nftables:x", "no cipher suites"),
    ],
)
def test_chains_that_cannot_be_are_refused(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        dut.make(name)


@pytest.mark.parametrize(
    ("name", "number"),
    [(THREE, 0), ("forward + nftables", 1), ("wireguard-go + iptables-nft", 1), ("forward + link", 0)],
)
def test_rules_belong_to_the_first_filter(name: str, number: int) -> None:
    assert chain(name).ruled == number


def test_a_chain_carries_what_all_of_its_devices_carry() -> None:
    assert chain("forward + keepalived").carries == (4,)
    assert chain("forward + nat").translates
    assert not chain("forward + nftables").takes_turns
    assert chain(THREE).takes_turns
    assert chain(THREE).longest_packet_bytes(4) == dut.make("wireguard-go").longest_packet_bytes(4)


def test_every_cable_has_addresses_of_its_own() -> None:
    ports = [port for n in range(MOST) for port in (cable(n).near, cable(n).far)]
    assert len({port.mac for port in ports}) == len({port.address for port in ports}) == 2 * MOST
    for n in range(MOST):
        near, far = (ip_interface(port.ipv4) for port in (cable(n).near, cable(n).far))
        assert near.network == far.network


def test_devices_are_placed_from_the_sender_to_the_receiver() -> None:
    links = [*chain("forward + wireguard-go + forward")._placed(SITE, "weir-none-far")]
    inner = [link.site.netns for link in links]
    assert inner == [SITE.netns, SITE.further("hopb"), "weir-none-far"]
    assert [link.site.far for link in links] == [None, SITE.further("hopbfar"), None]
    assert links[0].site.inward == wiring.IN0
    assert links[2].site.outward == wiring.OUT0
    assert links[1].site.sender == cable(0).near
    assert links[1].site.hosts == (cable(0).networks, cable(1).networks)
    assert len({link.site.further("x") for link in links}) == 3


def test_routers_beside_a_bridge_address_each_other() -> None:
    links = [*chain("forward + bridge + forward")._placed(SITE, "weir-none-far")]
    assert links[0].site.receiver == links[1].site.receiver == cable(1).far
    assert links[2].site.sender == links[1].site.sender == cable(0).near
