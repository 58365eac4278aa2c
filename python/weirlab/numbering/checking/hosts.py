"""Names: zones, name servers, service points and the hosts of URIs."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.numbering.checking.findings import PlanFinding, error, line, warning
from weirlab.numbering.ere import BadExpression, MissingDigits, Substitution
from weirlab.numbering.plan.model import Domain, Engine, ServicePoint
from weirlab.numbering.plan.values import Protocol, is_address
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.profiles import SCHEMES, Uri, serves
from weirlab.numbering.routing.wording import PROTOCOLS


def zones(network: PlanNetwork) -> Iterator[PlanFinding]:
    """There is a dns section if there are zones, and each zone is defined once."""
    plan, at = network.plan, network.book.at
    if plan.dns is None and (plan.trees or plan.domains):
        yield error(
            "no dns",
            at("trees" if plan.trees else "domains"),
            "there are zones, but no dns section names their servers",
            "add dns: with primary, the name server, and contact, an e-mail address",
        )
    seen: dict[str, str] = {}
    for section, names in (
        ("trees", {name: tree.origin for name, tree in plan.trees.items()}),
        ("domains", {name: name for name in plan.domains}),
    ):
        for name, origin in names.items():
            place = at(section, name)
            if origin in seen:
                yield error(
                    "zone", place, f"zone {origin} is already defined in {line(seen[origin])}", "merge them"
                )
            seen.setdefault(origin, place)
    for name, domain in plan.domains.items():
        for host in domain.hosts:
            if network.names.domain_of(host) != name:
                yield error(
                    "zone",
                    at("domains", name, "hosts", host),
                    f"{host} does not lie in the zone {name}",
                    f"write the whole name: www.{name}",
                )


def name_servers(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A name server within the plan's zones has an address, and so has the primary, which the lab runs."""
    plan, at = network.plan, network.book.at
    if plan.dns is None:
        return
    servers = [("primary", plan.dns.primary), *(("secondaries", name) for name in plan.dns.secondaries)]
    for key, server in servers:
        domain = network.names.domain_of(server)
        if domain is not None and server not in network.names.addresses:
            yield error(
                "no address",
                at("dns", key),
                f"the name server {server} has no A record in the zone {domain}",
                f"add it to hosts of {domain}",
            )
        elif domain is None and key == "primary" and server not in network.names.addresses:
            yield warning(
                "no address",
                at("dns", key),
                f"{server} has no address, so that weir voice lab, prove and load cannot run it",
                "name it under hosts: of its domain",
            )


def service_points(network: PlanNetwork) -> Iterator[PlanFinding]:
    """An SRV record leads to a host with an address, where something listens."""
    plan, at, names = network.plan, network.book.at, network.names
    for name, domain in plan.domains.items():
        for i, service in enumerate(domain.services):
            place = at("domains", name, "services", i)
            address = names.addresses.get(service.target)
            label = f"_{service.service}._{service.transport}.{name}"
            if address is None:
                if names.domain_of(service.target) is not None:
                    yield error(
                        "no address",
                        place,
                        f"{label} leads to {service.target}, which has no A record",
                        f"add {service.target} to hosts, or as host of an engine",
                    )
                elif not names.is_external(service.target):
                    yield warning(
                        "outside",
                        place,
                        f"{label} leads to {service.target}, a host outside the plan",
                        "correct the name, or list its domain under external",
                    )
                continue
            here = [engine for engine in plan.engines.values() if engine.address == address]
            protocol = next(p for p in ("sip", "h323") if serves(service, p))
            ports = {engine.port(protocol) for engine in here if protocol in engine.speaks}
            # A gatekeeper's location service has a different port from calls.
            if here and service.service != "h323ls" and service.port not in ports:
                listening = f"port {min(ports)}" if ports else "no port"
                yield error(
                    "wrong port",
                    place,
                    f"{label} leads to port {service.port} of {service.target}, which listens for "
                    f"{PROTOCOLS[protocol]} at {listening}",
                    "correct the port of the service point, or ports of the engine",
                )
            if service.service == "sip" and here and not any(_takes(each, service, domain) for each in here):
                yield error(
                    "wrong transport",
                    place,
                    f"{label} leads to {service.target}, which takes SIP over {here[0].transport.upper()}",
                    "correct the transport of the service point, or of the engine",
                )


def _takes(engine: Engine, service: ServicePoint, domain: Domain) -> bool:
    """Does a call that follows a service point reach the engine? Proxies prefer UDP if both are offered."""
    if engine.kind != "endpoint" or engine.transport == service.transport:
        return True
    return engine.transport == "udp" and any(
        (each.service, each.target, each.transport) == ("sip", service.target, "udp")
        for each in domain.services
    )


def uris(network: PlanNetwork) -> Iterator[PlanFinding]:
    """The host in the URI of a record can be resolved."""
    plan, at, names = network.plan, network.book.at, network.names
    told: set[tuple[str, str]] = set()
    for i, entry in network.each_entry():
        for j, record in enumerate(entry.naptr):
            try:
                text = Substitution.parse(record.expression).apply(f"+{entry.digits}")
            except (BadExpression, MissingDigits):
                continue
            uri = Uri.parse(text) if text else None
            if uri is None or not uri.host or (uri.scheme, uri.host) in told or is_address(uri.host):
                continue
            told.add((uri.scheme, uri.host))
            protocol = SCHEMES.get(uri.scheme)
            if protocol not in ("sip", "h323"):
                continue
            place = at("enum", i, "naptr", j)
            domain = plan.domains.get(uri.host)
            has_srv = domain is not None and any(serves(service, protocol) for service in domain.services)
            if names.domain_of(uri.host) is None:
                if not names.is_external(uri.host) and uri.host not in names.addresses:
                    yield warning(
                        "outside",
                        place,
                        f"{uri.scheme} URIs lead to {uri.host}, a host outside the plan",
                        "correct the name, or list its domain under external",
                    )
            elif not has_srv and uri.host not in names.addresses:
                yield error(
                    "no address",
                    place,
                    f"{uri.scheme} URIs lead to {uri.host}, which has neither an SRV record nor an address",
                    f"add a service {_service(protocol)} to domain {uri.host}, or the host to hosts",
                )
            elif not has_srv and domain is not None and uri.port is None and protocol == "sip":
                yield warning(
                    "no srv",
                    place,
                    f"{uri.scheme} URIs lead to {uri.host}, which has an address but no SRV record: there "
                    "is only one target, without a fall-back",
                    f"add a service {_service(protocol)} to domain {uri.host}",
                )


def engine_names(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Hosts of engines lie in zones of the plan, and each has one address."""
    plan, at, names = network.plan, network.book.at, network.names
    for name, engine in plan.engines.items():
        if engine.host is None:
            continue
        place = at("engines", name, "host")
        if names.domain_of(engine.host) is None and plan.domains:
            yield warning(
                "zone",
                place,
                f"{engine.host} lies in no zone of the plan: no A record is written for it",
                "add its domain to domains, or correct the name",
            )
        if engine.address is not None and names.addresses[engine.host] != engine.address:
            yield error(
                "same name",
                place,
                f"{engine.host} is {engine.address} here, and {names.addresses[engine.host]} elsewhere in "
                "the plan",
                "give each host one address",
            )


def _service(protocol: Protocol) -> str:
    """The name of a service point for a protocol."""
    return "h323cs" if protocol == "h323" else protocol
