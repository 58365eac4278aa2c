"""Writes zones as text (RFC 1035, 5), and requires a higher serial for a changed zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weirlab.base import files, limits
from weirlab.base.errors import InputError
from weirlab.numbering.zones.records import Zone

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
