"""The commands of ``weir voice`` for zones, tables from zones, differences and configurations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from weirlab.base.errors import InputError
from weirlab.base.quantities import plural
from weirlab.base.tables import Table
from weirlab.cli.options import JsonOption, grouped
from weirlab.cli.output import Session
from weirlab.numbering.options import DEFAULT_PLAN, DateOption, PlanArgument, PlanOption, chosen, network_of

if TYPE_CHECKING:
    from weirlab.numbering.diff import RoutingChange
    from weirlab.numbering.zones.imported import ZoneImport

ZONES = """Write the zones of a numbering plan: SOA, NS, A, SRV and NAPTR records.

Every record comes from a line of the plan, which a comment names. Wildcards
that longer names would hide (RFC 4592) are repeated. Without --out, zones are
printed. With --out, a zone that has changed needs a higher serial in the
plan.

Examples:
  weir voice zones --plan federation
  weir voice zones --plan mine.yaml --out zones
  weir voice zones --plan mine.yaml --zone 0.2.4.e164.arpa --json
"""

IMPORT = """Turn the NAPTR records of a zone into a table for a plan.

The table is CSV; name it under tables: in the plan. A wildcard becomes a
prefix, any other name a number. Holes below wildcards are reported: the plan
closes them, unless its tree says fill_holes: false. With --server, ZONE is
the name of a zone, which is transferred from that name server (AXFR); the
server must allow this host to do so. Needs the voice extra of weirlab.

Examples:
  weir voice import 0.2.4.e164.arpa.zone --tree public --out public.csv
  weir voice import enum.zone --tree private --suffix enum.example.net
  weir voice import old.zone --tree public --origin 0.2.4.e164.arpa --json
  weir voice import 0.2.4.e164.arpa --server 192.0.2.53 --tree public
"""

DIFF = """Show which numbers two plans route differently.

The comparison covers every international number and samples none. It lists
whole prefixes and single numbers, with the route before and after, fall-backs
included.

Examples:
  weir voice diff old.yaml new.yaml
  weir voice diff old.yaml new.yaml --caller phone --json
  weir voice diff plan.yaml plan.yaml --date 2026-12-31 --until 2027-01-01
"""

CONFIGS = """Write the configurations of the engines of a numbering plan.

Each engine gets a folder: Kamailio for proxies, Asterisk (PJSIP, ooh323,
MGCP) for gateways, a table and a file of GNU Gatekeeper for gatekeepers, BIND
with the zones, and SIPp scenarios for the test numbers. manifest.json lists
the files.

Examples:
  weir voice configs --plan federation --out configs
  weir voice configs --plan mine.yaml --out configs --root /etc/voice
  weir voice configs --plan mine.yaml --out configs --json
"""


def add_to(voice: typer.Typer) -> None:
    voice.command("zones", help=ZONES)(zones)
    voice.command("import", help=IMPORT)(grouped(import_zone))
    voice.command("diff", help=DIFF)(diff)
    voice.command("configs", help=CONFIGS)(configs)


def zones(
    ctx: typer.Context,
    argument: PlanArgument = None,
    plan: PlanOption = DEFAULT_PLAN,
    out: Annotated[
        Path | None, typer.Option(help="Write a file per zone into this folder.", metavar="DIR")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Only this zone.", metavar="NAME")] = None,
    day: DateOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.numbering import zones as made

    with Session(ctx, as_json=json) as session:
        network = network_of(chosen(plan, argument), day)
        found = made.zones(network)
        if zone is not None:
            found = [each for each in found if each.origin == zone.rstrip(".").lower()]
            if not found:
                raise InputError(f"--zone: the plan has no zone {zone!r}")
        written = [] if out is None else made.put(found, out, network.book.at("serial"))
        texts = {each.origin: made.written(each) for each in found}
        listed = [
            {
                "zone": each.origin,
                "serial": each.serial,
                "records": len(each.records),
                "file": written[rank] if written else None,
                "text": None if written else texts[each.origin],
            }
            for rank, each in enumerate(found)
        ]
        document = {"kind": "voice zones", "date": network.day, "zones": listed}
        records = sum(len(each.records) for each in found)
        conclusion = f"{plural(len(found), 'zone')}, {plural(records, 'record')}."
        if out is None and not json:
            print("\n".join(texts.values()), end="")
            session.say(conclusion)
            return
        rows = [
            (e.origin, str(e.serial), str(len(e.records)), f.name)
            for e, f in zip(found, written, strict=False)
        ]
        tables = [Table("Zones", ("Zone", "Serial", "Records", "File"), rows)]
        session.finish(document, conclusion, tables)


@dataclass(frozen=True)
class ZoneOptions:
    """Where the zone comes from, and where its entries go."""

    PANEL: ClassVar = "Zone"

    tree: Annotated[str, typer.Option(help="The tree to which the entries belong.", metavar="NAME")]
    suffix: Annotated[
        str, typer.Option(help="The domain below which numbers are looked up.", metavar="DOMAIN")
    ] = "e164.arpa"
    origin: Annotated[
        str | None,
        typer.Option(help="The zone's name, if the file does not give it.", metavar="NAME"),
    ] = None
    server: Annotated[
        str | None,
        typer.Option(help="Transfer the zone from this name server.", metavar="ADDRESS[:PORT]"),
    ] = None

    def read(self, zone: Path) -> ZoneImport:
        """The entries of ``zone``, a file, or the name of a zone that the server has."""
        from weirlab.numbering.zones import imported

        if self.server is None:
            return imported.read(zone, self.tree, self.suffix, self.origin)
        if self.origin is not None:
            raise InputError("--origin is for zone files; with --server, ZONE is the zone's name")
        return imported.transferred(*_server(self.server), str(zone), self.tree, self.suffix)


def import_zone(
    ctx: typer.Context,
    zone: Annotated[
        Path, typer.Argument(help="The zone file; with --server, the zone's name.", metavar="ZONE")
    ],
    source: ZoneOptions,
    out: Annotated[Path | None, typer.Option(help="Write the table here.", metavar="FILE.csv")] = None,
    json: JsonOption = False,
) -> None:
    from weirlab.base import files

    with Session(ctx, as_json=json) as session:
        if out is not None:
            files.check_output(out, "--out")
        found = source.read(zone)
        for name in found.left_out:
            session.say(f"left out: {name}")
        if found.holes:
            session.say(
                f"{plural(found.holes, 'hole')} below wildcards, where the zone answers nothing (RFC 4592); "
                "the plan closes them, unless its tree says fill_holes: false"
            )
        table = found.table()
        document = {
            "kind": "voice import",
            "entries": len(found.entries),
            "left_out": found.left_out,
            "holes": found.holes,
            "file": out,
            "text": None if out is not None else table,
        }
        if out is not None:
            files.write_bytes(out, table.encode())
        elif not json:
            print(table, end="")
            return
        what = "entry" if len(found.entries) == 1 else "entries"
        session.finish(document, f"{len(found.entries)} {what} of {source.tree}.")


def _server(text: str) -> tuple[str, int]:
    """Address and port of a name server: ``192.0.2.53``, ``[2001:db8::53]:5353``."""
    from weirlab.numbering.plan.values import is_address

    if is_address(text):
        return text, 53
    address, _, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    if not is_address(address) or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError(f"--server: {text!r} is not an address; write 192.0.2.53, or [2001:db8::53]:5353")
    return address, int(port)


def diff(
    ctx: typer.Context,
    before: Annotated[Path, typer.Argument(help="The plan before the change.", metavar="BEFORE")],
    after: Annotated[Path, typer.Argument(help="The plan after the change.", metavar="AFTER")],
    caller: Annotated[
        str | None,
        typer.Option(help="The endpoint that calls (default: each plan's caller).", metavar="ENGINE"),
    ] = None,
    day: DateOption = None,
    until: Annotated[
        str | None, typer.Option(help="The day for AFTER, if it differs.", metavar="YYYY-MM-DD")
    ] = None,
    json: JsonOption = False,
) -> None:
    from weirlab.numbering.diff import by_kind, differences

    with Session(ctx, as_json=json) as session:
        one, two = network_of(before, day), network_of(after, until if until is not None else day)
        changes = differences(one, two, caller)
        document = {"kind": "voice diff", "dates": (one.day, two.day), "changes": [*map(_listed, changes)]}
        lines = []
        for was, will, listed in by_kind(changes):
            lines += [change.numbers for change in listed]
            lines += [f"    was {was}", f"    now {will}", ""]
        conclusion = "No number is routed differently."
        if changes:
            verb = "is" if len(changes) == 1 else "are"
            conclusion = f"{plural(len(changes), 'set')} of numbers {verb} routed differently."
        session.finish(document, conclusion, lead="\n".join(lines).rstrip("\n"))


def _listed(change: RoutingChange) -> dict[str, object]:
    return {
        "prefix": change.prefix,
        "itself": change.itself,
        "longer": change.longer,
        "except": [change.prefix + digit for digit in change.but],
        "before": change.before.ways,
        "after": change.after.ways,
    }


def configs(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder to write.", metavar="DIR")],
    argument: PlanArgument = None,
    plan: PlanOption = DEFAULT_PLAN,
    root: Annotated[
        str | None,
        typer.Option(
            help="Where the folder is when the engines run (default: DIR itself).",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    day: DateOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.numbering import configs as made
    from weirlab.numbering.configs.abilities import abilities

    with Session(ctx, as_json=json) as session:
        network = network_of(chosen(plan, argument), day)
        where = root if root is not None else str(out.absolute())
        found = made.configs(network, where)
        about: dict[str, object] = {
            "kind": "voice configs",
            "plan": network.plan.plan,
            "serial": network.plan.serial,
            "date": date.isoformat(network.day),
            "root": where,
        }
        names = made.put(found, out, about)
        gaps = made.gaps(network)
        conclusion = (
            f"{plural(len(names), 'file')} in {out}. To prove them by calls: {network.command('prove')}."
        )
        lead = "\n".join(f"{gap}." for gap in gaps)
        document = {**about, "out": out, "files": names, "gaps": gaps}
        session.finish(document, conclusion, [abilities(network)], lead=lead)
