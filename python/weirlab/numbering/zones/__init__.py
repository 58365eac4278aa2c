"""The records of every zone of a plan, in the order in which they are written, and zones as text.

BIND 9 serves them; zones of public trees are signed by its default policy. ``imported`` reads ENUM zones from
files and servers.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weirlab.base import files, limits
from weirlab.base.errors import InputError
from weirlab.numbering.plan.model import Dns, NumberingPlan, PlanTree
from weirlab.numbering.plan.values import digits_below, owner_name
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import in_order
from weirlab.scenario.document import Location

_MOST_TEXT = 255
"""Most bytes of a character string (RFC 1035, 3.3)."""
_CATALOG_VERSION: Final = "2"
"""Version of the schema of catalogs (RFC 9432, 4.2.1)."""


@dataclass(frozen=True)
class ZoneRecord:
    """A record: absolute name, type, data as in a zone file, and the remark above it."""

    name: str
    type: str
    data: str
    remark: str = ""


@dataclass(frozen=True)
class Zone:
    """A zone: its name without a trailing dot, and its records except SOA."""

    origin: str
    ttl: int
    dns: Dns
    serial: int
    records: tuple[ZoneRecord, ...]


def zones(network: PlanNetwork) -> list[Zone]:
    """All zones of a plan, those of trees first.

    Raises
    ------
    InputError
        The plan has zones and no ``dns`` section, or a record does not fit into a zone.
    """
    plan = network.plan
    if plan.dns is None:
        raise InputError(f"{network.book.name}: zones need a dns section; add one")
    origins = [tree.origin for tree in plan.trees.values()] + [*plan.domains]
    found = []
    for name, tree in plan.trees.items():
        records = (*_servers(plan.dns, tree.origin, origins), *_numbers(network, name, tree))
        found.append(Zone(tree.origin, tree.ttl or plan.dns.ttl, plan.dns, plan.serial, records))
    for origin, domain in plan.domains.items():
        records = (
            *_servers(plan.dns, origin, origins),
            *_hosts(network, origin),
            *_services(network, origin),
        )
        found.append(Zone(origin, domain.ttl or plan.dns.ttl, plan.dns, plan.serial, records))
    return found


def remark(network: PlanNetwork, location: Location, what: str) -> str:
    """A comment that names the file and line of the plan, without the folder, so that it is reproducible."""
    place = network.book.at(*location)
    return f"{Path(place).name} {what}"


def _servers(dns: Dns, origin: str, origins: list[str]) -> Iterator[ZoneRecord]:
    """NS records of the zone, and of the zones delegated from it."""
    for server in (dns.primary, *dns.secondaries):
        yield ZoneRecord(f"{origin}.", "NS", f"{server}.")
    below = [other for other in origins if other.endswith(f".{origin}")]
    for other in sorted(below):
        # A zone within a zone within this one is delegated by the middle one.
        if not any(other.endswith(f".{middle}") for middle in below):
            for server in (dns.primary, *dns.secondaries):
                yield ZoneRecord(f"{other}.", "NS", f"{server}.", "a zone of its own")


def _numbers(network: PlanNetwork, name: str, tree: PlanTree) -> Iterator[ZoneRecord]:
    top = digits_below(tree.origin, tree.suffix)
    if top is None:
        place = network.book.at("trees", name, "zone")
        raise InputError(f"{place}: zone {tree.origin} is not made of digits below {tree.suffix}; correct it")
    plan = network.plan
    for filled in sorted(network.trees[name].names(), key=lambda each: (each.digits, each.wildcard)):
        entry = plan.enum[filled.entry]
        if not filled.digits.startswith(top):
            if filled.fills:
                continue
            place = network.book.at("enum", filled.entry, entry.key)
            see = network.command("check")
            raise InputError(f"{place}: +{filled.digits} does not lie in zone {tree.origin}; see {see}")
        owner = owner_name(filled.digits, tree.suffix)
        owner = f"*.{owner}" if filled.wildcard else owner
        what = f"{entry.key} +{entry.digits}"
        if filled.fills:
            what += ": a longer name hides the wildcard here (RFC 4592)"
        for count, (rank, record) in enumerate(in_order(entry)):
            location: Location = ("enum", filled.entry, "naptr", rank)
            if record.refer is not None:
                asked = owner_name(entry.digits, plan.trees[record.refer].suffix)
                data = f'{record.order} {record.preference} "" "" "" {asked}'
            else:
                data = (
                    f'{record.order} {record.preference} "u" {_text(network, record.service, location)} '
                    f"{_text(network, record.expression, location)} ."
                )
            yield ZoneRecord(
                owner,
                "NAPTR",
                data,
                "" if count else remark(network, ("enum", filled.entry, entry.key), what),
            )


def _text(network: PlanNetwork, text: str, location: Location) -> str:
    """A quoted character string, with quotes and backslashes escaped."""
    if len(text.encode()) > _MOST_TEXT:
        raise InputError(
            f"{network.book.at(*location)}: a text of {len(text.encode())} bytes, but a zone takes at most "
            f"{_MOST_TEXT}; shorten it"
        )
    escaped = "".join(
        f"\\{byte:03d}" if byte > 126 or byte < 32 else f"\\{byte:c}" if byte in b'"\\' else chr(byte)
        for byte in text.encode()
    )
    return f'"{escaped}"'


def _hosts(network: PlanNetwork, origin: str) -> Iterator[ZoneRecord]:
    plan, names = network.plan, network.names
    found: dict[str, tuple[str, Location]] = {
        host: (address, ("domains", origin, "hosts", host))
        for host, address in plan.domains[origin].hosts.items()
    }
    for name, engine in plan.engines.items():
        if engine.host is not None and engine.address is not None and names.domain_of(engine.host) == origin:
            found.setdefault(engine.host, (engine.address, ("engines", name, "host")))
    for host in sorted(found):
        address, location = found[host]
        kind = "A" if ipaddress.ip_address(address).version == 4 else "AAAA"
        what = f"engine {location[1]}" if location[0] == "engines" else "host"
        yield ZoneRecord(f"{host}.", kind, address, remark(network, location, what))


def _services(network: PlanNetwork, origin: str) -> Iterator[ZoneRecord]:
    listed = enumerate(network.plan.domains[origin].services)
    for i, service in sorted(
        listed, key=lambda each: (each[1].service, each[1].transport, each[1].priority, each[0])
    ):
        yield ZoneRecord(
            f"_{service.service}._{service.transport}.{origin}.",
            "SRV",
            f"{service.priority} {service.weight} {service.port} {service.target}.",
            remark(
                network, ("domains", origin, "services", i), f"{service.service} over {service.transport}"
            ),
        )


def catalog(name: str, zones: Sequence[Zone]) -> Zone:
    """The zone ``name`` that lists ``zones``, of which there is at least one, with their serial (RFC 9432).

    By it, secondaries find new zones by themselves.
    """
    listed = (
        ZoneRecord(f"{_label(zone.origin)}.zones.{name}.", "PTR", f"{zone.origin}.")
        for zone in sorted(zones, key=lambda each: each.origin)
    )
    head = (
        # Its name servers are never queried (RFC 9432, 4).
        ZoneRecord(f"{name}.", "NS", "invalid."),
        ZoneRecord(f"version.{name}.", "TXT", f'"{_CATALOG_VERSION}"'),
    )
    return Zone(name, 0, zones[0].dns, zones[0].serial, (*head, *listed))


def _label(origin: str) -> str:
    """A unique label of the zone that never changes: if it did, secondaries would reset the zone."""
    return hashlib.sha256(origin.lower().encode()).hexdigest()[:32]


_SERIAL: Final = re.compile(r"^ +([0-9]+) +; serial$", re.MULTILINE)


def written(zone: Zone) -> str:
    """The text of a zone file; it depends only on the plan and the day."""
    return "\n".join(_lines(zone)) + "\n"


def _lines(zone: Zone) -> Iterator[str]:
    dns = zone.dns
    yield f"; Zone {zone.origin}, made by weir voice zones: change the plan instead."
    yield f"$ORIGIN {zone.origin}."
    yield f"$TTL {zone.ttl}"
    yield f"@ IN SOA {dns.primary}. {_mailbox(dns.contact)} ("
    for value, name in (
        (zone.serial, "serial"),
        (dns.refresh, "refresh"),
        (dns.retry, "retry"),
        (dns.expire, "expire"),
        (dns.negative_ttl, "negative"),
    ):
        yield f"    {value:<10} ; {name}"
    yield "    )"
    end = f".{zone.origin}."
    for record in zone.records:
        if record.remark:
            yield f"; {record.remark}"
        name = "@" if record.name == f"{zone.origin}." else record.name.removesuffix(end)
        yield f"{name} IN {record.type} {record.data}"


def _mailbox(address: str) -> str:
    """An e-mail address as a domain name (RFC 1035, 8)."""
    local, _, domain = address.rpartition("@")
    escaped = re.sub(r"([^A-Za-z0-9_-])", r"\\\1", local)
    return f"{escaped}.{domain}."


def put(zones: list[Zone], folder: Path, place: str) -> list[Path]:
    """Write ``zones`` into ``folder``, one file each; unchanged files are not touched.

    Parameters
    ----------
    place
        Where the plan has its serial, for the message.

    Raises
    ------
    InputError
        A zone has changed and its serial has not risen: no secondary would fetch it.
    """
    files.check_folder(folder, "--out")
    files.make_folder(folder)
    planned = [(folder / f"{zone.origin}.zone", zone, written(zone)) for zone in zones]
    for path, zone, text in planned:
        if path.exists():
            _check_serial(path, zone, text, place)
    for path, _, text in planned:
        if not path.exists() or path.read_text() != text:
            files.write_bytes(path, text.encode())
    return [path for path, _, _ in planned]


def _check_serial(path: Path, zone: Zone, text: str, place: str) -> None:
    before = files.read_text(path, "a zone file", limits.MOST_INPUT_BYTES)
    found = _SERIAL.search(before)
    if found is None:
        raise InputError(f"{files.shown(path)}: Weir did not write this zone; choose another folder")
    if before != text and not is_higher(zone.serial, int(found[1])):
        raise InputError(
            f"{place}: zone {zone.origin} has changed, and serial {zone.serial} is not higher than "
            f"{found[1]} in {files.shown(path)}: secondaries would not fetch it; raise serial"
        )


def is_higher(serial: int, before: int) -> bool:
    """Is ``serial`` greater than ``before`` in serial number arithmetic (RFC 1982)?"""
    return 0 < (serial - before) % (1 << 32) < 1 << 31


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


def server_files(network: PlanNetwork, server: NameServer, root: str) -> dict[str, str]:
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


def origins(plan: NumberingPlan) -> list[str]:
    """The names of all zones."""
    return [*dict.fromkeys([*(tree.origin for tree in plan.trees.values()), *plan.domains])]


def _secondary(network: PlanNetwork, server: NameServer, primary: NameServer, root: str) -> Iterator[str]:
    plan = network.plan
    yield from _options(network, server, root, "allow-transfer { none; };")
    kept = "masterfile-format text;"
    for origin in origins(plan):
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
