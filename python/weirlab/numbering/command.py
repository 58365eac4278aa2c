"""``weir voice``: a numbering plan checked, explained, turned into configurations, proved by calls."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from weirlab.base.errors import InputError, NotMet
from weirlab.base.quantities import plural
from weirlab.cli.options import JsonOption
from weirlab.cli.output import Session, to_json
from weirlab.cli.streams import tell
from weirlab.numbering import making, proving
from weirlab.numbering.managing import command as managing
from weirlab.numbering.options import DEFAULT_PLAN, DateOption, PlanArgument, PlanOption, chosen, network_of

VOICE = """Plan how calls are routed: SIP, H.323, MGCP and ENUM.

A numbering plan is one YAML file: organisations, number ranges, engines,
trees of ENUM, routes, service points and test numbers. PLAN is such a file,
or a plan that comes with Weir: campus, carriers, cesnet, cesnet-network,
federation, translations.
"""

ROUTE = """Show step by step where a call to a number goes, and why.

Every step names its engine and the line of the plan that decides. Then come
the routes that the call takes if the one before fails. The exit code is 9 if
all of them end without an answer.

Examples:
  weir voice route +420224355289 --plan federation
  weir voice route 00420950053777 --plan mine.yaml --caller phone
  weir voice route +420224355289 --plan mine.yaml --date 2027-01-31 --json
"""

CHECK = """Find mistakes in a numbering plan before anything runs.

Mistakes include loops between engines, prefixes that others hide, gateways
that cannot take a call, expressions that do not match, holes below wildcards,
missing SRV and A records, numbers that are too long, and conflicting owners.
Each is reported with its line, the reason and a proposed fix. The exit code
is 9 if there are errors.

Examples:
  weir voice check --plan federation
  weir voice check --plan mine.yaml --strict        warnings count, too
  weir voice check --plan mine.yaml --date 2027-01-31 --json
"""

EXAMPLE = """Print a plan that comes with Weir, as a start for your own.

Plans:
  campus          only SIP; needs no gateway and no gatekeeper
  carriers        only SIP; every kind of route without gateways
  cesnet          one number with two NAPTR records, for SIP and for H.323
  cesnet-network  SIP and H.323, joined by two gateways with prefixes
  federation      three organisations; SIP, H.323 and MGCP, routed by ENUM
  translations    gateways and gatekeepers, no proxy; every translation

Examples:
  weir voice example federation > mine.yaml
  weir voice example cesnet --json
"""

_MODELINE: Final = "# yaml-language-server: $schema=voice.schema.json"
"""How editors find the schema; see ``SCHEMA``."""

SCHEMA = """Print the JSON Schema of numbering plans, for editors and programs.

Editors with a YAML language server check and complete a plan that begins with
the line: # yaml-language-server: $schema=voice.schema.json

Examples:
  weir voice schema > voice.schema.json
  weir voice schema --json
"""


def add_to(app: typer.Typer) -> None:
    voice = typer.Typer(help=VOICE, no_args_is_help=True, rich_markup_mode="rich")
    voice.command("route", help=ROUTE)(route)
    voice.command("check", help=CHECK)(check)
    voice.command("example", help=EXAMPLE)(example)
    voice.command("schema", help=SCHEMA)(schema)
    making.add_to(voice)
    proving.add_to(voice)
    proving.add_install(voice)
    proving.add_load(voice)
    managing.add_to(voice)
    app.add_typer(voice, name="voice", rich_help_panel="Plan")


def route(
    ctx: typer.Context,
    number: Annotated[str, typer.Argument(help="The number as dialled.", metavar="NUMBER")],
    plan: PlanOption = DEFAULT_PLAN,
    caller: Annotated[
        str | None,
        typer.Option(help="The endpoint that calls (default: the plan's caller).", metavar="ENGINE"),
    ] = None,
    day: DateOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.numbering.plan.values import spelling
    from weirlab.numbering.routing import wording
    from weirlab.numbering.routing.calls import calls

    with Session(ctx, as_json=json) as session:
        if spelling(number) is None:
            raise InputError(f"{number!r} is not a number; give the digits as dialled, e.g. +420224355289")
        network = network_of(plan, day)
        ways = [*islice(calls(network, number, caller), wording.MOST_WAYS)]
        document = {
            "kind": "voice route",
            "number": number,
            "date": network.day,
            "ways": [wording.document(network.book, way) for way in ways],
        }
        document["proposal"] = wording.proposal(network, number, ways) or None
        tables = wording.tables(network.book, ways)
        session.finish(document, wording.conclusion(network, number, ways), tables)
        if not any(way.end.good for way in ways):
            raise typer.Exit(NotMet.exit_code)


def check(
    ctx: typer.Context,
    argument: PlanArgument = None,
    plan: PlanOption = DEFAULT_PLAN,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
    day: DateOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.numbering.checking import callers, carriers
    from weirlab.numbering.checking import check as find
    from weirlab.numbering.checking.findings import named

    with Session(ctx, as_json=json) as session:
        network = network_of(chosen(plan, argument), day)
        found = find(network)
        errors = [finding for finding in found if finding.severity == "error"]
        warnings = len(found) - len(errors)
        good = not (found if strict else errors)
        tried, emergency = carriers.sample(network), callers.emergency_coverage(network)
        document = {
            "kind": "voice check",
            "date": network.day,
            "good": good,
            "findings": found,
            "numbers_tried": len(tried.numbers),
            "numbers": tried.of,
            "emergency_not_tried": emergency.left_out,
        }
        lines = [
            f"{finding.place}: {finding.severity}: {finding.reason}\n    {finding.proposal}"
            for finding in found
        ]
        counted = f"{plural(len(errors), 'error')}, {plural(warnings, 'warning')}"
        conclusion = f"{network.book.name}: {counted if found else 'nothing found'}."
        if tried.of > len(tried.numbers):
            conclusion += f" Open relays were looked for with {len(tried.numbers)} of {tried.of:,} numbers."
        if emergency.left_out:
            conclusion += (
                f" Emergency numbers were not tried from {named(emergency.left_out)} (peers or trunks)."
            )
        session.finish(document, conclusion, lead="\n".join(lines))
        if not good:
            raise typer.Exit(NotMet.exit_code)


def example(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="One of the names above.", metavar="NAME")],
    json: JsonOption = False,
) -> None:
    from weirlab.base import files, limits
    from weirlab.base.quantities import words
    from weirlab.numbering.plan import ready

    if name not in ready.names():
        raise InputError(f"{name!r} is not a plan that comes with Weir; there are {words(ready.names())}")
    text = files.read_text(ready.find(Path(name)), "a numbering plan", limits.MOST_PLAN_BYTES)
    text = f"{_MODELINE}\n{text}"
    print(to_json({"kind": "voice example", "name": name, "text": text}) if json else text.rstrip("\n"))


def schema(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="No effect: the schema is JSON.")] = False,
) -> None:
    from weirlab.numbering.plan import json_schema

    tell(to_json(json_schema()))
