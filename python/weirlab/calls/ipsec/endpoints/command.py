"""``weir ipsec endpoints``: endpoints that bypass the system, and ordinary ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

import typer

from weirlab.base import limits
from weirlab.cli.options import (
    PERCENT,
    WORDS,
    OptionReading,
    ReportOptions,
    ResultOptions,
    SeedOption,
    grouped,
    listed,
    typed,
)

ENDPOINTS = """Measure jitter and delay between endpoints with and without kernel bypass.

Two endpoints in network namespaces, joined by a veth pair, exchange calls.
Each endpoint sends and receives in one thread on its own CPU, with ESP (in
UDP) by Weir's library. The kinds of endpoints (--arms) take turns in one run:
bypass (AF_XDP sockets that real-time threads poll), sockets (UDP sockets of
ordinary threads), and sockets-real-time (UDP sockets of real-time threads).
Each kind is measured with idle CPUs, and beside a CPU hog: a program of
ordinary priority on each endpoint's CPU. Weir then searches for the most
calls that each kind carries in time. Needs root.

Examples:
  weir ipsec endpoints
  weir ipsec endpoints --calls 1,100 --seconds 10 --out endpoints.html
  weir ipsec endpoints --suite none --arms bypass,sockets --beside idle
  weir ipsec endpoints --suite aes-cbc-hmac-sha1-96 --mode tunnel --json
  weir ipsec endpoints --no-search --repetitions 10
"""


_COUNTS: Final = OptionReading(lambda text: listed(text, int, "--calls", "1,100"))


@dataclass(frozen=True)
class EndpointOptions:
    """The endpoints; the fields are keys of ``endpoints`` in a scenario."""

    PANEL: ClassVar = "Endpoints"

    arms: Annotated[str, typer.Option(help="Kinds of endpoints.", metavar="NAME,..."), WORDS] = (
        "bypass,sockets,sockets-real-time"
    )
    beside: Annotated[
        str,
        typer.Option(help="Other work on the endpoints' CPUs: idle (none), hog.", metavar="NAME,..."),
        WORDS,
    ] = "idle,hog"
    suite: Annotated[
        str,
        typer.Option(help="Cipher suite of ESP (see weir ipsec bytes), or none.", metavar="NAME"),
    ] = "aes-gcm-16"
    mode: Annotated[Literal["transport", "tunnel"], typer.Option(help="Mode of ESP.")] = "transport"


@dataclass(frozen=True)
class TalkOptions:
    """The calls; the fields are keys of ``endpoints`` in a scenario."""

    PANEL: ClassVar = "Calls"

    calls: Annotated[str, typer.Option(help="Numbers of calls to compare.", metavar="COUNT,..."), _COUNTS] = (
        "1,100,1000"
    )
    codec: Annotated[str, typer.Option(help="Codec, with an optional packet time.")] = "g711"
    lasts_s: Annotated[
        float, typer.Option("--seconds", min=0.1, max=limits.LONGEST_S, help="Recorded seconds per attempt.")
    ] = 4.0
    repetitions: Annotated[
        int,
        typer.Option(min=1, max=limits.MOST_REPETITIONS, help="Valid attempts of each kind."),
    ] = 5
    seed: SeedOption = 1


@dataclass(frozen=True)
class SearchOptions:
    """The search for the most calls; the fields after the first are keys of ``endpoints.limit``."""

    PANEL: ClassVar = "Most calls"

    search: Annotated[
        bool, typer.Option("--search/--no-search", help="Search for the most calls of each kind.")
    ] = True
    most_calls: Annotated[
        int, typer.Option(min=1, max=20_000, help="Maximum calls to try.", metavar="COUNT")
    ] = 10_000
    late_ms: Annotated[
        float,
        typer.Option(
            "--late",
            min=0.01,
            max=1000,
            help="A packet is bad if it is heard later than this after it was due.",
            metavar="MS",
        ),
    ] = 10.0
    bad_share: Annotated[
        float,
        typer.Option("--bad", min=0.001, max=99, help="Maximum share of bad packets.", metavar="PERCENT"),
        PERCENT,
    ] = 0.1


def add_to(ipsec: typer.Typer) -> None:
    """Add the command to the group ``ipsec``."""
    ipsec.command("endpoints", help=ENDPOINTS)(grouped(endpoints))


def endpoints(
    ctx: typer.Context,
    *,
    kinds: EndpointOptions,
    talk: TalkOptions,
    search: SearchOptions,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.calls.ipsec.endpoints.section import EndpointScenario
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        limit = typed(search)
        searches = limit.pop("search").value
        section = {**typed(kinds), **typed(talk), "limit": limit if searches else None}
        content = {"name": f"endpoints with {kinds.suite}", "endpoints": section}
        carry_out(session, content, EndpointScenario, report)
