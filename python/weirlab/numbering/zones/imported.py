"""Imports ENUM zones, from a file or from their server, as a table of prefixes for a plan."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weirlab.base import extras, files, limits
from weirlab.base.errors import InputError
from weirlab.base.quoting import printable, quoted
from weirlab.numbering.ere import BadExpression, Substitution
from weirlab.numbering.plan.model import EnumEntry, Naptr, PlanTree
from weirlab.numbering.plan.values import digits_below
from weirlab.numbering.routing.trees import EnumTree

_SILENCE_S = 10.0
_LONGEST_S = 300.0
"""Time limit of a whole transfer."""

COLUMNS = ("tree", "number", "prefix", "order", "preference", "service", "regexp")


@dataclass(frozen=True)
class ZoneImport:
    """A zone in the terms of a plan."""

    entries: tuple[EnumEntry, ...]
    left_out: tuple[str, ...]
    """Names that cannot be entries, and why."""
    holes: int
    """Names below a wildcard for which the zone has no answer (RFC 4592)."""

    def table(self) -> str:
        """CSV, a line per record."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for entry in self.entries:
            for record in entry.naptr:
                number, prefix = entry.number or "", entry.prefix or ""
                rank = (record.order, record.preference, record.service)
                writer.writerow((entry.tree, number, prefix, *rank, record.expression))
        return text.getvalue()


def read(path: Path, tree: str, suffix: str, origin: str | None = None) -> ZoneImport:
    """Read the NAPTR records of the zone file at ``path``.

    Parameters
    ----------
    tree
        The tree to which the entries are to belong.
    suffix
        The domain below which numbers are looked up, such as ``e164.arpa``.
    origin
        The zone's name, if the file does not give it by ``$ORIGIN``.

    Raises
    ------
    InputError
        The file is not a zone.
    MissingCapability
        dnspython is not installed.
    """
    extras.VOICE.require()
    import dns.exception
    import dns.zone

    text = files.read_text(path, "a zone file", limits.MOST_INPUT_BYTES)
    try:
        zone = dns.zone.from_text(text, origin=origin, relativize=False, check_origin=False)
    except (dns.exception.DNSException, ValueError, KeyError) as error:
        if line := _single_backslash(text):
            raise InputError(
                f"{files.shown(path)}:{line}: a single backslash in front of a digit; a zone file has each "
                r"backslash of a regexp twice: write \\1"
            ) from None
        told = str(error) or type(error).__name__
        raise InputError(f"{files.shown(path)}: not a zone file: {told}; see --origin") from None
    return _imported(zone, tree, suffix)


def _single_backslash(text: str) -> int | None:
    r"""The first line with ``\1`` where the zone file should have ``\\1``; ``\049`` is a character."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"(?<!\\)(?:\\\\)*\\[0-9](?![0-9]{2})", line):
            return number
    return None


def transferred(server: str, port: int, origin: str, tree: str, suffix: str) -> ZoneImport:
    """Read the NAPTR records of the zone ``origin`` by transfer from its server (AXFR, RFC 5936).

    Raises
    ------
    InputError
        ``origin`` is not a domain name, or the server cannot be reached or refuses the transfer.
    MissingCapability
        dnspython is not installed.
    """
    extras.VOICE.require()
    import dns.exception
    import dns.query
    import dns.zone

    where = f"{origin} at {server}, port {port}"
    try:
        zone = dns.zone.Zone(origin, relativize=False)
    except (dns.exception.DNSException, ValueError) as error:
        raise InputError(f"{printable(origin)}: not a domain name: {error}") from None
    try:
        dns.query.inbound_xfr(server, zone, port=port, timeout=_SILENCE_S, lifetime=_LONGEST_S)
    except dns.exception.Timeout:
        raise InputError(f"{where}: no answer; check the server's address, and that TCP is open") from None
    except (dns.exception.DNSException, OSError, EOFError) as error:
        told = str(error) or type(error).__name__
        raise InputError(
            f"{where}: no transfer: {told}; the server must have the zone and allow this host to transfer it"
        ) from None
    return _imported(zone, tree, suffix)


def _imported(zone: Any, tree: str, suffix: str) -> ZoneImport:
    entries: list[EnumEntry] = []
    left_out: list[str] = []
    for name, rdata in sorted(_naptr(zone), key=lambda each: each[0]):
        found = _entry(name, rdata, tree, suffix)
        if isinstance(found, str):
            left_out.append(f"{name}: {found}")
        else:
            entries.append(found)
    left_out += _others(zone)
    index = EnumTree(PlanTree(suffix=suffix, fill_holes=False), enumerate(entries))
    return ZoneImport(tuple(entries), tuple(left_out), len([*index.holes()]))


_USUAL = ("SOA", "DNSKEY", "RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "CDS", "CDNSKEY", "ZONEMD")
"""Records that a zone has for itself, and that a plan's zones get anew."""


def _others(zone: Any) -> list[str]:
    """What a plan cannot hold of a zone besides NAPTR records, and why."""
    import dns.rdatatype

    reasons = {
        "CNAME": "an alias (CNAME) for {}; repeat the records of that name",
        "DNAME": "numbers below it are in {} (DNAME); import that zone, too",
        "NS": "delegated to {} (NS); import the zone from there",
    }
    found = []
    for name, rdataset in zone.iterate_rdatasets():
        kind = dns.rdatatype.to_text(rdataset.rdtype)
        if kind == "NAPTR" or kind in _USUAL or (kind == "NS" and name == zone.origin):
            continue
        targets = ", ".join(sorted(each.to_text().rstrip(".") for each in rdataset))
        why = reasons.get(kind, f"a record of type {kind}, which a plan does not have").format(targets)
        found.append(f"{name.to_text(omit_final_dot=True)}: {why}")
    return sorted(found)


def _naptr(zone: Any) -> Iterator[tuple[str, Any]]:
    import dns.rdatatype

    for name, rdataset in zone.iterate_rdatasets(dns.rdatatype.NAPTR):
        yield name.to_text(omit_final_dot=True), rdataset


def _entry(name: str, rdataset: Any, tree: str, suffix: str) -> EnumEntry | str:
    """The entry for a name, or the reason why there is none."""
    wildcard = name.startswith("*.")
    digits = digits_below(name.removeprefix("*."), suffix)
    if digits is None or not (digits or wildcard):
        return f"not a number below {suffix}"
    records = []
    for record in sorted(rdataset, key=lambda each: (each.order, each.preference)):
        flags, service, regexp = (
            getattr(record, key).decode("utf-8", "replace") for key in ("flags", "service", "regexp")
        )
        if flags.lower() != "u" or record.replacement.to_text() != ".":
            return "a record that does not end with a URI (its flag is not u)"
        try:
            Substitution.parse(regexp)
        except BadExpression as wrong:
            doubled = "" if "\\" in regexp else "; in a zone file, each backslash of a regexp is doubled"
            return f"its regexp {quoted(regexp)} is not valid: {wrong}{doubled}"
        records.append(
            Naptr(order=record.order, preference=record.preference, service=service, regexp=regexp)
        )
    key = {"prefix": f"+{digits}"} if wildcard else {"number": f"+{digits}"}
    return EnumEntry(tree=tree, naptr=tuple(records), **key)
