"""BIND 9 as the name servers of a plan's zones; those of public trees are signed by its default policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weirlab.numbering.plan.model import NumberingPlan
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.zones import written, zones


@dataclass(frozen=True)
class NameServer:
    """A name server of the plan."""

    name: str
    """``named`` for the primary, ``named-2`` for the first secondary; also the name of its folder."""
    host: str
    address: str | None


def servers(network: PlanNetwork) -> list[NameServer]:
    """The primary, then the secondaries that have an address in the plan; Weir does not run others."""
    dns, addresses = network.plan.dns, network.names.addresses
    if dns is None:
        return []
    secondaries = [host for host in dns.secondaries if host in addresses]
    found = [NameServer("named", dns.primary, addresses.get(dns.primary))]
    return found + [
        NameServer(f"named-{rank}", host, addresses[host]) for rank, host in enumerate(secondaries, 2)
    ]


def files(network: PlanNetwork, server: NameServer, root: str) -> dict[str, str]:
    """``named.conf``, and for the primary the zones, which secondaries transfer (RFC 5936)."""
    primary, *others = servers(network)
    if server != primary:
        return {"named.conf": "\n".join(_secondary(network, server, primary, root)) + "\n"}
    found = {f"{zone.origin}.zone": written(zone) for zone in zones(network)}
    return {"named.conf": "\n".join(_primary(network, primary, others, root)) + "\n", **found}


def _primary(network: PlanNetwork, server: NameServer, others: list[NameServer], root: str) -> Iterator[str]:
    plan = network.plan
    transfer = " ".join(f"{other.address};" for other in others) or "none;"
    yield from _options(network, server, root, f"allow-transfer {{ {transfer} }};")
    yield from statements(plan)


def statements(plan: NumberingPlan, folder: str = "") -> Iterator[str]:
    """A statement per zone, for the primary; the zones' files are in ``folder``, by default named's own."""
    for name, tree in plan.trees.items():
        signed = ""
        if tree.visibility == "public":
            signed = " dnssec-policy default; inline-signing yes;"
        file = f"{folder}{tree.origin}.zone"
        yield f'zone "{tree.origin}" {{ type master; file "{file}";{signed} }};  // tree {name}'
    for origin in plan.domains:
        yield f'zone "{origin}" {{ type master; file "{folder}{origin}.zone"; }};'


def _secondary(network: PlanNetwork, server: NameServer, primary: NameServer, root: str) -> Iterator[str]:
    plan = network.plan
    yield from _options(network, server, root, "allow-transfer { none; };")
    kept = "masterfile-format text;"
    for origin in dict.fromkeys([*(tree.origin for tree in plan.trees.values()), *plan.domains]):
        masters = f"masters {{ {primary.address}; }};"
        yield f'zone "{origin}" {{ type slave; {masters} file "{origin}.zone"; {kept} }};'


def _options(network: PlanNetwork, server: NameServer, root: str, transfer: str) -> Iterator[str]:
    what = "Name server" if server.name == "named" else f"Secondary name server {server.host}"
    yield f"// {what} of plan {network.plan.plan}, made by weir voice configs: change the plan instead."
    yield "options {"
    yield f'  directory "{root}"; pid-file "{root}/named.pid"; session-keyfile "{root}/session.key";'
    yield f"  {_listening(server.address)}"
    yield f"  recursion no; dnssec-validation no; {transfer}"
    yield "  empty-zones-enable no;"
    yield "};"
    yield "controls { };"


def _listening(address: str | None) -> str:
    """Statements to listen only at the server's address, if the plan has one."""
    if address is not None and ":" in address:
        return f"listen-on {{ none; }}; listen-on-v6 port 53 {{ {address}; }};"
    here = "" if address is None else f"listen-on port 53 {{ {address}; }}; "
    return f"{here}listen-on-v6 {{ none; }};"
