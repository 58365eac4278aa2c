"""Makes the device that calls pass, and checks that it can carry them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.files import Inputs
from weirlab.base.quantities import rules as in_words
from weirlab.base.quoting import quoted
from weirlab.lab import wiring
from weirlab.lab.base import Driver
from weirlab.lab.dut import make
from weirlab.lab.dut.chain import DeviceChain
from weirlab.lab.dut.forward import Forward
from weirlab.lab.dut.pair import RedundantPair
from weirlab.lab.dut.rules import FAMILIES, Family, fillers
from weirlab.lab.dut.ruleset import RulesetDriver
from weirlab.lab.redundant import wiring as redundant
from weirlab.numbering.configs.named import servers
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.section import PassageSection
from weirlab.records import RuleSetup
from weirlab.scenario import NO_DEVICE

_PORTS: Final = (wiring.IN0, wiring.OUT0, wiring.NEAR, wiring.FAR)


@dataclass(frozen=True)
class PassageDevice:
    """A device, and the rules in it."""

    driver: Driver
    rules: RuleSetup

    @property
    def title(self) -> str:
        """``nftables with 50 rules``."""
        return titled(self.driver.name, self.rules.position, stateful=self.rules.stateful)


def titled(name: str, position: int, *, stateful: bool) -> str:
    """The name of a device in results."""
    if stateful:
        return f"{name}, stateful, with {in_words(position)}"
    return f"{name} with {in_words(position)}" if position else name


def device(asked: PassageSection | None, network: PlanNetwork, inputs: Inputs) -> PassageDevice | None:
    """The device that ``asked`` names; None without one. ``inputs`` opens the files that it needs.

    Raises
    ------
    InputError
        There is no such device, or it cannot carry the calls of ``network``.
    """
    if asked is None:
        return None
    if asked.name == NO_DEVICE:
        raise InputError(f"{NO_DEVICE!r} is not a device: for calls without one, leave out --dut (through:)")
    if asked.match is not None:
        raise InputError("calls cannot be aimed at a rule, the plan decides what is sent: leave out 'match'")
    if asked.ruleset is not None and asked.name != "ruleset":
        raise InputError(f"a ruleset goes with the device 'ruleset', not with {quoted(asked.name)}")
    driver = make(asked.name, asked.file, inputs, asked.files_beside)
    if isinstance(driver, DeviceChain):
        raise InputError(f"{quoted(driver.name)}: calls pass one device; name one of them")
    if driver.forwards:
        raise InputError(
            f"the device {quoted(driver.name)} cannot carry calls: it forwards by itself, and only between "
            "the networks of test traffic; choose a filter of this kernel or a tunnel, e.g. nftables or esp"
        )
    hosts = addresses(network)
    if other := next((host for host in hosts if _family(host) not in driver.carries), None):
        raise InputError(
            f"{network.book.name}: {other} is IPv{_family(other)}, which the device {quoted(driver.name)} "
            "does not carry; choose another device, e.g. nftables"
        )
    if own := [host for host in hosts if host in _own_addresses(driver)]:
        raise InputError(
            f"{network.book.name}: {own[0]} is an address of the device itself; give the engine another"
        )
    if isinstance(driver, RulesetDriver):
        _check_ruleset(driver, asked, hosts)
        return PassageDevice(driver, RuleSetup())
    if isinstance(driver, Forward | RedundantPair) and (asked.rules or asked.stateful):
        why = "has no rules" if isinstance(driver, Forward) else "has rules of its own"
        raise InputError(f"the device {quoted(driver.name)} {why}: give none, or choose e.g. nftables")
    rules = RuleSetup(asked.rules, asked.stateful, both_ways=True)
    if asked.rules:
        _check_fillers(network, hosts, asked.rules)
        rules = replace(rules, networks=tuple(covering(hosts)))
    return PassageDevice(driver, rules)


def addresses(network: PlanNetwork) -> list[str]:
    """The addresses of all engines and name servers of a plan, each once."""
    plan = network.plan
    found = [
        *(server.address for server in servers(network)),
        *(engine.address for engine in plan.engines.values()),
    ]
    return [*dict.fromkeys(str(ip_address(each)) for each in found if each is not None)]


def covering(hosts: Iterable[str]) -> list[str]:
    """The smallest network of each IP version that has all ``hosts`` of that version."""
    listed = [*hosts]
    found = []
    for version in FAMILIES:
        own = sorted(int(ip_address(each)) for each in listed if _family(each) == version)
        if own:
            bits = 32 if version == 4 else 128
            length = bits - (own[0] ^ own[-1]).bit_length()
            first = next(each for each in listed if _family(each) == version)
            found.append(str(ip_network(f"{first}/{length}", strict=False)))
    return found


def _family(address: str) -> Family:
    return 6 if ":" in address else 4


def _own_addresses(driver: Driver) -> set[str]:
    found = {each.partition("/")[0] for port in _PORTS for each in (port.ipv4, port.ipv6)}
    return found | redundant.ADDRESSES if isinstance(driver, RedundantPair) else found


def _check_ruleset(driver: RulesetDriver, asked: PassageSection, hosts: Iterable[str]) -> None:
    if asked.rules or asked.stateful:
        raise InputError("your ruleset has its own rules: leave out the number of rules and 'stateful'")
    if driver.format != "iptables-save":
        return
    versions = driver.source.by_family
    if other := next((host for host in hosts if _family(host) not in versions), None):
        named = " and ".join(f"IPv{version}" for version in versions)
        raise InputError(
            f"{driver.path}: these rules are for {named}, but packets of {other} would pass unfiltered; "
            "give rules for both IP versions"
        )


def _check_fillers(network: PlanNetwork, hosts: Sequence[str], position: int) -> None:
    """Rules before the accepting one must not match calls, because they would accept them earlier."""
    known = {*hosts}
    for version in FAMILIES:
        own = [ip_address(host) for host in hosts if _family(host) == version]
        for match in fillers(version, position - 1):
            if match.destination not in known:
                continue
            source = ip_network(match.source)
            if caller := next((each for each in own if each in source), None):
                raise InputError(
                    f"{network.book.name}: a rule before the accepting one is about packets from {caller} "
                    f"to {match.destination}, both hosts of the plan; use fewer rules, or other addresses"
                )
